r"""Hamiltonian dynamics on flat vectors, in whitened momenta.

With inverse mass matrix :math:`\Sigma = L L^T`, the Hamiltonian of position :math:`q` and momentum
:math:`p \sim N(0, \Sigma^{-1})` is :math:`H = -\log\pi(q) + p^T \Sigma p / 2`. All code here holds
the momentum as :math:`w = L^T p \sim N(0, I)`. Draws of the momentum, the kinetic energy
:math:`w^T w / 2` and the U-turn criterion then need no metric. Only the leapfrog step needs it, as
the factor `L`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from inference.common.layout import Layout
from inference.common.log_densities import check_log_density
from inference.common.matrices import Matrix, pull, push

DIVERGENCE_THRESHOLD = 1000.0
"""Energy error, in nats, above which a trajectory counts as divergent (as in Stan)."""

ValueAndGrad = Callable[[jax.Array], tuple[jax.Array, jax.Array]]


class State(NamedTuple):
    """State of a chain: a position, and the log density and gradient there.

    Attributes:
        position: Pytree of floating-point arrays.
        log_density: Scalar, the log density at `position`.
        gradient: Pytree like `position`, the gradient of the log density.
    """

    position: Any
    log_density: jax.Array
    gradient: Any


class Point(NamedTuple):
    """Point of phase space, in flat vectors; `force` is ``L.T @ gradient``, `L` the factor."""

    position: jax.Array
    momentum: jax.Array
    force: jax.Array
    log_density: jax.Array
    gradient: jax.Array


class Edge(NamedTuple):
    """End of a trajectory: a point without the log density and the gradient."""

    position: jax.Array
    momentum: jax.Array
    force: jax.Array


class Origin(NamedTuple):
    """Start of a trajectory; the energies of all its points are relative to the energy here."""

    momentum: jax.Array
    log_density: jax.Array


def evaluate(log_density: Callable[[Any], jax.Array], position: Any) -> State:
    """The log density and its gradient at `position`.

    Raises:
        TypeError: if the log density is not a floating-point number.
        ValueError: if the log density is not a scalar.
    """

    def scalar(position: Any) -> jax.Array:
        return check_log_density(log_density(position))

    return State(position, *jax.value_and_grad(scalar)(position))


def flat_value_and_grad(log_density: Callable[[Any], jax.Array], layout: Layout) -> ValueAndGrad:
    """The value and gradient of `log_density`, as a function of a flat vector."""

    def value_and_grad(vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        state = evaluate(lambda flat: log_density(layout.unravel(flat)), vector)
        return state.log_density.astype(layout.dtype), state.gradient

    return value_and_grad


def drift(factor: Matrix, step_size: jax.Array, point: Point | Edge) -> jax.Array:
    """The position after one leapfrog step from `point`; a negative step size goes back in time.

    Together with :func:`kick`, which needs the gradient at the new position, this is a step of the
    leapfrog (velocity Verlet) integrator.

    References:
        Neal (2011), MCMC using Hamiltonian dynamics, equations 2.28 to 2.30.
    """
    momentum = point.momentum + 0.5 * step_size * point.force
    return point.position + step_size * push(factor, momentum)


def kick(
    factor: Matrix,
    step_size: jax.Array,
    point: Point | Edge,
    position: jax.Array,
    log_density: jax.Array,
    gradient: jax.Array,
) -> Point:
    """The end of the leapfrog step from `point` to `position`, given the gradient there."""
    force = pull(factor, gradient)
    momentum = point.momentum + 0.5 * step_size * point.force + 0.5 * step_size * force
    return Point(position, momentum, force, log_density, gradient)


def energy_change(start: Origin | Point, end: Point) -> jax.Array:
    """Energy at `end` less the energy at `start`, computed by differences so that float32 suffices.

    It is positive infinity if the energy at `end` is not finite. A gradient with NaN or infinity
    makes it so, as the last kick has added the gradient to the momentum.
    """
    kinetic = 0.5 * jnp.sum((end.momentum - start.momentum) * (end.momentum + start.momentum))
    change = start.log_density - end.log_density + kinetic
    return jnp.where(jnp.isfinite(change), change, jnp.inf)


def energy(point: Origin | Point) -> jax.Array:
    """The Hamiltonian at `point`."""
    return 0.5 * jnp.sum(point.momentum**2) - point.log_density
