"""The binomial distribution."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import integer_interval, nonnegative_integer, real, unit_interval
from distributions.core.family import Family, family, parameter
from distributions.numerics.binomial_functions import (
    binomial_log_prob,
    success_and_failure_probs,
)
from distributions.numerics.count_tails import binomial_tails, tail_formulas
from distributions.numerics.loader_log_pmf import column, entropy_of_counts


def _binomial_tails(x, n, logits, probs):
    return binomial_tails(jnp.maximum(n.astype(x.dtype) - x, 1), x + 1, logits, probs)


def _binomial_moments(n, logits, probs):
    p, q = success_and_failure_probs(logits, probs)
    return n.astype(p.dtype) * p, n.astype(p.dtype) * p * q


def _binomial_mode(n, logits, probs):
    n = n.astype((logits if probs is None else probs).dtype)
    return jnp.minimum(jnp.floor((n + 1) * success_and_failure_probs(logits, probs)[0]), n)


def _binomial_entropy(n, logits, probs):
    """The entropy, by a sum over counts of the rarer outcome."""
    p, q = success_and_failure_probs(logits, probs)
    rare = jnp.minimum(p, q)
    mean, variance = _binomial_moments(n, None, rare)

    def score(k):
        return binomial_log_prob(k, column(n), None, column(rare))

    return entropy_of_counts(score, mean, jnp.sqrt(variance), 1 - 2 * rare, high=n)


@family(
    support=lambda total_count, logits, probs: integer_interval(0, total_count),
    one_of=("logits", "probs"),
    log_prob=binomial_log_prob,
    sample=lambda key, shape, dtype, n, logits, probs: random.binomial(
        key, n.astype(dtype), success_and_failure_probs(logits, probs)[0], shape, dtype
    ),
    mean=lambda *parameters: _binomial_moments(*parameters)[0],
    variance=lambda *parameters: _binomial_moments(*parameters)[1],
    mode=_binomial_mode,
    entropy=_binomial_entropy,
    **tail_formulas(_binomial_tails),
)
class Binomial(Family):
    r"""Binomial distribution: the number of successes in `total_count` independent trials.

    `p(k) = C(n, k) probs^k (1 - probs)^(n - k)` with `n = total_count`, for `k = 0, 1, ..., n`.

    Args:
        total_count: The number of trials, a nonnegative integer.
        logits: The log odds of success.
        probs: The probability of success; exactly one of the two is given.

    >>> import distributions as dist
    >>> round(float(dist.Binomial(2, probs=0.5).log_prob(1)), 4)
    -0.6931

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), chapter 3.
    """

    total_count: ArrayLike = parameter(nonnegative_integer)
    _: KW_ONLY
    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(unit_interval, default=None)
