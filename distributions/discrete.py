"""Families of counts and categories: Bernoulli, Binomial, Poisson, Categorical."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.typing import ArrayLike

from distributions._arrays import select
from distributions.constraints import (
    boolean,
    integer_interval,
    log_weights,
    nonnegative,
    nonnegative_integer,
    real,
    simplex,
    unit_interval,
)
from distributions.family import Family, family, parameter
from distributions.special import log_beta, safe_log, safe_log1m, times_log


def _probability(logits, probs):
    return lax.logistic(logits) if probs is None else probs


def _bernoulli_log_prob(y, logits, probs):
    if probs is None:
        return y.astype(logits.dtype) * logits - jax.nn.softplus(logits)
    return select(y == 1, safe_log(probs), safe_log1m(probs))


def _bernoulli_sample(key, shape, dtype, logits, probs):
    return random.bernoulli(key, _probability(logits, probs), shape)


@family(
    support=boolean,
    tfp="Bernoulli",
    one_of=("logits", "probs"),
    log_prob=_bernoulli_log_prob,
    sample=_bernoulli_sample,
)
class Bernoulli(Family):
    r"""Bernoulli distribution: 1 with probability `probs`, otherwise 0.

    `p(1) = probs = 1 / (1 + exp(-logits))`.

    Args:
        logits: The log odds of 1.
        probs: The probability of 1; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.Bernoulli(logits=0.0).log_prob(jnp.array([0, 1, 2])).round(4))
    [-0.6931 -0.6931    -inf]

    References:
        McCullagh and Nelder, *Generalized Linear Models*, 2nd ed. (1989), chapter 4.
    """

    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(unit_interval, default=None)


def _binomial_log_prob(y, n, logits, probs):
    k = y.astype(n.dtype)
    log_choose = -jnp.log1p(n) - log_beta(n - k + 1, k + 1)
    if probs is None:
        return log_choose + k * logits - n * jax.nn.softplus(logits)
    return log_choose + times_log(k, safe_log(probs)) + times_log(n - k, safe_log1m(probs))


def _binomial_sample(key, shape, dtype, n, logits, probs):
    return random.binomial(key, n, _probability(logits, probs), shape, dtype)


@family(
    support=lambda total_count, logits, probs: integer_interval(0, total_count),
    tfp="Binomial",
    one_of=("logits", "probs"),
    log_prob=_binomial_log_prob,
    sample=_binomial_sample,
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
    k = y.astype((log_rate if rate is None else rate).dtype)
    score = (
        k * log_rate - jnp.exp(log_rate) if rate is None else times_log(k, safe_log(rate)) - rate
    )
    return score - lax.lgamma(k + 1)


def _threefry(key: Array) -> Array:
    """`key`, or a threefry key made of it: JAX draws Poisson variables with no other kind."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    key = key if typed else random.wrap_key_data(key)
    if str(random.key_impl(key)) == "threefry2x32":
        return key
    return random.wrap_key_data(random.bits(key, (2,), jnp.uint32), impl="threefry2x32")


def _poisson_sample(key, shape, dtype, rate, log_rate):
    mean = jnp.exp(log_rate) if rate is None else rate
    return random.poisson(_threefry(key), mean, shape, jnp.result_type(int))


@family(
    support=nonnegative_integer,
    tfp="Poisson",
    one_of=("rate", "log_rate"),
    log_prob=_poisson_log_prob,
    sample=_poisson_sample,
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


def _take(table: Array, index: Array) -> Array:
    """`table[..., index]` along the last axis; one table serves all of `index`."""
    if all(n == 1 for n in table.shape[:-1]):
        return jnp.take(table.reshape(-1), index, mode="clip")
    table = table if index.ndim else table.reshape(-1, table.shape[-1])
    return jnp.take_along_axis(table, index[..., None], axis=-1, mode="clip")[..., 0]


def _categories(logits, probs):
    return integer_interval(0, np.shape(logits if probs is None else probs)[-1] - 1)


def _categorical_log_prob(y, logits, probs):
    index = y.astype(int)
    if probs is None:
        return _take(logits, index) - jax.nn.logsumexp(logits, axis=-1)
    return safe_log(_take(probs, index))


def _categorical_sample(key, shape, dtype, logits, probs):
    return random.categorical(key, safe_log(probs) if logits is None else logits, shape=shape)


@family(
    support=_categories,
    tfp="Categorical",
    one_of=("logits", "probs"),
    log_prob=_categorical_log_prob,
    sample=_categorical_sample,
)
class Categorical(Family):
    r"""Distribution over the categories `0, 1, ..., n - 1`.

    `p(k) = probs[k] = exp(logits[k]) / sum_j exp(logits[j])`.

    Args:
        logits: Log weights of shape `(..., n)`, normalised or not; `-inf` excludes a category.
        probs: Probabilities of shape `(..., n)`, summing to 1; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> categorical = dist.Categorical(probs=jnp.array([0.25, 0.75]))
    >>> print(categorical.log_prob(jnp.array([0, 1, 2])).round(4))
    [-1.3863 -0.2877    -inf]

    References:
        Murphy, *Probabilistic Machine Learning: An Introduction* (2022), section 2.5.
    """

    logits: ArrayLike | None = parameter(log_weights, default=None)
    probs: ArrayLike | None = parameter(simplex, default=None)
