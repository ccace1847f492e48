"""The sinh-arcsinh distribution of Jones and Pewsey."""

import math

import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import positive, real
from distributions.continuous.normal import Normal
from distributions.core.derived_formulas import transform_formulas
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.hyperbolic import log_cosh
from distributions.numerics.quadrature import argmax, normal_expectation
from distributions.numerics.special import (
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    bounded_ratio,
    safe_exp,
)


def _sinh_arcsinh(z, skewness, tailweight):
    """`sinh(tailweight (asinh z + skewness))`, scaled so that 2 stays 2 without skewness."""
    y = tailweight * (jnp.arcsinh(z) + skewness)
    a = tailweight * math.asinh(2)
    far = jnp.abs(y) > 20  # There its exponential and that of `a` are divided before they overflow.
    rest = -jnp.expm1(-2 * a)
    near = 2 * jnp.sinh(select(far, 0, y)) * jnp.exp(-a) / rest
    size = safe_exp(select(far, jnp.abs(y) - a - jnp.log(rest), 0))
    return 2 * select(far, jnp.sign(y) * size, near)


def _sinh_arcsinh_forward(z, loc, scale, *shape):
    u = _sinh_arcsinh(z, *shape)
    is_finite = lax.is_finite(u)
    return select(is_finite, loc + scale * select(is_finite, u, 0), u)


def _log_factor(tailweight):
    """`log(sinh(a) / (2 tailweight))` with `a = tailweight asinh(2)`."""
    a = math.asinh(2) * tailweight
    small = a < 0.01
    square = jnp.square(jnp.where(small, a, 0))
    b = jnp.where(small, 1, a)
    large = b + jnp.log(-jnp.expm1(-2 * b)) - LOG_TWO - jnp.log(b)
    return jnp.where(small, square / 6 - square * square / 180, large) + math.log(math.asinh(2) / 2)


def _unskew(x, loc, scale, skewness, tailweight):
    """`y = asinh(u) / tailweight - skewness` with `u = sinh(a) z / 2`, `z = (x - loc) / scale`.

    The second result is the logarithm of its derivative in `z`. Where `u` is large, both come from
    logarithms.
    """
    z = bounded_ratio(x - loc, scale)
    log_factor = _log_factor(tailweight)
    log_z = jnp.log(jnp.where(z == 0, 1, jnp.abs(z)))
    far = (z != 0) & (log_z + log_factor + jnp.log(tailweight) > 20)
    a = math.asinh(2) * jnp.where(far, jnp.maximum(tailweight, 1e-3), 1)
    rest = jnp.log(-jnp.expm1(-2 * a)) - LOG_TWO
    large = jnp.sign(z) * (math.asinh(2) + (log_z + rest) / tailweight)
    most = 0.9 * math.log(jnp.finfo(z.dtype).max) - jnp.maximum(jnp.log(tailweight), 0)
    rise = jnp.where(far, 0, z) * jnp.exp(jnp.minimum(log_factor, most))
    u = rise * tailweight
    near = jnp.abs(u) < 0.05
    v = jnp.square(jnp.where(near, u, 0))
    series = 1 - v * (1 / 6 - v * (3 / 40 - v * (5 / 112 - v * (35 / 1152 - v * 63 / 2816))))
    middle = jnp.arcsinh(jnp.where(near, 1, u)) / tailweight
    y = jnp.where(far, large, jnp.where(near, rise * series, middle)) - skewness
    log_slope = jnp.where(far, -log_z - jnp.log(tailweight), log_factor - 0.5 * jnp.log1p(u * u))
    return y, log_slope


def _max_argument(y):
    """The largest number whose squared hyperbolic sine is finite."""
    return 0.5 * math.log(jnp.finfo(y.dtype).max) + 0.69


def _sinh_arcsinh_inverse(*arguments):
    y, _ = _unskew(*arguments)
    return jnp.sinh(jnp.clip(y, -_max_argument(y), _max_argument(y)))


