"""Families on a half line: HalfNormal, HalfCauchy, Exponential, Gamma, InverseGamma, LogNormal."""

import math

import jax.numpy as jnp
from jax import lax, random
from jax.scipy.special import ndtr, ndtri
from jax.typing import ArrayLike

from distributions._gamma_draw import gamma
from distributions.constraints import at_least, nonnegative, positive, real
from distributions.family import Family, family
from distributions.gamma_functions import gamma_entropy
from distributions.incomplete import log_gammainc
from distributions.kernels import log_gamma_kernel
from distributions.normal_functions import log_ndtr
from distributions.real_line import cauchy_survival
from distributions.row import parameter
from distributions.special import (
    LOG_PI,
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    clip_positive,
    log,
    log1p_square_ratio,
    ratio,
    scaled,
)


def _erf_inv(q):
    """The inverse error function, from the tail where that is the more precise."""
    upper = -math.sqrt(0.5) * ndtri(0.5 * (1 - jnp.where(q < 0.5, 0.5, q)))
    return jnp.where(q < 0.5, lax.erf_inv(jnp.where(q < 0.5, q, 0.5)), upper)


@family(
    support=nonnegative,
    log_prob=lambda x, scale: (
        -0.5 * jnp.square(scaled(x, scale)) - (log(scale) + (LOG_SQRT_TWO_PI - LOG_TWO))
    ),
    sample=lambda key, shape, dtype, scale: scale * jnp.abs(random.normal(key, shape, dtype)),
    mean=lambda scale: scale * math.sqrt(2 / math.pi),
    variance=lambda scale: jnp.square(scale) * (1 - 2 / math.pi),
    mode=lambda scale: 0.0,
    entropy=lambda scale: 0.5 + LOG_SQRT_TWO_PI - LOG_TWO + jnp.log(scale),
    cdf=lambda x, scale: lax.erf(ratio(x, scale) * math.sqrt(0.5)),
    survival=lambda x, scale: 2 * ndtr(-ratio(x, scale)),
    log_survival=lambda x, scale: LOG_TWO + log_ndtr(-ratio(x, scale)),
    quantile=lambda q, scale: scale * math.sqrt(2) * _erf_inv(q),
)
class HalfNormal(Family):
    r"""Distribution of the absolute value of a normal variable with mean 0.

    `p(x) = 2 exp(-(x / scale)^2 / 2) / (scale sqrt(2 pi))` for `x >= 0`.

    Args:
        scale: The standard deviation of the normal variable, positive.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.HalfNormal(1.0).log_prob(jnp.array([0.0, -1.0])).round(4))
    [-0.2258    -inf]

    References:
        Gelman, "Prior distributions for variance parameters in hierarchical models", Bayesian
        Analysis 1 (2006).
    """

    scale: ArrayLike = parameter(positive)


@family(
    support=lambda loc, scale: at_least(loc),
    log_prob=lambda x, loc, scale: (
        -log1p_square_ratio(x - loc, scale, in_sum=True) - (log(scale) + (LOG_PI - LOG_TWO))
    ),
    sample=lambda key, shape, dtype, loc, scale: (
        loc + scale * jnp.abs(random.cauchy(key, shape, dtype))
    ),
    mean=lambda loc, scale: jnp.inf,
    variance=lambda loc, scale: jnp.inf,
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: LOG_PI + LOG_TWO + jnp.log(scale),
    cdf=lambda x, loc, scale: jnp.arctan(ratio(x - loc, scale)) * (2 / math.pi),
    survival=lambda x, loc, scale: 2 * cauchy_survival(ratio(x - loc, scale)),
    quantile=lambda q, loc, scale: (
        loc + scale * jnp.where(q < 1, jnp.tan(math.pi / 2 * q), jnp.inf)
    ),
)
class HalfCauchy(Family):
    r"""Upper half of a Cauchy distribution; its mean is infinite.

    `p(x) = 2 / (pi scale (1 + ((x - loc) / scale)^2))` for `x >= loc`.

    Args:
        loc: The lower end.
        scale: The distance from the lower end to the median, positive.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.HalfCauchy(0.0, 5.0).log_prob(jnp.array([5.0, -1.0])).round(4))
    [-2.7542    -inf]

    References:
        Gelman, "Prior distributions for variance parameters in hierarchical models", Bayesian
        Analysis 1 (2006).
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


@family(
    support=nonnegative,
    log_prob=lambda x, rate: log(rate) - rate * x,
    sample=lambda key, shape, dtype, rate: random.exponential(key, shape, dtype) / rate,
    mean=lambda rate: 1 / rate,
    variance=lambda rate: 1 / jnp.square(rate),
    mode=lambda rate: 0.0,
    entropy=lambda rate: 1 - jnp.log(rate),
    cdf=lambda x, rate: -jnp.expm1(-rate * x),
    log_survival=lambda x, rate: -rate * x,
    quantile=lambda q, rate: -jnp.log1p(-q) / rate,
)
class Exponential(Family):
    r"""Exponential distribution with mean `1 / rate`.

    `p(x) = rate exp(-rate x)` for `x >= 0`.

    Args:
        rate: The inverse of the mean, positive.

    >>> import distributions as dist
    >>> round(float(dist.Exponential(2.0).log_prob(1.0)), 4)
    -1.3069

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 19.
    """

    rate: ArrayLike = parameter(positive)


def _gamma_log_prob(x, a, rate):
    log_x = jnp.log(x)
    return log_gamma_kernel(a, rate * x, log(rate) + log_x) - log_x


@family(
    support=positive,
    log_prob=_gamma_log_prob,
    sample=lambda key, shape, dtype, a, rate: clip_positive(gamma(key, a, shape, dtype) / rate),
    mean=lambda a, rate: a / rate,
    variance=lambda a, rate: a / jnp.square(rate),
    mode=lambda a, rate: jnp.maximum(a - 1, 0) / rate,
    entropy=lambda a, rate: gamma_entropy(a) - jnp.log(rate),
    log_cdf=lambda x, a, rate: log_gammainc(a, rate * x)[0],
    log_survival=lambda x, a, rate: log_gammainc(a, rate * x)[1],
)
class Gamma(Family):
    r"""Gamma distribution with mean `concentration / rate`.

    `p(x) = rate^a x^(a - 1) exp(-rate x) / Gamma(a)` with `a = concentration`, for `x > 0`.

    Args:
        concentration: The shape, positive.
        rate: The inverse of the scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Gamma(2.0, 1.0).log_prob(1.0)), 4)
    -1.0

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    concentration: ArrayLike = parameter(positive)
    rate: ArrayLike = parameter(positive)


