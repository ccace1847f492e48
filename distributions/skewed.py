"""Skewed families on the real line: normal, Laplace and exponential pieces, sums and powers."""

import math

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions._numerical import argmax
from distributions.constraints import positive, real
from distributions.family import Family, family
from distributions.normal_functions import log_mills, log_ndtr
from distributions.row import parameter
from distributions.special import (
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    bounded_ratio,
    gauss_legendre,
    log1mexp,
    log_two_sided,
    ratio,
)


def _log_skew(z, a):
    return LOG_TWO - LOG_SQRT_TWO_PI - 0.5 * jnp.square(z) + log_ndtr(a * z)


def _log_ndtr_ratio(t, step):
    """`log Phi(t + step) - log Phi(t)`: the squares of negative arguments are subtracted first."""
    t, step = jnp.broadcast_arrays(t, step)
    far, end = t < 0, t + step
    mills = log_mills(jnp.maximum(-jnp.stack([end, t]), 0))
    tails = mills[0] - mills[1] - step * (t + 0.5 * step)
    near = log_ndtr(jnp.where(far, 0, end)) - log_ndtr(jnp.where(far, 0, t))
    return jnp.where(far & (end < 0), tails, near)


def _skew_log_tails(z, a):
    """The logarithms of the probabilities below and above `z`.

    The density is log-concave. In the direction in which it falls from `z` it does so faster than
    a normal density there, and quadrature of the ratio to that at `z` is precise however far out.
    """
    z, a = jnp.broadcast_arrays(jnp.clip(z, -1e15, 1e15), a)
    t = a * z
    log_hazard = jnp.where(
        t < 0, -log_mills(jnp.maximum(-t, 0)), -0.5 * jnp.square(t) - log_ndtr(t)
    )
    slope = -z + a * jnp.exp(log_hazard - LOG_SQRT_TWO_PI)
    sign = jnp.where(slope > 0, -1, 1).astype(z.dtype)
    steep = jnp.abs(slope)
    width = 80 / (steep + jnp.sqrt(steep * steep + 80))
    nodes, weights = gauss_legendre(z)
    u, z_, a_ = (sign * width)[..., None] * nodes, z[..., None], a[..., None]
    ratio = jnp.exp(-u * (z_ + 0.5 * u) + _log_ndtr_ratio(a_ * z_, a_ * u))
    tail = _log_skew(z, a) + jnp.log(width * jnp.sum(weights * ratio, axis=-1))
    rest = log1mexp(jnp.minimum(tail, 0))
    return jnp.where(slope > 0, tail, rest), jnp.where(slope > 0, rest, tail)


def _delta(a):
    return a / jnp.sqrt(1 + jnp.square(a))


def _skew_normal_sample(key, shape, dtype, loc, scale, a):
    u, v = random.normal(key, (2, *shape), dtype)
    return loc + scale * (_delta(a) * jnp.abs(u) + v / jnp.sqrt(1 + jnp.square(a)))


def _skew_normal_entropy(loc, scale, a):
    """By quadrature in a variable that is dense where `Phi(a z)` rises."""
    size = jnp.maximum(jnp.abs(a), 1)[..., None]
    t = jnp.linspace(-1, 1, 801, dtype=size.dtype).reshape((1,) * a.ndim + (-1,))
    reach = jnp.arcsinh(10 * size)
    z, weight = jnp.sinh(reach * t) / size, jnp.cosh(reach * t) * reach / size * (2 / 800)
    log_p = _log_skew(z, a[..., None])
    return jnp.log(scale) - jnp.sum(weight * jnp.exp(log_p) * log_p, axis=-1)


@family(
    support=real,
    has_finite_slopes=True,
    log_prob=lambda x, loc, scale, a: _log_skew(bounded_ratio(x - loc, scale), a) - jnp.log(scale),
    sample=_skew_normal_sample,
    mean=lambda loc, scale, a: loc + scale * _delta(a) * math.sqrt(2 / math.pi),
    variance=lambda loc, scale, a: jnp.square(scale) * (1 - 2 / math.pi * jnp.square(_delta(a))),
    mode=lambda loc, scale, a: (
        loc
        + scale
        * jnp.sign(a)
        * argmax(lambda z: _log_skew(z, jnp.abs(a)[..., None]), jnp.zeros_like(a), jnp.ones_like(a))
    ),
    entropy=_skew_normal_entropy,
    log_cdf=lambda x, loc, scale, a: _skew_log_tails(ratio(x - loc, scale), a)[0],
    log_survival=lambda x, loc, scale, a: _skew_log_tails(ratio(x - loc, scale), a)[1],
)
class SkewNormal(Family):
    r"""Skew-normal distribution.

    `p(x) = 2 phi(z) Phi(skewness z) / scale` for real `x`, with `z = (x - loc) / scale`, `phi` and
    `Phi` the density and the distribution function of the standard normal distribution.

    Args:
        loc: The location; the mean where `skewness` is 0.
        scale: The scale, positive.
        skewness: The slant, of either sign; not the third moment.

    >>> import distributions as dist
    >>> round(float(dist.SkewNormal(0.0, 1.0, 2.0).log_prob(0.0)), 4)
    -0.9189

    References:
        Azzalini, "A class of distributions which includes the normal ones", Scandinavian Journal
        of Statistics 12 (1985), 171-178.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    skewness: ArrayLike = parameter(real)


def _pieces(scale, asymmetry):
    """The scales on the left and on the right, and the logarithms of their shares."""
    log_left = -jnp.log1p(1 / jnp.square(asymmetry))
    return scale * asymmetry, scale / asymmetry, log_left, -jnp.log1p(jnp.square(asymmetry))


def _asymmetric_log_tails(x, loc, scale, k):
    left, right, log_left, log_right = _pieces(scale, k)
    below = log_left + jnp.minimum(x - loc, 0) / left
    above = log_right - jnp.maximum(x - loc, 0) / right
    is_below = x < loc
    return (
        jnp.where(is_below, below, jnp.log1p(-jnp.exp(above))),
        jnp.where(is_below, jnp.log1p(-jnp.exp(below)), above),
    )


def _distance(x, loc, scale, k):
    """From the mode, in the scale of their side."""
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
)
class AsymmetricLaplace(Family):
    r"""Laplace distribution with a scale on either side.

    `p(x) = exp(-|x - loc| / s) / (scale (k + 1 / k))` for real `x`, with `k = asymmetry` and `s`
    equal to `scale k` on the left of `loc` and to `scale / k` on its right.

    Args:
        loc: The mode.
        scale: The geometric mean of the two scales, positive.
        asymmetry: The square root of the left scale over the right one, positive.

    >>> import distributions as dist
    >>> round(float(dist.AsymmetricLaplace(0.0, 1.0, 1.0).log_prob(1.0)), 4)
    -1.6931

    References:
        Kotz, Kozubowski and Podgorski, *The Laplace Distribution and Generalizations* (2001).
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    asymmetry: ArrayLike = parameter(positive)


