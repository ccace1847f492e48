"""The beta-binomial distribution."""

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import (
    integer_interval,
    nonnegative_integer,
    positive,
)
from distributions.core.family import Family, family, parameter
from distributions.numerics.beta_mixture_entropy import (
    beta_binomial_entropy,
    beta_binomial_log_mass,
)
from distributions.numerics.binomial_functions import difference
from distributions.numerics.gamma_sampler import log_gamma
from distributions.numerics.ratio_series import log_tails


def _beta_binomial_log_prob(y, n, a, b):
    return beta_binomial_log_mass(y.astype(a.dtype), difference(n, y, a.dtype), a, b)


def _beta_binomial_sample(key, shape, dtype, n, a, b):
    key_a, key_b, key = random.split(key, 3)
    log_a, log_b = (log_gamma(k, x, shape, dtype) for k, x in ((key_a, a), (key_b, b)))
    return random.binomial(key, n.astype(dtype), lax.logistic(log_a - log_b), shape, dtype)


def _beta_binomial_variance(n, a, b):
    n = n.astype(a.dtype)
    p = a / (a + b)
    return n * p * (b / (a + b)) * ((a + b + n) / (a + b + 1))


def _beta_binomial_mode(n, a, b):
    n = n.astype(a.dtype)
    excess = a + b - 2
    inner = (n + 1) * (a - 1) / select(excess > 0, excess, 1)
    return select(excess > 0, jnp.clip(jnp.floor(inner), 0, n), select(a > b, n, 0))


def _beta_binomial_ratio(k, step, n, a, b):
    m = n - k
    up = select(m > 0, (k + a) * m / ((k + 1) * (jnp.maximum(m, 1) - 1 + b)), 0)
    down = select(k > 0, k * (m + b) / ((m + 1) * (jnp.maximum(k, 1) - 1 + a)), 0)
    return select(step > 0, up, down)


@jax.jit
def _beta_binomial_log_tails(x, n, a, b):
    def score(k):
        return _beta_binomial_log_prob(k.astype(n.dtype), n, a, b)

    size = n.astype(x.dtype)
    is_below = x < size * (a / (a + b))
    return log_tails(score, _beta_binomial_ratio, x, is_below, (size, a, b))


@family(
    support=lambda total_count, concentration1, concentration0: integer_interval(0, total_count),
    log_prob=_beta_binomial_log_prob,
    sample=_beta_binomial_sample,
    mean=lambda n, a, b: n.astype(a.dtype) * (a / (a + b)),
    variance=_beta_binomial_variance,
    mode=_beta_binomial_mode,
    entropy=lambda n, a, b: beta_binomial_entropy(n.astype(a.dtype), a, b),
    log_cdf=lambda x, *parameters: _beta_binomial_log_tails(x, *parameters)[0],
    log_survival=lambda x, *parameters: _beta_binomial_log_tails(x, *parameters)[1],
)
class BetaBinomial(Family):
    r"""Beta-binomial distribution: its probability of success has a beta distribution.

    `p(k) = C(n, k) B(a + k, b + n - k) / B(a, b)` for `k = 0, 1, ..., n`, with `n = total_count`,
    `a = concentration1` and `b = concentration0`.

    Args:
        total_count: The number of trials, a nonnegative integer.
        concentration1: The first parameter of the beta distribution, positive.
        concentration0: The second parameter of the beta distribution, positive.

    >>> import distributions as dist
    >>> d = dist.BetaBinomial(total_count=2, concentration1=1.0, concentration0=1.0)
    >>> round(float(d.log_prob(1)), 4)
    -1.0986

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    _: KW_ONLY
    total_count: ArrayLike = parameter(nonnegative_integer)
    concentration1: ArrayLike = parameter(positive)
    concentration0: ArrayLike = parameter(positive)
