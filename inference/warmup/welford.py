"""Means and variances of what comes one after the other."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Welford(NamedTuple):
    """Running count, mean and sum of squared deviations, of each coordinate."""

    count: jax.Array
    mean: jax.Array
    deviations: jax.Array


def welford_init(mean: jax.Array) -> Welford:
    """No observation yet, of the shape and dtype of `mean`."""
    return Welford(jnp.zeros((), mean.dtype), jnp.zeros_like(mean), jnp.zeros_like(mean))


def welford_update(state: Welford, value: jax.Array) -> Welford:
    """One more observation.

    References:
        Welford (1962), Note on a method for calculating corrected sums of squares and products.
    """
    count = state.count + 1
    before = value - state.mean
    mean = state.mean + before / count
    return Welford(count, mean, state.deviations + before * (value - mean))
