"""The hyperbolic secant distribution."""

import math

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.special import (
    LOG_PI,
    LOG_TWO,
    bounded_ratio,
    ratio,
)


def _log_arctan_exp(z):
    """`log(2 / pi arctan(exp(z)))`."""
    far = z < -18
    above = z > 0
    inner = jnp.log(jnp.arctan(jnp.exp(jnp.where(far | above, 0, z))))
    rest = jnp.arctan(jnp.exp(-jnp.where(above, z, 0))) * (2 / math.pi)
    return jnp.where(above, jnp.log1p(-rest), LOG_TWO - LOG_PI + jnp.where(far, z, inner))


def _log_tan_half(q):
    """`log tan(pi q / 2)`."""
    size = jnp.log(jnp.tan(0.5 * math.pi * jnp.where(q < 0.5, q, 1 - q)))
    return jnp.where(q < 0.5, size, -size)


@family(
    support=real,
    has_finite_slopes=True,
    log_prob=lambda x, loc, scale: (
        LOG_TWO
        - LOG_PI
        - jnp.log(scale)
        - jnp.logaddexp(bounded_ratio(x - loc, scale), bounded_ratio(loc - x, scale))
    ),
    mean=lambda loc, scale: loc,
    variance=lambda loc, scale: jnp.square(0.5 * math.pi * scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: LOG_TWO + LOG_PI + jnp.log(scale),
    log_cdf=lambda x, loc, scale: _log_arctan_exp(ratio(x - loc, scale)),
    log_survival=lambda x, loc, scale: _log_arctan_exp(ratio(loc - x, scale)),
    quantile=lambda q, loc, scale: loc + scale * _log_tan_half(q),
    standard=LOCATION_SCALE,
)
class SoftLaplace(Family):
    r"""Hyperbolic secant distribution: smooth at its mode, with the tails of a Laplace.

    `p(x) = 2 / (pi scale (exp(z) + exp(-z)))` for real `x`, with `z = (x - loc) / scale`.

    Args:
        loc: The mean.
        scale: The scale, positive; the standard deviation is `scale pi / 2`.

    >>> import distributions as dist
    >>> round(float(dist.SoftLaplace(0.0, 1.0).log_prob(0.0)), 4)
    -1.1447

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 23,
        section 11.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
