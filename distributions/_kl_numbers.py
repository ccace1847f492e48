"""Kullback-Leibler divergences of continuous families of numbers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import digamma, gammaln

from distributions._arrays import promote
from distributions.gamma_functions import log_beta
from distributions.special import EULER_GAMMA


def _normal(p: Any, q: Any) -> Array:
    p_loc, p_scale, q_loc, q_scale = promote(p.loc, p.scale, q.loc, q.scale)
    ratio, shift = p_scale / q_scale, (p_loc - q_loc) / q_scale
    return 0.5 * (jnp.square(ratio) + jnp.square(shift) - 1) - jnp.log(ratio)


def _half_normal(p: Any, q: Any) -> Array:
    p_scale, q_scale = promote(p.scale, q.scale)
    ratio = p_scale / q_scale
    return 0.5 * (jnp.square(ratio) - 1) - jnp.log(ratio)


def _cauchy(p: Any, q: Any) -> Array:
    p_loc, p_scale, q_loc, q_scale = promote(p.loc, p.scale, q.loc, q.scale)
    total = jnp.square(p_scale + q_scale) + jnp.square(p_loc - q_loc)
    return jnp.log(total / (4 * p_scale * q_scale))


def _exponential(p: Any, q: Any) -> Array:
    p_rate, q_rate = promote(p.rate, q.rate)
    ratio = q_rate / p_rate
    return ratio - 1 - jnp.log(ratio)


def _gamma_of(a: Any, p_rate: Any, b: Any, q_rate: Any) -> Array:
    a, p_rate, b, q_rate = promote(a, p_rate, b, q_rate)
    ratio = q_rate / p_rate
    return (a - b) * digamma(a) + gammaln(b) - gammaln(a) - b * jnp.log(ratio) + a * (ratio - 1)


def _gamma(p: Any, q: Any) -> Array:
    return _gamma_of(p.concentration, p.rate, q.concentration, q.rate)


def _inverse_gamma(p: Any, q: Any) -> Array:
    return _gamma_of(p.concentration, p.scale, q.concentration, q.scale)


def _beta(p: Any, q: Any) -> Array:
    a, b, c, d = promote(p.concentration1, p.concentration0, q.concentration1, q.concentration0)
    total = (c - a + d - b) * digamma(a + b)
    return log_beta(c, d) - log_beta(a, b) + (a - c) * digamma(a) + (b - d) * digamma(b) + total


def _laplace(p: Any, q: Any) -> Array:
    p_loc, p_scale, q_loc, q_scale = promote(p.loc, p.scale, q.loc, q.scale)
    distance = jnp.abs(p_loc - q_loc)
    moved = (p_scale * jnp.exp(-distance / p_scale) + distance) / q_scale
    return moved - 1 - jnp.log(p_scale / q_scale)


def _uniform(p: Any, q: Any) -> Array:
    a, b, c, d = promote(p.low, p.high, q.low, q.high)
    return jnp.where((a >= c) & (b <= d), jnp.log((d - c) / (b - a)), jnp.inf)


def _weibull(p: Any, q: Any) -> Array:
    a, scale, b, other = promote(p.concentration, p.scale, q.concentration, q.scale)
    log_ratio = jnp.log(scale / other)
    power = jnp.exp(b * log_ratio + gammaln(1 + b / a))
    return jnp.log(a / b) - b * log_ratio + EULER_GAMMA * (b / a - 1) + power - 1


FORMULAS = {
    ("Beta", "Beta"): _beta,
    ("Cauchy", "Cauchy"): _cauchy,
    ("Exponential", "Exponential"): _exponential,
    ("Gamma", "Gamma"): _gamma,
    ("HalfNormal", "HalfNormal"): _half_normal,
    ("InverseGamma", "InverseGamma"): _inverse_gamma,
    ("Laplace", "Laplace"): _laplace,
    ("LogNormal", "LogNormal"): _normal,
    ("Normal", "Normal"): _normal,
    ("Uniform", "Uniform"): _uniform,
    ("Weibull", "Weibull"): _weibull,
}
