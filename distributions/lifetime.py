"""Lifetimes and their logarithms: InverseGaussian, Gompertz, ExpGamma, ExpInverseGamma."""

import math

import jax.numpy as jnp
from jax import random
from jax.scipy.special import digamma, polygamma
from jax.typing import ArrayLike

from distributions._derive import implicit
from distributions._gamma_draw import log_gamma
from distributions._numerical import exponential_expectation
from distributions.constraints import nonnegative, positive, real
from distributions.family import Family, family
from distributions.gamma_functions import gamma_entropy
from distributions.incomplete import log_gammainc
from distributions.kernels import log_gamma_kernel
from distributions.normal_functions import log_mills, log_ndtr
from distributions.row import parameter
from distributions.special import LOG_SQRT_TWO_PI, bounded_ratio, clip_positive, log1mexp


def _inverse_gaussian_log_prob(x, loc, c):
    square = bounded_ratio(x - loc, loc) * bounded_ratio(bounded_ratio(x - loc, x), loc)
    return 0.5 * jnp.log(c) - 1.5 * jnp.log(x) - 0.5 * c * square - LOG_SQRT_TWO_PI


def _inverse_gaussian_log_tails(x, loc, c):
    """`Phi(a) + exp(2 c / loc) Phi(-b)` and `Phi(-a) - ...`, the second term as it is at `a`."""
    root = jnp.sqrt(c / x)
    a, b = root * ((x - loc) / loc), root * ((x + loc) / loc)
    log_second = log_mills(b) - 0.5 * jnp.square(a)
    below = jnp.minimum(jnp.logaddexp(log_ndtr(a), log_second), 0)
    near = log_ndtr(-a)
    inner = log_mills(jnp.maximum(a, 0)) - 0.5 * jnp.square(a)
    first = jnp.where(a > 0, inner, near)
    return below, first + log1mexp(jnp.minimum(log_second - first, 0))


def _inverse_gaussian_sample(key, shape, dtype, loc, c):
    first, second = random.split(key)
    t = 0.5 * jnp.square(random.normal(first, shape, dtype)) * (loc / c)
    ratio = 1 + t + jnp.sqrt(t * (2 + t))
    is_low = random.uniform(second, shape, dtype) * (1 + 1 / ratio) < 1
    return clip_positive(loc * jnp.where(is_low, 1 / ratio, ratio))


inverse_gaussian_sample = implicit(
    _inverse_gaussian_sample,
    lambda x, *p: jnp.exp(_inverse_gaussian_log_tails(x, *p)[0]),
    _inverse_gaussian_log_prob,
)


def _inverse_gaussian_mode(loc, c):
    r = 1.5 * loc / c
    return loc / (jnp.sqrt(1 + r * r) + r)


def _inverse_gaussian_entropy(loc, c):
    mean_log = jnp.log(loc) - exponential_expectation(lambda e, s: 1 / (2 * s + e), c / loc)
    return 0.5 - 0.5 * jnp.log(c) + LOG_SQRT_TWO_PI + 1.5 * mean_log


@family(
    support=positive,
    has_finite_slopes=True,
    log_prob=_inverse_gaussian_log_prob,
    sample=inverse_gaussian_sample,
    mean=lambda loc, c: loc,
    variance=lambda loc, c: jnp.square(loc) * (loc / c),
    mode=_inverse_gaussian_mode,
    entropy=_inverse_gaussian_entropy,
    log_cdf=lambda x, loc, c: _inverse_gaussian_log_tails(x, loc, c)[0],
    log_survival=lambda x, loc, c: _inverse_gaussian_log_tails(x, loc, c)[1],
)
class InverseGaussian(Family):
    r"""Inverse Gaussian (Wald) distribution: of the time a Brownian motion takes to reach a level.

    `p(x) = sqrt(c / (2 pi x^3)) exp(-c (x - loc)^2 / (2 loc^2 x))` for `x > 0`, with
    `c = concentration`.

    Args:
        loc: The mean, positive.
        concentration: The shape, positive.

    >>> import distributions as dist
    >>> round(float(dist.InverseGaussian(1.0, 1.0).log_prob(1.0)), 4)
    -0.9189

    References:
        Michael, Schucany and Haas, "Generating random variates using transformations with multiple
        roots", The American Statistician 30 (1976), 88-90.
    """

    loc: ArrayLike = parameter(positive)
    concentration: ArrayLike = parameter(positive)


def _gompertz_log_prob(x, c, rate):
    t = jnp.minimum(rate * x, jnp.finfo(x.dtype).max)
    return jnp.log(c) + jnp.log(rate) + t - c * jnp.expm1(t)


def _gompertz_moments(c):
    """Of a variable with rate 1."""
    mean = exponential_expectation(lambda e, c: jnp.log1p(e / c), c)
    square = lambda e, c: jnp.square(jnp.log1p(e / c) - mean[..., None])  # noqa: E731
    return mean, exponential_expectation(square, c)


