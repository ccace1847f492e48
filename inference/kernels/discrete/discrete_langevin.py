"""Discrete Langevin proposals: all elements change at once, each by a forecast of its own."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from inference.common.argument_checks import check_positive_scalar, check_rate
from inference.common.lockstep import select_leaves
from inference.common.log_densities import metropolis_rate
from inference.common.threefry import seed_of, uniform
from inference.kernels.discrete.informed import InformedKernel, draw_index
from inference.kernels.discrete.integers import Integers
from inference.warmup.dual_averaging import (
    DualAveraging,
    dual_averaging_init,
    dual_averaging_restart,
    dual_averaging_update,
)
from ppl.harvest.pytrees import register_dataclass

_MAX_PENALTY = 0.05  # nats, of the largest change at the largest step size


class DiscreteLangevinState(NamedTuple):
    """State of a chain of :class:`DiscreteLangevin`.

    Attributes:
        position: Pytree of arrays of integers or booleans.
        log_density: Scalar, the log density at `position`.
        changes: Change of the log density if one element takes another value, ``(size, values)``;
            a forecast, or exact without gradients.
        step_size: Scalar, in units of squared changes.
        averaging: State of dual averaging of the step size.
    """

    position: Any
    log_density: jax.Array
    changes: jax.Array
    step_size: jax.Array
    averaging: DualAveraging


class DiscreteLangevinInfo(NamedTuple):
    """Statistics of a transition of :class:`DiscreteLangevin`; all scalars.

    Attributes:
        acceptance_rate: Probability with which the proposal was accepted.
        num_evaluations: Evaluations of the density, each with its gradient if that is used.
        step_size: Step size of the proposal.
    """

    acceptance_rate: jax.Array
    num_evaluations: jax.Array
    step_size: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class DiscreteLangevin(InformedKernel):
    r"""Discrete Langevin proposals: Metropolis proposals that change all elements at once.

    Each element `i` of value :math:`x_i` takes the value `v` with probability in proportion to
    :math:`\exp(d_{iv} / 2 - (v - x_i)^2 / 2\alpha)`, on its own. Here :math:`d_{iv}` is the change
    of the log density as the gradient forecasts it, and :math:`\alpha` the step size, which warm-up
    adapts by dual averaging. The Metropolis ratio corrects for the forecasts. A transition costs
    one gradient.

    Attributes:
        log_density: Function of a position that returns a scalar, or `None` if a driver is to
            supply it. With `gradient` it gets the values as floating-point numbers.
        lower: Least value of each element: integer, or arrays that broadcast to the position.
            `None` for 0, unless a driver supplies it.
        upper: Largest value, likewise. `None` for ``lower + num_values - 1``, or for ``lower + 1``
            without `num_values`.
        num_values: Largest number of values of an element. `None` to read it from the bounds, which
            then must not be traced.
        gradient: Whether forecasts come from the gradient; otherwise each neighbor is evaluated.
        step_size: Step size before warm-up.
        target_acceptance_rate: Mean acceptance rate that warm-up adapts the step size to.

    Example:
        >>> def log_density(x):
        ...     x = jnp.asarray(x, float)
        ...     return jnp.sum(x) + 0.5 * jnp.sum(x[1:] * x[:-1])
        >>> kernel = DiscreteLangevin(log_density)
        >>> state = kernel.init(jnp.zeros(5, int))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, int(info.num_evaluations)
        ((5,), 1)

    References:
        Zhang, Liu and Liu (2022), A Langevin-like sampler for discrete distributions; Sun, Dai and
        Schuurmans (2022), Optimal scaling for locally balanced proposals in discrete spaces, on the
        rate of 0.574.
    """

    step_size: jax.typing.ArrayLike = dataclasses.field(default=0.2, kw_only=True)
    target_acceptance_rate: jax.typing.ArrayLike = dataclasses.field(default=0.574, kw_only=True)

    def init(self, position: Any) -> DiscreteLangevinState:
        """The state of a chain at `position`.

        Raises:
            TypeError: if the position, a setting or the log density is of a wrong type, or the log
                density does not take floating-point numbers or has no gradient.
            ValueError: if the position is out of bounds or a setting out of range, or there is no
                log density, or its gradient by a leaf is missing or not finite.
        """
        real = self.form_of(position).real
        step_size = check_positive_scalar("step_size", self.step_size, real)
        check_rate("target_acceptance_rate", self.target_acceptance_rate, real)
        averaging = dual_averaging_restart(dual_averaging_init(step_size))
        return DiscreteLangevinState(*self.begin(position), step_size, averaging)

    def refresh(self, state: DiscreteLangevinState) -> DiscreteLangevinState:
        """The state at the same position, for a log density that has changed since."""
        form = self.form_of(state.position)
        log_density, changes = self.forecast(form, form.ravel(state.position))
        return state._replace(log_density=log_density, changes=changes)

    def step(
        self, key: jax.Array, state: DiscreteLangevinState
    ) -> tuple[DiscreteLangevinState, DiscreteLangevinInfo]:
        """One transition: the next state, and the statistics of its proposal."""
        form = self.form_of(state.position)
        units = uniform(seed_of(key), jnp.arange(form.size + 1), form.real)
        elements = jnp.arange(form.size)
        values = self.values(form)
        vector = form.ravel(state.position)
        forward = self._log_probs(form, vector, state.changes, state.step_size)
        columns = draw_index(units[1:], forward)
        proposal = values[elements, columns]
        found, changes = self.forecast(form, proposal)
        backward = self._log_probs(form, proposal, changes, state.step_size)
        ratio = log_proposal_ratio(
            forward[elements, columns], backward[elements, vector - values[:, 0]]
        )
        rate = metropolis_rate(found, state.log_density, ratio)
        old = vector, state.log_density, state.changes
        new = select_leaves(units[0] < rate, (proposal, found, changes), old)
        state = state._replace(position=form.unravel(new[0]), log_density=new[1], changes=new[2])
        evaluations = jnp.int32(self.num_evaluations(form))
        return state, DiscreteLangevinInfo(rate, evaluations, state.step_size)

    def adapt(
        self,
        state: DiscreteLangevinState,
        info: DiscreteLangevinInfo,
        iteration: jax.Array,
        num_warmup: jax.Array,
    ) -> DiscreteLangevinState:
        """The state with the step size adapted; after the last iteration it is the averaged one.

        The average starts anew halfway, and step sizes then vary less. They have an upper limit, at
        which they hardly matter, for proposals that are accepted whatever the step size.
        """
        form = self.form_of(state.position)
        target = jnp.asarray(self.target_acceptance_rate, form.real)
        averaging = dual_averaging_update(state.averaging, info.acceptance_rate, target)
        is_half = iteration + 1 == num_warmup // 2
        averaging = select_leaves(is_half, dual_averaging_restart(averaging), averaging)
        is_last = iteration + 1 == num_warmup
        log_step = jnp.where(is_last, averaging.log_average, averaging.log_step_size)
        largest = (self.bounds(form)[1] - 1) ** 2 / (2 * _MAX_PENALTY)
        step_size = jnp.exp(jnp.minimum(log_step, jnp.log(max(largest, 1.0))))
        return state._replace(step_size=step_size.astype(form.real), averaging=averaging)

    def _log_probs(
        self, form: Integers, vector: jax.Array, changes: jax.Array, step_size: jax.Array
    ) -> jax.Array:
        """Log probabilities of values, by element ``(size, values)``."""
        (_, upper), _ = self.bounds(form)
        values = self.values(form)
        distance = (values - vector[:, None]).astype(form.real)
        logits = 0.5 * changes - distance**2 / (2 * step_size)
        return jax.nn.log_softmax(jnp.where(values <= upper[:, None], logits, -jnp.inf), -1)


def log_proposal_ratio(forward: jax.Array, backward: jax.Array) -> jax.Array:
    """Log ratio of the probabilities of proposals, of the way back to the way there.

    Args:
        forward: Log probability of the value of each element, ``(size,)``.
        backward: Log probability of the former value from the proposal.
    """
    return jnp.sum(backward - forward)
