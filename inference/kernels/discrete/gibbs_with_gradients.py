"""Gibbs with gradients: one element changes at a time, chosen by forecasts of the log density."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.argument_checks import check_count
from inference.common.lockstep import select_leaves
from inference.common.log_densities import metropolis_rate
from inference.common.threefry import seed_of, threefry, uniform
from inference.kernels.discrete.informed import InformedKernel, draw_index
from inference.kernels.discrete.integers import Integers
from ppl.harvest.pytrees import register_dataclass


class GibbsWithGradientsState(NamedTuple):
    """State of a chain of :class:`GibbsWithGradients`.

    Attributes:
        position: Pytree of arrays of integers or booleans.
        log_density: Scalar, the log density at `position`.
        changes: Change of the log density if one element takes another value, ``(size, values)``;
            a forecast, or exact without gradients.
    """

    position: Any
    log_density: jax.Array
    changes: jax.Array


class GibbsWithGradientsInfo(NamedTuple):
    """Statistics of a transition of :class:`GibbsWithGradients`; all scalars.

    Attributes:
        acceptance_rate: Mean probability with which proposals were accepted.
        num_evaluations: Evaluations of the density, each with its gradient if that is used.
    """

    acceptance_rate: jax.Array
    num_evaluations: jax.Array


@register_dataclass
@dataclasses.dataclass(frozen=True)
class GibbsWithGradients(InformedKernel):
    r"""Gibbs with gradients: Metropolis proposals for discrete values, from the gradient.

    A proposal changes one element. With the change :math:`d_{iv}` of the log density if element
    `i` takes the value `v`, as the gradient forecasts it, the pair :math:`(i, v)` has probability
    in proportion to :math:`\exp(d_{iv} / 2)`. The Metropolis ratio corrects for the forecast. So
    most proposals are to where the density is, and a transition costs as many gradients as it makes
    proposals, whatever the number of values. More than two values are taken for ordered.

    The first proposal of a transition is dropped with probability one half. Otherwise a chain whose
    proposals are all accepted would have even and odd numbers of changes in turn.

    Attributes:
        log_density: Function of a position that returns a scalar, or `None` if a driver is to
            supply it. With `gradient` it gets the values as floating-point numbers.
        lower: Least value of each element: integer, or arrays that broadcast to the position.
            `None` for 0, unless a driver supplies it.
        upper: Largest value, likewise. `None` for ``lower + num_values - 1``, or for ``lower + 1``
            without `num_values`.
        num_values: Largest number of values of an element. `None` to read it from the bounds, which
            then must not be traced.
        gradient: Whether forecasts come from the gradient. Otherwise each neighbor is evaluated:
            locally informed proposals, for few elements, for values without order, and for
            densities without a gradient.
        max_change: Largest change of an element in a proposal. `None` for 1 with the gradient,
            whose forecasts are good nearby, and for any change without.
        num_steps: Proposals of a transition; `None` for the number of elements.

    Example:
        >>> def log_density(x):
        ...     x = jnp.asarray(x, float)
        ...     return jnp.sum(x) + 0.5 * jnp.sum(x[1:] * x[:-1])
        >>> kernel = GibbsWithGradients(log_density)
        >>> state = kernel.init(jnp.zeros(5, int))
        >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
        >>> state.position.shape, int(info.num_evaluations)
        ((5,), 5)

    References:
        Grathwohl, Swersky, Hashemi, Duvenaud and Maddison (2021), Oops I took a gradient: scalable
        sampling for discrete distributions; Zanella (2020), Informed proposals for local MCMC in
        discrete spaces, on exact changes and the square root.
    """

    max_change: int | None = dataclasses.field(
        default=None, kw_only=True, metadata={"static": True}
    )
    num_steps: int | None = dataclasses.field(default=None, kw_only=True, metadata={"static": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_change", "num_steps"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check_count(name, value, least=1))

    def init(self, position: Any) -> GibbsWithGradientsState:
        """The state of a chain at `position`.

        Raises:
            TypeError: if the position, a bound or the log density is of a wrong type, or the log
                density does not take floating-point numbers or has no gradient.
            ValueError: if the position is out of bounds, or there is no log density, or its
                gradient by a leaf is missing or not finite.
        """
        return GibbsWithGradientsState(*self.begin(position))

    def refresh(self, state: GibbsWithGradientsState) -> GibbsWithGradientsState:
        """The state at the same position, after the log density has changed."""
        form = self.form_of(state.position)
        return GibbsWithGradientsState(
            state.position, *self.forecast(form, form.ravel(state.position))
        )

    def step(
        self, key: jax.Array, state: GibbsWithGradientsState
    ) -> tuple[GibbsWithGradientsState, GibbsWithGradientsInfo]:
        """One transition: the next state, and the statistics of its proposals."""
        form = self.form_of(state.position)
        seed = seed_of(key)
        values = self.values(form)
        num_values = values.shape[1]
        num_steps = form.size if self.num_steps is None else self.num_steps

        def move(i: Any, carry: Any) -> Any:
            old, total = carry
            vector, log_density, changes = old
            units = uniform(jnp.stack(threefry(seed, i)), jnp.arange(3), form.real)
            forward = self._log_probs(form, vector, changes)
            index = draw_index(units[0], forward.ravel())
            element = index // num_values
            proposal = vector.at[element].set(values.ravel()[index])
            found, new_changes = self.forecast(form, proposal)
            backward = self._log_probs(form, proposal, new_changes)
            way_back = element, vector[element] - values[element, 0]
            ratio = log_proposal_ratio(forward.ravel()[index], backward[way_back])
            rate = metropolis_rate(found, log_density, ratio)
            is_dropped = (i == 0) & (units[2] < 0.5)
            is_accepted = (units[1] < rate) & ~is_dropped
            new = select_leaves(is_accepted, (proposal, found, new_changes), old)
            return new, total + rate

        start = form.ravel(state.position), state.log_density, state.changes
        carry = start, jnp.zeros((), form.real)
        (vector, log_density, changes), total = lax.fori_loop(0, num_steps, move, carry)
        new = GibbsWithGradientsState(form.unravel(vector), log_density, changes)
        evaluations = jnp.int32(num_steps * self.num_evaluations(form))
        return new, GibbsWithGradientsInfo(total / num_steps, evaluations)

    def _log_probs(self, form: Integers, vector: jax.Array, changes: jax.Array) -> jax.Array:
        """Log probabilities of proposals ``(size, values)``; NaN if there are none."""
        (_, upper), number = self.bounds(form)
        values = self.values(form)
        most = 1 if self.max_change is None and self.gradient else self.max_change
        distance = jnp.abs(values - vector[:, None])
        is_near = distance <= (number if most is None else most)
        is_neighbor = (values <= upper[:, None]) & (distance > 0) & is_near
        logits = jnp.where(is_neighbor, 0.5 * changes, -jnp.inf)
        return jax.nn.log_softmax(logits, (0, 1))


def log_proposal_ratio(forward: jax.Array, backward: jax.Array) -> jax.Array:
    """Log ratio of the probabilities of proposals, of the way back to the way there."""
    return backward - forward
