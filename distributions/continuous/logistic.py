"""The logistic distribution."""

import math

import jax.numpy as jnp
from jax import random
from jax.nn import log_sigmoid
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.special import (
    bounded_ratio,
    log,
    ratio,
)


def _logistic_log_prob(x, loc, scale):
    z = bounded_ratio(jnp.where(x < loc, loc - x, x - loc), scale)
    return -z - 2 * jnp.log1p(jnp.exp(-z)) - log(scale)


@family(
    support=real,
    log_prob=_logistic_log_prob,
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.logistic(key, shape, dtype),
    mean=lambda loc, scale: loc,
    variance=lambda loc, scale: jnp.square(math.pi * scale) / 3,
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: 2 + jnp.log(scale),
    log_cdf=lambda x, loc, scale: log_sigmoid(ratio(x - loc, scale)),
    log_survival=lambda x, loc, scale: log_sigmoid(ratio(loc - x, scale)),
    quantile=lambda q, loc, scale: loc + scale * (jnp.log(q) - jnp.log1p(-q)),
    standard=LOCATION_SCALE,
)
class Logistic(Family):
    r"""Logistic distribution: its `cdf` is the logistic function.

    `p(x) = exp(-z) / (scale (1 + exp(-z))^2)` for real `x`, with `z = (x - loc) / scale`.

    Args:
        loc: The mean.
        scale: The scale, positive; the standard deviation is `scale pi / sqrt(3)`.

    >>> import distributions as dist
    >>> round(float(dist.Logistic(0.0, 1.0).log_prob(0.0)), 4)
    -1.3863

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 23.
    """

    loc: ArrayLike = parameter(real, default=0.0)
    scale: ArrayLike = parameter(positive, default=1.0)
