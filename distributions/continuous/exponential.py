"""The exponential distribution."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import nonnegative, positive
from distributions.continuous.gamma import GAMMA
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import RATE
from distributions.numerics.special import (
    complement_of_exp,
    log,
)


@family(
    support=nonnegative,
    log_prob=lambda x, rate: log(rate) - rate * x,
    sample=lambda key, shape, dtype, rate: random.exponential(key, shape, dtype) / rate,
    mean=lambda rate: 1 / rate,
    variance=lambda rate: 1 / jnp.square(rate),
    mode=lambda rate: 0.0,
    entropy=lambda rate: 1 - jnp.log(rate),
    cdf=lambda x, rate: complement_of_exp(-rate * x),
    log_survival=lambda x, rate: -rate * x,
    quantile=lambda q, rate: -jnp.log1p(-q) / rate,
    standard=RATE,
    conjugate=GAMMA,
)
class Exponential(Family):
    r"""Exponential distribution with mean `1 / rate`.

    `p(x) = rate exp(-rate x)` for `x >= 0`.

    Args:
        rate: The inverse of the mean, positive.

    >>> import distributions as dist
    >>> round(float(dist.Exponential(2.0).log_prob(1.0)), 4)
    -1.3069

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 19.
    """

    rate: ArrayLike = parameter(positive)
