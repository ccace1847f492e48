"""More families on an interval: Kumaraswamy, LogitNormal, BetaProportion, Triangular, PERT."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.nn import log_sigmoid
from jax.scipy.special import digamma, ndtri
from jax.typing import ArrayLike

from distributions._arrays import common_dtype
from distributions._derive import reparameterised, transformed
from distributions._numerical import normal_expectation
from distributions.bounded import Beta, beta_entropy, beta_variance
from distributions.constraints import open_interval, positive, real
from distributions.family import Family, family
from distributions.gamma_functions import log_beta
from distributions.real_line import Normal
from distributions.row import parameter
from distributions.special import EULER_GAMMA, LOG_SQRT_TWO_PI, log1mexp

unit = open_interval(0.0, 1.0)


def clip_unit(draw: Array) -> Array:
    """Draws that were rounded to 0 or 1, brought back between them."""
    info = jnp.finfo(draw.dtype)
    return jnp.clip(draw, info.tiny, 1 - info.epsneg)


def _log_rest(x, a):
    """`log(1 - x^a)`."""
    return log1mexp(a * jnp.log(x))


def _kumaraswamy_moment(a, b, order):
    return b * jnp.exp(log_beta(1 + order / a, b))


def _kumaraswamy_mode(a, b):
    inner = (a > 1) & (b > 1)
    ratio = jnp.where(inner, (a - 1) / jnp.where(inner, a * b - 1, 1), 0.5)
    ends = jnp.where((a < 1) & (b >= 1), 0, jnp.where((a >= 1) & (b <= 1), 1, 0))
    return jnp.where(inner, jnp.power(ratio, 1 / a), ends)


def _kumaraswamy_quantile(q, a, b):
    return jnp.exp(log1mexp(jnp.log1p(-q) / b) / a)


@family(
    support=unit,
    log_prob=lambda x, a, b: (
        jnp.log(a) + jnp.log(b) + (a - 1) * jnp.log(x) + (b - 1) * _log_rest(x, a)
    ),
    sample=lambda key, shape, dtype, a, b: clip_unit(
        jnp.exp(log1mexp(-random.exponential(key, shape, dtype) / b) / a)
    ),
    mean=lambda a, b: _kumaraswamy_moment(a, b, 1),
    variance=lambda a, b: _kumaraswamy_moment(a, b, 2) - jnp.square(_kumaraswamy_moment(a, b, 1)),
    mode=_kumaraswamy_mode,
    entropy=lambda a, b: (
        (1 - 1 / b) + (1 - 1 / a) * (digamma(b + 1) + EULER_GAMMA) - jnp.log(a) - jnp.log(b)
    ),
    log_cdf=lambda x, a, b: log1mexp(b * _log_rest(x, a)),
    log_survival=lambda x, a, b: b * _log_rest(x, a),
    quantile=_kumaraswamy_quantile,
)
class Kumaraswamy(Family):
    r"""Kumaraswamy distribution: like a beta one, with a `cdf` in closed form.

    `p(x) = a b x^(a - 1) (1 - x^a)^(b - 1)` for `0 < x < 1`, with `a = concentration1` and
    `b = concentration0`.

    Args:
        concentration1: The power of `x`, positive.
        concentration0: The power of `1 - x^a`, positive.

    >>> import distributions as dist
    >>> round(float(dist.Kumaraswamy(2.0, 2.0).log_prob(0.5)), 4)
    0.4055

    References:
        Jones, "Kumaraswamy's distribution", Statistical Methodology 6 (2009), 70-81.
    """

    concentration1: ArrayLike = parameter(positive)
    concentration0: ArrayLike = parameter(positive)


def _logit(x):
    return jnp.log(x) - jnp.log1p(-x)


def _logit_normal_variance(loc, scale):
    mean = normal_expectation(jax.nn.sigmoid, loc, scale)
    return normal_expectation(lambda z: jnp.square(jax.nn.sigmoid(z) - mean[..., None]), loc, scale)


def _logit_normal_mode(loc, scale):
    """By Newton's method from above on `z - |loc| = scale^2 tanh(z / 2)`: convex for `z > 0`."""
    size, square = jnp.abs(loc), jnp.square(scale)

    def step(_, z):
        t = jnp.tanh(0.5 * z)
        slope = 1 - 0.5 * square * (1 - t * t)
        return jnp.maximum(z - (z - size - square * t) / jnp.where(slope > 0, slope, 1), 0)

    z = lax.fori_loop(0, 40, step, size + square)
    return jax.nn.sigmoid(jnp.where(loc < 0, -z, z))


