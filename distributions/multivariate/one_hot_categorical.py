"""The categorical distribution over one-hot vectors."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import log_weights, one_hot, simplex
from distributions.core.family import Family, family, parameter
from distributions.numerics.categorical_functions import (
    categorical_sample,
    category_entropy,
    category_log_probs,
    category_probs,
)


def _one_hot_log_prob(y, logits, probs):
    log_prob = category_log_probs(logits, probs)
    return jnp.sum(select(y == 1, log_prob, 0), axis=-1)


def _one_hot_sample(key, shape, dtype, logits, probs):
    index = categorical_sample(key, shape[:-1], dtype, logits, probs)
    return jax.nn.one_hot(index, shape[-1], dtype=int)


def _one_hot_mode(logits, probs):
    weights = logits if probs is None else probs
    return jax.nn.one_hot(jnp.argmax(weights, axis=-1), weights.shape[-1], dtype=int)


@family(
    support=one_hot,
    one_of=("logits", "probs"),
    log_prob=_one_hot_log_prob,
    sample=_one_hot_sample,
    mean=category_probs,
    variance=lambda logits, probs: (
        category_probs(logits, probs) * (1 - category_probs(logits, probs))
    ),
    mode=_one_hot_mode,
    entropy=lambda logits, probs: category_entropy(category_log_probs(logits, probs)),
)
class OneHotCategorical(Family):
    r"""One-hot categorical distribution over the `n` vectors with one entry 1 and all others 0.

    `p(x) = probs[k]` for the `k` with `x[k] = 1`; `probs = exp(logits) / sum_j exp(logits[j])`.

    Args:
        logits: Log weights of shape `(..., n)`, normalized or not; `-inf` excludes a category.
        probs: Probabilities of shape `(..., n)`, summing to 1; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> draw = dist.OneHotCategorical(probs=jnp.array([0.25, 0.75]))
    >>> print(draw.log_prob(jnp.array([[1, 0], [0, 1], [1, 1]])).round(4))
    [-1.3863 -0.2877    -inf]

    References:
        Murphy, *Probabilistic Machine Learning: An Introduction* (2022), section 2.5.
    """

    _: KW_ONLY
    logits: ArrayLike | None = parameter(log_weights, default=None)
    probs: ArrayLike | None = parameter(simplex, default=None)
