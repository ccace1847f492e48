"""The two-piece (split) normal distribution."""

import math

import jax.numpy as jnp
from jax.nn import log_sigmoid
from jax.scipy.special import ndtri
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.normal_functions import log_ndtr
from distributions.numerics.special import (
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    bounded_ratio,
    log1mexp,
    log_two_sided,
)
from distributions.numerics.two_piece_functions import from_mode


def _normal_log_prob(x, loc, scale, k):
    z = bounded_ratio(*from_mode(x, loc, scale, k))
    density = -LOG_SQRT_TWO_PI - 0.5 * jnp.square(z)
    return density + LOG_TWO - jnp.log(scale) - log_two_sided(k)


def _normal_log_tails(x, loc, scale, k):
    left = x < loc
    z = bounded_ratio(*from_mode(x, loc, scale, k))
    log_share = 2 * jnp.log(k)
    log_share = log_sigmoid(select(left, -log_share, log_share))
    tail = LOG_TWO + log_ndtr(select(left, z, -z)) + log_share
    other = log1mexp(tail)
    return select(left, tail, other), select(left, other, tail)


def _normal_quantile(q, loc, scale, k):
    inverse = 1 / k
    square = jnp.square(k)
    left = q * (1 + square) < 1
    below = 0.5 * q * (1 + square)
    above = 0.5 * (1 - q) * (1 + jnp.square(inverse))
    z = ndtri(select(left, below, above))
    return loc + scale * select(left, inverse * z, -k * z)


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
    log_cdf=lambda x, *p: _normal_log_tails(x, *p)[0],
    log_survival=lambda x, *p: _normal_log_tails(x, *p)[1],
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
