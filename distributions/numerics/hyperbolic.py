"""_log_cosh."""

import jax.numpy as jnp

from distributions.numerics.special import (
    LOG_TWO,
)


def log_cosh(y):
    return jnp.logaddexp(y, -y) - LOG_TWO