def _inverse_gamma_log_prob(x, a, scale):
    log_x = jnp.log(x)
    return log_gamma_kernel(a, ratio(scale, x), log(scale) - log_x) - log_x


@family(
    support=positive,
    log_prob=_inverse_gamma_log_prob,
    sample=lambda key, shape, dtype, a, scale: clip_positive(
        scale / clip_positive(gamma(key, a, shape, dtype))
    ),
    mean=lambda a, scale: jnp.where(a > 1, scale / jnp.abs(a - 1), jnp.inf),
    variance=lambda a, scale: jnp.where(
        a > 2, jnp.square(scale / (a - 1)) / jnp.abs(a - 2), jnp.inf
    ),
    mode=lambda a, scale: scale / (a + 1),
    entropy=lambda a, scale: gamma_entropy(a, -1.0) + jnp.log(scale),
    log_cdf=lambda x, a, scale: log_gammainc(a, scale / x)[1],
    log_survival=lambda x, a, scale: log_gammainc(a, scale / x)[0],
)
class InverseGamma(Family):
    r"""Distribution of the inverse of a gamma variable with rate `scale`.

    `p(x) = scale^a x^(-a - 1) exp(-scale / x) / Gamma(a)` with `a = concentration`, for `x > 0`.

    Args:
        concentration: The shape, positive.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.InverseGamma(2.0, 1.0).log_prob(1.0)), 4)
    -1.0

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    concentration: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)


def _log_normal_log_prob(x, loc, scale):
    log_x = jnp.log(x)
    constant = log(scale) + LOG_SQRT_TWO_PI
    return -0.5 * jnp.square(scaled(log_x - loc, scale)) - log_x - constant


@family(
    support=positive,
    log_prob=_log_normal_log_prob,
    sample=lambda key, shape, dtype, loc, scale: clip_positive(
        jnp.exp(loc + scale * random.normal(key, shape, dtype))
    ),
    mean=lambda loc, scale: jnp.exp(loc + 0.5 * jnp.square(scale)),
    variance=lambda loc, scale: jnp.expm1(jnp.square(scale)) * jnp.exp(2 * loc + jnp.square(scale)),
    mode=lambda loc, scale: jnp.exp(loc - jnp.square(scale)),
    entropy=lambda loc, scale: 0.5 + LOG_SQRT_TWO_PI + jnp.log(scale) + loc,
    cdf=lambda x, loc, scale: ndtr(ratio(jnp.log(x) - loc, scale)),
    survival=lambda x, loc, scale: ndtr(ratio(loc - jnp.log(x), scale)),
    log_cdf=lambda x, loc, scale: log_ndtr(ratio(jnp.log(x) - loc, scale)),
    log_survival=lambda x, loc, scale: log_ndtr(ratio(loc - jnp.log(x), scale)),
    quantile=lambda q, loc, scale: jnp.exp(loc + scale * ndtri(q)),
)
class LogNormal(Family):
    r"""Distribution of the exponential of a normal variable.

    `p(x) = exp(-((log x - loc) / scale)^2 / 2) / (x scale sqrt(2 pi))` for `x > 0`.

    Args:
        loc: The mean of `log x`.
        scale: The standard deviation of `log x`, positive.

    >>> import distributions as dist
    >>> round(float(dist.LogNormal(0.0, 1.0).log_prob(1.0)), 4)
    -0.9189

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 14.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
