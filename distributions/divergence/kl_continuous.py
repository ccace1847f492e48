"""Divergences between continuous families of numbers, precise also for close distributions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln

from distributions.common.arrays import promote, select
from distributions.numerics.loader_kernels import exp_rest, relative_excess
from distributions.numerics.special import EULER_GAMMA, ZETA, log1p_or


def _normal(p: Any, q: Any) -> Array:
    p_loc, p_scale, q_loc, q_scale = promote(p.loc, p.scale, q.loc, q.scale)
    return 0.5 * jnp.square((p_loc - q_loc) / q_scale) + _normal_scale_divergence(p_scale, q_scale)


def _normal_scale_divergence(p: Array, q: Array) -> Array:
    """The divergence between normal variables of one mean, with scales `p` and `q`."""
    excess = (p - q) / q * (p / q + 1)
    return 0.5 * relative_excess(excess, 2 * (jnp.log(p) - jnp.log(q)))


def _half_normal(p: Any, q: Any) -> Array:
    return _normal_scale_divergence(*promote(p.scale, q.scale))


def _cauchy(p: Any, q: Any) -> Array:
    p_loc, p_scale, q_loc, q_scale = promote(p.loc, p.scale, q.loc, q.scale)
    scales = (p_scale - q_scale) / p_scale * ((p_scale - q_scale) / q_scale)
    locs = (p_loc - q_loc) / p_scale * ((p_loc - q_loc) / q_scale)
    return jnp.log1p(0.25 * (scales + locs))


def _exponential(p: Any, q: Any) -> Array:
    p_rate, q_rate = promote(p.rate, q.rate)
    return relative_excess((q_rate - p_rate) / p_rate, jnp.log(q_rate) - jnp.log(p_rate))


def _laplace(p: Any, q: Any) -> Array:
    p_loc, p_scale, q_loc, q_scale = promote(p.loc, p.scale, q.loc, q.scale)
    distance = jnp.abs(p_loc - q_loc) / p_scale
    near = select(distance < 0.25, distance, 0)
    rest = select(distance < 0.25, exp_rest(-near), jnp.exp(-distance) - 1 + distance)
    log_ratio = jnp.log(p_scale) - jnp.log(q_scale)
    return p_scale / q_scale * rest + relative_excess((p_scale - q_scale) / q_scale, log_ratio)


def _uniform(p: Any, q: Any) -> Array:
    a, b, c, d = promote(p.low, p.high, q.low, q.high)
    return jnp.where((a >= c) & (b <= d), jnp.log((d - c) / (b - a)), jnp.inf)


def _weibull(p: Any, q: Any) -> Array:
    a, scale, b, other = promote(p.concentration, p.scale, q.concentration, q.scale)
    more = (b - a) / a
    excess = (scale - other) / other
    log_scales = log1p_or(excess, jnp.log(scale) - jnp.log(other))
    log_shapes = log1p_or(more, jnp.log(b) - jnp.log(a))
    rest = _log_gamma_rest(more, b / a)
    log_power = b * log_scales + log_shapes - EULER_GAMMA * more + rest
    return relative_excess(jnp.expm1(log_power), log_power) + rest


def _log_gamma_rest(e: Array, c: Array) -> Array:
    """`log Gamma(c) + EULER_GAMMA e` for `c = 1 + e`; a series for small `e`."""
    near = jnp.abs(e) < 0.1
    x = select(near, e, 0)
    series = sum(zeta / k * (-x) ** k for k, zeta in enumerate(ZETA, 2))
    return select(near, series, gammaln(select(near, 2, c)) + EULER_GAMMA * e)


FORMULAS = {
    ("Cauchy", "Cauchy"): _cauchy,
    ("Exponential", "Exponential"): _exponential,
    ("HalfNormal", "HalfNormal"): _half_normal,
    ("Laplace", "Laplace"): _laplace,
    ("LogNormal", "LogNormal"): _normal,
    ("Normal", "Normal"): _normal,
    ("Uniform", "Uniform"): _uniform,
    ("Weibull", "Weibull"): _weibull,
}
