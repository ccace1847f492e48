"""beta_variance, beta_entropy."""

import jax.numpy as jnp
from jax import Array

from distributions.numerics.gamma_functions import dirichlet_entropy


def beta_variance(a: Array, b: Array) -> Array:
    """The variance of a beta distribution."""
    return a / (a + b) * (b / (a + b)) / (a + b + 1)


def beta_entropy(a: Array, b: Array, *powers: float) -> Array:
    """The entropy of a beta distribution, or `dirichlet_entropy` of two."""
    return dirichlet_entropy(jnp.stack(jnp.broadcast_arrays(a, b), -1), powers or None)
