"""Probabilities, moments, entropy and draws of an index, for families of categories."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, random

from distributions.numerics.special import safe_log, times_log


def take(table: Array, index: Array) -> Array:
    """`table[..., index]` along the last axis; a single table serves all indices."""
    if all(n == 1 for n in table.shape[:-1]):
        return jnp.take(table.reshape(-1), index, mode="clip")
    if index.ndim == 0:
        return jnp.take(table, index, axis=-1, mode="clip")
    return jnp.take_along_axis(table, index[..., None], axis=-1, mode="clip")[..., 0]


def category_log_probs(logits: Any, probs: Any) -> Array:
    """`log softmax(logits)`, or `log(probs)`."""
    return jax.nn.log_softmax(logits) if probs is None else safe_log(probs)


def category_probs(logits: Any, probs: Any) -> Array:
    """`softmax(logits)`, or `probs`."""
    return jax.nn.softmax(logits) if probs is None else probs


def category_moments(probs: Array) -> tuple[Array, Array]:
    """The mean and the variance of an index with probabilities along the last axis."""
    index = np.arange(probs.shape[-1]).reshape((1,) * (probs.ndim - 1) + (-1,)).astype(probs.dtype)
    mean = jnp.sum(probs * index, axis=-1)
    return mean, jnp.sum(probs * jnp.square(index - mean[..., None]), axis=-1)


def category_entropy(log_probs: Array) -> Array:
    """`-sum_k p_k log p_k`, from log probabilities along the last axis."""
    return -jnp.sum(times_log(jnp.exp(log_probs), log_probs), axis=-1)


def categorical_sample(
    key: Array, shape: tuple[int, ...], dtype: Any, logits: Any, probs: Any
) -> Array:
    """Draws of an index `k` with probability `softmax(logits)_k`, or `probs_k`."""
    return random.categorical(key, safe_log(probs) if logits is None else logits, shape=shape)
