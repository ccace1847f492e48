"""The truncated normal distribution, precise far out in the tails."""

import jax
import jax.numpy as jnp
from jax import Array, random
from jax.typing import ArrayLike

from distributions.constraints import extended_real, interval, positive, real
from distributions.continuous.normal import NORMAL, Normal
from distributions.core.exponential_family import ExponentialFamily, restrict_family
from distributions.core.family import Family, family, parameter
from distributions.numerics.normal_functions import (
    log_normal_mass,
    truncated_normal_moments,
    truncated_normal_quantile,
)
from distributions.numerics.special import bounded_ratio


def _standardize_bound(bound, loc, scale) -> Array:
    """`(bound - loc) / scale`, whose gradient is zero where the bound is infinite."""
    finite = jnp.isfinite(bound)
    return jnp.where(finite, bounded_ratio(jnp.where(finite, bound, loc) - loc, scale), bound)


def _length(low, high, scale):
    """The length of an interval, finite or not, in units of the scale."""
    finite = jnp.isfinite(low) & jnp.isfinite(high)
    return jnp.where(finite, bounded_ratio(jnp.where(finite, high - low, 1), scale), jnp.inf)


@jax.jit
def _truncated_normal_log_prob(x, loc, scale, low, high):
    """The log density, by the distance from the point of the interval nearest to `loc`."""
    a = _standardize_bound(low, loc, scale)
    b = _standardize_bound(high, loc, scale)
    anchor, log_mass = log_normal_mass(a, b, _length(low, high, scale))
    nearest = jnp.where(a >= 0, low, jnp.where(b <= 0, high, loc))
    distance = bounded_ratio(x - nearest, scale)
    return -distance * (anchor + 0.5 * distance) - jnp.log(scale) - log_mass


def _truncated_normal_sample(key, shape, dtype, loc, scale, low, high):
    draw = _between_bounds(random.uniform(key, shape, dtype), loc, scale, low, high)
    info = jnp.finfo(dtype)
    return jnp.clip(draw, jnp.maximum(low, info.min), jnp.minimum(high, info.max))


def _truncated_normal_quantile(q, loc, scale, low, high):
    x = _between_bounds(q, loc, scale, low, high)
    return jnp.where(q == 0, low, jnp.where(q == 1, high, jnp.clip(x, low, high)))


def _between_bounds(q, loc, scale, low, high):
    """The quantile up to rounding, from `loc` or from the bound nearest to it."""
    a = _standardize_bound(low, loc, scale)
    b = _standardize_bound(high, loc, scale)
    left, right, z = truncated_normal_quantile(q, a, b, _length(low, high, scale))
    return jnp.where(left, high, jnp.where(right, low, loc)) + scale * z


def _truncated_normal_log_mass(x, y, loc, scale, low, high):
    """The logarithm of the probability of the interval from `x` to `y`."""
    a, b, c, d = (_standardize_bound(bound, loc, scale) for bound in (low, high, x, y))
    anchor, log_total = log_normal_mass(a, b, _length(low, high, scale))
    length = _length(x, jnp.maximum(x, y), scale)
    length = jnp.maximum(length, jnp.finfo(length.dtype).tiny)  # The logarithm of 0 has no slope.
    nearest, log_mass = log_normal_mass(c, jnp.maximum(c, d), length)
    return log_mass - log_total + 0.5 * (anchor - nearest) * (anchor + nearest)


def _truncated_normal_moments(loc, scale, low, high):
    a = _standardize_bound(low, loc, scale)
    b = _standardize_bound(high, loc, scale)
    return truncated_normal_moments(a, b)


def _truncated_normal_entropy(loc, scale, low, high):
    a = _standardize_bound(low, loc, scale)
    b = _standardize_bound(high, loc, scale)
    anchor, log_mass = log_normal_mass(a, b, _length(low, high, scale))
    mean, variance = truncated_normal_moments(a, b)
    return 0.5 * (variance + (mean - anchor) * (mean + anchor)) + log_mass + jnp.log(scale)


@family(
    support=lambda loc, scale, low, high: interval(low, high),
    increasing=("low", "high"),
    has_finite_slopes=True,
    log_prob=_truncated_normal_log_prob,
    sample=_truncated_normal_sample,
    mean=lambda loc, scale, *bounds: (
        loc + scale * _truncated_normal_moments(loc, scale, *bounds)[0]
    ),
    variance=lambda loc, scale, *bounds: (
        jnp.square(scale) * _truncated_normal_moments(loc, scale, *bounds)[1]
    ),
    mode=lambda loc, scale, low, high: jnp.clip(loc, low, high),
    entropy=_truncated_normal_entropy,
    log_cdf=lambda x, loc, scale, low, high: _truncated_normal_log_mass(
        low, x, loc, scale, low, high
    ),
    log_survival=lambda x, loc, scale, low, high: _truncated_normal_log_mass(
        x, high, loc, scale, low, high
    ),
    quantile=_truncated_normal_quantile,
)
class TruncatedNormal(Family):
    r"""Truncated normal distribution: a normal one on an interval, far tails included.

    `p(x) = exp(-z^2 / 2) / (scale C)` for `low <= x <= high`, where `z = (x - loc) / scale` and `C`
    is the integral of `exp(-t^2 / 2)` between the standardized bounds. Nothing cancels: the log
    density is precise even if the interval lies many scales away from `loc`.

    Args:
        loc: The mean before truncation.
        scale: The standard deviation before truncation, positive.
        low: The lower end, or `-inf`.
        high: The upper end, or `inf`; greater than `low`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.TruncatedNormal(0.0, 1.0, 40.0, jnp.inf).log_prob(40.0)), 4)
    3.6895

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 13,
        section 10.1.
    """

    loc: ArrayLike = parameter(real, default=0.0)
    scale: ArrayLike = parameter(positive, default=1.0)
    low: ArrayLike = parameter(extended_real, default=-jnp.inf)
    high: ArrayLike = parameter(extended_real, default=jnp.inf)

    @property
    def exponential_family(self) -> ExponentialFamily | None:
        """Normal densities between the bounds, where these are known and equal for all elements."""
        return restrict_family(NORMAL, self.low, self.high, truncate_normal)


def truncate_normal(d: Normal, low: float, high: float) -> TruncatedNormal:
    """A normal distribution, restricted to an interval."""
    return TruncatedNormal(d.loc, d.scale, low, high)  # pyright: ignore[reportCallIssue]
