"""Divergences between gamma, beta and Dirichlet variables, precise for large concentrations.

A divergence is a sum of terms `c (t - 1 - log t)`, with `t` a ratio of parameters, and of errors of
Stirling's formula. No large terms cancel.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from distributions.common.arrays import align, promote
from distributions.numerics.gamma_functions import digamma_rest, stirling_error
from distributions.numerics.loader_kernels import relative_excess


def _rest(a: Array, b: Array) -> Array:
    """`log Gamma(b) - log Gamma(a) - (b - a) digamma(a) - b (a / b - 1 - log(a / b))`."""
    half_log = 0.5 * (jnp.log(a) - jnp.log(b))
    return stirling_error(b) - stirling_error(a) + half_log - (b - a) * digamma_rest(a)


def _gamma_divergence(a: Any, p_rate: Any, b: Any, q_rate: Any) -> Array:
    a, p_rate, b, q_rate = promote(a, p_rate, b, q_rate)
    ratio = q_rate / p_rate
    excess = (a - b) / b * ratio + (q_rate - p_rate) / p_rate
    log = (jnp.log(a) - jnp.log(b)) + (jnp.log(q_rate) - jnp.log(p_rate))
    return b * relative_excess(excess, log) + _rest(a, b)


def _gamma(p: Any, q: Any) -> Array:
    return _gamma_divergence(p.concentration, p.rate, q.concentration, q.rate)


def _inverse_gamma(p: Any, q: Any) -> Array:
    return _gamma_divergence(p.concentration, p.scale, q.concentration, q.scale)


def _dirichlet_divergence(a: Array, b: Array) -> Array:
    """The divergence of Dirichlet distributions with concentrations along the last axis."""
    a, b = jnp.broadcast_arrays(a, b)
    all_a, all_b = (jnp.sum(x, -1, keepdims=True) for x in (a, b))
    more = jnp.sum(b - a, -1, keepdims=True)
    excess = a / b * (more / all_a) - (b - a) / b
    log = (jnp.log(a) - jnp.log(b)) + (jnp.log(all_b) - jnp.log(all_a))
    parts = b * relative_excess(excess, log) + _rest(a, b)
    return jnp.sum(parts, -1) - _rest(all_a, all_b)[..., 0]


def _dirichlet(p: Any, q: Any) -> Array:
    ndim = max(len(p.batch_shape), len(q.batch_shape))
    a, b = promote(*(align(jnp.asarray(d.concentration), 1, ndim) for d in (p, q)))
    return _dirichlet_divergence(a, b)


def _beta(p: Any, q: Any) -> Array:
    given = promote(p.concentration1, p.concentration0, q.concentration1, q.concentration0)
    a, b, c, d = jnp.broadcast_arrays(*given)
    return _dirichlet_divergence(jnp.stack([a, b], -1), jnp.stack([c, d], -1))


FORMULAS = {
    ("Beta", "Beta"): _beta,
    ("Dirichlet", "Dirichlet"): _dirichlet,
    ("Gamma", "Gamma"): _gamma,
    ("InverseGamma", "InverseGamma"): _inverse_gamma,
}
