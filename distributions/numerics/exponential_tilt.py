"""_even, _log_total, _tilted_log_prob."""

import jax.numpy as jnp

from distributions.numerics.special import expm1_ratio, log1p_ratio, log_quotient


def _even(c):
    """`log(sinh(h) / h)` with `h = c / 2`."""
    size = jnp.abs(c)
    small = size < 0.5
    y = jnp.square(0.5 * jnp.where(small, c, 0))
    terms = 1 / 6, -1 / 180, 1 / 2835, -1 / 37800, 1 / 467775, -691 / 3831077250
    series = sum(k * y ** (i + 1) for i, k in enumerate(terms))
    s = jnp.where(small, 1, size)
    return jnp.where(small, series, 0.5 * s + jnp.log1p(-jnp.exp(-s)) - jnp.log(s))


def log_total(c):
    """`log((exp(c) - 1) / c)`."""
    return 0.5 * c + _even(c)


def tilted_log_prob(t, c, fall):
    """By the fall from the end with the greater density, where `c` is not small."""
    small = jnp.abs(c) < 0.5
    near = c * (t - 0.5) - _even(jnp.where(small, c, 0))
    s = jnp.where(small, 1, jnp.abs(c))
    return jnp.where(small, near, jnp.log(s) - jnp.log1p(-jnp.exp(-s)) - fall)


def tilted_mean(c):
    small = jnp.abs(c) < 0.3
    h = 0.5 * jnp.where(small, c, 0)
    y = jnp.square(h)
    series = h * (1 / 3 - y * (1 / 45 - y * (2 / 945 - y * (1 / 4725 - y * 2 / 93555))))
    g = 0.5 * jnp.where(small, 1, c)
    return 0.5 + 0.5 * jnp.where(small, series, 1 / jnp.tanh(g) - 1 / g)


def tilted_log_cdf(t, c):
    return jnp.log(t) + log_total(c * t) - log_total(c)


def tilted_quantile(q, c):
    """From the end where the density is the greater."""
    p, d = jnp.where(c > 0, 1 - q, q), -jnp.abs(c)
    t = (
        p
        * expm1_ratio(d)
        * log1p_ratio(jnp.maximum(p * jnp.expm1(d), -1 + jnp.finfo(p.dtype).epsneg))
    )
    return jnp.where(c > 0, 1 - t, t)


def log_place(x, low, high):
    """Where `log x` lies between those of the ends, and their distance."""
    width = log_quotient(high, low)
    return log_quotient(x, low) / width, width
