"""Families of counts: Binomial, Poisson, Geometric."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax, random
from jax.typing import ArrayLike

from distributions.constraints import (
    integer_interval,
    nonnegative,
    nonnegative_integer,
    real,
    unit_interval,
)
from distributions.family import Family, family
from distributions.incomplete import log_gammainc, log_tails_of_chances
from distributions.row import parameter
from distributions.special import safe_log, safe_log1m, times_log
from distributions.special_counts import (
    column,
    entropy_of_counts,
    log_binomial,
    log_binomial_of_probs,
    log_poisson,
    log_poisson_of_log,
    poisson_draw,
)


def chances(logits: Any, probs: Any) -> tuple[Any, Any]:
    """The probabilities of success and of failure."""
    return (lax.logistic(logits), lax.logistic(-logits)) if probs is None else (probs, 1 - probs)


def log_chances(logits: Any, probs: Any) -> tuple[Array, Array]:
    """The logarithms of the probabilities of success and of failure."""
    if probs is None:
        return -jax.nn.softplus(-logits), -jax.nn.softplus(logits)
    return safe_log(probs), safe_log1m(probs)


def difference(n: Array, k: Array, dtype: Any) -> Array:
    """`n - k` in a floating dtype; exact for integers."""
    exact = all(jnp.issubdtype(x.dtype, jnp.integer) for x in (n, k))
    return (n - k.astype(n.dtype)).astype(dtype) if exact else n.astype(dtype) - k.astype(dtype)


def binomial_log_prob(y: Any, n: Any, logits: Any, probs: Any) -> Array:
    """Of `Binomial`, whose parameters these are."""
    dtype = (logits if probs is None else probs).dtype
    k, m = y.astype(dtype), difference(n, y, dtype)
    if probs is None:
        return log_binomial(k, m, logits)
    return log_binomial_of_probs(k, m, probs)


def _binomial_log_tails(x, n, logits, probs):
    log_p, log_q = log_chances(logits, probs)
    return log_tails_of_chances(jnp.maximum(n.astype(x.dtype) - x, 1), x + 1, log_q, log_p)


def _binomial_moments(n, logits, probs):
    p, q = chances(logits, probs)
    return n.astype(p.dtype) * p, n.astype(p.dtype) * p * q


def _binomial_mode(n, logits, probs):
    n = n.astype((logits if probs is None else probs).dtype)
    return jnp.minimum(jnp.floor((n + 1) * chances(logits, probs)[0]), n)


def _binomial_entropy(n, logits, probs):
    """Of the rarer outcomes."""
    p, q = chances(logits, probs)
    rare = jnp.minimum(p, q)
    mean, variance = _binomial_moments(n, None, rare)
    score = lambda k: binomial_log_prob(k, column(n), None, column(rare))  # noqa: E731
    return entropy_of_counts(score, mean, jnp.sqrt(variance), 1 - 2 * rare, high=n)


@family(
    support=lambda total_count, logits, probs: integer_interval(0, total_count),
    one_of=("logits", "probs"),
    log_prob=binomial_log_prob,
    sample=lambda key, shape, dtype, n, logits, probs: random.binomial(
        key, n.astype(dtype), chances(logits, probs)[0], shape, dtype
    ),
    mean=lambda *parameters: _binomial_moments(*parameters)[0],
    variance=lambda *parameters: _binomial_moments(*parameters)[1],
    mode=_binomial_mode,
    entropy=_binomial_entropy,
    log_cdf=lambda x, *parameters: _binomial_log_tails(x, *parameters)[0],
    log_survival=lambda x, *parameters: _binomial_log_tails(x, *parameters)[1],
)
class Binomial(Family):
    r"""Distribution of the number of successes in `total_count` independent trials.

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
    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(unit_interval, default=None)


def _poisson_log_prob(y, rate, log_rate):
    if rate is None:
        return log_poisson_of_log(y.astype(log_rate.dtype), log_rate)
    return log_poisson(y.astype(rate.dtype), rate)


def _poisson_mean(rate, log_rate):
    return jnp.exp(log_rate) if rate is None else rate


def _poisson_entropy(rate, log_rate):
    mean = jnp.asarray(_poisson_mean(rate, log_rate))
    score = lambda k: log_poisson(k, column(mean))  # noqa: E731
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
    log_cdf=lambda x, *parameters: log_gammainc(x + 1, _poisson_mean(*parameters))[1],
    log_survival=lambda x, *parameters: log_gammainc(x + 1, _poisson_mean(*parameters))[0],
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
    log_rate: ArrayLike | None = parameter(real, default=None)


def _geometric_log_prob(y, logits, probs):
    log_p, log_q = log_chances(logits, probs)
    return times_log(y.astype(log_p.dtype), log_q) + log_p


def _geometric_mean(logits, probs):
    return jnp.exp(-logits) if probs is None else (1 - probs) / probs


def _geometric_entropy(logits, probs):
    (p, q), (log_p, log_q) = chances(logits, probs), log_chances(logits, probs)
    return -times_log(q / p, log_q) - log_p


@family(
    support=nonnegative_integer,
    one_of=("logits", "probs"),
    log_prob=_geometric_log_prob,
    sample=lambda key, shape, dtype, *parameters: jnp.floor(
        -random.exponential(key, shape, dtype) / log_chances(*parameters)[1]
    ),
    mean=_geometric_mean,
    variance=lambda *parameters: _geometric_mean(*parameters) / chances(*parameters)[0],
    mode=lambda logits, probs: 0,
    entropy=_geometric_entropy,
    log_survival=lambda x, *parameters: (x + 1) * log_chances(*parameters)[1],
)
class Geometric(Family):
    r"""Distribution of the number of failures before the first success.

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

    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(unit_interval, default=None)
