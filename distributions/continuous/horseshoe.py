"""The horseshoe distribution, and the scaled exponential integral in its density."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, random
from jax.scipy.special import ndtr
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import SCALE
from distributions.numerics.special import EULER_GAMMA, LOG_PI, LOG_SQRT_TWO_PI, LOG_TWO, ratio

_STANDARD_ENTROPY = 2.10987183606164772  # nats, for a scale of 1

# Gauss-Laguerre quadrature with 64 nodes, without those whose weights are below rounding.
_LAGUERRE = np.stack(np.polynomial.laguerre.laggauss(64))
_NODES, _WEIGHTS = _LAGUERRE[:, _LAGUERRE[1] > 1e-19]


def _log_scaled_exp1(log_u: Array) -> Array:
    """The scaled exponential integral `log(exp(u) E1(u))`: a series up to 1, then quadrature.

    `E1(u) = integral exp(-t - u) / (t + u) dt`.
    """
    near = log_u < 0
    u = jnp.exp(jnp.where(near, log_u, 0))
    inverse = jnp.exp(-jnp.where(near, 0, log_u))
    series = jnp.zeros_like(u)
    term = -jnp.ones_like(u)
    for k in range(1, 19):
        term = term * (-u / k)
        series = series + term / k
    small = u + jnp.log(series - EULER_GAMMA - jnp.where(near, log_u, 0))
    shape = (1,) * u.ndim + (-1,)
    nodes, weights = (x.reshape(shape).astype(u.dtype) for x in (_NODES, _WEIGHTS))
    large = jnp.log(jnp.sum(weights / (1 + nodes * inverse[..., None]), axis=-1)) - log_u
    return jnp.where(near, small, large)


def _standard_log_prob(log_z):
    """The log density for a scale of 1, as a function of the logarithm of the value."""
    return _log_scaled_exp1(2 * log_z - LOG_TWO) - LOG_SQRT_TWO_PI - LOG_PI


def _log_prob(x, scale):
    zero = x == 0
    log_scale = jnp.log(scale)
    log_z = jnp.log(jnp.abs(jnp.where(zero, 1, x))) - log_scale
    return jnp.where(zero, jnp.inf, _standard_log_prob(log_z) - log_scale)


@jax.custom_jvp
def _log_tail(z):
    """The logarithm of the probability above `z >= 0`.

    The trapezoidal rule computes `integral sech(s) Phi(-z exp(-s)) ds / pi`, with `s` the logarithm
    of the Cauchy variable.
    """
    log_z = jnp.log(jnp.maximum(z, jnp.finfo(z.dtype).tiny))
    far = jnp.maximum(log_z, 0)
    low = jnp.maximum(log_z - 3, -40)
    high = far + 40
    t = jnp.linspace(0, 1, 601, dtype=z.dtype).reshape((1,) * z.ndim + (-1,))
    s = low[..., None] + (high - low)[..., None] * t
    size = jnp.abs(s)
    sech = 2 * jnp.exp(far[..., None] - size) / (1 + jnp.exp(-2 * size))
    total = jnp.sum(sech * ndtr(-z[..., None] * jnp.exp(-s)), axis=-1)
    return jnp.log(total * (high - low) / 600) - far - LOG_PI


@_log_tail.defjvp
def _log_tail_jvp(primals, tangents):
    """The derivative by the density: the nodes are too far apart for it next to 0."""
    z = primals[0]
    value = _log_tail(z)
    least = 1024 * jnp.finfo(z.dtype).tiny  # Its inverse, in second derivatives, is finite.
    log_z = jnp.log(jnp.where(z < least, least, z))
    return value, -jnp.exp(_standard_log_prob(log_z) - value) * tangents[0]


def _log_survival(z):
    tail = _log_tail(jnp.where(z < 0, -z, z))
    return jnp.where(z < 0, jnp.log1p(-jnp.exp(tail)), tail)


def _sample(key, shape, dtype, scale):
    first, second = random.split(key)
    return scale * random.normal(first, shape, dtype) * random.cauchy(second, shape, dtype)


@family(
    support=real,
    has_finite_slopes=True,
    log_prob=_log_prob,
    sample=_sample,
    mean=lambda scale: jnp.nan,
    variance=lambda scale: jnp.nan,
    mode=lambda scale: 0.0,
    entropy=lambda scale: _STANDARD_ENTROPY + jnp.log(scale),
    log_cdf=lambda x, scale: _log_survival(-ratio(x, scale)),
    log_survival=lambda x, scale: _log_survival(ratio(x, scale)),
    standard=SCALE,
)
class Horseshoe(Family):
    r"""Horseshoe distribution: a normal variable whose standard deviation is half-Cauchy.

    `p(x) = exp(u) E1(u) / (scale sqrt(2 pi^3))` for real `x`, with `u = (x / scale)^2 / 2` and `E1`
    the exponential integral: infinite at 0, with the tails of a Cauchy. There are no moments. The
    `cdf` is by quadrature.

    Args:
        scale: The median of the standard deviation, positive.

    >>> import distributions as dist
    >>> round(float(dist.Horseshoe(1.0).log_prob(1.0)), 4)
    -2.1439

    References:
        Carvalho, Polson and Scott, "The horseshoe estimator for sparse signals", Biometrika 97
        (2010), 465-480.
    """

    scale: ArrayLike = parameter(positive)
