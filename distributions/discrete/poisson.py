"""The Poisson distribution."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.constraints import nonnegative, nonnegative_integer, real
from distributions.core.family import Family, family, parameter
from distributions.numerics.count_tails import poisson_tails, tail_formulas
from distributions.numerics.loader_log_pmf import (
    column,
    entropy_of_counts,
    log_poisson,
    log_poisson_of_log,
    poisson_draw,
)


def _poisson_log_prob(y, rate, log_rate):
    if rate is None:
        return log_poisson_of_log(y.astype(log_rate.dtype), log_rate)
    return log_poisson(y.astype(rate.dtype), rate)


def _poisson_mean(rate, log_rate):
    return jnp.exp(log_rate) if rate is None else rate


def _poisson_entropy(rate, log_rate):
    mean = jnp.asarray(_poisson_mean(rate, log_rate))

    def score(k):
        return log_poisson(k, column(mean))

    return entropy_of_counts(score, mean, jnp.sqrt(mean), 1.0)


@family(
    support=nonnegative_integer,
    one_of=("rate", "log_rate"),
    log_prob=_poisson_log_prob,
    sample=lambda key, shape, dtype, *parameters: poisson_draw(
        key, _poisson_mean(*parameters), shape
    ),
    mean=_poisson_mean,
    variance=_poisson_mean,
    mode=lambda *parameters: jnp.floor(_poisson_mean(*parameters)),
    entropy=_poisson_entropy,
    **tail_formulas(lambda x, *parameters: poisson_tails(x + 1, _poisson_mean(*parameters))),
)
class Poisson(Family):
    r"""Poisson distribution with mean `rate`.

    `p(k) = rate^k exp(-rate) / k!` for `k = 0, 1, 2, ...`.

    Args:
        rate: The mean, nonnegative.
        log_rate: The logarithm of the mean; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.Poisson(rate=1.0).log_prob(jnp.array([0, 2, -1])).round(4))
    [-1.     -1.6931    -inf]

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), chapter 4.
    """

    rate: ArrayLike | None = parameter(nonnegative, default=None)
    _: KW_ONLY
    log_rate: ArrayLike | None = parameter(real, default=None)
