"""Probabilities and entropy of a Bernoulli variable, from its log odds or its probability."""

from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from distributions.numerics.softplus import softplus
from distributions.numerics.special import safe_log, safe_log1m, times_log


def bernoulli_log_probs(logits: Any, probs: Any) -> tuple[Any, Any]:
    """The log probabilities of 0 and of 1, `log(1 - p)` and `log(p)`."""
    if probs is None:
        return -softplus(logits), -softplus(-logits)
    return safe_log1m(probs), safe_log(probs)


def bernoulli_probability(logits: Any, probs: Any) -> Any:
    """The probability of 1, `p`."""
    return lax.logistic(logits) if probs is None else probs


def bernoulli_entropy(*log_probs: ArrayLike) -> Any:
    """`-sum_i p_i log p_i`, from the log probabilities of 0 and of 1."""
    return -sum(times_log(jnp.exp(log_p), log_p) for log_p in map(jnp.asarray, log_probs))
