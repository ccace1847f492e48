"""Logarithms of incomplete beta and gamma functions, precise and differentiable in both tails.

References:
    A. R. DiDonato and A. H. Morris, "Algorithm 708", ACM Transactions on Mathematical Software 18
    (1992), 360-373: the kernels of large parameters.
    F. W. J. Olver et al., *NIST Digital Library of Mathematical Functions*: 8.9 and 8.17(v).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from distributions._cumulative import log1mexp
from distributions.special import LOG_SQRT_TWO_PI, log_beta, stirling_error

Pair = Callable[..., tuple[Array, Array]]
_MOST_STEPS = 10_000


def _nonzero(x: Array) -> Array:
    tiny = jnp.finfo(x.dtype).tiny
    return jnp.where(jnp.abs(x) < tiny, tiny, x)


def _fraction(pair: Pair, arguments: tuple[Array, ...], units: Array) -> tuple[Array, Array]:
    """`-log(1 + d1 / (1 + d2 / (1 + ...)))` and its derivatives in the directions `units`.

    `pair(m, *arguments)` is `d[2 m - 1], d[2 m]`. By the modified Lentz algorithm, each of whose
    steps is differentiated. A fraction that ends, as those of integers do, has derivatives that do
    not: the loop goes on until both have converged.
    """
    ones = jnp.ones_like(arguments[0])
    most = 4 * jnp.finfo(ones.dtype).eps

    def advance(m, state, *arguments):
        c, d, log_f = state
        for coefficient in pair(m, *arguments):
            d = 1 / _nonzero(1 + coefficient * d)
            c = _nonzero(1 + coefficient / c)
            log_f = log_f - jnp.log(jnp.abs(c * d))
        return c, d, log_f

    def push(m, state, state_dot, unit):
        dots = tuple(ones * unit[i] for i in range(len(arguments)))
        move = lambda *primals: advance(m, *primals)  # noqa: E731
        return jax.jvp(move, (state, *arguments), (state_dot, *dots))[1]

    def body(loop):
        m, state, dots, _ = loop
        new = advance(m, state, *arguments)
        if not len(units):
            return m + 1, new, dots, jnp.any(jnp.abs(new[2] - state[2]) > most)
        new_dots = jax.vmap(push, (None, None, 0, 0))(m, state, dots, units)
        moved = jnp.abs(new[2] - state[2]) + jnp.abs(new_dots[2] - dots[2]).max(0)
        scale = 1 + sum(jnp.abs(dot).max(0) for dot in new_dots)
        return m + 1, new, new_dots, jnp.any(moved > most * scale)

    state = ones, 0 * ones, 0 * ones
    dots = tuple(jnp.zeros((len(units), *x.shape), x.dtype) for x in state)
    start = jnp.ones((), ones.dtype), state, dots, jnp.ones((), bool)
    _, state, dots, _ = lax.while_loop(lambda loop: loop[3] & (loop[0] < _MOST_STEPS), body, start)
    return state[2], dots[2]


def _beta_pair(m: Array, a: Array, b: Array, x: Array) -> tuple[Array, Array]:
    k = a + 2 * m
    odd = -((a + m - 1) / (k - 2)) * ((a + b + m - 1) / (k - 1)) * x
    return odd, (m / (k - 1)) * ((b - m) / k) * x


@jax.custom_jvp
def _beta_fraction(a: Array, b: Array, x: Array, y: Array) -> Array:
    """The logarithm of `I_x(a, b) a B(a, b) / (x^a y^b)`, for `x <= (a + 1) / (a + b + 2)`."""
    return _fraction(_beta_pair, (a, b, x), jnp.eye(3)[:0])[0]


@_beta_fraction.defjvp
def _beta_fraction_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    a, b, x, y = primals
    a_dot, b_dot, x_dot, _ = tangents
    log_f, partials = _fraction(_beta_pair, (a, b, x), jnp.eye(3, dtype=x.dtype)[:2])
    slope = b / y + a * jnp.expm1(-log_f - jnp.log(y)) / _nonzero(x)
    return log_f, partials[0] * a_dot + partials[1] * b_dot + slope * x_dot


def _log1p_excess(e: Array, log_ratio: Array) -> Array:
    """`log(1 + e) - e`, where `log_ratio` is `log(1 + e)`, less precise near 0."""
    near = jnp.abs(e) < 0.5
    return jnp.where(near, jnp.log1p(jnp.where(near, e, 0)), log_ratio) - e


def log_beta_kernel(a: Array, b: Array, log_x: Array, log_y: Array) -> Array:
    """`a log x + b log y - log B(a, b)` for `x + y = 1`: nothing large cancels."""
    plain = a * log_x + b * log_y - log_beta(a, b)
    p, q = jnp.maximum(a, 8), jnp.maximum(b, 8)
    shift = p * jnp.exp(log_y) - q * jnp.exp(log_x)
    excess = p * _log1p_excess(-shift / p, log_x + jnp.log1p(q / p))
    excess = excess + q * _log1p_excess(shift / q, log_y + jnp.log1p(p / q))
    error_p, error_q, error_pq = stirling_error(jnp.stack([p, q, p + q]))
    scale = 0.5 * (jnp.log(p) - jnp.log1p(p / q)) - LOG_SQRT_TWO_PI
    large = excess + scale + error_pq - error_p - error_q
    return jnp.where((a < 8) | (b < 8), plain, large)


@jax.jit
def log_betainc(a: Array, b: Array, log_x: Array, log_y: Array) -> tuple[Array, Array]:
    """The logarithms of the regularised incomplete beta function `I_x(a, b)` and of `1 - I`.

    `x` and `y = 1 - x` come as logarithms, so that either may be tiny.
    """
    a, b, log_x, log_y = jnp.broadcast_arrays(a, b, log_x, log_y)
    x, y = jnp.exp(log_x), jnp.exp(log_y)
    above = x > (a + 1) / (a + b + 2)
    p, q = jnp.where(above, b, a), jnp.where(above, a, b)
    fraction = _beta_fraction(p, q, jnp.where(above, y, x), jnp.where(above, x, y))
    tail = jnp.minimum(log_beta_kernel(a, b, log_x, log_y) - jnp.log(p) + fraction, 0)
    rest = log1mexp(tail)
    return jnp.where(above, rest, tail), jnp.where(above, tail, rest)


def _lower_pair(m: Array, a: Array, x: Array) -> tuple[Array, Array]:
    k = a + 2 * m
    return -((a + m - 1) / (k - 2)) * (x / (k - 1)), (m / (k - 1)) * (x / k)


def _upper_pair(m: Array, a: Array, x: Array) -> tuple[Array, Array]:
    k = x - a + 4 * m
    odd = ((2 * m - 1) / (k - 1)) * ((a - 2 * m + 1) / (k - 3))
    return odd, (2 * m / (k + 1)) * ((a - 2 * m) / (k - 1))


def _gamma_pair(m: Array, a: Array, x: Array) -> tuple[Array, Array]:
    above = x > a + 1
    pairs = zip(_upper_pair(m, a, x), _lower_pair(m, a, x), strict=True)
    odd, even = (jnp.where(above, upper, lower) for upper, lower in pairs)
    return odd, even


@jax.custom_jvp
def _gamma_fraction(a: Array, x: Array) -> Array:
    """The logarithm of the tail of `x`, over `x^a exp(-x) / Gamma(a)` and `1 / a` or above.

    The tail is the upper one where `x > a + 1`, and its factor `1 / (x + 1 - a)`.
    """
    return _fraction(_gamma_pair, (a, x), jnp.eye(2)[:0])[0]


@_gamma_fraction.defjvp
def _gamma_fraction_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    a, x = primals
    log_f, partials = _fraction(_gamma_pair, primals, jnp.eye(2, dtype=x.dtype)[:1])
    k = x + 1 - a
    lower = 1 + a * jnp.expm1(-log_f) / _nonzero(x)
    upper = 1 - a / x + 1 / _nonzero(k) - k * jnp.exp(-log_f) / x
    slope = jnp.where(x > a + 1, upper, lower)
    return log_f, partials[0] * tangents[0] + slope * tangents[1]


def log_gamma_kernel(a: Array, x: Array) -> Array:
    """`a log x - x - log Gamma(a)`: nothing large cancels."""
    log_x, p = jnp.log(x), jnp.maximum(a, 8)
    excess = _log1p_excess((x - p) / p, log_x - jnp.log(p))
    large = p * excess + 0.5 * jnp.log(p) - LOG_SQRT_TWO_PI - stirling_error(p)
    return jnp.where(a < 8, a * log_x - x - lax.lgamma(jnp.minimum(a, 8)), large)


@jax.jit
def log_gammainc(a: Array, x: Array) -> tuple[Array, Array]:
    """The logarithms of the regularised incomplete gamma functions `P(a, x)` and `Q(a, x)`."""
    a, x = jnp.broadcast_arrays(a, x)
    above = x > a + 1
    factor = jnp.where(above, x + 1 - a, a)
    tail = log_gamma_kernel(a, x) - jnp.log(factor) + _gamma_fraction(a, x)
    tail = jnp.minimum(tail, 0)
    rest = log1mexp(tail)
    return jnp.where(above, rest, tail), jnp.where(above, tail, rest)
