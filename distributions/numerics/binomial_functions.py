"""Probabilities of success and failure, and the log mass of a binomial variable."""

from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from distributions.numerics.loader_log_pmf import (
    log_binomial,
    log_binomial_of_probs,
)
from distributions.numerics.softplus import softplus
from distributions.numerics.special import safe_log, safe_log1m


def success_and_failure_probs(logits: Any, probs: Any) -> tuple[Any, Any]:
    """The probabilities of success and of failure."""
    return (lax.logistic(logits), lax.logistic(-logits)) if probs is None else (probs, 1 - probs)


def success_and_failure_log_probs(logits: Any, probs: Any) -> tuple[Array, Array]:
    """The logarithms of the probabilities of success and of failure."""
    if probs is None:
        return -softplus(-logits), -softplus(logits)
    return safe_log(probs), safe_log1m(probs)


def difference(n: Array, k: Array, dtype: Any) -> Array:
    """`n - k` in a floating dtype; exact for integers."""
    exact = all(jnp.issubdtype(x.dtype, jnp.integer) for x in (n, k))
    return (n - k.astype(n.dtype)).astype(dtype) if exact else n.astype(dtype) - k.astype(dtype)


def binomial_log_prob(y: Any, n: Any, logits: Any, probs: Any) -> Array:
    """`log(C(n, y) p^y (1 - p)^(n - y))`, from the log odds or from `p`."""
    dtype = (logits if probs is None else probs).dtype
    k = y.astype(dtype)
    m = difference(n, y, dtype)
    if probs is None:
        return log_binomial(k, m, logits)
    return log_binomial_of_probs(k, m, probs)
