"""The power law between two ends: an exponential tilt of the log-uniform distribution."""

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.constraints import interval, positive, real
from distributions.core.family import Family, family, parameter
from distributions.numerics.exponential_tilt import (
    log_place,
    log_total,
    tilted_log_cdf,
    tilted_log_prob,
    tilted_mean,
    tilted_quantile,
)
from distributions.numerics.special import log_quotient, open_uniform


def _power_slope(alpha, low, high):
    return (alpha + 1) * log_quotient(high, low)


def _power_log_prob(x, alpha, low, high):
    t, width = log_place(x, low, high)
    c = (alpha + 1) * width
    distance = jnp.where(c > 0, log_quotient(high, x), log_quotient(x, low))
    density = tilted_log_prob(t, c, jnp.abs(alpha + 1) * distance)
    return density - jnp.log(width) - jnp.log(x)


def _power_mean(alpha, low, high):
    c = _power_slope(alpha, low, high)
    width = log_quotient(high, low)
    return low * jnp.exp(log_total(c + width) - log_total(c))


def _power_variance(alpha, low, high):
    c = _power_slope(alpha, low, high)
    width = log_quotient(high, low)
    excess = log_total(c + 2 * width) + log_total(c) - 2 * log_total(c + width)
    return jnp.square(_power_mean(alpha, low, high)) * jnp.expm1(excess)


def _power_entropy(alpha, low, high):
    c = _power_slope(alpha, low, high)
    width = log_quotient(high, low)
    return log_total(c) + jnp.log(low * width) - alpha * width * tilted_mean(c)


def _power_quantile(q, alpha, low, high):
    t = tilted_quantile(q, _power_slope(alpha, low, high))
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
    log_cdf=lambda x, alpha, low, high: tilted_log_cdf(
        log_place(x, low, high)[0], _power_slope(alpha, low, high)
    ),
    log_survival=lambda x, alpha, low, high: tilted_log_cdf(
        log_quotient(high, x) / log_quotient(high, low), -_power_slope(alpha, low, high)
    ),
    quantile=_power_quantile,
)
class DoublyTruncatedPowerLaw(Family):
    r"""Doubly truncated power law: a power law between two positive ends.

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
