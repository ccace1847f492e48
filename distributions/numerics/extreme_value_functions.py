"""Reduced variates and ends of the support of extreme value and generalized Pareto families."""

import math

import jax.numpy as jnp
from jax import Array

from distributions.common.point import Point, log_of
from distributions.numerics.special import (
    bounded_ratio,
    expm1_ratio,
    log1p_ratio,
)


def log_ratio(x: Array | Point, scale: Array) -> Array:
    """`log(x / scale)` as a difference: the quotient may overflow."""
    return log_of(x) - jnp.log(scale)


def support_end(loc: Array, scale: Array, c: Array) -> Array:
    """`loc - scale / c`, the point at which `1 + c z` is 0; an arbitrary point for `c = 0`."""
    return loc - scale / jnp.where(c == 0, 1, c)


def reduced_variate(x: Array, loc: Array, scale: Array, c: Array) -> Array:
    """`log(1 + c z) / c` with `z = (x - loc) / scale`, or its limit `z` for `c = 0`.

    It is a standard Gumbel or exponential variable.
    """
    z = bounded_ratio(x - loc, scale)
    u = jnp.maximum(c * z, jnp.finfo(z.dtype).epsneg - 1)
    far = u > min(1e8, float(jnp.finfo(u.dtype).max) / 8)
    distance, size = (jnp.where(far, jnp.abs(v), 1) for v in (x - loc, c))
    log_u = jnp.where(far, jnp.log(distance) - jnp.log(scale) + jnp.log(size), 0)
    log_far = log_u + jnp.exp(-log_u)
    return jnp.where(far, log_far / jnp.where(far, c, 1), z * log1p_ratio(jnp.where(far, 1, u)))


def from_reduced_variate(w: Array, loc: Array, scale: Array, c: Array) -> Array:
    """`loc + scale (exp(c w) - 1) / c`, the inverse of `reduced_variate`."""
    u = c * w
    overflows = u >= math.log(float(jnp.finfo(u.dtype).max))
    some = scale * w * expm1_ratio(jnp.where(overflows, 0, u))
    return loc + jnp.where(overflows, jnp.sign(w) * jnp.inf, some)
