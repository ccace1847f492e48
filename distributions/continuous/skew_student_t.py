"""The skew t distribution of Jones and Faddy."""

import math

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.beta_functions import beta_entropy
from distributions.numerics.gamma_functions import log_beta_half
from distributions.numerics.gamma_sampler import log_gamma
from distributions.numerics.incomplete_gamma_beta import log_betainc
from distributions.numerics.loader_kernels import log_beta_kernel
from distributions.numerics.special import LOG_TWO, clip_positive, hypot, log1p_square_ratio, ratio


def _log_shares(distance, width):
    """The logarithms of the beta variable `(1 + t) / 2` and of `(1 - t) / 2`, and `t` itself.

    Here `t = w / sqrt(1 + w^2)` with `w = distance / width`, computed without the quotient `w`,
    which may overflow.
    """
    t = ratio(distance, hypot(distance, width))
    left = distance < 0
    size = jnp.where(left, -t, t)
    log_small = -log1p_square_ratio(distance, width) - jnp.log1p(size) - LOG_TWO
    log_large = jnp.log1p(-jnp.exp(log_small))
    return jnp.where(left, log_small, log_large), jnp.where(left, log_large, log_small), t


def _width(a, b, scale):
    return clip_positive(scale * jnp.sqrt(a + b))


def _log_prob(x, a, b, loc, scale):
    distance = x - loc
    width = _width(a, b, scale)
    log_x, log_y, t = _log_shares(distance, width)
    near = 0.5 * ((a - b) - (a + b) * t)
    far = a * jnp.exp(log_y) - b * jnp.exp(log_x)
    shift = jnp.where(jnp.abs(distance) < 8 * width, near, far)
    log_slope = 0.5 * (log_x + log_y - jnp.log(a + b)) + 2 * LOG_TWO - jnp.log(scale)
    return log_beta_kernel(a, b, log_x, log_y, shift) + log_slope


def _log_tails(x, a, b, loc, scale):
    return log_betainc(a, b, *_log_shares(x - loc, _width(a, b, scale))[:2])


def _sample(key, shape, dtype, a, b, loc, scale):
    first, second = random.split(key)
    logit = log_gamma(first, a, shape, dtype) - log_gamma(second, b, shape, dtype)
    return loc + scale * jnp.sqrt(a + b) * jnp.sinh(0.5 * logit)


def _inverse_root(a):
    """`Gamma(a - 1/2) / Gamma(a)` for `a` above 1/2."""
    return jnp.exp(log_beta_half(a - 0.5)) / math.sqrt(math.pi)


def _standard_mean(a, b):
    p, q = (jnp.where(c > 0.5, c, 1) for c in (a, b))
    finite = 0.5 * (a - b) * jnp.sqrt(a + b) * _inverse_root(p) * _inverse_root(q)
    infinite = jnp.where(a > 0.5, jnp.inf, jnp.where(b > 0.5, -jnp.inf, jnp.nan))
    return jnp.where((a > 0.5) & (b > 0.5), finite, infinite)


def _standard_variance(a, b):
    least = jnp.minimum(a, b)
    p, q = (jnp.where(least > 1, c, 2) for c in (a, b))
    square = (jnp.square(p - q) + (p + q - 2)) / ((p - 1) * (q - 1))
    finite = 0.25 * (p + q) * square - jnp.square(_standard_mean(p, q))
    return jnp.where(least > 1, finite, jnp.where(least > 0.5, jnp.inf, jnp.nan))


def _entropy(a, b, loc, scale):
    slope = 0.5 * jnp.log(a + b) - 2 * LOG_TWO
    return beta_entropy(a, b, -0.5, -0.5) + slope + jnp.log(scale)


@family(
    support=real,
    has_finite_slopes=True,
    log_prob=_log_prob,
    sample=_sample,
    mean=lambda a, b, loc, scale: loc + scale * _standard_mean(a, b),
    variance=lambda a, b, loc, scale: jnp.square(scale) * _standard_variance(a, b),
    mode=lambda a, b, loc, scale: (
        loc + scale * (a - b) * jnp.sqrt(a + b) / jnp.sqrt(2 * a + 1) / jnp.sqrt(2 * b + 1)
    ),
    entropy=_entropy,
    log_cdf=lambda x, *p: _log_tails(x, *p)[0],
    log_survival=lambda x, *p: _log_tails(x, *p)[1],
    standard=LOCATION_SCALE,
)
class SkewStudentT(Family):
    r"""Skew t distribution of Jones and Faddy: each tail has its own weight.

    `p(x) = (1 + t)^(a + 1/2) (1 - t)^(b + 1/2) / (scale 2^(a + b - 1) B(a, b) sqrt(a + b))` for
    real `x`, with `t = z / sqrt(a + b + z^2)` and `z = (x - loc) / scale`. It is Student's t with
    `2 a` degrees of freedom if `a` equals `b`, and skewed to the right if `a` is greater.

    Args:
        a: Half the degrees of freedom of the left tail, positive.
        b: Half the degrees of freedom of the right tail, positive.
        loc: The location; the median where `a` is `b`.
        scale: The scale, positive; not the standard deviation.

    >>> import distributions as dist
    >>> round(float(dist.SkewStudentT(1.5, 1.5, 0.0, 1.0).log_prob(0.0)), 4)
    -1.0009

    References:
        Jones and Faddy, "A skew extension of the t-distribution, with applications", Journal of the
        Royal Statistical Society B 65 (2003), 159-174.
    """

    a: ArrayLike = parameter(positive)
    b: ArrayLike = parameter(positive)
    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
