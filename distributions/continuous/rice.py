"""The Rice distribution, and the scaled Bessel function I0 in its density."""

import math

import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.scipy.special import expit, i0e, i1e
from jax.typing import ArrayLike

from distributions.constraints import nonnegative, positive
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LocationScale
from distributions.numerics.quadrature import argmax
from distributions.numerics.special import (
    LOG_SQRT_TWO_PI,
    bounded_ratio,
    clip_positive,
    gauss_legendre,
    log1mexp,
    ratio,
)

# Coefficients of `sqrt(2 pi t) I0(t) exp(-t)` in powers of `1 / t`.
_BESSEL = np.cumprod([1] + [(2 * k - 1) ** 2 / (8 * k) for k in range(1, 16)])
# Coefficients of the mean over `nu`, and of its square, in powers of `2 (scale / nu)^2`.
_MEAN = np.cumprod([1] + [(k - 1.5) ** 2 / k for k in range(1, 13)])
_SQUARE = np.convolve(_MEAN, _MEAN)[: len(_MEAN)]


def _polynomial(coefficients: np.ndarray, x: Array) -> Array:
    total = jnp.zeros_like(x)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _log_i0e(z, b):
    """`log(I0(t) exp(-t))` of the modified Bessel function, for `t = z b >= 0`."""
    most = 1e-8 * float(jnp.finfo(z.dtype).max) if z.dtype.itemsize > 2 else 1e3
    t = jnp.where(z * b > most, most, z * b)
    far = t > 30
    near = (t > 0) & (t <= 30)
    series = jnp.log(_polynomial(_BESSEL, 1 / jnp.where(far, t, 30)))
    root = 0.5 * (jnp.log(jnp.where(far, z, 1)) + jnp.log(jnp.where(far, b, 1)))
    at_zero = -t + 0.25 * t * t  # JAX's slope at 0 is 0.
    small = jnp.where(near, jnp.log(i0e(jnp.where(near, t, 1))), at_zero)
    return jnp.where(far, series - root - LOG_SQRT_TWO_PI, small)


def _log_density(z, b):
    return jnp.log(z) - 0.5 * jnp.square(z - b) + _log_i0e(z, b)


def _log_prob(x, nu, scale):
    z = bounded_ratio(x, scale)
    b = bounded_ratio(nu, scale)
    rest = jnp.log(z) + _log_i0e(z, b) - jnp.log(scale)
    return rest - 0.5 * jnp.square(bounded_ratio(x - nu, scale))


def _log_tails(z, b):
    """The log probabilities below and above `z`, by quadrature of the density over its value there.

    From `z`, in the falling direction, the density falls about as fast as a normal one. So the
    quadrature is precise however far out.
    """
    z, b = jnp.broadcast_arrays(jnp.maximum(z, jnp.finfo(z.dtype).tiny), b)
    t = jnp.minimum(z * b, 1e15)
    slope = lax.stop_gradient(1 / z - z + b * i1e(t) / i0e(t))
    width = 80 / (jnp.abs(slope) + jnp.hypot(slope, math.sqrt(80)))
    width = jnp.where(slope > 0, -jnp.minimum(width, z), width)
    nodes, weights = gauss_legendre(z)
    u = width[..., None] * nodes
    z_ = z[..., None]
    b_ = b[..., None]
    bessel = _log_i0e(z_ + u, b_) - _log_i0e(z_, b_)
    ratio = (1 + u / z_) * jnp.exp(bessel - u * (z_ - b_ + 0.5 * u))
    total = jnp.log(jnp.abs(width) * jnp.sum(weights * ratio, axis=-1))
    tail = jnp.minimum(_log_density(z, b) + total, 0)
    rest = log1mexp(tail)
    return jnp.where(slope > 0, tail, rest), jnp.where(slope > 0, rest, tail)


