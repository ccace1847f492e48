"""Search for a first step size of the right order (Hoffman and Gelman's heuristic)."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from inference.common.lockstep import select_leaves
from inference.common.matrices import Matrix
from inference.kernels.hamiltonian.leapfrog import Point, State, drift, energy_change, kick

_MAX_DOUBLINGS = 50  # doublings or halvings, a factor of 1e15
_TARGET = 0.8  # acceptance rate of one step


class Search(NamedTuple):
    """State of the search for a first step size.

    Each try is one leapfrog step from the start. The step size is doubled or halved until the
    acceptance rate of one step crosses 0.8.

    Attributes:
        start: Initial point of the chain, with the momentum of all tries.
        has_start: Whether the density has been evaluated at the start.
        step_size: Step size of the next try, or the result.
        direction: 1 while the step size doubles, -1 while it halves, 0 before the first try.
        num_tries: Number of tries so far.
        is_done: Whether the acceptance rate has crossed 0.8, or the step size has been doubled or
            halved 50 times.

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
        """Initial state of the chain."""
        return State(self.start.position, self.start.log_density, self.start.gradient)


def next_position(search: Search, factor: Matrix) -> jax.Array:
    """Position of the next try: the end of one leapfrog step from the start."""
    return drift(factor, search.step_size, search.start)


def search_step(
    search: Search,
    factor: Matrix,
    position: jax.Array,
    log_density: jax.Array,
    gradient: jax.Array,
) -> Search:
    """Search after an evaluation of the density at `position`: the start, or the end of a try."""
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
