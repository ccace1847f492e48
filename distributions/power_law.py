"""Power laws: Pareto, Lomax, LogLogistic, Dagum, GammaGamma, Levy."""

import math

import jax.numpy as jnp
from jax import lax, random
from jax.nn import log_sigmoid, softplus
from jax.scipy.special import digamma, ndtri
from jax.typing import ArrayLike

from distributions._derive import transformed
from distributions._gamma_draw import log_gamma
from distributions.bounded import beta_entropy
from distributions.constraints import at_least, greater_than, nonnegative, positive, real
from distributions.family import Family, family
from distributions.gamma_functions import log_beta
from distributions.incomplete import log_betainc
from distributions.kernels import log_beta_kernel
from distributions.normal_functions import log_ndtr
from distributions.real_line import Logistic
from distributions.row import parameter
from distributions.special import (
    EULER_GAMMA,
    LOG_PI,
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    bounded_ratio,
    clip_positive,
    log1p_quotient,
)


def _where_finite(a, least, formula):
    """`formula(a)` where `a > least`, else infinity."""
    finite = a > least
    return jnp.where(finite, formula(jnp.where(finite, a, least + 1)), jnp.inf)


def _pareto_variance(a, scale):
    return jnp.square(scale) * _where_finite(a, 2, lambda a: a / jnp.square(a - 1) / (a - 2))


@family(
    support=lambda a, scale: at_least(scale),
    has_finite_slopes=True,
    log_prob=lambda x, a, scale: (
        jnp.log(a) - jnp.log(scale) - (a + 1) * log1p_quotient(x - scale, scale)
    ),
    sample=lambda key, shape, dtype, a, scale: clip_positive(
        scale * jnp.exp(random.exponential(key, shape, dtype) / a)
    ),
    mean=lambda a, scale: scale * _where_finite(a, 1, lambda a: a / (a - 1)),
    variance=_pareto_variance,
    mode=lambda a, scale: scale,
    entropy=lambda a, scale: jnp.log(scale) - jnp.log(a) + 1 / a + 1,
    cdf=lambda x, a, scale: -jnp.expm1(-a * log1p_quotient(x - scale, scale)),
    log_survival=lambda x, a, scale: -a * log1p_quotient(x - scale, scale),
    quantile=lambda q, a, scale: scale * jnp.exp(-jnp.log1p(-q) / a),
)
class Pareto(Family):
    r"""Pareto distribution (of the first type).

    `p(x) = a scale^a / x^(a + 1)` with `a = concentration`, for `x >= scale`.

    Args:
        concentration: The exponent of the tail, positive: moments exist below it.
        scale: The lower end, positive.

    >>> import distributions as dist
    >>> round(float(dist.Pareto(2.0, 1.0).log_prob(2.0)), 4)
    -1.3863

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 20.
    """

    concentration: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)


@family(
    support=nonnegative,
    has_finite_slopes=True,
    log_prob=lambda x, a, scale: jnp.log(a) - jnp.log(scale) - (a + 1) * log1p_quotient(x, scale),
    sample=lambda key, shape, dtype, a, scale: clip_positive(
        scale * jnp.expm1(random.exponential(key, shape, dtype) / a)
    ),
    mean=lambda a, scale: scale * _where_finite(a, 1, lambda a: 1 / (a - 1)),
    variance=_pareto_variance,
    mode=lambda a, scale: 0.0,
    entropy=lambda a, scale: jnp.log(scale) - jnp.log(a) + 1 / a + 1,
    cdf=lambda x, a, scale: -jnp.expm1(-a * log1p_quotient(x, scale)),
    log_survival=lambda x, a, scale: -a * log1p_quotient(x, scale),
    quantile=lambda q, a, scale: scale * jnp.expm1(-jnp.log1p(-q) / a),
)
class Lomax(Family):
    r"""Lomax distribution: a Pareto distribution (of the second type) that begins at 0.

    `p(x) = (a / scale) (1 + x / scale)^(-a - 1)` with `a = concentration`, for `x >= 0`.

    Args:
        concentration: The exponent of the tail, positive: moments exist below it.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Lomax(2.0, 1.0).log_prob(1.0)), 4)
    -1.3863

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 20.
    """

    concentration: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)


