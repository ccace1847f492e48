"""The normal inverse Gaussian distribution, and the scaled Bessel function K1 in its density."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.continuous.inverse_gaussian import inverse_gaussian_sample
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LocationScale
from distributions.numerics.quadrature import argmax
from distributions.numerics.special import (
    EULER_GAMMA,
    LOG_PI,
    LOG_TWO,
    arcsinh_ratio,
    bounded_ratio,
    gauss_legendre,
    hypot,
    log1mexp,
)

_GAUSS = np.linspace(0, 6.3, 22)  # nodes of the trapezoidal rule; the one at 0 has half weight
_GAUSS_WEIGHTS = 0.3 * np.exp(-np.square(_GAUSS)) * np.where(_GAUSS == 0, 0.5, 1)


def log_k1e(t: Array) -> Array:
    """The scaled modified Bessel function `log(K1(t) exp(t))`, for `t > 0`.

    Up to 2, its series. Beyond, the trapezoidal rule for `K1(t) exp(t) = sqrt(2 / t) integral
    exp(-w^2) (1 + w^2 / t) / sqrt(1 + w^2 / (2 t)) dw`, an analytic integrand.
    """
    near = t < 2
    small = jnp.where(near, t, 1)
    large = jnp.where(near, 2, t)
    y = 0.25 * jnp.square(small)
    log_half = jnp.log(0.5 * small)
    term = jnp.ones_like(y)
    bessel = jnp.zeros_like(y)
    digamma = 1 - 2 * EULER_GAMMA
    for k in range(13):
        bessel = bessel + term * (2 * log_half - digamma)
        term = term * y / ((k + 1) * (k + 2))
        digamma += 1 / (k + 1) + 1 / (k + 2)
    series = jnp.log1p(y * bessel) - jnp.log(small) + small
    total = jnp.zeros_like(large)
    inverse = 1 / large
    for node, weight in zip(_GAUSS.tolist(), _GAUSS_WEIGHTS.tolist(), strict=True):
        share = node * node * inverse
        total = total + weight * (1 + share) * lax.rsqrt(1 + 0.5 * share)
    return jnp.where(near, series, 0.5 * (LOG_TWO - jnp.log(large)) + jnp.log(total))


def _standard(scale, tailweight, skewness):
    """Parameters for a scale of 1: `a`, `b`, the rate `sqrt(a^2 - b^2)` and `atanh(b / a)`."""
    a = scale * tailweight
    b = scale * skewness
    less = tailweight - skewness
    more = tailweight + skewness
    return a, b, scale * jnp.sqrt(less) * jnp.sqrt(more), 0.5 * (jnp.log(more) - jnp.log(less))


def _log_density(y, a, rate, tilt):
    """The log density of `y`, the inverse hyperbolic sine of the standardized variable."""
    log_bessel = log_k1e(a * jnp.cosh(y)) + jnp.log(a) - LOG_PI
    return log_bessel - 2 * rate * jnp.square(jnp.sinh(0.5 * (y - tilt)))


def _fall(distance, length, scale, tailweight, skewness):
    """`tailweight length - skewness distance`, also where the two nearly cancel."""
    size = jnp.abs(skewness)
    rest = scale * bounded_ratio(scale, length + jnp.abs(distance))  # length - |distance|
    along = (tailweight - size) * length + size * rest
    against = tailweight * length + size * jnp.abs(distance)
    return jnp.where(skewness * jnp.sign(distance) > 0, along, against)


def _log_prob(x, loc, scale, tailweight, skewness):
    """The log density, by distances that are not divided by the scale: that may overflow."""
    _, _, rate, tilt = _standard(scale, tailweight, skewness)
    distance = x - loc
    length = hypot(x - loc, scale)
    y = arcsinh_ratio(distance, scale)
    log_bessel = log_k1e(tailweight * length) + jnp.log(tailweight) - LOG_PI
    near = jnp.abs(y - tilt) < 4
    exponent = 2 * rate * jnp.square(jnp.sinh(0.5 * jnp.where(near, y - tilt, 0)))
    fall = _fall(distance, length, scale, tailweight, skewness) - rate
    return log_bessel - jnp.where(near, exponent, fall) + jnp.log(scale) - jnp.log(length)


def _sample(key, shape, dtype, loc, scale, tailweight, skewness):
    first, second = random.split(key)
    _, b, rate, _ = _standard(scale, tailweight, skewness)
    variance = inverse_gaussian_sample(first, shape, dtype, 1 / rate, jnp.ones_like(rate))
    normal = random.normal(second, shape, dtype)
    return loc + scale * (b * variance + jnp.sqrt(variance) * normal)


def _mean(loc, scale, tailweight, skewness):
    return loc + scale * jnp.sinh(_standard(scale, tailweight, skewness)[3])


def _mode(loc, scale, tailweight, skewness):
    a, _, rate, tilt = (v[..., None] for v in _standard(scale, tailweight, skewness))

    def log_p(y):
        return _log_density(y, a, rate, tilt) - jnp.log(jnp.cosh(y))

    end = tilt[..., 0]
    return loc + scale * jnp.sinh(argmax(log_p, jnp.minimum(end, 0), jnp.maximum(end, 0)))


def _entropy(loc, scale, tailweight, skewness):
    """The entropy, by the trapezoidal rule over the inverse hyperbolic sine."""
    a, _, rate, tilt = (v[..., None] for v in _standard(scale, tailweight, skewness))
    reach = 2 * jnp.arcsinh(jnp.sqrt(20 / rate))
    t = jnp.linspace(-1, 1, 801, dtype=a.dtype).reshape((1,) * (a.ndim - 1) + (-1,))
    y = tilt + reach * t
    log_q = _log_density(y, a, rate, tilt)
    total = jnp.sum(jnp.exp(log_q) * (log_q - jnp.log(jnp.cosh(y))), axis=-1)
    return jnp.log(scale) - total * reach[..., 0] / 400


def _log_tails(x, loc, scale, tailweight, skewness):
    """The log probabilities below and above, by quadrature of the density over its value at `x`.

    The density of the inverse hyperbolic sine is log-concave: on its falling side it falls ever
    faster.
    """
    a, _, rate, tilt = _standard(scale, tailweight, skewness)
    y, a, rate, tilt = jnp.broadcast_arrays(arcsinh_ratio(x - loc, scale), a, rate, tilt)
    log_q, slope = jax.jvp(lambda y: _log_density(y, a, rate, tilt), (y,), (jnp.ones_like(y),))
    sign = jnp.where(slope > 0, -1, 1).astype(y.dtype)
    ahead = sign * (y - tilt)
    most = 40 / jnp.maximum(jnp.abs(slope), 1e-3)
    square = jnp.square(jnp.sinh(0.5 * jnp.maximum(ahead, 0)))
    reach = 2 * jnp.arcsinh(jnp.sqrt(square + 20 / rate)) - ahead
    width = lax.stop_gradient(sign * jnp.where(most < 0.1, most, jnp.minimum(most, reach)))
    nodes, weights = gauss_legendre(y)
    u = width[..., None] * nodes
    y_, a_, rate_, tilt_ = (v[..., None] for v in (y, a, rate, tilt))
    bessel = log_k1e(a_ * jnp.cosh(y_ + u)) - log_k1e(a_ * jnp.cosh(y_))
    fall = 2 * rate_ * jnp.sinh(0.5 * u) * jnp.sinh(y_ - tilt_ + 0.5 * u)
    total = jnp.log(jnp.abs(width) * jnp.sum(weights * jnp.exp(bessel - fall), axis=-1))
    tail = jnp.minimum(log_q + total, 0)
    rest = log1mexp(tail)
    return jnp.where(slope > 0, tail, rest), jnp.where(slope > 0, rest, tail)


def _requires(loc, scale, tailweight, skewness):
    """An error message if the skewness is too large for the tailweight, or None."""
    if np.all(np.abs(skewness) < tailweight):
        return None
    return f"skewness must be less than tailweight in size; got {skewness} and {tailweight}"


@family(
    support=real,
    requires=_requires,
    has_finite_slopes=True,
    log_prob=_log_prob,
    sample=_sample,
    mean=_mean,
    variance=lambda loc, scale, a, b: (
        scale * (a / jnp.sqrt(a - b) / jnp.sqrt(a + b)) * (a / (a - b) / (a + b))
    ),
    mode=_mode,
    entropy=_entropy,
    log_cdf=lambda x, *p: _log_tails(x, *p)[0],
    log_survival=lambda x, *p: _log_tails(x, *p)[1],
    standard=LocationScale("loc", ("scale",), ("tailweight", "skewness")),
)
class NormalInverseGaussian(Family):
    r"""Normal inverse Gaussian distribution: a normal with inverse Gaussian mean and variance.

    `p(x) = scale a K1(a q) exp(scale r + b (x - loc)) / (pi q)` for real `x`, with
    `a = tailweight`, `b = skewness`, `q = sqrt(scale^2 + (x - loc)^2)`, `r = sqrt(a^2 - b^2)` and
    `K1` the modified Bessel function. The entropy and the `cdf` are by quadrature.

    Args:
        loc: The location; the mean where `skewness` is 0.
        scale: The scale, positive.
        tailweight: The lightness of the tails, positive: the larger, the lighter.
        skewness: The skewness, of either sign, in size less than `tailweight`.

    >>> import distributions as dist
    >>> round(float(dist.NormalInverseGaussian(0.0, 1.0, 1.0, 0.0).log_prob(0.0)), 4)
    -0.6524

    References:
        Barndorff-Nielsen, "Normal inverse Gaussian distributions and stochastic volatility
        modelling", Scandinavian Journal of Statistics 24 (1997), 1-13.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    tailweight: ArrayLike = parameter(positive)
    skewness: ArrayLike = parameter(real)
