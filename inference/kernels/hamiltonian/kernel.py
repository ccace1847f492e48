"""Kernels: the protocol of all kernels, and the state machine of Hamiltonian kernels."""

import abc
import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import lax

from inference.common.argument_checks import check_positive_scalar
from inference.common.layout import Layout
from inference.common.lockstep import any_chain, select_leaves
from inference.common.log_densities import require_log_density, wrap_log_density
from inference.common.matrices import Matrix, check_mass_matrix, check_positive, factorize, pull
from inference.common.threefry import normal, seed_of
from inference.kernels.hamiltonian.leapfrog import Point, State, evaluate, flat_value_and_grad


@runtime_checkable
class Kernel(Protocol):
    """Markov kernel: a transition that leaves a density invariant.

    A kernel is a frozen dataclass registered as a pytree: numbers are leaves, sizes are static.

    | Part            | Form                                                                     |
    |-----------------|--------------------------------------------------------------------------|
    | state           | NamedTuple with a `position`, a pytree as given to :meth:`init`          |
    | info            | NamedTuple of scalars; a field that is `None` is no statistic            |
    | `log_density`   | optional field of the kernel, ``log_density: Any = None``: the function  |
    |                 | of a position that :func:`inference.mcmc` supplies                       |
    | `adapt`         | optional method, ``adapt(state, info, iteration, num_warmup)``: the      |
    |                 | state, adapted after a transition of warm-up. What is adapted, such as a |
    |                 | step size, is part of the state. `iteration` counts from 0               |
    | `refresh`       | optional method, ``refresh(state)``: the state at the same position,     |
    |                 | with what it caches of the log density evaluated anew                    |

    Other fields are up to the kernel. The summary of draws reads `log_density` of the state, and
    `acceptance_rate`, `is_divergent`, `energy` and `step_size` of the info, if a kernel has them.

    A kernel that moves one gradient at a time is a :class:`HamiltonianKernel`.
    """

    def init(self, position: Any) -> Any:
        """The state of a chain at `position`."""
        ...

    def step(self, key: jax.Array, state: Any) -> tuple[Any, Any]:
        """One transition: the next state, of the same shapes, and the info."""
        ...


class Trajectory(Protocol):
    """Trajectory of a transition in progress; a named tuple.

    Attributes:
        position: Flat vector, the position at which the density is to be evaluated next.
        is_done: Whether the trajectory is complete.
    """

    position: jax.Array
    is_done: jax.Array

    def _replace(self, **fields: Any) -> "Trajectory": ...


