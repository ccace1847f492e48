"""The triangular distribution."""

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.constraints import open_interval, real
from distributions.continuous.unit_support import peak_inside
from distributions.core.family import Family, family, parameter


def _sides(low, high, peak):
    """The width, and the widths of the left and right side, with 1 for a missing side."""
    left = peak - low
    right = high - peak
    return high - low, jnp.where(left > 0, left, 1), jnp.where(right > 0, right, 1)


def _triangular_log_prob(x, low, high, peak):
    width, left, right = _sides(low, high, peak)
    height = jnp.where(x < peak, (x - low) / left, jnp.where(x > peak, (high - x) / right, 1))
    return jnp.log(2 * height / width)


def _triangular_cdf(x, low, high, peak):
    width, left, right = _sides(low, high, peak)
    above = jnp.square(high - x) / (width * right)
    return jnp.where(x < peak, jnp.square(x - low) / (width * left), 1 - above)


def _triangular_quantile(q, low, high, peak):
    width = high - low
    left = peak - low
    right = high - peak
    is_left = (q * width < left) | (right == 0)
    # Beside a side that is missing the slope at that end is finite; else the root has an infinite
    # one at 0 and at 1.
    rises = is_left & (q > 0)
    falls = ~is_left & (q < 1)
    rise = jnp.where(rises, jnp.sqrt(jnp.where(rises, q * width * left, 1)), 0)
    fall = jnp.where(falls, jnp.sqrt(jnp.where(falls, (1 - q) * width * right, 1)), 0)
    return jnp.where(is_left, low + rise, high - fall)


@family(
    support=lambda low, high, peak: open_interval(low, high),
    requires=lambda low, high, peak: peak_inside(low, peak, high),
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
