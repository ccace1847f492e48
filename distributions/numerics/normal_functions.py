"""Normal distribution function; masses, quantiles and moments of intervals, also far out."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.common.arrays import select
from distributions.numerics.special import LOG_SQRT_TWO_PI, gauss_legendre


@jax.custom_jvp
def log_ndtr(x: Array) -> Array:
    """The logarithm of the standard normal distribution function, precise on both sides."""
    upper = jnp.log1p(-jax.scipy.special.ndtr(-jnp.maximum(x, 0)))
    return select(x > 0, upper, jax.scipy.special.log_ndtr(jnp.minimum(x, 0)))


@log_ndtr.defjvp
def _log_ndtr_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The ratio of density to distribution function; an asymptotic series far out.

    There the squares in the two logarithms would cancel.
    """
    (x,), (x_dot,) = primals, tangents
    value = log_ndtr(x)
    far = x < -_few_terms(x)
    y = select(far, 1 / select(far, x, 1), 0)
    total = 1 - y * y * _mills_rest(y * y)
    near = select(far, 0, x)
    hazard = jnp.exp(-0.5 * near * near - LOG_SQRT_TWO_PI - select(far, 0, value))
    return value, select(far, -x / total, hazard) * x_dot


def _few_terms(x: Array) -> int:
    """The distance from 0 beyond which the series of Mills' ratio is precise."""
    return 16 if x.dtype == np.float64 else 8


def _mills_rest(square: Array) -> Array:
    """`(1 - x m(x)) x^2` of Mills' ratio `m`, by its asymptotic series in `1 / x^2`."""
    total: Any = 1
    for k in range(13, 1, -2):
        total = 1 - k * square * total
    return total


def _tail(a: Array, length: Array) -> Array:
    """`integral_a^(a + length) exp((a^2 - t^2) / 2) dt` for `a >= 0` and a length, finite or not.

    Gauss-Legendre quadrature, cut where the integrand has fallen to `exp(-40)`. `a` is kept below
    the largest numbers, whose inverse would underflow.
    """
    a = jnp.minimum(a, jnp.finfo(a.dtype).max / 1024)
    width = jnp.minimum(length, 80 / (a + jnp.hypot(a, math.sqrt(80))))
    nodes, weights = gauss_legendre(a)
    u = width[..., None] * nodes
    return width * jnp.sum(weights * jnp.exp(-u * (a[..., None] + 0.5 * u)), axis=-1)


def _erf_between(a: Array, b: Array) -> tuple[Array, Array]:
    """`erf(a / sqrt 2)` and `erf(b / sqrt 2)`."""
    both = jnp.stack([a, b])  # Clipped: second derivatives of erf at infinity are NaN.
    both = jnp.where(jnp.abs(both) < 40, both, 40 * jnp.sign(both))
    below, above = lax.erf(both * math.sqrt(0.5))
    return below, above


@jax.jit
def log_normal_mass(a: Array, b: Array, length: Array) -> tuple[Array, Array]:
    """`anchor` and `log integral_a^b exp((anchor^2 - t^2) / 2) dt` for `a < b`, finite or not.

    The anchor is the point of the interval nearest to 0. Far out in a tail, the large term
    `anchor^2 / 2` can then be subtracted where it cancels exactly. The length is `b - a`, given
    apart as the difference of rounded bounds may be 0.
    """
    a, b, length = jnp.broadcast_arrays(a, b, length)
    across = (a < 0) & (b > 0)
    left = b <= 0
    near = jnp.where(across, 0, jnp.where(left, -b, a))
    tail = _tail(near, jnp.where(across, 1, length))
    below, above = _erf_between(a, b)
    center = math.sqrt(math.pi / 2) * (above - below)
    anchor = jnp.where(across, 0, jnp.where(left, b, a))
    return anchor, jnp.log(jnp.where(across, center, tail))


