"""The Rayleigh distribution: the length of a vector of two normal variables."""

import math

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import positive
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import SCALE
from distributions.numerics.special import (
    EULER_GAMMA,
    LOG_TWO,
    bounded_ratio,
    clip_positive,
    complement_of_exp,
    ratio,
)


@family(
    support=positive,
    has_finite_slopes=True,
    has_steep_ends=True,
    log_prob=lambda x, scale: (
        jnp.log(bounded_ratio(x, scale))
        - jnp.log(scale)
        - 0.5 * jnp.square(bounded_ratio(x, scale))
    ),
    sample=lambda key, shape, dtype, scale: clip_positive(
        scale * jnp.sqrt(2 * random.exponential(key, shape, dtype))
    ),
    mean=lambda scale: math.sqrt(math.pi / 2) * scale,
    variance=lambda scale: (2 - math.pi / 2) * jnp.square(scale),
    mode=lambda scale: scale,
    entropy=lambda scale: 1 + jnp.log(scale) + 0.5 * (EULER_GAMMA - LOG_TWO),
    cdf=lambda x, scale: complement_of_exp(-0.5 * jnp.square(ratio(x, scale))),
    log_survival=lambda x, scale: -0.5 * jnp.square(ratio(x, scale)),
    quantile=lambda q, scale: scale * jnp.sqrt(-2 * jnp.log1p(-q)),
    standard=SCALE,
)
class Rayleigh(Family):
    r"""Rayleigh distribution: the length of a vector of two normal variables.

    `p(x) = x exp(-(x / scale)^2 / 2) / scale^2` for `x > 0`.

    Args:
        scale: The standard deviation of the normal variables, positive; the mode.

    >>> import distributions as dist
    >>> round(float(dist.Rayleigh(1.0).log_prob(1.0)), 4)
    -0.5

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 18,
        section 10.
    """

    scale: ArrayLike = parameter(positive)
