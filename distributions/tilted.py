"""Exponential and power laws cut off on both sides: ContinuousBernoulli, LogUniform, power laws."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import interval, open_interval, positive, real, unit_interval
from distributions.family import Family, family
from distributions.row import parameter
from distributions.special import (
    expm1_ratio,
    log1p_ratio,
    log_quotient,
    open_uniform,
)

# Of the density `exp(c t) c / (exp(c) - 1)` on the unit interval.


def _even(c):
    """`log(sinh(h) / h)` with `h = c / 2`."""
    size = jnp.abs(c)
    small = size < 0.5
    y = jnp.square(0.5 * jnp.where(small, c, 0))
    terms = 1 / 6, -1 / 180, 1 / 2835, -1 / 37800, 1 / 467775, -691 / 3831077250
    series = sum(k * y ** (i + 1) for i, k in enumerate(terms))
    s = jnp.where(small, 1, size)
    return jnp.where(small, series, 0.5 * s + jnp.log1p(-jnp.exp(-s)) - jnp.log(s))


def _log_total(c):
    """`log((exp(c) - 1) / c)`."""
    return 0.5 * c + _even(c)


def _tilted_log_prob(t, c, fall):
    """By the fall from the end with the greater density, where `c` is not small."""
    small = jnp.abs(c) < 0.5
    near = c * (t - 0.5) - _even(jnp.where(small, c, 0))
    s = jnp.where(small, 1, jnp.abs(c))
    return jnp.where(small, near, jnp.log(s) - jnp.log1p(-jnp.exp(-s)) - fall)


def _tilted_mean(c):
    small = jnp.abs(c) < 0.3
    h = 0.5 * jnp.where(small, c, 0)
    y = jnp.square(h)
    series = h * (1 / 3 - y * (1 / 45 - y * (2 / 945 - y * (1 / 4725 - y * 2 / 93555))))
    g = 0.5 * jnp.where(small, 1, c)
    return 0.5 + 0.5 * jnp.where(small, series, 1 / jnp.tanh(g) - 1 / g)


def _tilted_variance(c):
    small = jnp.abs(c) < 0.3
    y = jnp.square(0.5 * jnp.where(small, c, 0))
    series = 1 / 3 - y * (1 / 15 - y * (2 / 189 - y * (1 / 675 - y * 2 / 10395)))
    g = jnp.abs(0.5 * jnp.where(small, 1, c))
    minus = 4 * jnp.exp(-2 * g) / jnp.square(jnp.expm1(-2 * g))
    return 0.25 * jnp.where(small, series, 1 / jnp.square(g) - minus)


def _tilted_log_cdf(t, c):
    return jnp.log(t) + _log_total(c * t) - _log_total(c)


def _tilted_quantile(q, c):
    """From the end where the density is the greater."""
    p, d = jnp.where(c > 0, 1 - q, q), -jnp.abs(c)
    t = (
        p
        * expm1_ratio(d)
        * log1p_ratio(jnp.maximum(p * jnp.expm1(d), -1 + jnp.finfo(p.dtype).epsneg))
    )
    return jnp.where(c > 0, 1 - t, t)


def _logits(logits, probs):
    return jnp.log(probs) - jnp.log1p(-probs) if logits is None else jnp.asarray(logits)


def _continuous_bernoulli_log_prob(x, *p):
    c = _logits(*p)
    return _tilted_log_prob(x, c, jnp.abs(c) * jnp.where(c > 0, 1 - x, x))


@family(
    support=unit_interval,
    one_of=("logits", "probs"),
    log_prob=_continuous_bernoulli_log_prob,
    sample=lambda key, shape, dtype, *p: _tilted_quantile(
        open_uniform(key, shape, dtype), _logits(*p)
    ),
    mean=lambda *p: _tilted_mean(_logits(*p)),
    variance=lambda *p: _tilted_variance(_logits(*p)),
    mode=lambda *p: jnp.where(_logits(*p) > 0, 1, 0),
    entropy=lambda *p: _log_total(_logits(*p)) - _logits(*p) * _tilted_mean(_logits(*p)),
    log_cdf=lambda x, *p: _tilted_log_cdf(x, _logits(*p)),
    log_survival=lambda x, *p: _tilted_log_cdf(1 - x, -_logits(*p)),
    quantile=lambda q, *p: _tilted_quantile(q, _logits(*p)),
)
class ContinuousBernoulli(Family):
    r"""Continuous Bernoulli distribution: a Bernoulli's mass function as a density.

    `p(x) = exp(c x) c / (exp(c) - 1)` for `0 <= x <= 1`, with `c = logits`.

    Args:
        logits: The log odds `log(probs / (1 - probs))`.
        probs: A number between 0 and 1; not the mean.

    >>> import distributions as dist
    >>> round(float(dist.ContinuousBernoulli(probs=0.25).log_prob(0.25)), 4)
    0.2249

    References:
        Loaiza-Ganem and Cunningham, "The continuous Bernoulli: fixing a pervasive error in
        variational autoencoders", NeurIPS (2019).
    """

    logits: ArrayLike | None = parameter(real, default=None)
    probs: ArrayLike | None = parameter(open_interval(0.0, 1.0), default=None)


def _log_place(x, low, high):
    """Where `log x` lies between those of the ends, and their distance."""
    width = log_quotient(high, low)
    return log_quotient(x, low) / width, width


@family(
    support=interval,
    increasing=("low", "high"),
    has_finite_slopes=True,
    log_prob=lambda x, low, high: -jnp.log(x) - jnp.log(log_quotient(high, low)),
    sample=lambda key, shape, dtype, low, high: jnp.clip(
        low * jnp.exp(log_quotient(high, low) * random.uniform(key, shape, dtype)), low, high
    ),
    mean=lambda low, high: (high - low) / log_quotient(high, low),
    variance=lambda low, high: (
        (high - low)
        * (0.5 * (high + low) - (high - low) / log_quotient(high, low))
        / log_quotient(high, low)
    ),
    mode=lambda low, high: low,
    entropy=lambda low, high: (
        jnp.log(log_quotient(high, low)) + 0.5 * (jnp.log(low) + jnp.log(high))
    ),
    cdf=lambda x, low, high: _log_place(x, low, high)[0],
    survival=lambda x, low, high: log_quotient(high, x) / log_quotient(high, low),
    quantile=lambda q, low, high: low * jnp.exp(q * log_quotient(high, low)),
)
class LogUniform(Family):
    r"""Log-uniform (reciprocal) distribution.

    `p(x) = 1 / (x log(high / low))` for `low <= x <= high`.

    Args:
        low: The lower end, positive.
        high: The upper end, greater than `low`.

    >>> import distributions as dist
    >>> round(float(dist.LogUniform(1.0, 10.0).log_prob(1.0)), 4)
    -0.834

    References:
        Hamming, "On the distribution of numbers", Bell System Technical Journal 49 (1970).
    """

    low: ArrayLike = parameter(positive)
    high: ArrayLike = parameter(positive)


def _power_slope(alpha, low, high):
    return (alpha + 1) * log_quotient(high, low)


def _power_log_prob(x, alpha, low, high):
    t, width = _log_place(x, low, high)
    c = (alpha + 1) * width
    distance = jnp.where(c > 0, log_quotient(high, x), log_quotient(x, low))
    density = _tilted_log_prob(t, c, jnp.abs(alpha + 1) * distance)
    return density - jnp.log(width) - jnp.log(x)


def _power_mean(alpha, low, high):
    c, width = _power_slope(alpha, low, high), log_quotient(high, low)
    return low * jnp.exp(_log_total(c + width) - _log_total(c))


def _power_variance(alpha, low, high):
    c, width = _power_slope(alpha, low, high), log_quotient(high, low)
    excess = _log_total(c + 2 * width) + _log_total(c) - 2 * _log_total(c + width)
    return jnp.square(_power_mean(alpha, low, high)) * jnp.expm1(excess)


def _power_entropy(alpha, low, high):
    c, width = _power_slope(alpha, low, high), log_quotient(high, low)
    return _log_total(c) + jnp.log(low * width) - alpha * width * _tilted_mean(c)


def _power_quantile(q, alpha, low, high):
    t = _tilted_quantile(q, _power_slope(alpha, low, high))
    return jnp.clip(low * jnp.exp(t * log_quotient(high, low)), low, high)


@family(
    support=lambda alpha, low, high: interval(low, high),
    increasing=("low", "high"),
    has_finite_slopes=True,
    log_prob=_power_log_prob,
    sample=lambda key, shape, dtype, *p: _power_quantile(open_uniform(key, shape, dtype), *p),
    mean=_power_mean,
    variance=_power_variance,
    mode=lambda alpha, low, high: jnp.where(alpha > 0, high, low),
    entropy=_power_entropy,
    log_cdf=lambda x, alpha, low, high: _tilted_log_cdf(
        _log_place(x, low, high)[0], _power_slope(alpha, low, high)
    ),
    log_survival=lambda x, alpha, low, high: _tilted_log_cdf(
        log_quotient(high, x) / log_quotient(high, low), -_power_slope(alpha, low, high)
    ),
    quantile=_power_quantile,
)
class DoublyTruncatedPowerLaw(Family):
    r"""Power law between two ends.

    `p(x)` is proportional to `x^alpha` for `low <= x <= high`.

    Args:
        alpha: The power, of either sign; -1 gives `LogUniform`.
        low: The lower end, positive.
        high: The upper end, greater than `low`.

    >>> import distributions as dist
    >>> round(float(dist.DoublyTruncatedPowerLaw(-2.0, 1.0, 2.0).log_prob(1.0)), 4)
    0.6931

    References:
        Clauset, Shalizi and Newman, "Power-law distributions in empirical data", SIAM Review 51
        (2009), 661-703.
    """

    alpha: ArrayLike = parameter(real)
    low: ArrayLike = parameter(positive)
    high: ArrayLike = parameter(positive)
