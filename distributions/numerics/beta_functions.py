"""Variance and entropy of a beta variable."""

import jax.numpy as jnp
from jax import Array

from distributions.numerics.gamma_functions import dirichlet_entropy


def beta_variance(a: Array, b: Array) -> Array:
    """`a b / ((a + b)^2 (a + b + 1))`, the variance of a beta distribution."""
    return a / (a + b) * (b / (a + b)) / (a + b + 1)


def beta_entropy(a: Array, b: Array, *powers: float) -> Array:
    """The entropy of a beta distribution; with `powers`, the `dirichlet_entropy` of `a` and `b`."""
    return dirichlet_entropy(jnp.stack(jnp.broadcast_arrays(a, b), -1), powers or None)
