"""Families of categories: Bernoulli, ProbitBernoulli, Categorical, OneHotCategorical."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.scipy.special import ndtr
from jax.typing import ArrayLike

from distributions._arrays import select
from distributions.constraints import (
    boolean,
    integer_interval,
    log_weights,
    one_hot,
    real,
    simplex,
    unit_interval,
)
from distributions.family import Family, family
from distributions.normal_functions import log_ndtr
from distributions.row import parameter
from distributions.special import safe_log, safe_log1m, times_log


def bernoulli_log_probs(logits: Any, probs: Any) -> tuple[Any, Any]:
    """The log probabilities of 0 and of 1."""
    if probs is None:
        return -jax.nn.softplus(logits), -jax.nn.softplus(-logits)
    return safe_log1m(probs), safe_log(probs)


def _bernoulli_log_prob(y, logits, probs):
    if probs is None:
        return y.astype(logits.dtype) * logits - jax.nn.softplus(logits)
    return select(y == 1, safe_log(probs), safe_log1m(probs))


def bernoulli_probability(logits: Any, probs: Any) -> Any:
    """The probability of 1."""
    return lax.logistic(logits) if probs is None else probs


def _bernoulli_variance(logits, probs):
    return lax.logistic(logits) * lax.logistic(-logits) if probs is None else probs * (1 - probs)


def _entropy(*log_probs):
    return -sum(times_log(jnp.exp(log_p), log_p) for log_p in map(jnp.asarray, log_probs))


@family(
    support=boolean,
    one_of=("logits", "probs"),
    log_prob=_bernoulli_log_prob,
    sample=lambda key, shape, dtype, logits, probs: random.bernoulli(
        key, bernoulli_probability(logits, probs), shape
    ),
    mean=bernoulli_probability,
    variance=_bernoulli_variance,
    mode=lambda logits, probs: logits > 0 if probs is None else probs > 0.5,
    entropy=lambda *parameters: _entropy(*bernoulli_log_probs(*parameters)),
    cdf=lambda x, logits, probs: lax.logistic(-logits) if probs is None else 1 - probs,
    survival=lambda x, *parameters: bernoulli_probability(*parameters),
    log_cdf=lambda x, *parameters: bernoulli_log_probs(*parameters)[0],
    log_survival=lambda x, *parameters: bernoulli_log_probs(*parameters)[1],
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


def _probit_log_probs(probits, probs):
    if probs is None:
        return log_ndtr(jnp.asarray(-probits)), log_ndtr(jnp.asarray(probits))
    return safe_log1m(probs), safe_log(probs)


def _probit_probability(probits, probs):
    return ndtr(probits) if probs is None else probs


def _probit_log_prob(y, probits, probs):
    if probs is None:
        return log_ndtr(select(y == 1, probits, -probits))
    return select(y == 1, safe_log(probs), safe_log1m(probs))


@family(
    support=boolean,
    one_of=("probits", "probs"),
    log_prob=_probit_log_prob,
    sample=lambda key, shape, dtype, probits, probs: random.bernoulli(
        key, _probit_probability(probits, probs), shape
    ),
    mean=_probit_probability,
    variance=lambda probits, probs: (
        ndtr(probits) * ndtr(-probits) if probs is None else probs * (1 - probs)
    ),
    mode=lambda probits, probs: probits > 0 if probs is None else probs > 0.5,
    entropy=lambda *parameters: _entropy(*_probit_log_probs(*parameters)),
    log_cdf=lambda x, *parameters: _probit_log_probs(*parameters)[0],
    log_survival=lambda x, *parameters: _probit_log_probs(*parameters)[1],
)
class ProbitBernoulli(Family):
    r"""Bernoulli distribution by the probit of its probability.

    `p(1) = probs = Phi(probits)`, the standard normal distribution function.

    Args:
        probits: The quantile of the standard normal distribution at `probs`.
        probs: The probability of 1; exactly one of the two is given.

    >>> import distributions as dist
    >>> round(float(dist.ProbitBernoulli(1.0).log_prob(1)), 4)
    -0.1728

    References:
        McCullagh and Nelder, *Generalized Linear Models*, 2nd ed. (1989), section 4.3.
    """

    probits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(unit_interval, default=None)


def take(table: Array, index: Array) -> Array:
    """`table[..., index]` along the last axis; one table serves all of `index`."""
    if all(n == 1 for n in table.shape[:-1]):
        return jnp.take(table.reshape(-1), index, mode="clip")
    if index.ndim == 0:
        return jnp.take(table, index, axis=-1, mode="clip")
    return jnp.take_along_axis(table, index[..., None], axis=-1, mode="clip")[..., 0]


def _categories(logits, probs):
    return integer_interval(0, np.shape(logits if probs is None else probs)[-1] - 1)


def _categorical_log_prob(y, logits, probs):
    index = y.astype(int)
    if probs is None:
        return take(logits, index) - jax.nn.logsumexp(logits, axis=-1)
    return safe_log(take(probs, index))


def _log_probs(logits, probs):
    return jax.nn.log_softmax(logits) if probs is None else safe_log(probs)


def _probs(logits, probs):
    return jax.nn.softmax(logits) if probs is None else probs


def category_moments(probs: Array) -> tuple[Array, Array]:
    """The mean and the variance of an index with probabilities along the last axis."""
    index = np.arange(probs.shape[-1]).reshape((1,) * (probs.ndim - 1) + (-1,)).astype(probs.dtype)
    mean = jnp.sum(probs * index, axis=-1)
    return mean, jnp.sum(probs * jnp.square(index - mean[..., None]), axis=-1)


def category_entropy(log_probs: Array) -> Array:
    """Of log probabilities along the last axis."""
    return -jnp.sum(times_log(jnp.exp(log_probs), log_probs), axis=-1)


def _categorical_sample(key, shape, dtype, logits, probs):
    return random.categorical(key, safe_log(probs) if logits is None else logits, shape=shape)


def _categorical_cdf(x, logits, probs):
    return take(jnp.cumsum(_probs(logits, probs), axis=-1), x.astype(int))


def _categorical_survival(x, logits, probs):
    above = lax.cumsum(_probs(logits, probs), max(np.ndim(logits), np.ndim(probs)) - 1, True)
    return take(above, x.astype(int) + 1)


@family(
    support=_categories,
    one_of=("logits", "probs"),
    log_prob=_categorical_log_prob,
    sample=_categorical_sample,
    mean=lambda logits, probs: category_moments(_probs(logits, probs))[0],
    variance=lambda logits, probs: category_moments(_probs(logits, probs))[1],
    mode=lambda logits, probs: jnp.argmax(logits if probs is None else probs, axis=-1),
    entropy=lambda logits, probs: category_entropy(_log_probs(logits, probs)),
    cdf=_categorical_cdf,
    survival=_categorical_survival,
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


def _one_hot_log_prob(y, logits, probs):
    log_prob = _log_probs(logits, probs)
    return jnp.sum(select(y == 1, log_prob, 0), axis=-1)


def _one_hot_sample(key, shape, dtype, logits, probs):
    index = _categorical_sample(key, shape[:-1], dtype, logits, probs)
    return jax.nn.one_hot(index, shape[-1], dtype=int)


def _one_hot_mode(logits, probs):
    weights = logits if probs is None else probs
    return jax.nn.one_hot(jnp.argmax(weights, axis=-1), weights.shape[-1], dtype=int)


@family(
    support=one_hot,
    one_of=("logits", "probs"),
    log_prob=_one_hot_log_prob,
    sample=_one_hot_sample,
    mean=_probs,
    variance=lambda logits, probs: _probs(logits, probs) * (1 - _probs(logits, probs)),
    mode=_one_hot_mode,
    entropy=lambda logits, probs: category_entropy(_log_probs(logits, probs)),
)
class OneHotCategorical(Family):
    r"""Distribution over the `n` vectors that have one entry 1 and all others 0.

    `p(x) = probs[k]` for the `k` with `x[k] = 1`; `probs = exp(logits) / sum_j exp(logits[j])`.

    Args:
        logits: Log weights of shape `(..., n)`, normalised or not; `-inf` excludes a category.
        probs: Probabilities of shape `(..., n)`, summing to 1; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> draw = dist.OneHotCategorical(probs=jnp.array([0.25, 0.75]))
    >>> print(draw.log_prob(jnp.array([[1, 0], [0, 1], [1, 1]])).round(4))
    [-1.3863 -0.2877    -inf]

    References:
        Murphy, *Probabilistic Machine Learning: An Introduction* (2022), section 2.5.
    """

    logits: ArrayLike | None = parameter(log_weights, default=None)
    probs: ArrayLike | None = parameter(simplex, default=None)
