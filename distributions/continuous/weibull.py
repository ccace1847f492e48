"""The Weibull distribution."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.common.point import log_of
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


def _weibull_variance(k, scale):
    first = lax.lgamma(1 + 1 / k)
    second = lax.lgamma(1 + 2 / k)
    return jnp.square(scale) * jnp.exp(2 * first) * jnp.expm1(second - 2 * first)


def _weibull_mode(k, scale):
    c = jnp.maximum(k, 1)
    return scale * jnp.where(k > 1, jnp.power(1 - 1 / c, 1 / c), 0)


def _weibull_quantile(q, k, scale):
    is_inside = q < 1
    e = -jnp.log1p(-select(is_inside, q, 0))
    # There a power has no derivative by the exponent: the slope at 0 is infinite for k > 1 and 0
    # for k < 1.
    is_kink = (e == 0) & (k == 1)
    x = select(is_kink, scale * e, scaled_power(scale, select(is_kink, 1, e), 1 / k))
    return select(is_inside, x, jnp.inf)


@family(
    support=positive,
    has_finite_slopes=True,
    reads_points=True,
    log_prob=lambda x, k, scale: (
        jnp.log(k) + k * log_ratio(x, scale) - log_of(x) - jnp.exp(k * log_ratio(x, scale))
    ),
    sample=lambda key, shape, dtype, k, scale: clip_positive(
        scale * jnp.power(random.exponential(key, shape, dtype), 1 / k)
    ),
    mean=lambda k, scale: scale * jnp.exp(lax.lgamma(1 + 1 / k)),
    variance=_weibull_variance,
    mode=_weibull_mode,
    entropy=lambda k, scale: EULER_GAMMA * (1 - 1 / k) + jnp.log(scale / k) + 1,
    cdf=lambda x, k, scale: complement_of_exp(-safe_exp(k * log_ratio(x, scale))),
    log_cdf=lambda x, k, scale: log1mexp_exp(-k * log_ratio(x, scale)),
    log_survival=lambda x, k, scale: -safe_exp(k * log_ratio(x, scale)),
    quantile=_weibull_quantile,
    standard=SCALE,
)
class Weibull(Family):
    r"""Weibull distribution: a power of an exponential variable.

    `p(x) = (k / scale) (x / scale)^(k - 1) exp(-(x / scale)^k)` with `k = concentration`, for
    `x > 0`.

    Args:
        concentration: The shape, positive: the failure rate rises with time where it exceeds 1.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Weibull(concentration=2.0, scale=1.0).log_prob(1.0)), 4)
    -0.3069

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 21.
    """

    _: KW_ONLY
    concentration: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)
