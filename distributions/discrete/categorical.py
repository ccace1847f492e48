"""The categorical distribution."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from distributions.constraints import (
    integer_interval,
    log_weights,
    simplex,
)
from distributions.core.family import Family, family, parameter
from distributions.numerics.categorical_functions import (
    categorical_sample,
    category_entropy,
    category_log_probs,
    category_moments,
    category_probs,
    take,
)
from distributions.numerics.cumulative_sum import cumulative_sum
from distributions.numerics.special import safe_log


def _categories(logits, probs):
    return integer_interval(0, np.shape(logits if probs is None else probs)[-1] - 1)


def _categorical_log_prob(y, logits, probs):
    index = y.astype(int)
    if probs is None:
        return take(logits, index) - jax.nn.logsumexp(logits, axis=-1)
    return safe_log(take(probs, index))


def _categorical_cdf(x, logits, probs):
    return take(cumulative_sum(category_probs(logits, probs)), x.astype(int))


def _categorical_survival(x, logits, probs):
    above = cumulative_sum(category_probs(logits, probs), reverse=True)
    return take(above, x.astype(int) + 1)


@family(
    support=_categories,
    one_of=("logits", "probs"),
    log_prob=_categorical_log_prob,
    sample=categorical_sample,
    mean=lambda logits, probs: category_moments(category_probs(logits, probs))[0],
    variance=lambda logits, probs: category_moments(category_probs(logits, probs))[1],
    mode=lambda logits, probs: jnp.argmax(logits if probs is None else probs, axis=-1),
    entropy=lambda logits, probs: category_entropy(category_log_probs(logits, probs)),
    cdf=_categorical_cdf,
    survival=_categorical_survival,
)
class Categorical(Family):
    r"""Categorical distribution over `0, 1, ..., n - 1`.

    `p(k) = probs[k] = exp(logits[k]) / sum_j exp(logits[j])`.

    Args:
        logits: Log weights of shape `(..., n)`, normalized or not; `-inf` excludes a category.
        probs: Probabilities of shape `(..., n)`, summing to 1; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> categorical = dist.Categorical(probs=jnp.array([0.25, 0.75]))
    >>> print(categorical.log_prob(jnp.array([0, 1, 2])).round(4))
    [-1.3863 -0.2877    -inf]

    References:
        Murphy, *Probabilistic Machine Learning: An Introduction* (2022), section 2.5.
    """

    _: KW_ONLY
    logits: ArrayLike | None = parameter(log_weights, default=None)
    probs: ArrayLike | None = parameter(simplex, default=None)
