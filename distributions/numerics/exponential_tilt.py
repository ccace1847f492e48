"""The density proportional to `exp(c t)` for `t` in [0, 1], at any tilt `c`."""

import jax.numpy as jnp
from jax import Array

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


def log_total(c: Array) -> Array:
    """`log((exp(c) - 1) / c)`, the log normalizer."""
    return 0.5 * c + _even(c)


def tilted_log_prob(t: Array, c: Array, fall: Array) -> Array:
    """`c t - log_total(c)`, the log density.

    Unless `c` is small it is computed from `fall`, the drop of the log density from the end where
    it is greater: `c (1 - t)` for positive `c`, `-c t` for negative `c`.
    """
    small = jnp.abs(c) < 0.5
    near = c * (t - 0.5) - _even(jnp.where(small, c, 0))
    s = jnp.where(small, 1, jnp.abs(c))
    return jnp.where(small, near, jnp.log(s) - jnp.log1p(-jnp.exp(-s)) - fall)


def tilted_mean(c: Array) -> Array:
    """`1 / (1 - exp(-c)) - 1 / c`, the mean; a series for small `c`."""
    small = jnp.abs(c) < 0.3
    h = 0.5 * jnp.where(small, c, 0)
    y = jnp.square(h)
    series = h * (1 / 3 - y * (1 / 45 - y * (2 / 945 - y * (1 / 4725 - y * 2 / 93555))))
    g = 0.5 * jnp.where(small, 1, c)
    return 0.5 + 0.5 * jnp.where(small, series, 1 / jnp.tanh(g) - 1 / g)


def tilted_log_cdf(t: Array, c: Array) -> Array:
    """`log((exp(c t) - 1) / (exp(c) - 1))`."""
    return jnp.log(t) + log_total(c * t) - log_total(c)


def tilted_quantile(q: Array, c: Array) -> Array:
    """`log(1 + q (exp(c) - 1)) / c`, computed from the end where the density is greater."""
    # smooth at 0, unlike abs(c)
    p = jnp.where(c > 0, 1 - q, q)
    d = jnp.where(c > 0, -c, c)
    t = (
        p
        * expm1_ratio(d)
        * log1p_ratio(jnp.maximum(p * jnp.expm1(d), -1 + jnp.finfo(p.dtype).epsneg))
    )
    return jnp.where(c > 0, 1 - t, t)


def log_place(x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """`log(x / low) / log(high / low)`, and the denominator."""
    width = log_quotient(high, low)
    return log_quotient(x, low) / width, width
