"""Cumulative sum along an axis, with a gradient that XLA compiles right."""

import jax.numpy as jnp
from jax import Array, lax


def cumulative_sum(x: Array, axis: int = -1, *, reverse: bool = False) -> Array:
    """The sum of each entry and of all before it along an axis; of all after it in reverse.

    The gradient of some entries of a cumulative sum is a cumulative sum of a pad. XLA folds the pad
    into the sum, and the result is wrong if the pad has as many entries on both sides. Barriers
    before and after keep them apart, also in derivatives.
    """
    total = lax.cumsum(lax.optimization_barrier(x), axis % jnp.ndim(x), reverse=reverse)
    return lax.optimization_barrier(total)
