"""The Frechet distribution."""

import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.constraints import positive
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import SCALE
from distributions.numerics.extreme_value_functions import log_ratio
from distributions.numerics.special import (
    EULER_GAMMA,
    clip_positive,
    complement_of_exp,
    log1mexp_exp,
    safe_exp,
    scaled_power,
)


def _frechet_mean(k, scale):
    return jnp.where(k > 1, scale * jnp.exp(lax.lgamma(1 - 1 / jnp.where(k > 1, k, 2))), jnp.inf)


def _frechet_variance(k, scale):
    c = jnp.where(k > 2, k, 3)
    first = lax.lgamma(1 - 1 / c)
    second = lax.lgamma(1 - 2 / c)
    finite = jnp.square(scale) * jnp.exp(2 * first) * jnp.expm1(second - 2 * first)
    return jnp.where(k > 2, finite, jnp.inf)


@family(
    support=positive,
    has_finite_slopes=True,
    has_steep_ends=True,
    log_prob=lambda x, k, scale: (
        jnp.log(k) - k * log_ratio(x, scale) - jnp.log(x) - jnp.exp(-k * log_ratio(x, scale))
    ),
    sample=lambda key, shape, dtype, k, scale: clip_positive(
        scale * jnp.power(random.exponential(key, shape, dtype), -1 / k)
    ),
    mean=_frechet_mean,
    variance=_frechet_variance,
    mode=lambda k, scale: scale * jnp.power(k / (k + 1), 1 / k),
    entropy=lambda k, scale: EULER_GAMMA * (1 + 1 / k) + jnp.log(scale / k) + 1,
    log_cdf=lambda x, k, scale: -safe_exp(-k * log_ratio(x, scale)),
    survival=lambda x, k, scale: complement_of_exp(-safe_exp(-k * log_ratio(x, scale))),
    log_survival=lambda x, k, scale: log1mexp_exp(k * log_ratio(x, scale)),
    quantile=lambda q, k, scale: scaled_power(scale, -jnp.log(q), -1 / k),
    standard=SCALE,
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
