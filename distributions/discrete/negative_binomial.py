"""The negative binomial distribution, by count and odds or by mean and concentration."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.constraints import nonnegative_integer, positive, real, unit_interval
from distributions.core.family import Family, family, parameter
from distributions.numerics.count_tails import tail_formulas
from distributions.numerics.negative_binomial_functions import (
    negative_binomial_entropy,
    negative_binomial_log_prob,
    negative_binomial_mean,
    negative_binomial_sample,
    negative_binomial_size,
    negative_binomial_tails,
)


def _variance(*parameters):
    mean = negative_binomial_mean(*parameters)
    return mean + jnp.square(mean) / negative_binomial_size(*parameters)


def _mode(*parameters):
    r = negative_binomial_size(*parameters)
    mean = negative_binomial_mean(*parameters)
    return jnp.maximum(jnp.floor((r - 1) / r * mean), 0)


@family(
    support=nonnegative_integer,
    one_of=(("total_count", "logits"), ("total_count", "probs"), ("mean", "concentration")),
    log_prob=negative_binomial_log_prob,
    sample=negative_binomial_sample,
    mean=negative_binomial_mean,
    variance=_variance,
    mode=_mode,
    entropy=negative_binomial_entropy,
    **tail_formulas(negative_binomial_tails),
)
class NegativeBinomial(Family):
    r"""Negative binomial distribution: a Poisson distribution whose mean has a gamma distribution.

    `p(k) = Gamma(k + r) / (k! Gamma(r)) probs^k (1 - probs)^r` for `k = 0, 1, 2, ...`, with
    `r = total_count` or `concentration`. With `mean = r probs / (1 - probs)` the variance is
    `mean + mean^2 / r`. For an integer `r` it is the number of successes before the `r`-th failure;
    as `r` grows at a given mean, it tends to the Poisson distribution.

    Args:
        total_count: The number of failures, positive, an integer or not.
        logits: The log odds of success.
        probs: The probability of success; exactly one of the two is given with `total_count`.
        mean: The mean, positive, by keyword and with `concentration` only.
        concentration: The shape of the gamma distribution, positive.

    >>> import distributions as dist
    >>> round(float(dist.NegativeBinomial(total_count=2.0, probs=0.5).log_prob(1)), 4)
    -1.3863
    >>> round(float(dist.NegativeBinomial(mean=2.0, concentration=2.0).log_prob(1)), 4)
    -1.3863

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), chapter 5.
    """

    _: KW_ONLY
    total_count: ArrayLike | None = parameter(positive, default=None)
    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(unit_interval, default=None)
    mean: ArrayLike | None = parameter(positive, default=None)  # pyright: ignore
    concentration: ArrayLike | None = parameter(positive, default=None)