@jax.jit
def truncated_normal_moments(a: Array, b: Array) -> tuple[Array, Array]:
    """The mean and the variance of a standard normal variable on `[a, b]`, finite or not.

    Quadrature from the point nearest to 0: nothing cancels, on narrow intervals or far out in a
    tail.
    """
    a, b = jnp.broadcast_arrays(a, b)
    left = b <= 0
    near = jnp.where(left, -b, a)
    far = jnp.where(left, -a, b)
    anchor = jnp.maximum(near, 0)
    reach = 80 / (anchor + jnp.sqrt(anchor * anchor + 80))
    low = jnp.maximum(jnp.minimum(near, 0), -reach)[..., None]
    high = jnp.minimum(far - anchor, reach)[..., None]
    nodes, weights = gauss_legendre(a)
    u = low + (high - low) * nodes
    mass = weights * jnp.exp(-u * (anchor[..., None] + 0.5 * u))
    mass = mass / jnp.sum(mass, axis=-1, keepdims=True)
    excess = jnp.sum(mass * u, axis=-1)
    variance = jnp.sum(mass * jnp.square(u - excess[..., None]), axis=-1)
    return jnp.where(left, -1, 1) * (anchor + excess), variance


def _tail_excess(u: Array, a: Array, length: Array) -> Array:
    """The distance from `a >= 2` of the point below which lies the fraction `u` of an interval.

    Newton's method on the log mass above the point, from a start that is exact for the density
    `t exp(-t^2 / 2)`. After three steps the error is below the rounding of float64.
    """
    log_mass = jnp.log(_tail(a, length))
    bounded = length < jnp.inf
    c = jnp.where(bounded, length, 0)
    decay = jnp.where(bounded, jnp.exp(-c * (a + 0.5 * c)), 0)
    t = -2 * jnp.log1p(-u * (1 - decay))
    excess = t / (a + jnp.sqrt(a * a + t))
    target = jnp.log1p(-u) + log_mass
    for _ in range(3):
        above = jnp.maximum(_tail(a + excess, length - excess), jnp.finfo(a.dtype).tiny)
        step = above * (jnp.log(above) - excess * (a + 0.5 * excess) - target)
        excess = jnp.clip(excess + step, 0, length)
    return excess


@jax.jit
def truncated_normal_quantile(u: Array, a: Array, b: Array, length: Array) -> tuple[Array, ...]:
    """The point below which lies the fraction `u` of the mass of a standard normal on `[a, b]`.

    Either bound may be infinite. The inverse error function serves intervals that reach within 2 of
    0, and Newton's method all others. The length is `b - a`, given apart as the difference of
    rounded bounds may be 0.

    Returns:
        Whether `b < -2`, whether `a > 2`, and the distance of the point from 0; where `b < -2` or
        `a > 2`, its distance from that bound.
    """
    u, a, b, length = jnp.broadcast_arrays(u, a, b, length)
    left = b < -2
    right = a > 2
    far = left | right
    below, above = _erf_between(jnp.where(far, -1, a), jnp.where(far, 1, b))
    limit = 1 - jnp.finfo(u.dtype).epsneg
    center = math.sqrt(2) * lax.erf_inv(jnp.clip(below + u * (above - below), -limit, limit))
    near = jnp.where(left, -b, a)
    near = jnp.minimum(near, 0.5 * float(jnp.finfo(u.dtype).max) ** 0.5)  # Its square is finite.
    v = jnp.minimum(jnp.where(left, 1 - u, u), limit)
    excess = _tail_excess(v, jnp.where(far, near, 2), jnp.where(far, length, 1))
    return left, right, jnp.where(far, jnp.where(left, -excess, excess), center)


@jax.custom_jvp
def log_mills(w: Array) -> Array:
    """`log(Phi(-w) exp(w^2 / 2))` for `w >= 0`, `Phi` being the normal distribution function."""
    return jnp.log(_tail(w, jnp.full_like(w, jnp.inf))) - LOG_SQRT_TWO_PI


@log_mills.defjvp
def _log_mills_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The derivative from `m' = w m - 1`; far out, where that cancels, by the series."""
    (w,), (w_dot,) = primals, tangents
    value = log_mills(w)
    far = w > _few_terms(w)
    y = 1 / select(far, w, 1)
    rest = _mills_rest(y * y)
    near = select(far, 0, w) - jnp.exp(-LOG_SQRT_TWO_PI - select(far, 0, value))
    return value, select(far, -y * rest / (1 - y * y * rest), near) * w_dot
