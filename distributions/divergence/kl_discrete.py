"""Divergences between families of counts and of categories, for the table of `kl_divergence`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from distributions.common.arrays import promote
from distributions.numerics.loader_kernels import relative_excess
from distributions.numerics.special import safe_log, safe_log1m


def _excess(log_p: Array, log_q: Array) -> Array:
    """`q - p + p log(p / q)`, also for `p = 0`; precise where `p` and `q` are close."""
    some = log_p > -jnp.inf
    log_ratio = jnp.where(some, log_q - jnp.where(some, log_p, 0), 0)
    excess = relative_excess(jnp.expm1(log_ratio), log_ratio)
    return jnp.where(some, jnp.exp(log_p) * excess, jnp.exp(log_q))


def _log_chances(d: Any) -> tuple[Array, Array]:
    if d.logits is None:
        probs = promote(d.probs)[0]
        return safe_log(probs), safe_log1m(probs)
    logits = promote(d.logits)[0]
    return -jax.nn.softplus(-logits), -jax.nn.softplus(logits)


def _bernoulli(p: Any, q: Any) -> Array:
    p1, p0, q1, q0 = promote(*_log_chances(p), *_log_chances(q))
    return _excess(p1, q1) + _excess(p0, q0)


def _binomial(p: Any, q: Any) -> Array:
    """The divergence of binomials: NaN for fewer trials of `p` than of `q`, infinite for more."""
    one, n, m = promote(_bernoulli(p, q), p.total_count, q.total_count)
    return jnp.where(n == m, n * one, jnp.where(n > m, jnp.inf, jnp.nan))


def _geometric(p: Any, q: Any) -> Array:
    one, log_p = promote(_bernoulli(p, q), _log_chances(p)[0])
    return one * jnp.exp(-log_p)


def _poisson(p: Any, q: Any) -> Array:
    rate, other = promote(p.mean(), q.mean())
    log_rate = safe_log(rate)
    log_other = safe_log(other)
    excess = relative_excess((other - rate) / jnp.where(rate > 0, rate, 1), log_other - log_rate)
    return jnp.where(rate > 0, rate * jnp.where(rate > 0, excess, 0), other)


def _log_probs(d: Any) -> Array:
    if d.logits is None:
        return safe_log(promote(d.probs)[0])
    return jax.nn.log_softmax(promote(d.logits)[0])


def _categorical(p: Any, q: Any) -> Array:
    log_p, log_q = promote(_log_probs(p), _log_probs(q))
    return jnp.sum(_excess(log_p, log_q), axis=-1)


FORMULAS: dict[tuple[str, str], Callable[..., Array]] = {
    ("Bernoulli", "Bernoulli"): _bernoulli,
    ("Binomial", "Binomial"): _binomial,
    ("Categorical", "Categorical"): _categorical,
    ("Geometric", "Geometric"): _geometric,
    ("OneHotCategorical", "OneHotCategorical"): _categorical,
    ("Poisson", "Poisson"): _poisson,
}
