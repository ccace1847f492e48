"""The Cauchy distribution."""

import math

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.special import (
    LOG_PI,
    LOG_TWO,
    log,
    log1p_square_ratio,
    ratio,
)
from distributions.numerics.student_t_functions import cauchy_survival


def _cotangent(q):
    """`1 / tan(pi q)`, infinite at both 0 and 1."""
    near = jnp.abs(q - 0.5) < 0.25
    center = jnp.tan(math.pi * jnp.where(near, 0.5 - q, 0))
    size = 1 / jnp.tan(math.pi * jnp.where(near, 0.25, jnp.where(q < 0.5, q, 1 - q)))
    return jnp.where(near, center, jnp.where(q < 0.5, size, -size))


@family(
    support=real,
    log_prob=lambda x, loc, scale: (
        -log1p_square_ratio(x - loc, scale, in_sum=True) - (log(scale) + LOG_PI)
    ),
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.cauchy(key, shape, dtype),
    mean=lambda loc, scale: jnp.nan,
    variance=lambda loc, scale: jnp.nan,
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: LOG_PI + 2 * LOG_TWO + jnp.log(scale),
    cdf=lambda x, loc, scale: cauchy_survival(ratio(loc - x, scale)),
    survival=lambda x, loc, scale: cauchy_survival(ratio(x - loc, scale)),
    quantile=lambda q, loc, scale: loc - scale * _cotangent(q),
    standard=LOCATION_SCALE,
)
class Cauchy(Family):
    r"""Cauchy distribution with median `loc`; it has no mean.

    `p(x) = 1 / (pi scale (1 + ((x - loc) / scale)^2))` for real `x`.

    Args:
        loc: The median.
        scale: Half the interquartile range, positive.

    >>> import distributions as dist
    >>> round(float(dist.Cauchy(0.0, 1.0).log_prob(0.0)), 4)
    -1.1447

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 16.
    """

    loc: ArrayLike = parameter(real, default=0.0)
    scale: ArrayLike = parameter(positive, default=1.0)
