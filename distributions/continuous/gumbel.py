"""The Gumbel distribution."""

import math

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.special import (
    EULER_GAMMA,
    bounded_ratio,
    complement_of_exp,
    log1mexp_exp,
    ratio,
    safe_exp,
)


@family(
    support=real,
    has_finite_slopes=True,
    has_steep_ends=True,
    log_prob=lambda x, loc, scale: (
        -bounded_ratio(x - loc, scale) - jnp.exp(-bounded_ratio(x - loc, scale)) - jnp.log(scale)
    ),
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.gumbel(key, shape, dtype),
    mean=lambda loc, scale: loc + EULER_GAMMA * scale,
    variance=lambda loc, scale: math.pi**2 / 6 * jnp.square(scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: 1 + EULER_GAMMA + jnp.log(scale),
    log_cdf=lambda x, loc, scale: -safe_exp(ratio(loc - x, scale)),
    survival=lambda x, loc, scale: complement_of_exp(-safe_exp(ratio(loc - x, scale))),
    log_survival=lambda x, loc, scale: log1mexp_exp(bounded_ratio(x - loc, scale)),
    quantile=lambda q, loc, scale: loc - scale * jnp.log(-jnp.log(q)),
    standard=LOCATION_SCALE,
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

    loc: ArrayLike = parameter(real, default=0.0)
    scale: ArrayLike = parameter(positive, default=1.0)
