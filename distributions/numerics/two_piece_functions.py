"""Distances and scales of families with a scale of its own on each side of the mode."""

import jax.numpy as jnp
from jax import Array

from distributions.numerics.special import (
    ratio,
)


def from_mode(x: Array, loc: Array, scale: Array, k: Array) -> tuple[Array, Array]:
    """`x - loc` and the scale of its side: `scale / k` below `loc`, `scale k` above.

    Below `loc` both are multiplied by `min(k, 1)`, so that derivatives do not overflow.
    """
    distance = x - loc
    left = x < loc
    small = k < 1
    less = jnp.where(small, k, 1)
    more = jnp.where(small, 1, k)
    distance = jnp.where(left, distance * less, distance)
    return distance, jnp.where(left, ratio(scale, more), scale * k)
