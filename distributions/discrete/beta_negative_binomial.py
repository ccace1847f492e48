"""The beta negative binomial distribution."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import nonnegative_integer, positive
from distributions.core.family import Family, family, parameter
from distributions.numerics.beta_mixture_entropy import beta_negative_binomial_entropy
from distributions.numerics.gamma_ratios import log_tails
from distributions.numerics.gamma_sampler import log_gamma
from distributions.numerics.loader_log_pmf import log_negative_binomial, poisson_draw
from distributions.numerics.special import log1p_quotient


def _beta_negative_binomial_log_prob(y, n, a, b):
    """The log mass: a product of negative binomial masses, with common odds that cancel."""
    k = y.astype(a.dtype)
    log_odds = jnp.log(n + k) - jnp.log(a + b)
    log_rest = log_negative_binomial(k, a, log_odds) + log_negative_binomial(
        jnp.asarray(n), b, log_odds
    )
    return log_rest - log_negative_binomial(n + k, a + b, log_odds) - log1p_quotient(k, n)


def _beta_negative_binomial_sample(key, shape, dtype, n, a, b):
    key, *keys = random.split(key, 4)
    log_n, log_a, log_b = (
        log_gamma(key, x, shape, dtype) for key, x in zip(keys, (n, a, b), strict=True)
    )
    return poisson_draw(key, jnp.exp(log_n + log_a - log_b), shape)


def _beta_negative_binomial_variance(n, a, b):
    is_finite = b > 2
    b = select(is_finite, b, 3)  # For finite derivatives.
    variance = n * a * (a + b - 1) * (n + b - 1) / ((b - 2) * jnp.square(b - 1))
    return select(is_finite, variance, jnp.inf)


@family(
    support=nonnegative_integer,
    has_finite_slopes=True,
    log_prob=_beta_negative_binomial_log_prob,
    sample=_beta_negative_binomial_sample,
    mean=lambda n, a, b: select(b > 1, n * a / select(b > 1, b - 1, 1), jnp.inf),
    variance=_beta_negative_binomial_variance,
    entropy=lambda n, a, b: beta_negative_binomial_entropy(
        _beta_negative_binomial_log_prob, jnp.asarray(n), jnp.asarray(a), jnp.asarray(b)
    ),
    mode=lambda n, a, b: jnp.maximum(jnp.floor((n - 1) * (a - 1) / (b + 1)), 0),
    log_cdf=lambda x, n, a, b: log_tails(a, n, b, x + 1)[0],
    log_survival=lambda x, n, a, b: log_tails(a, n, b, x + 1)[1],
)
class BetaNegativeBinomial(Family):
    r"""Beta negative binomial distribution: its probability of success has a beta distribution.

    `p(k) = Gamma(k + n) / (k! Gamma(n)) B(a + k, b + n) / B(a, b)` for `k = 0, 1, 2, ...`, with
    `n = total_count`, `a = concentration1` and `b = concentration0`. The mean is infinite for
    `b <= 1` and the variance for `b <= 2`.

    Args:
        total_count: The number of failures, positive, an integer or not.
        concentration1: The first parameter of the beta distribution, positive.
        concentration0: The second parameter of the beta distribution, positive.

    >>> import distributions as dist
    >>> d = dist.BetaNegativeBinomial(total_count=2.0, concentration1=1.0, concentration0=3.0)
    >>> round(float(d.log_prob(0)), 4)
    -0.5108

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), section 6.2.3.
    """

    _: KW_ONLY
    total_count: ArrayLike = parameter(positive)
    concentration1: ArrayLike = parameter(positive)
    concentration0: ArrayLike = parameter(positive)
