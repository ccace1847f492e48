"""The stopping-ratio (sequential) logistic distribution."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import (
    real,
    real_vector,
)
from distributions.core.family import Family, family, parameter
from distributions.discrete.ordinal_functions import ordinal_rows, pick_entry
from distributions.numerics.cumulative_sum import cumulative_sum
from distributions.numerics.loader_log_pmf import column


def _log_prob_of_passing(y: Array, cutpoints: Array, loc: Array) -> Array:
    """The log probability of not stopping at any level up to `y`."""
    go_on = -jax.nn.softplus(cutpoints - column(loc))
    return pick_entry(cumulative_sum(go_on), y)


def _stopping_ratio_log_prob(y, cutpoints, loc):
    index = y.astype(int)
    last = cutpoints.shape[-1]
    before = _log_prob_of_passing(jnp.maximum(index - 1, 0), cutpoints, loc)
    stop = -jax.nn.softplus(loc - pick_entry(cutpoints, jnp.minimum(index, last - 1)))
    return select(index > 0, before, 0) + select(index < last, stop, 0)


@family(
    **ordinal_rows(_stopping_ratio_log_prob),
    log_survival=lambda x, *p: _log_prob_of_passing(x.astype(int), *p),
)
class StoppingRatioLogistic(Family):
    r"""Stopping-ratio logistic distribution: levels passed in order, with a chance to stop at each.

    `P(y = k | y >= k) = 1 / (1 + exp(loc - cutpoints[k]))` for `k = 0, 1, ..., n - 1`; the level
    `n` has the rest.

    Args:
        cutpoints: `n` numbers, of shape `(..., n)`, in any order.
        loc: The location.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> levels = dist.StoppingRatioLogistic(cutpoints=jnp.zeros(2), loc=0.0)
    >>> print(levels.log_prob(jnp.arange(3)).round(4))
    [-0.6931 -1.3863 -1.3863]

    References:
        G. Tutz, *Regression for Categorical Data* (2012), section 9.2.
    """

    _: KW_ONLY
    cutpoints: ArrayLike = parameter(real_vector)
    loc: ArrayLike = parameter(real)
