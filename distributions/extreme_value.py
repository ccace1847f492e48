"""Laws of extremes: Gumbel, Weibull, Frechet."""

import math

import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.family import Family, family
from distributions.row import parameter
from distributions.special import (
    EULER_GAMMA,
    bounded_ratio,
    clip_positive,
    log1mexp_exp,
    ratio,
)


@family(
    support=real,
    has_finite_slopes=True,
    log_prob=lambda x, loc, scale: (
        -bounded_ratio(x - loc, scale) - jnp.exp(-bounded_ratio(x - loc, scale)) - jnp.log(scale)
    ),
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.gumbel(key, shape, dtype),
    mean=lambda loc, scale: loc + EULER_GAMMA * scale,
    variance=lambda loc, scale: math.pi**2 / 6 * jnp.square(scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: 1 + EULER_GAMMA + jnp.log(scale),
    log_cdf=lambda x, loc, scale: -jnp.exp(ratio(loc - x, scale)),
    survival=lambda x, loc, scale: -jnp.expm1(-jnp.exp(ratio(loc - x, scale))),
    log_survival=lambda x, loc, scale: log1mexp_exp(ratio(x - loc, scale)),
    quantile=lambda q, loc, scale: loc - scale * jnp.log(-jnp.log(q)),
)
class Gumbel(Family):
    r"""Gumbel distribution: the limit law of maxima of variables with exponential tails.

    `p(x) = exp(-z - exp(-z)) / scale` for real `x`, with `z = (x - loc) / scale`.

    Args:
        loc: The mode.
        scale: The scale, positive; the standard deviation is `scale pi / sqrt(6)`.

    >>> import distributions as dist
    >>> round(float(dist.Gumbel(0.0, 1.0).log_prob(0.0)), 4)
    -1.0

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 22.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


def _log_ratio(x, scale):
    """`log(x / scale)`, whose quotient may overflow."""
    return jnp.log(x) - jnp.log(scale)


def _weibull_variance(k, scale):
    first, second = lax.lgamma(1 + 1 / k), lax.lgamma(1 + 2 / k)
    return jnp.square(scale) * jnp.exp(2 * first) * jnp.expm1(second - 2 * first)


def _weibull_mode(k, scale):
    c = jnp.maximum(k, 1)
    return scale * jnp.where(k > 1, jnp.power(1 - 1 / c, 1 / c), 0)


@family(
    support=positive,
    has_finite_slopes=True,
    log_prob=lambda x, k, scale: (
        jnp.log(k) + k * _log_ratio(x, scale) - jnp.log(x) - jnp.exp(k * _log_ratio(x, scale))
    ),
    sample=lambda key, shape, dtype, k, scale: clip_positive(
        scale * jnp.power(random.exponential(key, shape, dtype), 1 / k)
    ),
    mean=lambda k, scale: scale * jnp.exp(lax.lgamma(1 + 1 / k)),
    variance=_weibull_variance,
    mode=_weibull_mode,
    entropy=lambda k, scale: EULER_GAMMA * (1 - 1 / k) + jnp.log(scale / k) + 1,
    cdf=lambda x, k, scale: -jnp.expm1(-jnp.exp(k * _log_ratio(x, scale))),
    log_cdf=lambda x, k, scale: log1mexp_exp(-k * _log_ratio(x, scale)),
    log_survival=lambda x, k, scale: -jnp.exp(k * _log_ratio(x, scale)),
    quantile=lambda q, k, scale: scale * jnp.power(-jnp.log1p(-q), 1 / k),
)
class Weibull(Family):
    r"""Weibull distribution: a power of an exponential variable.

    `p(x) = (k / scale) (x / scale)^(k - 1) exp(-(x / scale)^k)` with `k = concentration`, for
    `x > 0`.

    Args:
        concentration: The shape, positive: the failure rate rises with time where it exceeds 1.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Weibull(2.0, 1.0).log_prob(1.0)), 4)
    -0.3069

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 21.
    """

    concentration: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)


def _frechet_mean(k, scale):
    return jnp.where(k > 1, scale * jnp.exp(lax.lgamma(1 - 1 / jnp.where(k > 1, k, 2))), jnp.inf)


def _frechet_variance(k, scale):
    c = jnp.where(k > 2, k, 3)
    first, second = lax.lgamma(1 - 1 / c), lax.lgamma(1 - 2 / c)
    finite = jnp.square(scale) * jnp.exp(2 * first) * jnp.expm1(second - 2 * first)
    return jnp.where(k > 2, finite, jnp.inf)


@family(
    support=positive,
    has_finite_slopes=True,
    log_prob=lambda x, k, scale: (
        jnp.log(k) - k * _log_ratio(x, scale) - jnp.log(x) - jnp.exp(-k * _log_ratio(x, scale))
    ),
    sample=lambda key, shape, dtype, k, scale: clip_positive(
        scale * jnp.power(random.exponential(key, shape, dtype), -1 / k)
    ),
    mean=_frechet_mean,
    variance=_frechet_variance,
    mode=lambda k, scale: scale * jnp.power(k / (k + 1), 1 / k),
    entropy=lambda k, scale: EULER_GAMMA * (1 + 1 / k) + jnp.log(scale / k) + 1,
    log_cdf=lambda x, k, scale: -jnp.exp(-k * _log_ratio(x, scale)),
    survival=lambda x, k, scale: -jnp.expm1(-jnp.exp(-k * _log_ratio(x, scale))),
    log_survival=lambda x, k, scale: log1mexp_exp(k * _log_ratio(x, scale)),
    quantile=lambda q, k, scale: scale * jnp.power(-jnp.log(q), -1 / k),
)
class Frechet(Family):
    r"""Frechet distribution: the inverse of a Weibull variable, a limit law of maxima.

    `p(x) = (k / scale) (x / scale)^(-k - 1) exp(-(x / scale)^-k)` with `k = concentration`, for
    `x > 0`.

    Args:
        concentration: The shape, positive: moments exist below it.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Frechet(2.0, 1.0).log_prob(1.0)), 4)
    -0.3069

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 22.
    """

    concentration: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)
