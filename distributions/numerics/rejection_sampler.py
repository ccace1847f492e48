"""Draws by rejection, by rounds for all at once."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax, random

from distributions.common.arrays import select

MAX_ROUNDS = 10_000
"""Far more than any draw takes whose parameters are valid."""


def draw_first_accepted(
    propose: Callable[[Array], tuple[Array, Array]],
    key: Array,
    shape: tuple[int, ...],
    dtype: Any,
    none: Any = jnp.nan,
    most_rounds: int = MAX_ROUNDS,
) -> Array:
    """For each draw the first of its proposals that is accepted.

    A parameter that is NaN, or so extreme that nothing is accepted, ends after many rounds, and not
    in a hang.

    Args:
        propose: A function of a key that returns proposals, and whether each is accepted.
        key: The key of all rounds.
        shape: Of the draws.
        dtype: Of the draws.
        none: What a draw is for which no proposal was accepted.
        most_rounds: After how many that is said.
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