def _logit_normal_entropy(loc, scale):
    log_slope = normal_expectation(lambda z: log_sigmoid(z) + log_sigmoid(-z), loc, scale)
    return 0.5 + LOG_SQRT_TWO_PI + jnp.log(scale) + log_slope


@family(
    support=unit,
    **transformed(
        Normal,
        forward=lambda z, loc, scale: clip_unit(jax.nn.sigmoid(z)),
        inverse=lambda x, loc, scale: _logit(x),
        log_det=lambda x, loc, scale: -jnp.log(x) - jnp.log1p(-x),
        mean=lambda loc, scale: normal_expectation(jax.nn.sigmoid, loc, scale),
        variance=_logit_normal_variance,
        mode=_logit_normal_mode,
        entropy=_logit_normal_entropy,
        quantile=lambda q, loc, scale: jax.nn.sigmoid(loc + scale * ndtri(q)),
    ),
)
class LogitNormal(Family):
    r"""Distribution of the logistic function of a normal variable.

    `p(x) = exp(-((logit(x) - loc) / scale)^2 / 2) / (x (1 - x) scale sqrt(2 pi))` for `0 < x < 1`.
    Moments and entropy are by quadrature.

    Args:
        loc: The mean of `logit(x)`.
        scale: The standard deviation of `logit(x)`, positive.

    >>> import distributions as dist
    >>> round(float(dist.LogitNormal(0.0, 1.0).log_prob(0.5)), 4)
    0.4674

    References:
        Johnson, "Systems of frequency curves generated by methods of translation", Biometrika 36
        (1949), 149-176.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


@family(
    support=unit,
    **reparameterised(
        Beta, lambda loc, concentration: (loc * concentration, (1 - loc) * concentration)
    ),
)
class BetaProportion(Family):
    r"""Beta distribution by its mean.

    `p(x) = x^(a - 1) (1 - x)^(b - 1) / B(a, b)` for `0 < x < 1`, with `a = loc concentration` and
    `b = (1 - loc) concentration`.

    Args:
        loc: The mean, between 0 and 1.
        concentration: The sum of the parameters of the beta distribution, positive.

    >>> import distributions as dist
    >>> round(float(dist.BetaProportion(0.5, 4.0).log_prob(0.5)), 4)
    0.4055

    References:
        Ferrari and Cribari-Neto, "Beta regression for modelling rates and proportions", Journal of
        Applied Statistics 31 (2004), 799-815.
    """

    loc: ArrayLike = parameter(unit)
    concentration: ArrayLike = parameter(positive)


def _sides(low, high, peak):
    """The width, and those of the two sides, or 1 where a side is missing."""
    left, right = peak - low, high - peak
    return high - low, jnp.where(left > 0, left, 1), jnp.where(right > 0, right, 1)


def _peak_inside(low, peak, high):
    low, peak, high = (np.asarray(x, common_dtype(low, peak, high)) for x in (low, peak, high))
    if np.all((low <= peak) & (peak <= high)):
        return None
    return f"peak must lie from low to high; got {peak}, with {low} and {high}"


def _triangular_log_prob(x, low, high, peak):
    width, left, right = _sides(low, high, peak)
    height = jnp.where(x < peak, (x - low) / left, jnp.where(x > peak, (high - x) / right, 1))
    return jnp.log(2 * height / width)


def _triangular_cdf(x, low, high, peak):
    width, left, right = _sides(low, high, peak)
    above = jnp.square(high - x) / (width * right)
    return jnp.where(x < peak, jnp.square(x - low) / (width * left), 1 - above)


def _triangular_quantile(q, low, high, peak):
    width, left, right = high - low, peak - low, high - peak
    is_left = q * width < left
    rise = jnp.sqrt(jnp.where(is_left, q * width * left, 1))
    fall = jnp.sqrt(jnp.where(is_left, 1, (1 - q) * width * right))
    return jnp.where(is_left, low + rise, high - fall)


@family(
    support=lambda low, high, peak: open_interval(low, high),
    requires=lambda low, high, peak: _peak_inside(low, peak, high),
    increasing=("low", "high"),
    log_prob=_triangular_log_prob,
    mean=lambda low, high, peak: (low + high + peak) / 3,
    variance=lambda low, high, peak: (jnp.square(high - low) - (peak - low) * (high - peak)) / 18,
    mode=lambda low, high, peak: peak,
    entropy=lambda low, high, peak: 0.5 + jnp.log(0.5 * (high - low)),
    cdf=_triangular_cdf,
    survival=lambda x, low, high, peak: _triangular_cdf(-x, -high, -low, -peak),
    quantile=_triangular_quantile,
)
class Triangular(Family):
    r"""Triangular distribution.

    `p(x)` rises linearly from 0 at `low` to `2 / (high - low)` at `peak`, and falls to 0 at `high`.

    Args:
        low: The lower end.
        high: The upper end, greater than `low`.
        peak: The mode, from `low` to `high`.

    >>> import distributions as dist
    >>> round(float(dist.Triangular(0.0, 1.0, 0.5).log_prob(0.5)), 4)
    0.6931

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 26,
        section 9.
    """

    low: ArrayLike = parameter(real, default=0.0)
    high: ArrayLike = parameter(real, default=1.0)
    peak: ArrayLike = parameter(real, default=0.5)


def _pert_beta(low, peak, high, temperature):
    a = 1 + temperature * (peak - low) / (high - low)
    return a, 2 + temperature - a


def _pert_variance(low, peak, high, temperature):
    return jnp.square(high - low) * beta_variance(*_pert_beta(low, peak, high, temperature))


@family(
    support=lambda low, peak, high, temperature: open_interval(low, high),
    requires=lambda low, peak, high, temperature: _peak_inside(low, peak, high),
    increasing=("low", "high"),
    **transformed(
        Beta,
        forward=lambda z, low, peak, high, temperature: low + (high - low) * z,
        inverse=lambda x, low, peak, high, temperature: clip_unit((x - low) / (high - low)),
        log_det=lambda x, low, peak, high, temperature: -jnp.log(high - low),
        to_base=_pert_beta,
        mean=lambda low, peak, high, temperature: (
            (low + temperature * peak + high) / (temperature + 2)
        ),
        variance=_pert_variance,
        mode=lambda low, peak, high, temperature: peak,
        entropy=lambda low, peak, high, temperature: (
            beta_entropy(*_pert_beta(low, peak, high, temperature)) + jnp.log(high - low)
        ),
    ),
)
class PERT(Family):
    r"""PERT distribution, of durations: a beta distribution by its ends and its mode.

    `p(x) = z^(a - 1) (1 - z)^(b - 1) / ((high - low) B(a, b))` for `low < x < high`, with
    `z = (x - low) / (high - low)`, `a = 1 + temperature (peak - low) / (high - low)` and
    `b = 2 + temperature - a`.

    Args:
        low: The lower end.
        peak: The mode.
        high: The upper end, greater than `low`.
        temperature: How concentrated it is around the mode, positive.

    >>> import distributions as dist
    >>> round(float(dist.PERT(0.0, 0.5, 1.0).log_prob(0.5)), 4)
    0.6286

    References:
        Malcolm et al., "Application of a technique for research and development program
        evaluation", Operations Research 7 (1959), 646-669.
    """

    low: ArrayLike = parameter(real)
    peak: ArrayLike = parameter(real)
    high: ArrayLike = parameter(real)
    temperature: ArrayLike = parameter(positive, default=4.0)
