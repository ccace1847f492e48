"""Random-walk Metropolis, whose proposals take the covariance of the draws."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.argument_checks import check_count, check_positive_scalar, check_rate
from inference.common.layout import Layout
from inference.common.lockstep import select_leaves
from inference.common.log_densities import metropolis_rate
from inference.common.matrices import push
from inference.common.threefry import normal, seed_of, threefry, uniform
from inference.kernels.gradient_free.kernel import GradientFreeKernel
from inference.kernels.gradient_free.scale import Scale, average_step_size, init_scale
from inference.warmup.dual_averaging import (
    DualAveraging,
    dual_averaging_init,
    dual_averaging_restart,
)
from ppl.harvest.pytrees import register_dataclass

_MAX_GROWTH = 10.0  # of the step size in warm-up


class RandomWalkState(NamedTuple):
    """State of a chain of :class:`RandomWalk`.

    Attributes:
        position: Pytree of floating-point arrays.
        log_density: Scalar, the log density at `position`.
        step_size: Scalar, the size of steps in units of the covariance.
        scale: Covariance of positions.
        averaging: State of dual averaging of the step size.
    """

    position: Any
    log_density: jax.Array
    step_size: jax.Array
    scale: Scale
    averaging: DualAveraging


class RandomWalkInfo(NamedTuple):
    """Statistics of a transition of :class:`RandomWalk`; all scalars.

    Attributes:
        acceptance_rate: Mean probability with which proposals were accepted.
        num_evaluations: Evaluations of the density, one for each proposal.
        step_size: Size of the steps.
    """

    acceptance_rate: jax.Array
    num_evaluations: jax.Array
    step_size: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class RandomWalk(GradientFreeKernel):
    r"""Random-walk Metropolis: a normal step, accepted by the ratio of densities.

    The proposal from :math:`q` is :math:`q + \epsilon \Sigma^{1/2} z` with normal :math:`z`.
    Warm-up learns the covariance :math:`\Sigma` from the draws, and the step size :math:`\epsilon`
    by dual averaging. An independent draw takes some five proposals a coordinate at the best, so a
    transition makes as many proposals as there are coordinates, each with one evaluation of the
    density.

    Attributes:
        log_density: Function of a position that returns a scalar, or `None` if a driver is to
            supply it. It needs no gradient.
        covariance: Covariance of positions before warm-up, ``(size, size)`` or ``(size,)``.
        step_size: Step size before warm-up; `None` for :math:`2.38 / \sqrt{d}`, with `d`
            coordinates.
        num_steps: Proposals of a transition; `None` for the number of coordinates.
        target_acceptance_rate: Mean acceptance rate that warm-up adapts the step size to.

    Example:
        >>> kernel = RandomWalk(lambda x: -0.5 * jnp.sum(x**2))
        >>> state = kernel.init(jnp.zeros(3))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, round(float(info.step_size), 2)
        ((3,), 1.37)

    References:
        Haario, Saksman and Tamminen (2001), An adaptive Metropolis algorithm; Gelman, Roberts and
        Gilks (1996), Efficient Metropolis jumping rules, on 2.38 and the rate of 0.234.
    """

    step_size: jax.typing.ArrayLike | None = dataclasses.field(default=None, kw_only=True)
    num_steps: int | None = dataclasses.field(default=None, kw_only=True, metadata={"static": True})
    target_acceptance_rate: jax.typing.ArrayLike = dataclasses.field(default=0.234, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_steps is not None:
            number = check_count("num_steps", self.num_steps, least=1)
            object.__setattr__(self, "num_steps", number)

    def init(self, position: Any) -> RandomWalkState:
        """The state of a chain at `position`.

        Raises:
            TypeError: if a setting or the log density is not real, or the position has leaves that
                are not floating-point arrays.
            ValueError: if a setting is out of range, or there is no log density.
        """
        layout = Layout.of(position)
        position = jax.tree.map(jnp.asarray, position)
        self.check(layout)
        step_size = self._first_step_size(layout)
        return RandomWalkState(
            position,
            self.density_of(layout)(layout.ravel(position)),
            step_size,
            init_scale(self.covariance, layout),
            dual_averaging_restart(dual_averaging_init(step_size)),
        )

    def check(self, layout: Layout) -> None:
        """Checks the settings that are not traced.

        Raises:
            TypeError: if a setting is not a real number.
            ValueError: if a setting is out of range.
        """
        super().check(layout)
        self._first_step_size(layout)
        check_rate("target_acceptance_rate", self.target_acceptance_rate, layout.dtype)

    def step(
        self, key: jax.Array, state: RandomWalkState
    ) -> tuple[RandomWalkState, RandomWalkInfo]:
        """One transition: the next state, and the statistics of its proposals."""
        layout = Layout.of(state.position)
        seed = seed_of(key)
        density = self.density_of(layout)
        num_steps = layout.size if self.num_steps is None else self.num_steps

        def move(i: Any, carry: Any) -> Any:
            (position, log_density), total = carry
            words = jnp.stack(threefry(seed, i))
            noise = normal(words, layout.size, layout.dtype)
            proposal = position + push(state.scale.factor, state.step_size * noise)
            found = density(proposal)
            rate = metropolis_rate(found, log_density)
            is_accepted = uniform(words, jnp.uint32(0), layout.dtype) < rate
            new = select_leaves(is_accepted, (proposal, found), (position, log_density))
            return new, total + rate

        start = layout.ravel(state.position), jnp.asarray(state.log_density, layout.dtype)
        carry = start, jnp.zeros((), layout.dtype)
        (position, log_density), total = lax.fori_loop(0, num_steps, move, carry)
        rate = total / num_steps
        new = state._replace(position=layout.unravel(position), log_density=log_density)
        return new, RandomWalkInfo(rate, jnp.int32(num_steps), state.step_size)

    def adapt(
        self,
        state: RandomWalkState,
        info: RandomWalkInfo,
        iteration: jax.Array,
        num_warmup: jax.Array,
    ) -> RandomWalkState:
        """The state with step size and covariance adapted.

        The step size is ten times the first one at most, as a farther proposal is hardly ever
        accepted, and may cost much.
        """
        layout = Layout.of(state.position)
        averaging, step_size = average_step_size(
            state.averaging,
            info.acceptance_rate,
            self.target_acceptance_rate,
            iteration,
            num_warmup,
        )
        scale = self.adapt_scale(state, layout, iteration, num_warmup)
        step_size = jnp.minimum(step_size, _MAX_GROWTH * self._first_step_size(layout))
        return state._replace(step_size=step_size, scale=scale, averaging=averaging)

    def _first_step_size(self, layout: Layout) -> jax.Array:
        best = 2.38 / math.sqrt(layout.size)
        given = best if self.step_size is None else self.step_size
        return check_positive_scalar("step_size", given, layout.dtype)
