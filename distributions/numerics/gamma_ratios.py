"""The probability that one product of gamma variables exceeds another, by a Barnes integral.

For independent gamma variables, `E exp(s log(G_a G_n / (G_b G_m)))` is
`Gamma(a + s) Gamma(n + s) Gamma(b - s) Gamma(m - s)` over its value at 0. The probability is the
integral of this expectation over `2 pi i s`, along a vertical line between 0 and the poles above.

On the line through the saddle point nothing cancels. With the imaginary part `w sinh(u)` the
integrand decays faster than an exponential, and no pole is near: the trapezoidal rule in `u` is
precise.

References:
    E. W. Barnes, "A new development of the theory of the hypergeometric functions", Proceedings of
    the London Mathematical Society s2-6 (1908), 141-177.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.numerics.gamma_functions import large_stirling_error
from distributions.numerics.special import log1mexp

_INTERVALS = 96  # Of the trapezoidal rule.
# Coefficients 2 / (2 j + 3) of the series of 2 (atanh(r) / r - 1) / r^2 in r^2.
_SERIES = tuple(2 / (2 * j + 3) for j in range(10))


def _as_complex(x: Any) -> Array:
    return lax.complex(x, jnp.zeros_like(x))


def _stirling_error(x: Array) -> Array:
    """`gamma_functions.stirling_error` for complex `x`, up to multiples of `2 pi i`."""
    small = jnp.abs(x) < 8
    z = jnp.where(small, x, 1)
    y = z + 8
    log_product = jnp.log(((z * (z + 1)) * ((z + 2) * (z + 3))) / ((y * y) * (y * y)))
    log_product += jnp.log((((z + 4) * (z + 5)) * ((z + 6) * (z + 7))) / ((y * y) * (y * y)))
    shift = (z - 0.5) * (jnp.log(y) - jnp.log(z)) - log_product - 8
    return large_stirling_error(jnp.where(small, y, x)) + jnp.where(small, shift, 0)


def _log_growth(p: Array, d: Array) -> Array:
    """`log Gamma(p + d) - log Gamma(p) - d log p` for positive `p` and complex `d`."""
    p = _as_complex(p)
    z = d / p
    near = jnp.abs(z) < 0.3
    v = jnp.where(near, z, 0)
    r = v / (2 + v)
    series: Any = _SERIES[-1]
    for coefficient in _SERIES[-2::-1]:
        series = series * (r * r) + coefficient
    log = jnp.log(1 + jnp.where(near, 0, z))
    excess = jnp.where(near, r * (r * r * series - v), log - z)
    log = jnp.where(near, r * (2 + r * r * series), log)
    return p * excess + (d - 0.5) * log + _stirling_error(p + d) - _stirling_error(p)


def _digamma(x: Array) -> Array:
    """An approximation of the digamma function, precise enough to choose a path."""
    return jnp.log(x + 0.5) - 1 / x


def _saddle(up: Array, down: Array) -> tuple[Array, Array]:
    """The point between 0 and the pole at which the integrand is about least; its peak's width."""
    most = jnp.min(down, 0, keepdims=True)

    def places(v):
        """A point of the real axis and its distances from the poles, none rounded to 0."""
        c = most * jax.nn.sigmoid(v)
        return c, up + c, (down - most) + most * jax.nn.sigmoid(-v)

    def halve(_, ends):
        low, high = ends
        middle = 0.5 * (low + high)
        c, first, second = places(middle)
        slope = jnp.sum(_digamma(first) - _digamma(second), 0, keepdims=True)
        return jnp.where(slope > 1 / c, low, middle), jnp.where(slope > 1 / c, middle, high)

    ends = jnp.full_like(most, -60), jnp.full_like(most, 30)
    c, *distances = places(lax.fori_loop(0, 30, halve, ends)[0])
    inverse = 1 / jnp.concatenate([c, *distances])
    largest = jnp.max(inverse, 0, keepdims=True)
    squares = jnp.sum(jnp.square(inverse / largest), 0)
    squares += jnp.sum(inverse[1:] / largest / largest, 0)
    return c[0], 1 / (largest[0] * jnp.sqrt(squares))


def _log_above(up: Array, down: Array) -> Array:
    """The log probability that the product of `up` is greater than the product of `down`."""
    c, width = map(lax.stop_gradient, _saddle(lax.stop_gradient(up), lax.stop_gradient(down)))
    end = jnp.arcsinh(jnp.maximum(10.5, 30 / width))[..., None]
    nodes = np.linspace(0, 1, _INTERVALS + 1).reshape((1,) * c.ndim + (-1,)).astype(c.dtype)
    t = width[..., None] * jnp.sinh(end * nodes)
    s = lax.complex(jnp.broadcast_to(c[..., None], t.shape), t)
    log_ratio = jnp.sum(jnp.log(up) - jnp.log(down), 0)[..., None]
    growth = _log_growth(up[..., None], s[None]) + _log_growth(down[..., None], -s[None])
    total = jnp.sum(growth, 0) + s * _as_complex(log_ratio)
    peak = total[..., :1].real
    units = s / _as_complex(c[..., None])
    wave = (jnp.exp(total - _as_complex(peak)) / units).real * jnp.cosh(end * nodes)
    mean = jnp.mean(0.5 * (wave[..., 1:] + wave[..., :-1]), -1)
    integral = mean * end[..., 0] * (width / c) / math.pi
    return jnp.minimum(peak[..., 0] + jnp.log(integral), 0)


@jax.jit
def log_tails(a: Array, n: Array, b: Array, m: Array) -> tuple[Array, Array]:
    """`log P(G_a G_n < G_b G_m)` and `log P(G_a G_n > G_b G_m)` for positive concentrations.

    The smaller of the two, about, is the integral.
    """
    a, n, b, m = jnp.broadcast_arrays(a, n, b, m)
    up = jnp.stack([a, n])
    down = jnp.stack([b, m])
    swap = jnp.sum(_digamma(up) - _digamma(down), 0) > 0
    tail = _log_above(jnp.where(swap, down, up), jnp.where(swap, up, down))
    rest = log1mexp(tail)
    return jnp.where(swap, tail, rest), jnp.where(swap, rest, tail)
