"""Logarithms of hyperbolic functions."""

import jax.numpy as jnp
from jax import Array

from distributions.numerics.special import (
    LOG_TWO,
)


def log_cosh(y: Array) -> Array:
    """`log(cosh(y))`, without overflow."""
    return jnp.logaddexp(y, -y) - LOG_TWO
