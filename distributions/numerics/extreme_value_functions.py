"""_log_ratio, _end, _reduced."""

import jax.numpy as jnp

from distributions.numerics.special import (
    bounded_ratio,
    expm1_ratio,
    log1p_ratio,
)


def log_ratio(x, scale):
    """`log(x / scale)`, whose quotient may overflow."""
    return jnp.log(x) - jnp.log(scale)


def support_end(loc, scale, c):
    """Where `1 + c z` is 0; some point where it never is."""
    return loc - scale / jnp.where(c == 0, 1, c)


def reduced_variate(x, loc, scale, c):
    """`log(1 + c z) / c`, or its limit `z`: a standard Gumbel or exponential variable."""
    z = bounded_ratio(x - loc, scale)
    u = jnp.maximum(c * z, jnp.finfo(z.dtype).epsneg - 1)
    far = u > min(1e8, float(jnp.finfo(u.dtype).max) / 8)
    distance, size = (jnp.where(far, jnp.abs(v), 1) for v in (x - loc, c))
    log_u = jnp.where(far, jnp.log(distance) - jnp.log(scale) + jnp.log(size), 0)
    log_far = log_u + jnp.exp(-log_u)
    return jnp.where(far, log_far / jnp.where(far, c, 1), z * log1p_ratio(jnp.where(far, 1, u)))


def from_reduced_variate(w, loc, scale, c):
    """The inverse of `reduced_variate`."""
    return loc + scale * w * expm1_ratio(c * w)
