"""Kullback-Leibler divergences of continuous families of numbers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln

from distributions._arrays import promote
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
    ("Cauchy", "Cauchy"): _cauchy,
    ("Exponential", "Exponential"): _exponential,
    ("HalfNormal", "HalfNormal"): _half_normal,
    ("Laplace", "Laplace"): _laplace,
    ("LogNormal", "LogNormal"): _normal,
    ("Normal", "Normal"): _normal,
    ("Uniform", "Uniform"): _uniform,
    ("Weibull", "Weibull"): _weibull,
}
