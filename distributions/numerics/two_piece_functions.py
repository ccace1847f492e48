"""_from_mode."""

import jax.numpy as jnp

from distributions.numerics.special import (
    ratio,
)


def from_mode(x, loc, scale, k):
    """Distances from the mode and the scales of their sides, whose derivatives do not overflow."""
    distance, left, small = x - loc, x < loc, k < 1
    less, more = jnp.where(small, k, 1), jnp.where(small, 1, k)
    distance = jnp.where(left, distance * less, distance)
    return distance, jnp.where(left, ratio(scale, more), scale * k)
