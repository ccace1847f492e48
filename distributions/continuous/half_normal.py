"""The half-normal distribution: a normal folded at its mean of 0, for scales."""

import math

import jax.numpy as jnp
from jax import lax, random
from jax.scipy.special import ndtr, ndtri
from jax.typing import ArrayLike

from distributions.constraints import nonnegative, positive
from distributions.continuous.normal import NORMAL
from distributions.continuous.truncated_normal import truncate_normal
from distributions.core.exponential_family import restrict_family
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import SCALE
from distributions.numerics.normal_functions import log_ndtr
from distributions.numerics.special import (
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    log,
    ratio,
    scale_by_reciprocal,
)


def _erf_inv(q):
    """The inverse error function, computed from the upper tail where that is more precise."""
    upper = -math.sqrt(0.5) * ndtri(0.5 * (1 - jnp.where(q < 0.5, 0.5, q)))
    return jnp.where(q < 0.5, lax.erf_inv(jnp.where(q < 0.5, q, 0.5)), upper)


@family(
    support=nonnegative,
    log_prob=lambda x, scale: (
        -0.5 * jnp.square(scale_by_reciprocal(x, scale))
        - (log(scale) + (LOG_SQRT_TWO_PI - LOG_TWO))
    ),
    sample=lambda key, shape, dtype, scale: scale * jnp.abs(random.normal(key, shape, dtype)),
    mean=lambda scale: scale * math.sqrt(2 / math.pi),
    variance=lambda scale: jnp.square(scale) * (1 - 2 / math.pi),
    mode=lambda scale: 0.0,
    entropy=lambda scale: 0.5 + LOG_SQRT_TWO_PI - LOG_TWO + jnp.log(scale),
    cdf=lambda x, scale: lax.erf(ratio(x, scale) * math.sqrt(0.5)),
    survival=lambda x, scale: 2 * ndtr(-ratio(x, scale)),
    log_survival=lambda x, scale: LOG_TWO + log_ndtr(-ratio(x, scale)),
    quantile=lambda q, scale: scale * math.sqrt(2) * _erf_inv(q),
    standard=SCALE,
    conjugate=restrict_family(NORMAL, 0.0, math.inf, truncate_normal),
)
class HalfNormal(Family):
    r"""Half-normal distribution: the absolute value of a normal variable with mean 0.

    `p(x) = 2 exp(-(x / scale)^2 / 2) / (scale sqrt(2 pi))` for `x >= 0`.

    Args:
        scale: The standard deviation of the normal variable, positive.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.HalfNormal(1.0).log_prob(jnp.array([0.0, -1.0])).round(4))
    [-0.2258    -inf]

    References:
        Gelman, "Prior distributions for variance parameters in hierarchical models", Bayesian
        Analysis 1 (2006).
    """

    scale: ArrayLike = parameter(positive)
