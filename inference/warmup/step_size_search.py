"""The search for a step size of the right order, from where a chain starts."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from inference.common.lockstep import select_leaves
from inference.common.matrices import Matrix
from inference.hamiltonian.leapfrog import Point, State, drift, energy_change, kick

_MAX_DOUBLINGS = 50
_TARGET = 0.8


class Search(NamedTuple):
    """A search for a step size, one leapfrog step from the start a turn.

    The step size is doubled or halved until the acceptance rate of one step crosses 0.8.

    Attributes:
        start: Where the chain starts, with the momentum of all tries.
        has_start: Whether the density has been evaluated there.
        step_size: The step that is tried next, or that is good.
        direction: 1 while the step doubles, -1 while it halves, 0 before the first.
        num_tries: How often it has been tried.
        is_done: Whether the acceptance rate of one step has crossed 0.8.

    References:
        Hoffman and Gelman (2014), The No-U-Turn Sampler, algorithm 4.
    """

    start: Point
    has_start: jax.Array
    step_size: jax.Array
    direction: jax.Array
    num_tries: jax.Array
    is_done: jax.Array

    @property
    def is_stuck(self) -> jax.Array:
        """Whether the density or its gradient is not finite at the start."""
        is_finite = jnp.isfinite(self.start.log_density) & jnp.all(
            jnp.isfinite(self.start.gradient)
        )
        return self.has_start & ~is_finite

    @property
    def state(self) -> State:
        """Where the chain starts."""
        return State(self.start.position, self.start.log_density, self.start.gradient)


def next_position(search: Search, factor: Matrix) -> jax.Array:
    """Where the search has to know the density next, once it has a start with a momentum."""
    return drift(factor, search.step_size, search.start)


def search_step(
    search: Search,
    factor: Matrix,
    position: jax.Array,
    log_density: jax.Array,
    gradient: jax.Array,
) -> Search:
    """The search, once it knows the density at `position`, which is the start or the next one."""
    end = kick(factor, search.step_size, search.start, position, log_density, gradient)
    found = search._replace(start=end, has_start=jnp.ones((), bool))
    return select_leaves(search.has_start, _judge_step(search, end), found)


def _judge_step(search: Search, end: Point) -> Search:
    is_accepted = energy_change(search.start, end) < -math.log(_TARGET)
    trend = jnp.where(is_accepted, 1, -1)
    is_first = search.direction == 0
    crosses = ~is_first & (trend != search.direction)
    is_done = crosses | (search.num_tries >= _MAX_DOUBLINGS)
    factor = jnp.where(is_done, 1.0, jnp.where(trend > 0, 2.0, 0.5))
    return search._replace(
        step_size=search.step_size * factor.astype(search.step_size.dtype),
        direction=jnp.where(is_first, trend, search.direction),
        num_tries=search.num_tries + 1,
        is_done=is_done,
    )