def _mean(nu, scale):
    b = ratio(nu, scale)
    far = b > 12
    near = jnp.where(far, 0, b)
    large = jnp.where(far, b, 12)
    h = 0.25 * jnp.square(near)
    scaled_i0 = jnp.exp(_log_i0e(h, jnp.ones_like(h)))
    small = scale * math.sqrt(math.pi / 2) * ((1 + 2 * h) * scaled_i0 + 2 * h * i1e(h))
    return jnp.where(far, nu * _polynomial(_MEAN, 2 / jnp.square(large)), small)


def _standard_variance(b):
    far = b > 12
    near = jnp.where(far, 0, b)
    large = jnp.where(far, b, 12)
    small = 2 + jnp.square(near) - jnp.square(_mean(near, jnp.ones_like(near)))
    y = 2 / jnp.square(large)
    return jnp.where(far, 1 - 2 * y * _polynomial(_SQUARE[2:], y), small)


def _standard_mode(b):
    far = b > 30
    near = jnp.where(far, 0, b)
    large = jnp.where(far, b, 30)
    z = argmax(lambda z: _log_density(z, near[..., None]), near, near + 1)
    return jnp.where(far, b + 0.5 / large - 0.375 / large**3, z)


def _standard_entropy(b):
    """The entropy: the trapezoidal rule over `w`, with length `log(1 + exp(w))`, or a series."""
    far = b > 200
    near = jnp.where(far, 0, b)
    y = 1 / jnp.square(jnp.where(far, b, 200))
    low = jnp.where(near > 13, near - 13, -40)
    high = near + 13
    t = jnp.linspace(0, 1, 601, dtype=b.dtype).reshape((1,) * b.ndim + (-1,))
    w = low[..., None] + (high - low)[..., None] * t
    log_p = _log_density(jnp.logaddexp(w, 0), near[..., None])
    total = jnp.sum(jnp.exp(log_p) * log_p * expit(w), axis=-1)
    series = 0.5 + LOG_SQRT_TWO_PI - 0.25 * y - 0.3125 * y * y
    return jnp.where(far, series, -total * (high - low) / 600)


def _sample(key, shape, dtype, nu, scale):
    x, y = random.normal(key, (2, *shape), dtype)
    return clip_positive(jnp.hypot(nu + scale * x, scale * y))


@family(
    support=positive,
    has_finite_slopes=True,
    log_prob=_log_prob,
    sample=_sample,
    mean=_mean,
    variance=lambda nu, scale: jnp.square(scale) * _standard_variance(ratio(nu, scale)),
    mode=lambda nu, scale: scale * _standard_mode(ratio(nu, scale)),
    entropy=lambda nu, scale: _standard_entropy(ratio(nu, scale)) + jnp.log(scale),
    log_cdf=lambda x, nu, scale: _log_tails(ratio(x, scale), ratio(nu, scale))[0],
    log_survival=lambda x, nu, scale: _log_tails(ratio(x, scale), ratio(nu, scale))[1],
    standard=LocationScale(scales=("scale", "nu")),
)
class Rice(Family):
    r"""Rice distribution: the length of a vector of two normal variables with any mean.

    `p(x) = x exp(-(x^2 + nu^2) / (2 scale^2)) I0(x nu / scale^2) / scale^2` for `x > 0`, with `I0`
    the modified Bessel function. The `cdf`, which is 1 less Marcum's Q, and the entropy are by
    quadrature. PyMC's names are `nu` and `sigma`; SciPy's shape `b` is `nu / scale`.

    Args:
        nu: The length of the mean of the vector, nonnegative; with 0, `Rayleigh(scale)`.
        scale: The standard deviation of the normal variables, positive.

    >>> import distributions as dist
    >>> round(float(dist.Rice(0.0, 1.0).log_prob(1.0)), 4)
    -0.5

    References:
        Rice, "Mathematical analysis of random noise", Bell System Technical Journal 24 (1945),
        46-156, equation 3.10-11.
    """

    nu: ArrayLike = parameter(nonnegative)
    scale: ArrayLike = parameter(positive)
