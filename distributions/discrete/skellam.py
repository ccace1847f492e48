"""The Skellam distribution: the difference of two Poisson counts.

The mass and the tails are integrals of the characteristic function along a line through its saddle
point. There the function is real and positive at first. It is analytic, and periodic or decayed at
the ends, so the trapezoidal rule with few points is precise to rounding, also far out in the tails.

References:
    R. Lugannani and S. Rice, "Saddle point approximation for the distribution of the sum of
    independent random variables", Advances in Applied Probability 12 (1980), 475-490.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import integer, positive
from distributions.core.family import Family, family, parameter
from distributions.numerics.loader_log_pmf import column, entropy_of_counts, poisson_draw
from distributions.numerics.special import hypot, log1mexp

_INTERVALS = 96  # of the trapezoidal rule
_MAX_TILT = 80  # exp(80) is finite in single precision


def _series(x, ratios):
    """`1 + r1 x (1 + r2 x (1 + ...))`."""
    total = 1.0
    for r in reversed(ratios):
        total = 1 + r * x * total
    return total


def _excess(x):
    """`exp(x) - 1 - x`."""
    near = jnp.abs(x) < 0.25
    v = select(near, x, 0)
    series = 0.5 * v * v * _series(v, [1 / n for n in range(3, 13)])
    return select(near, series, jnp.expm1(x) - x)


def _tilted_excess(x, tilt, tilted):
    """`x (exp(tilt) - 1 - tilt)`, given `tilted = x exp(tilt)`: `exp(tilt)` may overflow."""
    large = tilt > 2
    return select(large, tilted - x - x * tilt, x * _excess(select(large, 0, tilt)))


def _sine_excess(t):
    """`sin(t) - t`."""
    near = jnp.abs(t) < 1
    v = select(near, t, 0)
    series = -v * v * v / 6 * _series(v * v, [-1 / (n * (n + 1)) for n in range(4, 19, 2)])
    return select(near, series, jnp.sin(t) - t)


def _saddle(k, rate1, rate2):
    """The saddle point `s`, where `rate1 exp(s) - rate2 exp(-s) = k`, both terms, and their sum."""
    root = jnp.sqrt(rate1) * jnp.sqrt(rate2)
    spread = hypot(2 * root, k)
    large = 0.5 * (spread + jnp.abs(k))
    small = root * (root / large)
    up = k >= 0
    log_large = jnp.log(large)
    tilt = select(up, log_large - jnp.log(rate1), jnp.log(rate2) - log_large)
    return tilt, select(up, large, small), select(up, small, large), spread


def _mean_over_line(end, integrand):
    """The mean of a function from 0 to `end`, along a new last axis, by the trapezoidal rule."""
    nodes = np.linspace(0, 1, _INTERVALS + 1).reshape((1,) * end.ndim + (-1,)).astype(end.dtype)
    values = integrand(end[..., None] * nodes)
    return jnp.mean(0.5 * (values[..., 1:] + values[..., :-1]), axis=-1)


def _log_prob(y, rate1, rate2):
    k, rate1, rate2 = jnp.broadcast_arrays(y.astype(rate1.dtype), rate1, rate2)
    tilt, first, second, spread = _saddle(k, rate1, rate2)
    exponent = _tilted_excess(first, -tilt, rate1) + _tilted_excess(second, tilt, rate2)
    end = jnp.minimum(np.pi, 14 / jnp.sqrt(spread))

    def wave(t):
        decay = jnp.exp(-2 * spread[..., None] * jnp.square(jnp.sin(0.5 * t)))
        return decay * jnp.cos(k[..., None] * _sine_excess(t))

    return jnp.log(end / np.pi * _mean_over_line(end, wave)) - exponent


def _log_tail(x, rate1, rate2):
    """The side of the mean on which `x` lies, true above, and the log probability beyond `x`.

    The line stays away from 0, the pole of the integrand: on one side of the pole the integral is
    the probability above `x`, on the other side the probability below.
    """
    k = x + 0.5
    distance = (x - (rate1 - rate2)) + 0.5
    tilt, _, _, spread = map(lax.stop_gradient, _saddle(k, rate1, rate2))
    above = distance >= 0
    size = jnp.clip(jnp.abs(tilt), 0.6 / jnp.sqrt(spread), _MAX_TILT)
    c = select(above, size, -size)
    first = rate1 * jnp.exp(c)
    second = rate2 * jnp.exp(-c)
    exponent = rate1 * _excess(c) + rate2 * _excess(-c) - c * distance
    rest = rate1 * jnp.expm1(c) - rate2 * jnp.expm1(-c) - distance
    end = lax.stop_gradient(jnp.minimum(np.pi, 10 / jnp.sqrt(first + second)))
    sinh = jnp.sinh(0.5 * size)[..., None]
    cosh = jnp.cosh(0.5 * size)[..., None]

    def wave(t):
        sine = jnp.sin(0.5 * t)
        decay = jnp.exp(-2 * (first + second)[..., None] * jnp.square(sine))
        phase = (first - second)[..., None] * _sine_excess(t) + rest[..., None] * t
        phase = select(above[..., None], phase, -phase)
        real = sinh * jnp.cos(0.5 * t) * jnp.cos(phase) + cosh * sine * jnp.sin(phase)
        return decay * real / (2 * (sinh * sinh + sine * sine))

    total = end / np.pi * _mean_over_line(end, wave)
    total = jnp.maximum(total, jnp.finfo(total.dtype).tiny)
    return above, jnp.minimum(jnp.log(total) + exponent, 0)


@jax.jit
def _log_tails(x, rate1, rate2):
    x, rate1, rate2 = jnp.broadcast_arrays(x, rate1, rate2)
    is_end = jnp.isinf(x)
    above, tail = _log_tail(select(is_end, 0, x), rate1, rate2)
    above = select(is_end, x > 0, above)
    tail = select(is_end, -jnp.inf, tail)
    rest = log1mexp(tail)
    return select(above, rest, tail), select(above, tail, rest)


def _sample(key, shape, dtype, rate1, rate2):
    """The difference of two Poisson draws; its normal limit where these have no integer dtype."""
    key1, key2, key3 = random.split(key, 3)
    limit = float(jnp.iinfo(jnp.result_type(int)).max) / 2
    is_large = jnp.maximum(rate1, rate2) > limit
    small = (select(is_large, 1, rate) for rate in (rate1, rate2))
    first, second = (
        poisson_draw(k, rate, shape) for k, rate in zip((key1, key2), small, strict=True)
    )
    noise = jnp.sqrt(rate1 + rate2) * random.normal(key3, shape, dtype)
    difference = jnp.round(rate1 - rate2 + noise)
    return jnp.where(is_large, difference.astype(first.dtype), first - second)


def _entropy(rate1, rate2):
    both = rate1 + rate2
    difference = rate1 - rate2

    def score(k):
        return _log_prob(k, column(rate1), column(rate2))

    return entropy_of_counts(score, difference, jnp.sqrt(both), difference / both, low=-np.inf)


@family(
    support=integer,
    log_prob=_log_prob,
    sample=_sample,
    mean=lambda rate1, rate2: rate1 - rate2,
    variance=lambda rate1, rate2: rate1 + rate2,
    entropy=_entropy,
    log_cdf=lambda x, *rates: _log_tails(x, *rates)[0],
    log_survival=lambda x, *rates: _log_tails(x, *rates)[1],
)
class Skellam(Family):
    r"""Skellam distribution: the difference of two independent Poisson variables.

    `p(k) = exp(-rate1 - rate2) (rate1 / rate2)^(k / 2) I_|k|(2 sqrt(rate1 rate2))` for integers
    `k`, with the modified Bessel function `I`.

    Args:
        rate1: The mean of the first variable, positive.
        rate2: The mean of the second variable, which is subtracted; positive.

    >>> import distributions as dist
    >>> round(float(dist.Skellam(1.0, 1.0).log_prob(-1)), 4)
    -1.5359

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), section 4.12.3.
    """

    rate1: ArrayLike = parameter(positive)
    rate2: ArrayLike = parameter(positive)
