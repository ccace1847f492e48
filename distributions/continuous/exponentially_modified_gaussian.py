"""The exponentially modified Gaussian: the sum of a normal and an exponential variable."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LocationScale
from distributions.numerics.normal_functions import log_mills, log_ndtr
from distributions.numerics.quadrature import argmax
from distributions.numerics.special import bounded_ratio, log1mexp, ratio


def _emg_log_share(z, h, hz=None):
    """`log(p scale / h)` at `z` for the product `h` of the rate and the normal scale."""
    h = jnp.asarray(h)
    w = h - z
    hz = h * z if hz is None else hz
    inner = log_mills(jnp.where(w > 0, w, 0)) - 0.5 * jnp.square(z)
    outer = 0.5 * h * h - jnp.where(w > 0, h * h, hz) + log_ndtr(jnp.where(w > 0, 0, -w))
    return jnp.where(w > 0, inner, outer)


def _emg_log_cdf(x, loc, scale, rate):
    z = ratio(x - loc, scale)
    h = rate * scale
    overflows = z < -0.5 * float(jnp.finfo(z.dtype).max) ** 0.5
    z = jnp.where(overflows, 0, z)
    log_normal = log_ndtr(z)
    inner = log_normal + log1mexp(jnp.minimum(_emg_log_share(z, h) - log_normal, 0))
    return jnp.where(overflows, -jnp.inf, inner)


def _emg_log_survival(x, loc, scale, rate):
    z = ratio(x - loc, scale)
    return jnp.logaddexp(log_ndtr(-z), _emg_log_share(z, rate * scale))


def _emg_sample(key, shape, dtype, loc, scale, rate):
    first, second = random.split(key)
    normal = loc + scale * random.normal(first, shape, dtype)
    return normal + random.exponential(second, shape, dtype) / rate


def _emg_entropy(loc, scale, rate):
    h = rate * scale
    low = jnp.arcsinh(jnp.full_like(h, -12))
    high = jnp.arcsinh(12 + 40 / h)
    t = jnp.linspace(0, 1, 1201, dtype=h.dtype).reshape((1,) * h.ndim + (-1,))
    u = low[..., None] + (high - low)[..., None] * t
    log_p = _emg_log_share(jnp.sinh(u), h[..., None]) + jnp.log(h)[..., None]
    return (
        jnp.log(scale)
        - jnp.sum(jnp.cosh(u) * jnp.exp(log_p) * log_p, axis=-1) * (high - low) / 1200
    )


def _emg_mode(loc, scale, rate):
    h = rate * scale

    def f(z):
        return _emg_log_share(z, h[..., None])

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
    standard=LocationScale("loc", ("scale",), ("rate",)),
)
class ExponentiallyModifiedGaussian(Family):
    r"""Exponentially modified Gaussian: the sum of a normal and an exponential variable.

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
