"""The two-piece (split) normal distribution."""

import math

import jax.numpy as jnp
from jax.scipy.special import ndtri
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.normal_functions import log_ndtr
from distributions.numerics.special import (
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    bounded_ratio,
    log_two_sided,
    ratio,
)
from distributions.numerics.two_piece_functions import from_mode


def _normal_log_prob(x, loc, scale, k):
    z = bounded_ratio(*from_mode(x, loc, scale, k))
    density = -LOG_SQRT_TWO_PI - 0.5 * jnp.square(z)
    return density + LOG_TWO - jnp.log(scale) - log_two_sided(k)


def _normal_log_cdf(x, loc, scale, k):
    z = ratio(x - loc, scale)
    square = jnp.square(k)
    left = z < 0
    below = LOG_TWO + log_ndtr(jnp.where(left, z, 0) * k) - jnp.log1p(square)
    above = LOG_TWO + log_ndtr(-jnp.where(left, 0, z) / k) - jnp.log1p(1 / square)
    return jnp.where(left, below, jnp.log1p(-jnp.exp(above)))


def _normal_quantile(q, loc, scale, k):
    square = jnp.square(k)
    left = q * (1 + square) < 1
    below = loc + scale / k * ndtri(jnp.where(left, 0.5 * q * (1 + square), 0.5))
    above = loc - scale * k * ndtri(jnp.where(left, 0.5, 0.5 * (1 - q) * (1 + 1 / square)))
    return jnp.where(left, below, above)


@family(
    support=real,
    has_finite_slopes=True,
    has_steep_ends=True,
    log_prob=_normal_log_prob,
    mean=lambda loc, scale, k: loc + scale * math.sqrt(2 / math.pi) * (k - 1 / k),
    variance=lambda loc, scale, k: (
        jnp.square(scale) * ((1 - 2 / math.pi) * jnp.square(k - 1 / k) + 1)
    ),
    mode=lambda loc, scale, k: loc,
    entropy=lambda loc, scale, k: (
        0.5 + LOG_SQRT_TWO_PI - LOG_TWO + jnp.log(scale) + log_two_sided(k)
    ),
    log_cdf=_normal_log_cdf,
    log_survival=lambda x, loc, scale, k: _normal_log_cdf(-x, -loc, scale, 1 / k),
    quantile=_normal_quantile,
    standard=LOCATION_SCALE,
)
class TwoPieceNormal(Family):
    r"""Two-piece (split) normal distribution: each side of the mode has its own scale.

    `p(x) = 2 exp(-(x - loc)^2 / (2 s^2)) / (scale (k + 1 / k) sqrt(2 pi))` for real `x`, with
    `k = skewness` and `s` equal to `scale / k` on the left of `loc` and to `scale k` on its right.

    Args:
        loc: The mode.
        scale: The geometric mean of the two scales, positive.
        skewness: The square root of the right scale over the left one, positive.

    >>> import distributions as dist
    >>> round(float(dist.TwoPieceNormal(0.0, 1.0, 1.0).log_prob(0.0)), 4)
    -0.9189

    References:
        Fernandez and Steel, "On Bayesian modeling of fat tails and skewness", Journal of the
        American Statistical Association 93 (1998), 359-371.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    skewness: ArrayLike = parameter(positive)
