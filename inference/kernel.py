"""What Hamiltonian kernels share: their numbers, their start and the dynamics they follow."""

import abc
import dataclasses
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from inference.flat import Layout
from inference.hamiltonian import (
    Dynamics,
    Point,
    State,
    evaluate,
    factorize,
    flat_value_and_grad,
    pull,
)
from inference.randomness import normal, seed_of


@dataclasses.dataclass(frozen=True)
class HamiltonianKernel(abc.ABC):
    """A transition that leaves a density invariant by following Hamiltonian dynamics.

    Attributes:
        log_density: Function of a position, a pytree of floating-point arrays, that returns a
            scalar. A ``jax.tree_util.Partial``, whose leaves are data; a plain function is wrapped
            in one. `None` where a driver is to supply it.
        step_size: Scalar, the step of the leapfrog integrator.
        inverse_mass_matrix: Vector (a diagonal) or matrix, in the order in which
            ``jax.tree.leaves`` lists the position; an estimate of the covariance. `None` is 1.
        inverse_mass_factor: The factor `L` of ``inverse_mass_matrix = L @ L.T``, lower triangular
            or the vector of square roots. Computed in every step where it is `None`.
        axis_name: Name of the ``jax.vmap`` axis over chains, or `None`. Chains that are told of
            each other keep in step, which is faster; their draws are the same.
    """

    log_density: Callable[[Any], jax.Array] | None = None
    step_size: jax.typing.ArrayLike = 0.1
    inverse_mass_matrix: jax.Array | None = None
    inverse_mass_factor: jax.Array | None = dataclasses.field(default=None, kw_only=True)
    axis_name: Hashable = dataclasses.field(default=None, kw_only=True, metadata={"static": True})

    def __post_init__(self) -> None:
        if callable(self.log_density) and not isinstance(self.log_density, Partial):
            object.__setattr__(self, "log_density", Partial(self.log_density))

    def init(self, position: Any) -> State:
        """The state of a chain that stands at `position`.

        Raises:
            TypeError: if `position` has leaves that are not floating-point arrays.
            ValueError: if there is no log density, or it does not return a scalar.
        """
        Layout.of(position)
        position = jax.tree.map(jnp.asarray, position)
        return evaluate(self._require_log_density(), position)

    @abc.abstractmethod
    def step(self, key: jax.Array, state: State) -> tuple[State, Any]:
        """One transition: the next state, and what happened on the way."""

    def _require_log_density(self) -> Callable[[Any], jax.Array]:
        if self.log_density is None:
            name = type(self).__name__
            raise ValueError(
                f"{name} has no log_density; give it one, {name}(log_density=f), or pass the "
                "kernel to inference.mcmc together with a model."
            )
        return self.log_density


class Start(NamedTuple):
    """The beginning of a transition: layout, dynamics, phase-space point and a seed."""

    layout: Layout
    dynamics: Dynamics
    point: Point
    seed: jax.Array


def start(kernel: HamiltonianKernel, key: jax.Array, state: State) -> Start:
    """The point at `state` with a fresh momentum, and the dynamics of `kernel` from there."""
    layout = Layout.of(state.position)
    log_density = kernel._require_log_density()
    step_size = check_step_size(kernel.step_size, layout)
    factor = _factor(kernel, layout)
    seed = seed_of(key)
    momentum = normal(seed, layout.size, layout.dtype)
    gradient = layout.ravel(state.gradient)
    point = Point(
        layout.ravel(state.position),
        momentum,
        pull(factor, gradient),
        jnp.asarray(state.log_density, layout.dtype),
        gradient,
    )
    dynamics = Dynamics(flat_value_and_grad(log_density, layout), factor, step_size)
    return Start(layout, dynamics, point, seed)


def _factor(kernel: HamiltonianKernel, layout: Layout) -> jax.Array:
    if kernel.inverse_mass_factor is not None:
        return jnp.asarray(kernel.inverse_mass_factor, layout.dtype)
    if kernel.inverse_mass_matrix is None:
        return jnp.ones(layout.size, layout.dtype)
    return factorize(check_mass_matrix(kernel.inverse_mass_matrix, layout))


def check_step_size(step_size: jax.typing.ArrayLike, layout: Layout) -> jax.Array:
    """`step_size` in the dtype of positions of `layout`.

    Raises:
        ValueError: if it is not a scalar.
    """
    array = jnp.asarray(step_size, layout.dtype)
    if array.shape != ():
        raise ValueError(f"step_size must be a scalar, got shape {array.shape}")
    return array


def check_mass_matrix(matrix: jax.typing.ArrayLike, layout: Layout) -> jax.Array:
    """`matrix` in the dtype of positions of `layout`.

    Raises:
        ValueError: if its shape is that of neither a diagonal nor a matrix for such positions.
    """
    array, size = jnp.asarray(matrix, layout.dtype), layout.size
    if array.shape not in ((size,), (size, size)):
        raise ValueError(
            f"inverse_mass_matrix has shape {array.shape}; the position has {size} elements, so it "
            f"must be a vector of shape {(size,)} (a diagonal) or a matrix of shape {(size, size)}"
        )
    return array
