"""The asymmetric Laplace distribution, with its own scale on either side of the mode."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.special import bounded_ratio, log1mexp, log_two_sided


def _pieces(scale, asymmetry):
    """The scales on the left and on the right, and the logarithms of their shares."""
    # The square of an inverse, whose derivatives do not divide by the fourth power.
    inverse = 1 / asymmetry
    log_left = -jnp.log1p(jnp.square(inverse))
    return scale * asymmetry, scale * inverse, log_left, -jnp.log1p(jnp.square(asymmetry))


def _asymmetric_log_tails(x, loc, scale, k):
    left, right, log_left, log_right = _pieces(scale, k)
    is_below = x < loc
    distance = select(is_below, loc - x, x - loc)
    tail = select(is_below, log_left, log_right) - distance / select(is_below, left, right)
    other = log1mexp(tail)
    return select(is_below, tail, other), select(is_below, other, tail)


def _distance(x, loc, scale, k):
    """The distance from the mode, in units of the scale on that side."""
    size = bounded_ratio(jnp.abs(x - loc), scale)
    return jnp.where(x < loc, bounded_ratio(size, k), size * k)


def _asymmetric_laplace_sample(key, shape, dtype, loc, scale, k):
    up, down = random.exponential(key, (2, *shape), dtype)
    return loc + scale * (up / k - down * k)


def _asymmetric_laplace_quantile(q, loc, scale, k):
    left, right, log_left, log_right = _pieces(scale, k)
    below = loc + left * (jnp.log(q) - log_left)
    return jnp.where(jnp.log(q) < log_left, below, loc - right * (jnp.log1p(-q) - log_right))


@family(
    support=real,
    has_finite_slopes=True,
    has_steep_ends=True,
    log_prob=lambda x, loc, scale, k: (
        -_distance(x, loc, scale, k) - jnp.log(scale) - log_two_sided(k)
    ),
    sample=_asymmetric_laplace_sample,
    mean=lambda loc, scale, k: loc + scale * (1 / k - k),
    variance=lambda loc, scale, k: jnp.square(scale / k) + jnp.square(scale * k),
    mode=lambda loc, scale, k: loc,
    entropy=lambda loc, scale, k: 1 + jnp.log(scale) + log_two_sided(k),
    log_cdf=lambda x, *p: _asymmetric_log_tails(x, *p)[0],
    log_survival=lambda x, *p: _asymmetric_log_tails(x, *p)[1],
    quantile=_asymmetric_laplace_quantile,
    standard=LOCATION_SCALE,
)
class AsymmetricLaplace(Family):
    r"""Asymmetric Laplace distribution: each side of the mode has its own scale.

    `p(x) = exp(-|x - loc| / s) / (scale (k + 1 / k))` for real `x`, with `k = asymmetry` and `s`
    equal to `scale k` on the left of `loc` and to `scale / k` on its right.

    Args:
        loc: The mode.
        scale: The geometric mean of the two scales, positive.
        asymmetry: The square root of the left scale over the right one, positive.

    >>> import distributions as dist
    >>> round(float(dist.AsymmetricLaplace(loc=0.0, scale=1.0, asymmetry=1.0).log_prob(1.0)), 4)
    -1.6931

    References:
        Kotz, Kozubowski and Podgorski, *The Laplace Distribution and Generalizations* (2001).
    """

    _: KW_ONLY
    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    asymmetry: ArrayLike = parameter(positive)