def _sinh_arcsinh_log_det(x, loc, scale, skewness, tailweight):
    y, log_slope = _unskew(x, loc, scale, skewness, tailweight)
    log_det = log_cosh(y) + log_slope - jnp.log(scale)
    return jnp.where(jnp.abs(y) > _max_argument(y), -jnp.inf, log_det)


def _sinh_arcsinh_expectation(f, skewness, tailweight):
    """The expectation of `f(x, z)`, for the standardized variable and its normal variable."""
    a = skewness[..., None]
    b = tailweight[..., None]
    return normal_expectation(
        lambda z: f(_sinh_arcsinh(z, a, b), z), 0 * skewness, 1 + 0 * skewness
    )


def _sinh_arcsinh_mean(skewness, tailweight):
    skewness, tailweight = jnp.broadcast_arrays(skewness, tailweight)
    return _sinh_arcsinh_expectation(lambda x, z: x, skewness, tailweight)


def _sinh_arcsinh_variance(skewness, tailweight):
    skewness, tailweight = jnp.broadcast_arrays(skewness, tailweight)
    mean = _sinh_arcsinh_mean(skewness, tailweight)[..., None]
    return _sinh_arcsinh_expectation(lambda x, z: jnp.square(x - mean), skewness, tailweight)


def _sinh_arcsinh_entropy(loc, scale, skewness, tailweight):
    a, b = jnp.broadcast_arrays(skewness, tailweight)

    def log_slope(z):
        y = b[..., None] * (jnp.arcsinh(z) + a[..., None])
        return log_cosh(y) - jnp.log(jnp.hypot(1, z))

    mean = normal_expectation(log_slope, 0 * a, 1 + 0 * a)
    factor = jnp.log(scale) + jnp.log(b) - jnp.log(0.5 * jnp.sinh(b * math.asinh(2)))
    return 0.5 + LOG_SQRT_TWO_PI + factor + mean


def _sinh_arcsinh_mode(loc, scale, skewness, tailweight):
    a, b = jnp.broadcast_arrays(skewness, tailweight)

    def score(y):
        z = jnp.sinh(y / b[..., None] - a[..., None])
        return -0.5 * jnp.square(z) + jnp.log(jnp.hypot(1, z)) - log_cosh(y)

    end = b * (jnp.abs(a) + 3)
    y = argmax(score, -end, end)
    return loc + scale * 2 * jnp.sinh(y) / jnp.sinh(b * math.asinh(2))


@family(
    support=real,
    has_steep_ends=True,
    **transform_formulas(
        Normal,
        forward=_sinh_arcsinh_forward,
        inverse=_sinh_arcsinh_inverse,
        log_det=_sinh_arcsinh_log_det,
        to_base=lambda loc, scale, *shape: (0 * loc, jnp.ones_like(scale)),
        mean=lambda loc, scale, *shape: loc + scale * _sinh_arcsinh_mean(*shape),
        variance=lambda loc, scale, *shape: jnp.square(scale) * _sinh_arcsinh_variance(*shape),
        mode=_sinh_arcsinh_mode,
        entropy=_sinh_arcsinh_entropy,
    ),
    standard=LOCATION_SCALE,
)
class SinhArcsinh(Family):
    r"""Sinh-arcsinh distribution: a normal variable, given skewness and other tails.

    `p(x) = phi(z) dz / dx` for real `x`, with `phi` the standard normal density and
    `x = loc + 2 scale sinh(tailweight (asinh(z) + skewness)) / sinh(tailweight asinh(2))`. Moments
    and entropy are by quadrature.

    Args:
        loc: The location; the median where `skewness` is 0.
        scale: The scale, positive.
        skewness: The skewness, of either sign; 0 is symmetric.
        tailweight: The weight of the tails, positive; 1 for a normal distribution.

    >>> import distributions as dist
    >>> round(float(dist.SinhArcsinh(0.0, 1.0).log_prob(0.0)), 4)
    -0.9189

    References:
        Jones and Pewsey, "Sinh-arcsinh distributions", Biometrika 96 (2009), 761-780.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    skewness: ArrayLike = parameter(real, default=0.0)
    tailweight: ArrayLike = parameter(positive, default=1.0)
