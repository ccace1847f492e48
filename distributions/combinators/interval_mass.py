"""Probabilities of intervals, for truncated, censored and rounded distributions."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from distributions.common.arrays import select
from distributions.core.distribution import Distribution
from distributions.numerics.special import log1mexp


def broadcast_both(condition: Array, x: Array) -> tuple[Array, Array]:
    """A condition and an array, broadcast to one shape."""
    shape = np.broadcast_shapes(condition.shape, x.shape)
    return jnp.broadcast_to(condition, shape), jnp.broadcast_to(x, shape)


def log_mass(d: Distribution, low: Array, high: Array) -> Array:
    """`log P(low < X <= high)`, computed in the tail in which the interval lies."""
    below = d.log_cdf(low)
    at_most = d.log_cdf(high)
    above = d.log_survival(low)
    beyond = d.log_survival(high)
    upper = below > -0.6931472
    large = select(upper, above, at_most)
    small = select(upper, beyond, below)
    empty = large == -jnp.inf
    ratio = select(empty, -1, small) - select(empty, 0, large)
    return select(empty, -jnp.inf, large + log1mexp(jnp.minimum(ratio, 0)))
