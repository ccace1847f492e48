"""Welford's algorithm: running means and variances."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Welford(NamedTuple):
    """State of Welford's algorithm: count, mean and sum of squared deviations by coordinate."""

    count: jax.Array
    mean: jax.Array
    deviations: jax.Array


def welford_init(mean: jax.Array) -> Welford:
    """State without observations, of the shape and dtype of `mean`."""
    return Welford(jnp.zeros((), mean.dtype), jnp.zeros_like(mean), jnp.zeros_like(mean))


def welford_update(state: Welford, value: jax.Array) -> Welford:
    """State with one more observation.

    References:
        Welford (1962), Note on a method for calculating corrected sums of squares and products.
    """
    count = state.count + 1
    before = value - state.mean
    mean = state.mean + before / count
    return Welford(count, mean, state.deviations + before * (value - mean))