@dataclasses.dataclass(frozen=True)
class HamiltonianKernel(Kernel, abc.ABC):
    """Kernel that follows Hamiltonian dynamics, and moves one gradient at a time.

    A transition is a state machine: :meth:`begin`, then :meth:`advance` once per gradient until the
    trajectory is done, then :meth:`end`. So a driver can run many chains side by side, each at a
    step of its own, and adapt step size and mass matrix between transitions.

    Attributes:
        log_density: Function of a position that returns a scalar; a position is a pytree of
            floating-point arrays. Data may be leaves of a ``jax.tree_util.Partial``; a plain
            function is wrapped in one. `None` if a driver is to supply the log density.
        step_size: Positive scalar, the step of the leapfrog integrator.
        inverse_mass_matrix: Estimate of the covariance of positions: vector ``(size,)`` (a
            diagonal), matrix ``(size, size)`` or :class:`LowRankMatrix`, in the order of
            ``jax.tree.leaves`` of a position. `None` is the identity.
        inverse_mass_factor: Factor `L` of ``inverse_mass_matrix = L @ L.T``, computed in every
            transition if it is `None`. Its form follows the matrix: a vector of square roots, a
            lower triangular matrix, or a low-rank matrix with square roots of the values.
        axis_name: Name of the ``jax.vmap`` axis over chains, or `None`. Chains with a common axis
            advance in lockstep, which is faster; their draws are the same up to rounding.
        default_acceptance_rate: Mean acceptance rate that warm-up adapts the step size to, unless a
            driver is given another one.
        raises_target: Whether warm-up raises that rate where many transitions fail, as
            :mod:`inference.warmup.target_rate` says; for trajectories of many steps.
    """

    default_acceptance_rate: ClassVar[float] = 0.8
    raises_target: ClassVar[bool] = True

    log_density: Callable[[Any], jax.Array] | None = None
    step_size: jax.typing.ArrayLike = 0.1
    inverse_mass_matrix: Matrix | None = None
    inverse_mass_factor: Matrix | None = dataclasses.field(default=None, kw_only=True)
    axis_name: Hashable = dataclasses.field(default=None, kw_only=True, metadata={"static": True})

    def __post_init__(self) -> None:
        wrap_log_density(self)

    def init(self, position: Any) -> State:
        """The state of a chain at `position`.

        Raises:
            TypeError: if `position` has leaves that are not floating-point arrays, or the log
                density is not a function, or is not real.
            ValueError: if there is no log density, or the log density does not return a scalar.
        """
        Layout.of(position)
        position = jax.tree.map(jnp.asarray, position)
        return evaluate(require_log_density(self), position)

    def refresh(self, state: State) -> State:
        """The state at the same position, for a log density that has changed since.

        Raises:
            TypeError: if the log density is not a function, or is not real.
            ValueError: if there is no log density, or it does not return a scalar.
        """
        return self.init(state.position)

    def step(self, key: jax.Array, state: State) -> tuple[State, Any]:
        """One transition: the next state, and the statistics of the trajectory.

        Raises:
            TypeError: if the log density, the step size or the mass matrix is of a wrong type.
            ValueError: if there is no log density, or the step size or the mass matrix is not
                valid.
        """
        layout = Layout.of(state.position)
        log_density = require_log_density(self)
        step_size = self.check(layout)
        factor = _factor(self, layout)
        seed = seed_of(key)
        point = with_momentum(
            factor,
            seed,
            layout.ravel(state.position),
            jnp.asarray(state.log_density, layout.dtype),
            layout.ravel(state.gradient),
        )
        value_and_grad = flat_value_and_grad(log_density, layout)

        def advance(old: Any) -> Any:
            new = self.advance(factor, old, *value_and_grad(old.position))
            return new if self.axis_name is None else select_leaves(old.is_done, old, new)

        trajectory = lax.while_loop(
            lambda trajectory: any_chain(~trajectory.is_done, self.axis_name),
            advance,
            self.begin(factor, step_size, point, seed),
        )
        proposal, info = self.end(trajectory)
        return State(
            layout.unravel(proposal.position),
            proposal.log_density.astype(state.log_density.dtype),
            layout.unravel(proposal.gradient),
        ), info

    def check(self, layout: Layout) -> jax.Array:
        """The step size in the dtype of `layout`, once it is found valid.

        Raises:
            TypeError: if the step size is not a real number.
            ValueError: if the step size is not a scalar, or is known not to be positive and finite.
        """
        return check_positive_scalar("step_size", self.step_size, layout.dtype)

    @abc.abstractmethod
    def begin(
        self,
        factor: Matrix,
        step_size: jax.Array,
        point: Point,
        seed: jax.Array,
        last: Any = None,
        is_brief: jax.typing.ArrayLike = False,
    ) -> Trajectory:
        """The trajectory that starts at `point`.

        Args:
            factor: Factor of the inverse mass matrix.
            step_size: Scalar.
            point: Point of phase space, flat.
            seed: Two words of uint32, the seed of the transition's random numbers.
            last: Trajectory of the last transition, whose memory may be reused, or `None`.
            is_brief: Whether the trajectory is to end soon, even if the kernel would continue it,
                as in the first iterations of warm-up.
        """

    @abc.abstractmethod
    def advance(
        self, factor: Matrix, trajectory: Any, log_density: jax.Array, gradient: jax.Array
    ) -> Trajectory:
        """The trajectory after one more leapfrog step.

        Args:
            factor: Factor of the inverse mass matrix.
            trajectory: The trajectory so far.
            log_density: Scalar, the log density at ``trajectory.position``.
            gradient: Flat vector, the gradient of the log density there.
        """

    @abc.abstractmethod
    def end(self, trajectory: Any) -> tuple[Any, Any]:
        """The next state and the statistics of a complete trajectory.

        Returns:
            A named tuple with the next `position`, `log_density` and `gradient`, in flat vectors,
            and a named tuple of scalars, one of them the `acceptance_rate`.
        """


def with_momentum(
    factor: Matrix,
    seed: jax.Array,
    position: jax.Array,
    log_density: jax.Array,
    gradient: jax.Array,
) -> Point:
    """The point of phase space at `position` with a fresh momentum, drawn from `seed`."""
    momentum = normal(seed, position.size, position.dtype)
    return Point(position, momentum, pull(factor, gradient), log_density, gradient)


def _factor(kernel: HamiltonianKernel, layout: Layout) -> Matrix:
    if kernel.inverse_mass_factor is not None:
        return jax.tree.map(lambda x: jnp.asarray(x, layout.dtype), kernel.inverse_mass_factor)
    if kernel.inverse_mass_matrix is None:
        return jnp.ones(layout.size, layout.dtype)
    matrix = check_mass_matrix(kernel.inverse_mass_matrix, layout)
    factor = factorize(matrix)
    check_positive(factor, matrix)
    return factor
