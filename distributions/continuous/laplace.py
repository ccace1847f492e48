"""The Laplace (double exponential) distribution."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.special import LOG_TWO, ratio, scale_by_reciprocal


def _laplace_log_survival(z):
    lower = jnp.log1p(-0.5 * jnp.exp(jnp.where(z > 0, 0, z)))
    return jnp.where(z > 0, -z - LOG_TWO, lower)


@family(
    support=real,
    log_prob=lambda x, loc, scale: (
        -jnp.abs(scale_by_reciprocal(x - loc, scale)) - jnp.log(scale) - LOG_TWO
    ),
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.laplace(key, shape, dtype),
    mean=lambda loc, scale: loc,
    variance=lambda loc, scale: 2 * jnp.square(scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: 1 + LOG_TWO + jnp.log(scale),
    log_cdf=lambda x, loc, scale: _laplace_log_survival(ratio(loc - x, scale)),
    log_survival=lambda x, loc, scale: _laplace_log_survival(ratio(x - loc, scale)),
    quantile=lambda q, loc, scale: (
        loc + scale * jnp.where(q < 0.5, 1, -1) * jnp.log(2 * jnp.where(q < 0.5, q, 1 - q))
    ),
    standard=LOCATION_SCALE,
)
class Laplace(Family):
    r"""Laplace (double exponential) distribution with mean `loc`.

    `p(x) = exp(-|x - loc| / scale) / (2 scale)` for real `x`.

    Args:
        loc: The mean.
        scale: The mean absolute deviation, positive.

    >>> import distributions as dist
    >>> round(float(dist.Laplace(0.0, 1.0).log_prob(1.0)), 4)
    -1.6931

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 24.
    """

    loc: ArrayLike = parameter(real, default=0.0)
    scale: ArrayLike = parameter(positive, default=1.0)
