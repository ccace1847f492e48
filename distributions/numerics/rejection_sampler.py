"""Rejection sampling, in rounds for all draws at once."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax, random

from distributions.common.arrays import select

MAX_ROUNDS = 10_000
"""Rounds of a loop: far more than draws with valid parameters take."""


def draw_first_accepted(
    propose: Callable[[Array], tuple[Array, Array]],
    key: Array,
    shape: tuple[int, ...],
    dtype: Any,
    none: Any = jnp.nan,
    most_rounds: int = MAX_ROUNDS,
) -> Array:
    """The first accepted proposal of each draw.

    The number of rounds is limited: a parameter that is NaN, or so extreme that nothing is
    accepted, does not hang the program.

    Args:
        propose: A function of a key that returns proposals, and whether each is accepted.
        key: The key of all rounds.
        shape: The shape of the draws.
        dtype: The dtype of the draws.
        none: The value of a draw without an accepted proposal.
        most_rounds: The greatest number of rounds.
    """

    def go_on(state: tuple[Array, Array, Array, Array]) -> Array:
        number, _, _, accepted = state
        return (number < most_rounds) & ~accepted.all()

    def draw(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        number, key, found, accepted = state
        key, round_key = random.split(key)
        new, is_new = propose(round_key)
        return number + 1, key, select(accepted, found, new), accepted | is_new

    start = jnp.int32(0), key, jnp.zeros(shape, dtype), jnp.zeros(shape, bool)
    _, _, found, accepted = lax.while_loop(go_on, draw, start)
    return select(accepted, found, none)