def _emg_log_share(z, h, hz=None):
    """`log(p scale / h)` at `z` for the product `h` of the rate and the normal scale."""
    h = jnp.asarray(h)
    w, hz = h - z, h * z if hz is None else hz
    inner = log_mills(jnp.where(w > 0, w, 0)) - 0.5 * jnp.square(z)
    outer = 0.5 * h * h - jnp.where(w > 0, h * h, hz) + log_ndtr(jnp.where(w > 0, 0, -w))
    return jnp.where(w > 0, inner, outer)


def _emg_log_cdf(x, loc, scale, rate):
    z, h = ratio(x - loc, scale), rate * scale
    log_normal = log_ndtr(z)
    return log_normal + log1mexp(jnp.minimum(_emg_log_share(z, h) - log_normal, 0))


def _emg_log_survival(x, loc, scale, rate):
    z = ratio(x - loc, scale)
    return jnp.logaddexp(log_ndtr(-z), _emg_log_share(z, rate * scale))


def _emg_sample(key, shape, dtype, loc, scale, rate):
    first, second = random.split(key)
    normal = loc + scale * random.normal(first, shape, dtype)
    return normal + random.exponential(second, shape, dtype) / rate


def _emg_entropy(loc, scale, rate):
    h = rate * scale
    low, high = jnp.arcsinh(jnp.full_like(h, -12)), jnp.arcsinh(12 + 40 / h)
    t = jnp.linspace(0, 1, 1201, dtype=h.dtype).reshape((1,) * h.ndim + (-1,))
    u = low[..., None] + (high - low)[..., None] * t
    log_p = _emg_log_share(jnp.sinh(u), h[..., None]) + jnp.log(h)[..., None]
    return (
        jnp.log(scale)
        - jnp.sum(jnp.cosh(u) * jnp.exp(log_p) * log_p, axis=-1) * (high - low) / 1200
    )


def _emg_mode(loc, scale, rate):
    h = rate * scale
    f = lambda z: _emg_log_share(z, h[..., None])  # noqa: E731
    high = jnp.minimum(1 / h, 40) + 1
    return loc + scale * argmax(f, jnp.zeros_like(high), high)


@family(
    support=real,
    has_finite_slopes=True,
    log_prob=lambda x, loc, scale, rate: (
        _emg_log_share(bounded_ratio(x - loc, scale), rate * scale, rate * (x - loc))
        + jnp.log(rate)
    ),
    sample=_emg_sample,
    mean=lambda loc, scale, rate: loc + 1 / rate,
    variance=lambda loc, scale, rate: jnp.square(scale) + 1 / jnp.square(rate),
    mode=_emg_mode,
    entropy=_emg_entropy,
    log_cdf=_emg_log_cdf,
    log_survival=_emg_log_survival,
)
class ExponentiallyModifiedGaussian(Family):
    r"""Distribution of the sum of a normal and an exponential variable.

    `p(x) = rate exp(rate (loc - x) + (rate scale)^2 / 2) Phi(z - rate scale)` for real `x`, with
    `z = (x - loc) / scale` and `Phi` the standard normal distribution function.

    Args:
        loc: The mean of the normal variable.
        scale: The standard deviation of the normal variable, positive.
        rate: The inverse of the mean of the exponential variable, positive.

    >>> import distributions as dist
    >>> round(float(dist.ExponentiallyModifiedGaussian(0.0, 1.0, 1.0).log_prob(1.0)), 4)
    -1.1931

    References:
        Grushka, "Characterization of exponentially modified Gaussian peaks in chromatography",
        Analytical Chemistry 44 (1972), 1733-1738.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    rate: ArrayLike = parameter(positive)
