"""Areas, tangents and variances on the unit sphere, and sums of log weights."""

import math
from typing import Any

import jax.numpy as jnp
from jax import Array, lax, random

from distributions.common.linear_algebra import per_event, square_sum
from distributions.numerics.special import LOG_PI, LOG_TWO


def log_area(n: int) -> float:
    """`log(2 pi^(n / 2) / Gamma(n / 2))`, the log area of the unit sphere in `n` dimensions."""
    return LOG_TWO + 0.5 * n * LOG_PI - math.lgamma(0.5 * n)


def dot(a: Any, b: Any) -> Array:
    """The inner products along the last axis."""
    return jnp.sum(a * b, -1)


def normalize(x: Array) -> Array:
    """Vectors of length 1 in the directions of `x`, also where its squares overflow."""
    # A quarter, so that the inverse of the largest number is not below the smallest one.
    x /= lax.stop_gradient(0.25 * jnp.max(jnp.abs(x), -1, keepdims=True))
    return x / jnp.sqrt(square_sum(x))[..., None]


def tangent_normal(key: Array, shape: tuple[int, ...], dtype: Any, direction: Any) -> Array:
    """Normal vectors orthogonal to `direction`."""
    z = random.normal(key, shape, dtype)
    return z - dot(z, direction)[..., None] * direction


def variance_around(direction: Any, cosine: Any, variance: Any) -> Array:
    """The variance of each entry, of a density that depends on the angle to `direction` alone.

    With `t` the cosine of the angle, `cosine` is the expectation of `1 - t^2`, and `variance` is
    the variance of `t`.
    """
    along = jnp.square(direction)
    across = per_event(cosine / (direction.shape[-1] - 1))
    return per_event(variance) * along + across * (1 - along)


def log_sum(log_weights: Array) -> Array:
    """`log(sum(exp(log_weights)))` along the last axis."""
    largest = lax.stop_gradient(jnp.max(log_weights, -1))
    return largest + jnp.log(jnp.sum(jnp.exp(log_weights - largest[..., None]), -1))