@family(
    support=nonnegative,
    has_finite_slopes=True,
    log_prob=_gompertz_log_prob,
    sample=lambda key, shape, dtype, c, rate: (
        jnp.log1p(random.exponential(key, shape, dtype) / c) / rate
    ),
    mean=lambda c, rate: _gompertz_moments(c)[0] / rate,
    variance=lambda c, rate: _gompertz_moments(c)[1] / jnp.square(rate),
    mode=lambda c, rate: jnp.maximum(-jnp.log(c), 0) / rate,
    entropy=lambda c, rate: 1 - jnp.log(c) - jnp.log(rate) - _gompertz_moments(c)[0],
    cdf=lambda x, c, rate: -jnp.expm1(-c * jnp.expm1(rate * x)),
    log_survival=lambda x, c, rate: -c * jnp.expm1(rate * x),
    quantile=lambda q, c, rate: jnp.log1p(-jnp.log1p(-q) / c) / rate,
)
class Gompertz(Family):
    r"""Gompertz distribution, of ages at death: the failure rate grows exponentially.

    `p(x) = c rate exp(rate x - c (exp(rate x) - 1))` for `x >= 0`, with `c = concentration`.
    Moments and entropy are by quadrature.

    Args:
        concentration: The failure rate at 0 over `rate`, positive.
        rate: That at which the failure rate grows, positive.

    >>> import distributions as dist
    >>> round(float(dist.Gompertz(2.0, 1.0).log_prob(0.0)), 4)
    0.6931

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 22.
    """

    concentration: ArrayLike = parameter(positive)
    rate: ArrayLike = parameter(positive, default=1.0)


def _log(value, log_value):
    return jnp.log(value) if log_value is None else jnp.asarray(log_value)


def _exp_gamma_log_prob(y, a):
    y = jnp.minimum(y, 1.1 * math.log(jnp.finfo(y.dtype).max))  # Its exponential is infinite.
    return log_gamma_kernel(a, jnp.exp(y), y)


def _exp_gamma_entropy(a):
    return gamma_entropy(a, 0.0)


@family(
    support=real,
    has_finite_slopes=True,
    one_of=("rate", "log_rate"),
    log_prob=lambda x, a, *rate: _exp_gamma_log_prob(x + _log(*rate), a),
    sample=lambda key, shape, dtype, a, *rate: log_gamma(key, a, shape, dtype) - _log(*rate),
    mean=lambda a, *rate: digamma(a) - _log(*rate),
    variance=lambda a, *rate: polygamma(1, a) + 0 * _log(*rate),
    mode=lambda a, *rate: jnp.log(a) - _log(*rate),
    entropy=lambda a, *rate: _exp_gamma_entropy(a) + 0 * _log(*rate),
    log_cdf=lambda x, a, *rate: log_gammainc(a, jnp.exp(x + _log(*rate)))[0],
    log_survival=lambda x, a, *rate: log_gammainc(a, jnp.exp(x + _log(*rate)))[1],
)
class ExpGamma(Family):
    r"""Distribution of the logarithm of a gamma variable.

    `p(x) = exp(a y - exp(y)) / Gamma(a)` for real `x`, with `y = x + log_rate` and
    `a = concentration`.

    Args:
        concentration: That of the gamma variable, positive.
        rate: That of the gamma variable, positive.
        log_rate: Its logarithm.

    >>> import distributions as dist
    >>> round(float(dist.ExpGamma(1.0, 1.0).log_prob(0.0)), 4)
    -1.0

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 22.
    """

    concentration: ArrayLike = parameter(positive)
    rate: ArrayLike | None = parameter(positive, default=None)
    log_rate: ArrayLike | None = parameter(real, default=None)


@family(
    support=real,
    has_finite_slopes=True,
    one_of=("scale", "log_scale"),
    log_prob=lambda x, a, *scale: _exp_gamma_log_prob(_log(*scale) - x, a),
    sample=lambda key, shape, dtype, a, *scale: _log(*scale) - log_gamma(key, a, shape, dtype),
    mean=lambda a, *scale: _log(*scale) - digamma(a),
    variance=lambda a, *scale: polygamma(1, a) + 0 * _log(*scale),
    mode=lambda a, *scale: _log(*scale) - jnp.log(a),
    entropy=lambda a, *scale: _exp_gamma_entropy(a) + 0 * _log(*scale),
    log_cdf=lambda x, a, *scale: log_gammainc(a, jnp.exp(_log(*scale) - x))[1],
    log_survival=lambda x, a, *scale: log_gammainc(a, jnp.exp(_log(*scale) - x))[0],
)
class ExpInverseGamma(Family):
    r"""Distribution of the logarithm of an inverse gamma variable.

    `p(x) = exp(a y - exp(y)) / Gamma(a)` for real `x`, with `y = log_scale - x` and
    `a = concentration`.

    Args:
        concentration: That of the inverse gamma variable, positive.
        scale: That of the inverse gamma variable, positive.
        log_scale: Its logarithm.

    >>> import distributions as dist
    >>> round(float(dist.ExpInverseGamma(1.0, 1.0).log_prob(0.0)), 4)
    -1.0

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 22.
    """

    concentration: ArrayLike = parameter(positive)
    scale: ArrayLike | None = parameter(positive, default=None)
    log_scale: ArrayLike | None = parameter(real, default=None)
