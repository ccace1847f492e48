"""The distribution over a finite set of numbers."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, random
from jax.typing import ArrayLike

from distributions.common.arrays import align, float_dtype, select
from distributions.constraints import log_weights, ordered, simplex
from distributions.constraints.counts import FiniteSet
from distributions.core.distribution_functions import cumulative_formula
from distributions.core.family import Family, family, parameter
from distributions.numerics.categorical_functions import (
    category_entropy,
    category_log_probs,
    category_probs,
    take,
)
from distributions.numerics.cumulative_sum import cumulative_sum


def _match_outcomes(y: Array, outcomes: Array) -> Array:
    return y.astype(outcomes.dtype)[..., None] == outcomes


def _log_prob(y, outcomes, logits, probs):
    chosen = jnp.argmax(_match_outcomes(y, outcomes), axis=-1)
    return take(category_log_probs(logits, probs), chosen)


def _mean(outcomes, logits, probs):
    return jnp.sum(category_probs(logits, probs) * outcomes, axis=-1)


def _variance(outcomes, logits, probs):
    deviations = outcomes - _mean(outcomes, logits, probs)[..., None]
    return jnp.sum(category_probs(logits, probs) * jnp.square(deviations), axis=-1)


def _sample(key, shape, dtype, outcomes, logits, probs):
    return take(outcomes, random.categorical(key, category_log_probs(logits, probs), shape=shape))


def _mode(outcomes, logits, probs):
    best = jnp.argmax(category_probs(logits, probs), axis=-1)
    return take(jnp.broadcast_to(outcomes, (*best.shape, outcomes.shape[-1])), best)


def _mass(chosen, logits, probs):
    return jnp.sum(select(chosen, category_probs(logits, probs), 0), axis=-1)


def _quantile(q, outcomes, logits, probs):
    below = cumulative_sum(category_probs(logits, probs)) < q[..., None]
    index = jnp.minimum(jnp.sum(below, axis=-1), outcomes.shape[-1] - 1)
    return take(outcomes, index)


def _of_other_number(outcomes, logits, probs):
    name, weights = ("logits", logits) if probs is None else ("probs", probs)
    if weights.shape[-1:] == outcomes.shape[-1:]:
        return None
    return f"outcomes {outcomes.shape} and {name} {weights.shape} must have last axes of one size"


@family(
    support=lambda outcomes, logits, probs: FiniteSet(outcomes),
    one_of=("logits", "probs"),
    requires=_of_other_number,
    log_prob=_log_prob,
    sample=_sample,
    mean=_mean,
    variance=_variance,
    mode=_mode,
    entropy=lambda outcomes, logits, probs: category_entropy(category_log_probs(logits, probs)),
    cdf=lambda x, outcomes, *p: _mass(outcomes <= x[..., None], *p),
    survival=lambda x, outcomes, *p: _mass(outcomes > x[..., None], *p),
    quantile=_quantile,
)
class FiniteDiscrete(Family):
    r"""Finite discrete distribution: finitely many numbers, each with its probability.

    `p(outcomes[k]) = probs[k] = exp(logits[k]) / sum_j exp(logits[j])`. Draws have the floating
    dtype of the parameters.

    Args:
        outcomes: Increasing numbers of shape `(..., n)`.
        logits: Log weights of shape `(..., n)`, normalized or not; `-inf` excludes an outcome.
        probs: Probabilities of shape `(..., n)`, summing to 1; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> d = dist.FiniteDiscrete(jnp.array([0.5, 2.0]), probs=jnp.array([0.25, 0.75]))
    >>> print(d.log_prob(jnp.array([0.5, 1.0, 2.0])).round(4))
    [-1.3863    -inf -0.2877]

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), chapter 1.
    """

    outcomes: ArrayLike = parameter(ordered)
    _: KW_ONLY
    logits: ArrayLike | None = parameter(log_weights, default=None)
    probs: ArrayLike | None = parameter(simplex, default=None)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the parameters."""
        return self._float_dtype

    def _cumulative(self, name: str, value: ArrayLike) -> Array:
        """The formula `name` of the cumulative kind, at any number, in the set or not."""
        formula: Any = cumulative_formula(self._row, name)
        dtype = float_dtype(*(value for _, value in self._given()))
        batch_ndims = max(np.ndim(value), len(self.batch_shape))
        x = align(jnp.asarray(value, dtype), 0, batch_ndims)
        result = formula(x, *self._arrays(dtype, batch_ndims))
        shape = np.broadcast_shapes(np.shape(value), self.batch_shape)
        return jnp.broadcast_to(select(x == x, result, jnp.nan), shape)