def _log_logistic_mean(loc, scale):
    w = math.pi * jnp.where(scale < 1, scale, 0.5)
    return jnp.where(scale < 1, jnp.exp(loc) * w / jnp.sin(w), jnp.inf)


def _log_logistic_variance(loc, scale):
    w = math.pi * jnp.where(scale < 0.5, scale, 0.25)
    finite = jnp.square(jnp.exp(loc) * w / jnp.sin(w)) * (jnp.tan(w) / w - 1)
    return jnp.where(scale < 0.5, finite, jnp.inf)


def _log_logistic_mode(loc, scale):
    s = jnp.minimum(scale, 1)
    return jnp.exp(loc) * jnp.power((1 - s) / (1 + s), s)


@family(
    support=positive,
    **transformed(
        Logistic,
        forward=lambda z, loc, scale: clip_positive(jnp.exp(z)),
        inverse=lambda x, loc, scale: jnp.log(x),
        log_det=lambda x, loc, scale: -jnp.log(x),
        mean=_log_logistic_mean,
        variance=_log_logistic_variance,
        mode=_log_logistic_mode,
        entropy=lambda loc, scale: loc + jnp.log(scale) + 2,
        quantile=lambda q, loc, scale: jnp.exp(loc + scale * (jnp.log(q) - jnp.log1p(-q))),
    ),
)
class LogLogistic(Family):
    r"""Distribution of the exponential of a logistic variable.

    `p(x) = exp(-z) / (x scale (1 + exp(-z))^2)` for `x > 0`, with `z = (log x - loc) / scale`.

    Args:
        loc: The mean of `log x`: the logarithm of the median.
        scale: The scale of `log x`, positive: the inverse of the exponent of the tail.

    >>> import distributions as dist
    >>> round(float(dist.LogLogistic(0.0, 1.0).log_prob(1.0)), 4)
    -1.3863

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 23,
        section 11.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


def _dagum_moment(p, a, order):
    return _where_finite(a, order, lambda a: p * jnp.exp(log_beta(p + order / a, 1 - order / a)))


def _dagum_entropy(p, a, scale):
    mean_logit = digamma(p) + EULER_GAMMA
    total = digamma(p + 1) + EULER_GAMMA
    return (1 / a - p) * mean_logit + (p + 1) * total - jnp.log(p * a / scale)


def _dagum_log_cdf(x, p, a, scale):
    return p * log_sigmoid(a * (jnp.log(x) - jnp.log(scale)))


def _dagum_mode(p, a, scale):
    inner = a * p > 1
    ratio = jnp.where(inner, a * p - 1, 1) / (a + 1)
    return jnp.where(inner, scale * jnp.power(ratio, 1 / a), 0)


@family(
    support=positive,
    log_prob=lambda x, p, a, scale: (
        _dagum_log_cdf(x, p, a, scale)
        - softplus(a * (jnp.log(x) - jnp.log(scale)))
        + jnp.log(p)
        + jnp.log(a)
        - jnp.log(x)
    ),
    mean=lambda p, a, scale: scale * _dagum_moment(p, a, 1),
    variance=lambda p, a, scale: (
        jnp.square(scale)
        * _where_finite(a, 2, lambda a: _dagum_moment(p, a, 2) - jnp.square(_dagum_moment(p, a, 1)))
    ),
    mode=_dagum_mode,
    entropy=_dagum_entropy,
    log_cdf=_dagum_log_cdf,
    quantile=lambda q, p, a, scale: scale * jnp.power(jnp.expm1(-jnp.log(q) / p), -1 / a),
)
class Dagum(Family):
    r"""Dagum distribution, of incomes: its `cdf` is a power of a log-logistic one.

    `p(x) = (a p / x) y^(a p) / (1 + y^a)^(p + 1)` for `x > 0`, with `y = x / scale`,
    `p = concentration` and `a = sharpness`.

    Args:
        concentration: The power, positive.
        sharpness: The exponent of the tail, positive: moments exist below it.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Dagum(1.0, 2.0, 1.0).log_prob(1.0)), 4)
    -0.6931

    References:
        Kleiber and Kotz, *Statistical Size Distributions in Economics and Actuarial Sciences*
        (2003), section 6.3.
    """

    concentration: ArrayLike = parameter(positive)
    sharpness: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)


def _odds(x, scale):
    """The logarithms of `z / (1 + z)` and `1 / (1 + z)` for `z = x / scale`."""
    log_z = jnp.log(x) - jnp.log(scale)
    return log_sigmoid(log_z), log_sigmoid(-log_z)


def _gamma_gamma_sample(key, shape, dtype, a, b, scale):
    first, second = random.split(key)
    upper, lower = log_gamma(first, a, shape, dtype), log_gamma(second, b, shape, dtype)
    return clip_positive(scale * jnp.exp(upper - lower))


def _gamma_gamma_log_prob(x, a, b, scale):
    log_y, log_rest = _odds(x, scale)
    shift = a * (scale / (x + scale)) - b * (x / (x + scale))
    return log_beta_kernel(a, b, log_y, log_rest, shift) - jnp.log(x)


def _gamma_gamma_entropy(a, b, scale):
    return jnp.log(scale) + beta_entropy(a, b, 1.0, -1.0)


@family(
    support=positive,
    log_prob=_gamma_gamma_log_prob,
    sample=_gamma_gamma_sample,
    mean=lambda a, b, scale: scale * a * _where_finite(b, 1, lambda b: 1 / (b - 1)),
    variance=lambda a, b, scale: (
        jnp.square(scale)
        * a
        * _where_finite(b, 2, lambda b: (a + b - 1) / jnp.square(b - 1) / (b - 2))
    ),
    mode=lambda a, b, scale: scale * jnp.maximum(a - 1, 0) / (b + 1),
    entropy=_gamma_gamma_entropy,
    log_cdf=lambda x, a, b, scale: log_betainc(a, b, *_odds(x, scale))[0],
    log_survival=lambda x, a, b, scale: log_betainc(a, b, *_odds(x, scale))[1],
)
class GammaGamma(Family):
    r"""Gamma distribution whose rate has a gamma distribution: a scaled beta prime distribution.

    `p(x) = z^(a - 1) (1 + z)^(-a - b) / (c B(a, b))` for `x > 0`, with `z = x / c`,
    `a = concentration`, `b = mixing_concentration` and `c = mixing_rate`.

    Args:
        concentration: That of the variable, positive.
        mixing_concentration: That of the rate, positive: moments exist below it.
        mixing_rate: The rate of the rate, positive.

    >>> import distributions as dist
    >>> round(float(dist.GammaGamma(1.0, 1.0, 1.0).log_prob(1.0)), 4)
    -1.3863

    References:
        Fader and Hardie, "The Gamma-Gamma model of monetary value" (2013).
    """

    concentration: ArrayLike = parameter(positive)
    mixing_concentration: ArrayLike = parameter(positive)
    mixing_rate: ArrayLike = parameter(positive)


def _levy_quantile(q, loc, scale):
    lower = ndtri(0.5 * jnp.where(q < 0.5, q, 0.5))
    upper = math.sqrt(2) * lax.erf_inv(1 - jnp.where(q < 0.5, 0.5, q))
    return loc + scale / jnp.square(jnp.where(q < 0.5, lower, upper))


@family(
    support=lambda loc, scale: greater_than(loc),
    has_finite_slopes=True,
    log_prob=lambda x, loc, scale: (
        0.5 * jnp.log(scale)
        - 1.5 * jnp.log(x - loc)
        - 0.5 * bounded_ratio(scale, x - loc)
        - LOG_SQRT_TWO_PI
    ),
    mean=lambda loc, scale: jnp.inf,
    variance=lambda loc, scale: jnp.inf,
    mode=lambda loc, scale: loc + scale / 3,
    entropy=lambda loc, scale: 0.5 * (1 + 3 * EULER_GAMMA + LOG_PI) + 2 * LOG_TWO + jnp.log(scale),
    survival=lambda x, loc, scale: lax.erf(jnp.sqrt(0.5 * scale / (x - loc))),
    log_cdf=lambda x, loc, scale: LOG_TWO + log_ndtr(-jnp.sqrt(scale / (x - loc))),
    quantile=_levy_quantile,
)
class Levy(Family):
    r"""Levy distribution: of `loc` plus `scale` over the square of a standard normal variable.

    `p(x) = z^(-3 / 2) exp(-1 / (2 z)) / (scale sqrt(2 pi))` for `x > loc`, with
    `z = (x - loc) / scale`.

    Args:
        loc: The lower end.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Levy(0.0, 1.0).log_prob(1.0)), 4)
    -1.4189

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 12.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
