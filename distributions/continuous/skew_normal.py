"""The skew-normal distribution of Azzalini."""

import math
from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.normal_functions import log_mills, log_ndtr
from distributions.numerics.quadrature import argmax
from distributions.numerics.special import (
    LOG_SQRT_TWO_PI,
    LOG_TWO,
    bounded_ratio,
    gauss_legendre,
    log1mexp,
    ratio,
)


def _log_skew(z, a):
    return LOG_TWO - LOG_SQRT_TWO_PI - 0.5 * jnp.square(z) + log_ndtr(a * z)


def _log_ndtr_ratio(t, step):
    """`log Phi(t + step) - log Phi(t)`: the squares of negative arguments are subtracted first."""
    t, step = jnp.broadcast_arrays(t, step)
    far = t < 0
    end = t + step
    mills = log_mills(jnp.maximum(-jnp.stack([end, t]), 0))
    tails = mills[0] - mills[1] - step * (t + 0.5 * step)
    near = log_ndtr(jnp.where(far, 0, end)) - log_ndtr(jnp.where(far, 0, t))
    return jnp.where(far & (end < 0), tails, near)


def _skew_log_tails(z, a):
    """The log probabilities below and above `z`, by quadrature of the density over its value there.

    The density is log-concave: from `z`, in the falling direction, it falls faster than a normal
    density. So the quadrature is precise however far out.
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
    u = (sign * width)[..., None] * nodes
    z_ = z[..., None]
    a_ = a[..., None]
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
    """The entropy, by quadrature in a variable that is dense where `Phi(a z)` rises."""
    size = jnp.maximum(jnp.abs(a), 1)[..., None]
    t = jnp.linspace(-1, 1, 801, dtype=size.dtype).reshape((1,) * a.ndim + (-1,))
    reach = jnp.arcsinh(10 * size)
    z = jnp.sinh(reach * t) / size
    weight = jnp.cosh(reach * t) * reach / size * (2 / 800)
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
    standard=LOCATION_SCALE,
)
class SkewNormal(Family):
    r"""Skew-normal distribution of Azzalini.

    `p(x) = 2 phi(z) Phi(skewness z) / scale` for real `x`, with `z = (x - loc) / scale`, `phi` and
    `Phi` the density and the distribution function of the standard normal distribution.

    Args:
        loc: The location; the mean where `skewness` is 0.
        scale: The scale, positive.
        skewness: The slant, of either sign; not the third moment.

    >>> import distributions as dist
    >>> round(float(dist.SkewNormal(loc=0.0, scale=1.0, skewness=2.0).log_prob(0.0)), 4)
    -0.9189

    References:
        Azzalini, "A class of distributions which includes the normal ones", Scandinavian Journal
        of Statistics 12 (1985), 171-178.
    """

    _: KW_ONLY
    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    skewness: ArrayLike = parameter(real)
