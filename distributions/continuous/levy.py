"""The Levy distribution."""

import math

import jax.numpy as jnp
from jax import lax
from jax.scipy.special import ndtri
from jax.typing import ArrayLike

from distributions.constraints import greater_than, positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.normal_functions import log_ndtr
from distributions.numerics.special import (
    EULER_GAMMA,
    LOG_PI,
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    bounded_ratio,
    ratio,
)


def _levy_root(scale, distance):
    """The root of their ratio, which may be subnormal."""
    return ratio(jnp.sqrt(scale), jnp.sqrt(distance))


def _levy_quantile(q, loc, scale):
    lower = ndtri(0.5 * jnp.where(q < 0.5, q, 0.5))
    upper = math.sqrt(2) * lax.erf_inv(1 - jnp.where(q < 0.5, 0.5, q))
    return loc + scale / jnp.square(jnp.where(q < 0.5, lower, upper))


@family(
    support=lambda loc, scale: greater_than(loc),
    has_finite_slopes=True,
    has_steep_ends=True,
    log_prob=lambda x, loc, scale: (
        0.5 * jnp.log(scale)
        - 1.5 * jnp.log(x - loc)
        - 0.5 * bounded_ratio(scale, x - loc)
        - LOG_SQRT_TWO_PI
    ),
    mean=lambda loc, scale: jnp.inf,
    variance=lambda loc, scale: jnp.inf,
    mode=lambda loc, scale: loc + scale / 3,
    entropy=lambda loc, scale: 0.5 * (1 + 3 * EULER_GAMMA + LOG_PI) + 2 * LOG_TWO + jnp.log(scale),
    survival=lambda x, loc, scale: lax.erf(_levy_root(0.5 * scale, x - loc)),
    log_cdf=lambda x, loc, scale: LOG_TWO + log_ndtr(-_levy_root(scale, x - loc)),
    quantile=_levy_quantile,
    standard=LOCATION_SCALE,
)
class Levy(Family):
    r"""Levy distribution: `loc` plus `scale` over the square of a standard normal variable.

    `p(x) = z^(-3 / 2) exp(-1 / (2 z)) / (scale sqrt(2 pi))` for `x > loc`, with
    `z = (x - loc) / scale`.

    Args:
        loc: The lower end.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Levy(0.0, 1.0).log_prob(1.0)), 4)
    -1.4189

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 12.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
