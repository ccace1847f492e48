"""Metropolis proposals of counts, one element after the other, by steps of a learned size."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.argument_checks import check_positive_scalar, check_rate
from inference.common.lockstep import select_leaves
from inference.common.log_densities import metropolis_rate
from inference.common.threefry import seed_of, threefry, uniform
from inference.kernels.discrete.counts import CountKernel
from inference.warmup.dual_averaging import (
    DualAveraging,
    dual_averaging_init,
    dual_averaging_update,
)
from ppl.harvest.pytrees import register_dataclass

_MAX_SIZE = 2.0**24  # of the mean size of steps


class CountMetropolisState(NamedTuple):
    """State of a chain of :class:`CountMetropolis`.

    Attributes:
        position: Pytree of arrays of integers or booleans.
        log_density: Scalar, the log density at `position`.
        rates: Probability with which the last proposal of each element was accepted, ``(size,)``.
        step_sizes: Mean size of the steps of each element, ``(size,)``.
        averaging: State of dual averaging of the step sizes.
    """

    position: Any
    log_density: jax.Array
    rates: jax.Array
    step_sizes: jax.Array
    averaging: DualAveraging


class CountMetropolisInfo(NamedTuple):
    """Statistics of a transition of :class:`CountMetropolis`; all scalars.

    Attributes:
        acceptance_rate: Mean probability with which proposals were accepted.
        num_evaluations: Evaluations of the density, one for each element.
    """

    acceptance_rate: jax.Array
    num_evaluations: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class CountMetropolis(CountKernel):
    r"""Metropolis proposals of counts: a step up or down of geometric size, element by element.

    A step of size `k`, with :math:`k \geq 1`, has probability in proportion to :math:`\rho^k`, and
    both signs are equally likely. Warm-up learns the mean size :math:`1 / (1 - \rho)` for each
    element by dual averaging. A transition moves every element once, with one evaluation of the
    density each.

    Attributes:
        log_density: Function of a position that returns a scalar, or `None` if a driver is to
            supply it. It needs no gradient.
        lower: Least value of each element: integer, or arrays that broadcast to the position.
            `None` for 0, unless a driver supplies it.
        upper: Largest value, likewise. `None` for no bound but that of the dtype, 2**30 at most.
        step_size: Mean size of steps before warm-up; one or less is one. `None` for the square root
            of the distance from the lower bound, and one more.
        target_acceptance_rate: Mean acceptance rate that warm-up adapts step sizes to.

    Example:
        >>> def log_density(x):  # Poisson(4), twice
        ...     x = jnp.asarray(x, float)
        ...     return jnp.sum(x * jnp.log(4.0) - jax.scipy.special.gammaln(x + 1.0))
        >>> kernel = CountMetropolis(log_density)
        >>> state = kernel.init(jnp.array([3, 5]))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, int(info.num_evaluations)
        ((2,), 2)

    References:
        Roberts, Gelman and Gilks (1997), Weak convergence and optimal scaling of random walk
        Metropolis algorithms, on the rate of 0.44 for a single coordinate.
    """

    step_size: jax.typing.ArrayLike | None = dataclasses.field(default=None, kw_only=True)
    target_acceptance_rate: jax.typing.ArrayLike = dataclasses.field(default=0.44, kw_only=True)

    def init(self, position: Any) -> CountMetropolisState:
        """The state of a chain at `position`.

        Raises:
            TypeError: if the position, a setting or the log density is of a wrong type.
            ValueError: if the position is out of bounds or a setting out of range, or there is no
                log density.
        """
        form = self.form_of(position)
        position, log_density = self.begin(position)
        check_rate("target_acceptance_rate", self.target_acceptance_rate, form.real)
        if self.step_size is None:
            sizes = self.first_sizes(form, position)
        else:
            given = check_positive_scalar("step_size", self.step_size, form.real)
            sizes = jnp.full(form.size, given)
        averaging = dual_averaging_init(sizes)
        return CountMetropolisState(position, log_density, 0 * sizes, sizes, averaging)

    def step(
        self, key: jax.Array, state: CountMetropolisState
    ) -> tuple[CountMetropolisState, CountMetropolisInfo]:
        """One transition: each element in turn."""
        form = self.form_of(state.position)
        seed = seed_of(key)

        def move(i: Any, carry: Any) -> Any:
            old, rates = carry
            vector, log_density = old
            units = uniform(jnp.stack(threefry(seed, i)), jnp.arange(3), form.real)
            size = step_of(units[0], state.step_sizes[i]).astype(form.dtype)
            step = jnp.where(units[1] < 0.5, -size, size)
            proposal = vector.at[i].add(step)
            found = self.value(form, proposal)
            rate = metropolis_rate(found, log_density)
            new = select_leaves(units[2] < rate, (proposal, found), old)
            return new, rates.at[i].set(rate)

        start = form.ravel(state.position), state.log_density
        carry = start, jnp.zeros(form.size, form.real)
        (vector, log_density), rates = lax.fori_loop(0, form.size, move, carry)
        new = state._replace(position=form.unravel(vector), log_density=log_density, rates=rates)
        return new, CountMetropolisInfo(jnp.mean(rates), jnp.int32(form.size))

    def adapt(
        self,
        state: CountMetropolisState,
        info: CountMetropolisInfo,
        iteration: jax.Array,
        num_warmup: jax.Array,
    ) -> CountMetropolisState:
        """The state with step sizes adapted; after the last iteration they are the averaged ones.

        They are limited, for elements whose proposals are accepted whatever the size of steps.
        """
        target = jnp.asarray(self.target_acceptance_rate, state.rates.dtype)
        averaging = dual_averaging_update(state.averaging, state.rates, target)
        is_last = iteration + 1 == num_warmup
        log_sizes = jnp.where(is_last, averaging.log_average, averaging.log_step_size)
        sizes = jnp.exp(jnp.clip(log_sizes, 0, jnp.log(_MAX_SIZE)))
        return state._replace(step_sizes=sizes, averaging=averaging)


def step_of(unit: jax.Array, size: jax.Array) -> jax.Array:
    """Geometric number of at least one with a mean size, by inversion of a uniform number."""
    size = jnp.clip(size, 1 + 1e-6, _MAX_SIZE)
    return 1 + jnp.floor(jnp.log(unit) / jnp.log1p(-1 / size))
