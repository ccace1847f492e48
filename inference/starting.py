"""Where chains start: at a point of finite density, with a step size of the right order."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from inference.flat import Layout
from inference.hamiltonian import (
    Dynamics,
    Point,
    State,
    energy_change,
    factorize,
    flat_value_and_grad,
    leapfrog,
)
from inference.randomness import normal, seed_of
from inference.target import Target
from inference.tree import select

MOST_ATTEMPTS = 100
_MOST_DOUBLINGS = 50
_TARGET = 0.8


class Search(NamedTuple):
    """A search for a position and then for a step size, one evaluation of the density a turn.

    Attributes:
        point: Where to start, once `is_found`; before that, the last attempt.
        num_attempts: Positions tried.
        is_found: Whether `point` has a finite density and gradient.
        step_size: The step that is tried next, or that is good.
        direction: 1 while the step doubles, -1 while it halves, 0 before the first.
        num_doublings: How often it has been doubled or halved.
        is_done: Whether the acceptance rate of one step has crossed 0.8.
    """

    point: Point
    num_attempts: jax.Array
    is_found: jax.Array
    step_size: jax.Array
    direction: jax.Array
    num_doublings: jax.Array
    is_done: jax.Array


def find_start(
    key: jax.Array,
    target: Target,
    layout: Layout,
    step_size: jax.Array,
    inverse_mass_matrix: jax.Array,
    tune: jax.typing.ArrayLike = True,
) -> tuple[State, Search]:
    """Draws positions until one is finite, and from there finds the order of the step size.

    The step size is doubled or halved until the acceptance rate of one leapfrog step crosses 0.8.
    Both searches share a loop, so that the gradient is traced and compiled once: a leapfrog step of
    length 0 evaluates the density where it starts.

    Args:
        key: Typed or legacy key.
        target: Gives the log density, and positions to try.
        layout: The layout of a position.
        step_size: Where the search for the step size begins.
        inverse_mass_matrix: Vector (a diagonal) or matrix.
        tune: Whether to look for a step size.

    Returns:
        The state, and the search: whether it has succeeded, and the step size.

    References:
        Hoffman and Gelman (2014), The No-U-Turn Sampler, algorithm 4.
    """
    momentum = normal(seed_of(key), layout.size, layout.dtype)
    zeros, zero = jnp.zeros_like(momentum), jnp.zeros((), layout.dtype)
    value_and_grad = flat_value_and_grad(target.log_density, layout)
    factor = factorize(inverse_mass_matrix)

    def turn(search: Search) -> Search:
        position = layout.ravel(target.initial(random.fold_in(key, search.num_attempts)))
        attempt = Point(position, momentum, zeros, zero, zeros)
        origin = select(search.is_found, search.point, attempt)
        step_size = jnp.where(search.is_found, search.step_size, 0)
        end = leapfrog(Dynamics(value_and_grad, factor, step_size), origin)
        return select(search.is_found, _tried_step(search, end), _tried_position(search, end))

    count, no = jnp.int32(0), jnp.zeros((), bool)
    point = Point(zeros, momentum, zeros, zero, zeros)
    search = lax.while_loop(
        lambda search: jnp.where(
            search.is_found, ~search.is_done, search.num_attempts < MOST_ATTEMPTS
        ),
        turn,
        Search(point, count, no, step_size, count, count, no | ~jnp.asarray(tune)),
    )
    point = search.point
    state = State(layout.unravel(point.position), point.log_density, layout.unravel(point.gradient))
    return state, search


def _tried_position(search: Search, end: Point) -> Search:
    is_finite = jnp.isfinite(end.log_density) & jnp.all(jnp.isfinite(end.gradient))
    return search._replace(point=end, num_attempts=search.num_attempts + 1, is_found=is_finite)


def _tried_step(search: Search, end: Point) -> Search:
    is_accepted = energy_change(search.point, end) < -math.log(_TARGET)
    trend = jnp.where(is_accepted, 1, -1)
    is_first = search.direction == 0
    crosses = ~is_first & (trend != search.direction)
    is_done = crosses | (search.num_doublings >= _MOST_DOUBLINGS)
    factor = jnp.where(is_done, 1.0, jnp.where(trend > 0, 2.0, 0.5))
    return search._replace(
        step_size=search.step_size * factor.astype(search.step_size.dtype),
        direction=jnp.where(is_first, trend, search.direction),
        num_doublings=search.num_doublings + 1,
        is_done=is_done,
    )
