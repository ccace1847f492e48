"""Families on an interval: Uniform, Beta, TruncatedNormal."""

import jax
import jax.numpy as jnp
from jax import Array, random
from jax.typing import ArrayLike

from distributions._gamma_draw import beta
from distributions.constraints import extended_real, interval, open_interval, positive, real
from distributions.family import Family, family
from distributions.gamma_functions import dirichlet_entropy
from distributions.incomplete import log_betainc
from distributions.kernels import log_beta_kernel
from distributions.normal_functions import (
    log_normal_mass,
    truncated_normal_moments,
    truncated_normal_quantile,
)
from distributions.row import parameter
from distributions.special import bounded_ratio


@family(
    support=interval,
    increasing=("low", "high"),
    log_prob=lambda x, low, high: -jnp.log(high - low),
    is_flat=True,
    sample=lambda key, shape, dtype, low, high: random.uniform(key, shape, dtype, low, high),
    mean=lambda low, high: low / 2 + high / 2,
    variance=lambda low, high: jnp.square(high - low) / 12,
    mode=lambda low, high: low,
    entropy=lambda low, high: jnp.log(high - low),
    cdf=lambda x, low, high: (x - low) / (high - low),
    survival=lambda x, low, high: (high - x) / (high - low),
    quantile=lambda q, low, high: low + (high - low) * q,
)
class Uniform(Family):
    r"""Uniform distribution.

    `p(x) = 1 / (high - low)` for `low <= x <= high`.

    Args:
        low: The lower end.
        high: The upper end, greater than `low`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.Uniform(0.0, 2.0).log_prob(jnp.array([1.0, 3.0])).round(4))
    [-0.6931    -inf]

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 26.
    """

    low: ArrayLike = parameter(real, default=0.0)
    high: ArrayLike = parameter(real, default=1.0)


def beta_mode(a: Array, b: Array) -> Array:
    """The mode of a beta distribution: an end, unless both parameters exceed 1."""
    left, right = jnp.maximum(a - 1, 0), jnp.maximum(b - 1, 0)
    total = left + right
    inner = left / jnp.where(total > 0, total, 1)
    return jnp.where((a < 1) & (b < 1) & (b < a), 1, inner)


def beta_variance(a: Array, b: Array) -> Array:
    """The variance of a beta distribution."""
    return a / (a + b) * (b / (a + b)) / (a + b + 1)


def beta_entropy(a: Array, b: Array, *powers: float) -> Array:
    """The entropy of a beta distribution, or `dirichlet_entropy` of two."""
    return dirichlet_entropy(jnp.stack(jnp.broadcast_arrays(a, b), -1), powers or None)


def _beta_arguments(x, a, b):
    return a, b, jnp.log(x), jnp.log1p(-x), a * (1 - x) - b * x


def _beta_log_prob(x, a, b):
    _, _, log_x, log_y, _ = arguments = _beta_arguments(x, a, b)
    return log_beta_kernel(*arguments) - log_x - log_y


@family(
    support=open_interval(0.0, 1.0),
    log_prob=_beta_log_prob,
    sample=lambda key, shape, dtype, a, b: beta(key, a, b, shape, dtype),
    mean=lambda a, b: a / (a + b),
    variance=beta_variance,
    mode=beta_mode,
    entropy=beta_entropy,
    log_cdf=lambda x, a, b: log_betainc(*_beta_arguments(x, a, b))[0],
    log_survival=lambda x, a, b: log_betainc(*_beta_arguments(x, a, b))[1],
)
class Beta(Family):
    r"""Beta distribution with mean `a / (a + b)`.

    `p(x) = x^(a - 1) (1 - x)^(b - 1) / B(a, b)` for `0 < x < 1`, with `a = concentration1` and
    `b = concentration0`.

    Args:
        concentration1: The exponent of `x`, plus 1; positive.
        concentration0: The exponent of `1 - x`, plus 1; positive.

    >>> import distributions as dist
    >>> round(float(dist.Beta(2.0, 2.0).log_prob(0.5)), 4)
    0.4055

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    concentration1: ArrayLike = parameter(positive)
    concentration0: ArrayLike = parameter(positive)


def _standardise(bound, loc, scale) -> Array:
    """`(bound - loc) / scale`, whose gradient is zero where the bound is infinite."""
    finite = jnp.isfinite(bound)
    return jnp.where(finite, bounded_ratio(jnp.where(finite, bound, loc) - loc, scale), bound)


def _length(low, high, scale):
    """The length of an interval, finite or not, in units of the scale."""
    finite = jnp.isfinite(low) & jnp.isfinite(high)
    return jnp.where(finite, bounded_ratio(jnp.where(finite, high - low, 1), scale), jnp.inf)


@jax.jit
def _truncated_normal_log_prob(x, loc, scale, low, high):
    """Distances from the end that is nearest to `loc`, where that is no point of the interval."""
    a, b = _standardise(low, loc, scale), _standardise(high, loc, scale)
    anchor, log_mass = log_normal_mass(a, b, _length(low, high, scale))
    nearest = jnp.where(a >= 0, low, jnp.where(b <= 0, high, loc))
    distance = bounded_ratio(x - nearest, scale)
    return -distance * (anchor + 0.5 * distance) - jnp.log(scale) - log_mass


def _truncated_normal_sample(key, shape, dtype, loc, scale, low, high):
    a, b = _standardise(low, loc, scale), _standardise(high, loc, scale)
    draw = loc + scale * truncated_normal_quantile(random.uniform(key, shape, dtype), a, b)
    info = jnp.finfo(dtype)
    return jnp.clip(draw, jnp.maximum(low, info.min), jnp.minimum(high, info.max))


def _truncated_normal_quantile(q, loc, scale, low, high):
    a, b = _standardise(low, loc, scale), _standardise(high, loc, scale)
    x = loc + scale * truncated_normal_quantile(q, a, b)
    return jnp.where(q == 0, low, jnp.where(q == 1, high, jnp.clip(x, low, high)))


def _truncated_normal_log_mass(x, y, loc, scale, low, high):
    """The logarithm of the probability of the interval from `x` to `y`."""
    a, b, c, d = (_standardise(bound, loc, scale) for bound in (low, high, x, y))
    anchor, log_total = log_normal_mass(a, b, _length(low, high, scale))
    length = _length(x, jnp.maximum(x, y), scale)
    nearest, log_mass = log_normal_mass(c, jnp.maximum(c, d), length)
    return log_mass - log_total + 0.5 * (anchor - nearest) * (anchor + nearest)


def _truncated_normal_moments(loc, scale, low, high):
    a, b = _standardise(low, loc, scale), _standardise(high, loc, scale)
    return truncated_normal_moments(a, b)


def _truncated_normal_entropy(loc, scale, low, high):
    a, b = _standardise(low, loc, scale), _standardise(high, loc, scale)
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
    r"""Normal distribution restricted to an interval, far tails included.

    `p(x) = exp(-z^2 / 2) / (scale C)` for `low <= x <= high`, where `z = (x - loc) / scale` and `C`
    is the integral of `exp(-t^2 / 2)` between the standardised bounds. Nothing cancels: the log
    density is as precise where the interval lies many scales away from `loc`.

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

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    low: ArrayLike = parameter(extended_real)
    high: ArrayLike = parameter(extended_real)
