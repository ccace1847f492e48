"""The multinomial distribution."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import (
    log_weights,
    multinomial,
    nonnegative_integer,
    simplex,
)
from distributions.core.family import Family, family, parameter
from distributions.numerics.loader_log_pmf import (
    column,
    limit_of_spread,
    log_binomial_of_probs,
    log_poisson,
    log_poisson_of_log,
    mean_of_counts,
    multinomial_draw,
)
from distributions.numerics.special import LOG_SQRT_TWO_PI


def _multinomial_log_prob(y, n, logits, probs):
    """The log mass: Poisson masses of the counts, over the mass of their sum."""
    k = y.astype((logits if probs is None else probs).dtype)
    n = n.astype(k.dtype)
    some = jnp.maximum(n, 1)
    if probs is None:
        log_rate = column(jnp.log(some)) + jax.nn.log_softmax(logits)
        parts = log_poisson_of_log(k, log_rate)
    else:
        parts = log_poisson(k, column(some) * probs)
    return select(n > 0, jnp.sum(parts, axis=-1) - log_poisson(some, some), 0)


def _multinomial_probs(logits, probs):
    return jax.nn.softmax(logits) if probs is None else probs


def _multinomial_moments(n, logits, probs):
    p = _multinomial_probs(logits, probs)
    n = column(n.astype(p.dtype))
    return n * p, n * p * (1 - p)


def _multinomial_entropy(n, logits, probs):
    """The entropy, by mean log Poisson masses, each summed over the rarer: category or others.

    Where `1 / sd^4` is lost to rounding, the means are series.
    """
    p = _multinomial_probs(logits, probs)
    q = 1 - p
    some = jnp.maximum(n.astype(p.dtype), 1)
    size = column(some)
    rare = jnp.minimum(p, q)
    sd = jnp.sqrt(size * p * q)
    rate = size * p
    trials = column(size)

    def weight(k):
        return log_binomial_of_probs(k, trials - k, column(rare))

    def mass(k):
        return log_poisson(select(column(p) <= 0.5, k, trials - k), column(rate))

    means = -mean_of_counts(mass, weight, size * rare, sd, high=size)
    is_spread = sd > limit_of_spread(sd.dtype)
    far = select(is_spread, rate, 1)
    limit = LOG_SQRT_TWO_PI + 0.5 * (jnp.log(far) + q) + (1 - q - q * q) / (12 * far)
    total = jnp.sum(select(is_spread, limit, means), axis=-1) + log_poisson(some, some)
    return select(n > 0, total, 0)


@family(
    support=lambda total_count, logits, probs: multinomial(total_count),
    one_of=("logits", "probs"),
    log_prob=_multinomial_log_prob,
    sample=lambda key, shape, dtype, n, *p: multinomial_draw(key, n, _multinomial_probs(*p), shape),
    mean=lambda *parameters: _multinomial_moments(*parameters)[0],
    variance=lambda *parameters: _multinomial_moments(*parameters)[1],
    entropy=_multinomial_entropy,
)
class Multinomial(Family):
    r"""Multinomial distribution: the count of each category in `total_count` independent trials.

    `p(k) = n! prod_i probs[i]^k[i] / k[i]!` for counts `k` that sum to `n = total_count`.

    Args:
        total_count: The number of trials, a nonnegative integer.
        logits: Log weights of shape `(..., n)`, normalized or not; `-inf` excludes a category.
        probs: Probabilities of shape `(..., n)`, summing to 1; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> draw = dist.Multinomial(2, probs=jnp.array([0.5, 0.5]))
    >>> print(draw.log_prob(jnp.array([[1, 1], [2, 0], [2, 1]])).round(4))
    [-0.6931 -1.3863    -inf]

    References:
        Johnson, Kotz and Balakrishnan, *Discrete Multivariate Distributions* (1997), chapter 35.
    """

    total_count: ArrayLike = parameter(nonnegative_integer)
    _: KW_ONLY
    logits: ArrayLike | None = parameter(log_weights, default=None)
    probs: ArrayLike | None = parameter(simplex, default=None)
