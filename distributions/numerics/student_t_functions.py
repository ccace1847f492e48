"""Tails, densities and moments of Student's t and Cauchy distributions."""

import math

import jax.numpy as jnp
from jax import Array, lax

from distributions.numerics.gamma_functions import digamma_rest, log_beta_half
from distributions.numerics.incomplete_gamma_beta import log_betainc
from distributions.numerics.special import (
    log,
    log1p_square_ratio,
    log_quotient,
    safe_log,
)


def cauchy_survival(z: Array) -> Array:
    """The probability of a standard Cauchy variable above `z`."""
    return jnp.arctan2(jnp.ones_like(z), z) / math.pi


def student_t_tails(z: Array, df: Array) -> tuple[Array, Array]:
    """`log P(|T| <= |z|)` and `log P(|T| > |z|)` for a standard t variable `T`."""
    z, df = jnp.broadcast_arrays(z, df)
    size = jnp.where(z < 0, -z, z)
    near = size < 0.05 * jnp.sqrt(df / (df + 1))
    center = _central_mass(jnp.where(near, size, 0), df)
    distance = jnp.where(near, 1, size)
    root = jnp.sqrt(df)
    far = distance > root
    square = jnp.square(jnp.where(far, root, distance) / jnp.where(far, distance, root))
    log_square = 2 * log_quotient(distance, root)
    log_y = jnp.where(far, 0, log_square) - jnp.log1p(square)
    log_x = jnp.where(far, -log_square, 0) - jnp.log1p(square)
    outer, inner = log_betainc(0.5 * df, jnp.full_like(df, 0.5), log_x, log_y)
    return jnp.where(near, safe_log(center), inner), jnp.where(near, jnp.log1p(-center), outer)


def _central_mass(z: Array, df: Array) -> Array:
    """`P(|T| <= z)` for `z` near 0, by a series: it has derivatives at 0, too."""
    term = 1.0
    total = 1.0
    for k in range(1, 6):
        term = -term * (0.5 * (df - 1) + k) / k * jnp.square(z) / df
        total = total + term / (2 * k + 1)
    return 2 * z * total * jnp.exp(standard_t(df))


def standard_t(df: Array) -> Array:
    """The logarithm of the density of the standard t distribution at its center."""
    return -0.5 * jnp.log(df) - log_beta_half(0.5 * df)


def student_t_entropy(df: Array) -> Array:
    """The entropy of the standard t distribution."""
    h = 0.5 * df
    k = 0.5 * (df + 1)
    return k * (jnp.log1p(1 / df) + (digamma_rest(k) - digamma_rest(h))) - standard_t(df)


def student_t_variance(df: Array, scale: Array) -> Array:
    """The variance of a t distribution: infinite up to 2 degrees of freedom, and undefined to 1."""
    finite = jnp.square(scale) * (df / jnp.where(df > 2, df - 2, 1))
    return jnp.where(df > 2, finite, jnp.where(df > 1, jnp.inf, jnp.nan))


def standard_t_log_prob(distance: Array, df: Array, scale: Array) -> Array:
    """The log density of the standard t distribution at `distance / scale`."""
    width = lax.max(scale * jnp.sqrt(df), jnp.asarray(jnp.finfo(df.dtype).tiny, df.dtype))
    return standard_t(df) - 0.5 * (df + 1) * log1p_square_ratio(distance, width)


def student_t_log_prob(x: Array, df: Array, loc: Array, scale: Array) -> Array:
    """The log density of a t distribution."""
    return standard_t_log_prob(x - loc, df, scale) - log(scale)


def mean_distance(df: Array) -> Array:
    """`E |T|` for a standard t variable `T`; infinite up to one degree of freedom."""
    excess = jnp.where(df > 1, df - 1, 1)
    inner = jnp.sqrt(df) * jnp.exp(-log_beta_half(0.5 * df))
    return jnp.where(df > 1, 2 * inner / excess, jnp.inf)
