"""Families on the whole real line: Normal, Cauchy, StudentT, Laplace, Logistic."""

import math

import jax.numpy as jnp
from jax import Array, lax, random
from jax.nn import log_sigmoid
from jax.scipy.special import ndtr, ndtri
from jax.typing import ArrayLike

from distributions._gamma_draw import student_t
from distributions.constraints import positive, real
from distributions.family import Family, family
from distributions.gamma_functions import digamma_rest, log_beta_half
from distributions.incomplete import log_betainc
from distributions.normal_functions import log_ndtr
from distributions.row import parameter
from distributions.special import (
    LOG_PI,
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    bounded_ratio,
    log,
    log1p_square_ratio,
    ratio,
    scaled,
)


@family(
    support=real,
    log_prob=lambda x, loc, scale: (
        -0.5 * jnp.square(scaled(x - loc, scale)) - (log(scale) + LOG_SQRT_TWO_PI)
    ),
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.normal(key, shape, dtype),
    mean=lambda loc, scale: loc,
    variance=lambda loc, scale: jnp.square(scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: 0.5 + LOG_SQRT_TWO_PI + jnp.log(scale),
    cdf=lambda x, loc, scale: ndtr(ratio(x - loc, scale)),
    survival=lambda x, loc, scale: ndtr(ratio(loc - x, scale)),
    log_cdf=lambda x, loc, scale: log_ndtr(ratio(x - loc, scale)),
    log_survival=lambda x, loc, scale: log_ndtr(ratio(loc - x, scale)),
    quantile=lambda q, loc, scale: loc + scale * ndtri(q),
)
class Normal(Family):
    r"""Normal distribution with mean `loc` and standard deviation `scale`.

    `p(x) = exp(-((x - loc) / scale)^2 / 2) / (scale sqrt(2 pi))` for real `x`.

    Args:
        loc: The mean.
        scale: The standard deviation, positive.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.Normal(0.0, 2.0).log_prob(jnp.array([0.0, 2.0])).round(4))
    [-1.6121 -2.1121]

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


def cauchy_survival(z: Array) -> Array:
    """The probability of a standard Cauchy variable above `z`."""
    return jnp.arctan2(jnp.ones_like(z), z) / math.pi


def _cotangent(q):
    """`1 / tan(pi q)`, infinite at both 0 and 1."""
    size = 1 / jnp.tan(math.pi * jnp.where(q < 0.5, q, 1 - q))
    return jnp.where(q < 0.5, size, -size)


@family(
    support=real,
    log_prob=lambda x, loc, scale: (
        -log1p_square_ratio(x - loc, scale, in_sum=True) - (log(scale) + LOG_PI)
    ),
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.cauchy(key, shape, dtype),
    mean=lambda loc, scale: jnp.nan,
    variance=lambda loc, scale: jnp.nan,
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: LOG_PI + 2 * LOG_TWO + jnp.log(scale),
    cdf=lambda x, loc, scale: cauchy_survival(ratio(loc - x, scale)),
    survival=lambda x, loc, scale: cauchy_survival(ratio(x - loc, scale)),
    quantile=lambda q, loc, scale: loc - scale * _cotangent(q),
)
class Cauchy(Family):
    r"""Cauchy distribution with median `loc`; it has no mean.

    `p(x) = 1 / (pi scale (1 + ((x - loc) / scale)^2))` for real `x`.

    Args:
        loc: The median.
        scale: Half the interquartile range, positive.

    >>> import distributions as dist
    >>> round(float(dist.Cauchy(0.0, 1.0).log_prob(0.0)), 4)
    -1.1447

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 16.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


def student_t_tails(z: Array, df: Array) -> tuple[Array, Array]:
    """The logarithms of the probabilities that a standard t variable is nearer to 0, or farther."""
    z, df = jnp.broadcast_arrays(z, df)
    ratio = jnp.maximum(jnp.abs(z), jnp.finfo(z.dtype).tiny) / jnp.sqrt(df)
    far = ratio > 1
    square = jnp.square(jnp.where(far, 1 / ratio, ratio))
    log_square = 2 * jnp.log(ratio)
    log_y = jnp.where(far, 0, log_square) - jnp.log1p(square)
    log_x = jnp.where(far, -log_square, 0) - jnp.log1p(square)
    outer, inner = log_betainc(0.5 * df, jnp.full_like(df, 0.5), log_x, log_y)
    return inner, outer


def student_t_log_survival(z: Array, df: Array) -> Array:
    """The logarithm of the probability of a standard t variable above `z`."""
    near = jnp.abs(z) < 1e-15
    inner, outer = student_t_tails(jnp.where(near, 1, z), df)
    tail = jnp.where(z > 0, outer, jnp.log1p(jnp.exp(inner))) - LOG_TWO
    return jnp.where(near, -LOG_TWO - 2 * z * jnp.exp(standard_t(df)), tail)


def standard_t(df: Array) -> Array:
    """The logarithm of the density of the standard t distribution at its centre."""
    return -0.5 * jnp.log(df) - log_beta_half(0.5 * df)


def student_t_entropy(df: Array) -> Array:
    """The entropy of the standard t distribution."""
    h, k = 0.5 * df, 0.5 * (df + 1)
    return k * (jnp.log1p(1 / df) + (digamma_rest(k) - digamma_rest(h))) - standard_t(df)


def student_t_variance(df: Array, scale: Array) -> Array:
    """The variance of a t distribution: infinite up to 2 degrees of freedom, and undefined to 1."""
    finite = jnp.square(scale) * (df / jnp.where(df > 2, df - 2, 1))
    return jnp.where(df > 2, finite, jnp.where(df > 1, jnp.inf, jnp.nan))


def standard_t_log_prob(distance: Array, df: Array, scale: Array) -> Array:
    """The log density of the standard t distribution at `distance / scale`."""
    width = lax.max(scale * jnp.sqrt(df), jnp.asarray(jnp.finfo(df.dtype).tiny, df.dtype))
    return standard_t(df) - 0.5 * (df + 1) * log1p_square_ratio(distance, width)


def student_t_log_prob(x: Array, df: Array, loc: Array, scale: Array) -> Array:
    """The log density of a t distribution."""
    return standard_t_log_prob(x - loc, df, scale) - log(scale)


@family(
    support=real,
    log_prob=student_t_log_prob,
    sample=lambda key, shape, dtype, df, loc, scale: loc + scale * student_t(key, df, shape, dtype),
    mean=lambda df, loc, scale: jnp.where(df > 1, loc, jnp.nan),
    variance=lambda df, loc, scale: student_t_variance(df, scale),
    mode=lambda df, loc, scale: loc,
    entropy=lambda df, loc, scale: student_t_entropy(df) + jnp.log(scale),
    log_cdf=lambda x, df, loc, scale: student_t_log_survival(ratio(loc - x, scale), df),
    log_survival=lambda x, df, loc, scale: student_t_log_survival(ratio(x - loc, scale), df),
)
class StudentT(Family):
    r"""Student's t distribution with `df` degrees of freedom, shifted and scaled.

    `p(x) = (1 + z^2 / df)^(-(df + 1) / 2) / (scale sqrt(df) B(df / 2, 1 / 2))` for real `x`, with
    `z = (x - loc) / scale`.

    Args:
        df: Degrees of freedom, positive.
        loc: The median.
        scale: The scale, positive; not the standard deviation.

    >>> import distributions as dist
    >>> round(float(dist.StudentT(3.0, 0.0, 1.0).log_prob(0.0)), 4)
    -1.0009

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    df: ArrayLike = parameter(positive)
    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


def _laplace_log_survival(z):
    lower = jnp.log1p(-0.5 * jnp.exp(jnp.minimum(z, 0)))
    return jnp.where(z > 0, -z - LOG_TWO, lower)


@family(
    support=real,
    log_prob=lambda x, loc, scale: -jnp.abs(scaled(x - loc, scale)) - jnp.log(scale) - LOG_TWO,
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.laplace(key, shape, dtype),
    mean=lambda loc, scale: loc,
    variance=lambda loc, scale: 2 * jnp.square(scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: 1 + LOG_TWO + jnp.log(scale),
    log_cdf=lambda x, loc, scale: _laplace_log_survival(ratio(loc - x, scale)),
    log_survival=lambda x, loc, scale: _laplace_log_survival(ratio(x - loc, scale)),
    quantile=lambda q, loc, scale: (
        loc + scale * jnp.where(q < 0.5, 1, -1) * jnp.log(2 * jnp.where(q < 0.5, q, 1 - q))
    ),
)
class Laplace(Family):
    r"""Laplace (double exponential) distribution with mean `loc`.

    `p(x) = exp(-|x - loc| / scale) / (2 scale)` for real `x`.

    Args:
        loc: The mean.
        scale: The mean absolute deviation, positive.

    >>> import distributions as dist
    >>> round(float(dist.Laplace(0.0, 1.0).log_prob(1.0)), 4)
    -1.6931

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 24.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


def _logistic_log_prob(x, loc, scale):
    z = bounded_ratio(jnp.where(x < loc, loc - x, x - loc), scale)
    return -z - 2 * jnp.log1p(jnp.exp(-z)) - log(scale)


@family(
    support=real,
    log_prob=_logistic_log_prob,
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.logistic(key, shape, dtype),
    mean=lambda loc, scale: loc,
    variance=lambda loc, scale: jnp.square(math.pi * scale) / 3,
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: 2 + jnp.log(scale),
    log_cdf=lambda x, loc, scale: log_sigmoid(ratio(x - loc, scale)),
    log_survival=lambda x, loc, scale: log_sigmoid(ratio(loc - x, scale)),
    quantile=lambda q, loc, scale: loc + scale * (jnp.log(q) - jnp.log1p(-q)),
)
class Logistic(Family):
    r"""Logistic distribution: its `cdf` is the logistic function.

    `p(x) = exp(-z) / (scale (1 + exp(-z))^2)` for real `x`, with `z = (x - loc) / scale`.

    Args:
        loc: The mean.
        scale: The scale, positive; the standard deviation is `scale pi / sqrt(3)`.

    >>> import distributions as dist
    >>> round(float(dist.Logistic(0.0, 1.0).log_prob(0.0)), 4)
    -1.3863

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 23.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
