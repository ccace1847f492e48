"""The geometric distribution."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import nonnegative_integer, real, unit_interval
from distributions.core.family import Family, family, parameter
from distributions.numerics.binomial_functions import (
    success_and_failure_log_probs,
    success_and_failure_probs,
)
from distributions.numerics.count_tails import geometric_tails, tail_formulas
from distributions.numerics.special import times_log


def _geometric_log_prob(y, logits, probs):
    log_p, log_q = success_and_failure_log_probs(logits, probs)
    return times_log(y.astype(log_p.dtype), log_q) + log_p


def _geometric_mean(logits, probs):
    return jnp.exp(-logits) if probs is None else (1 - probs) / probs


def _geometric_entropy(logits, probs):
    (p, q), (log_p, log_q) = (
        success_and_failure_probs(logits, probs),
        success_and_failure_log_probs(logits, probs),
    )
    return -times_log(q / p, log_q) - log_p


@family(
    support=nonnegative_integer,
    one_of=("logits", "probs"),
    log_prob=_geometric_log_prob,
    sample=lambda key, shape, dtype, *parameters: jnp.floor(
        -random.exponential(key, shape, dtype) / success_and_failure_log_probs(*parameters)[1]
    ),
    mean=_geometric_mean,
    variance=lambda *parameters: (
        _geometric_mean(*parameters) / success_and_failure_probs(*parameters)[0]
    ),
    mode=lambda logits, probs: 0,
    entropy=_geometric_entropy,
    **tail_formulas(lambda x, *parameters: geometric_tails(x + 1, *parameters)),
)
class Geometric(Family):
    r"""Geometric distribution: the number of failures before the first success.

    `p(k) = (1 - probs)^k probs` for `k = 0, 1, 2, ...`.

    Args:
        logits: The log odds of success.
        probs: The probability of success; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.Geometric(probs=0.5).log_prob(jnp.array([0, 1])).round(4))
    [-0.6931 -1.3863]

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), chapter 5.
    """

    _: KW_ONLY
    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(unit_interval, default=None)
