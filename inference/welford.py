"""Means and covariances of what comes one after the other."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Welford(NamedTuple):
    """Running count, mean, and sum of squared deviations (vector) or of their products (matrix)."""

    count: jax.Array
    mean: jax.Array
    deviations: jax.Array


def welford_init(mean: jax.Array, inverse_mass_matrix: jax.Array) -> Welford:
    """No observation yet, of the shapes of the arguments."""
    zero = jnp.zeros((), mean.dtype)
    return Welford(zero, jnp.zeros_like(mean), jnp.zeros_like(inverse_mass_matrix))


def welford_update(state: Welford, value: jax.Array) -> Welford:
    """One more observation.

    References:
        Welford (1962), Note on a method for calculating corrected sums of squares and products.
    """
    count = state.count + 1
    before = value - state.mean
    mean = state.mean + before / count
    after = value - mean
    is_diagonal = state.deviations.ndim == 1
    product = before * after if is_diagonal else jnp.outer(after, before)
    return Welford(count, mean, state.deviations + product)
