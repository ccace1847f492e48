"""Logarithms of incomplete beta and gamma functions, precise and differentiable in both tails.

References:
    F. W. J. Olver et al., *NIST Digital Library of Mathematical Functions*: 8.9 and 8.17(v).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from distributions.numerics.loader_kernels import is_single, log_beta_kernel, log_gamma_kernel
from distributions.numerics.normal_limit import is_central, large, log_normal_tails
from distributions.numerics.special import LOG_TWO, log1mexp

Term = Callable[..., Array]
_MAX_STEPS = 10_000  # Terms of a continued fraction.


def _nonzero(x: Array) -> Array:
    tiny = jnp.finfo(x.dtype).tiny
    return jnp.where(jnp.abs(x) < tiny, tiny, x)


def _log_fraction(
    numerator: Term, denominator: Term, arguments: tuple[Array, ...], units: Array
) -> tuple[Array, Array]:
    """`-log(b[0] + a[1] / (b[1] + a[2] / (b[2] + ...)))`, and derivatives in directions `units`.

    `a[n]` is `numerator(n, *arguments)`, and `b[n]` is `denominator(n, *arguments)`. Each step of
    the modified Lentz algorithm is differentiated. The loop runs until value and derivatives have
    converged: for integer arguments the fraction may end, but its derivatives do not.
    """
    ones = jnp.ones_like(arguments[0])
    most = 4 * jnp.finfo(ones.dtype).eps

    def start(*arguments):
        return ones, 0 * ones, -jnp.log(denominator(0 * ones, *arguments))

    def advance(n, c, d, log_f, *arguments):
        scale = denominator(n, *arguments) * denominator(n - 1, *arguments)
        ratio = numerator(n, *arguments) / _nonzero(scale)
        d = 1 / _nonzero(1 + ratio * d)
        c = _nonzero(1 + ratio / c)
        return c, d, log_f - jnp.log(jnp.abs(c * d))

    def push(function, state, dots):
        along = lambda unit: tuple(ones * unit[i] for i in range(len(arguments)))  # noqa: E731
        derivative = lambda unit, *dots: jax.jvp(  # noqa: E731
            function, (*state, *arguments), (*dots, *along(unit))
        )[1]
        return jax.vmap(derivative)(units, *dots)

    def body(loop):
        n, state, dots, _ = loop
        new = advance(n, *state, *arguments)
        moved = jnp.abs(new[2] - state[2])
        if not len(units):
            return n + 1, new, dots, jnp.any(moved > most)
        new_dots = push(lambda *primals: advance(n, *primals), state, dots)
        moved = moved + jnp.abs(new_dots[2] - dots[2]).max(0)
        scale = 1 + sum(jnp.abs(dot).max(0) for dot in new_dots)
        return n + 1, new, new_dots, jnp.any(moved > most * scale)

    dots: Any = push(start, (), ()) if len(units) else ()
    loop = jnp.ones((), ones.dtype), start(*arguments), dots, jnp.ones((), bool)
    _, state, dots, _ = lax.while_loop(lambda loop: loop[3] & (loop[0] < _MAX_STEPS), body, loop)
    return state[2], dots[2] if len(units) else units


def _beta_numerator(n: Array, a: Array, b: Array, x: Array, y: Array) -> Array:
    k = a + 2 * n - 1
    return ((a + n - 1) / k * x) * ((a + b + n - 1) / k * x) * n * (b - n)


def _beta_denominator(n: Array, a: Array, b: Array, x: Array, y: Array) -> Array:
    k = a + 2 * n - 1
    first = jnp.where(n > 0, n * (b - n) * x / jnp.where(n > 0, k, 1), 0)
    return n + first + (a + n) / (k + 2) * (1 + a * y - b * x + n * (1 + y))


@jax.custom_jvp
def beta_fraction(a: Array, b: Array, x: Array, y: Array) -> Array:
    """`log(I_x(a, b) B(a, b) / (x^a y^b))`, for `x` below `(a + 1) / (a + b)` and `y = 1 - x`."""
    return _log_fraction(_beta_numerator, _beta_denominator, (a, b, x, y), jnp.eye(4)[:0])[0]


@beta_fraction.defjvp
def _beta_fraction_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    a, b, x, y = primals
    a_dot, b_dot, x_dot, _ = tangents
    units = jnp.eye(4, dtype=x.dtype)[:2]
    log_f, partials = _log_fraction(_beta_numerator, _beta_denominator, primals, units)
    slope = b / y + (jnp.exp(-log_f) / y - a) / _nonzero(x)
    return log_f, partials[0] * a_dot + partials[1] * b_dot + slope * x_dot


@jax.jit
def log_betainc(
    a: Array, b: Array, log_x: Array, log_y: Array, shift: Array | None = None
) -> tuple[Array, Array]:
    """The logarithms of the regularised incomplete beta function `I_x(a, b)` and of `1 - I`.

    `x` and `y = 1 - x` are given as logarithms, so that either may be tiny. `shift` is `a y - b x`,
    if it is known more precisely than from the logarithms.
    """
    a, b, log_x, log_y = jnp.broadcast_arrays(a, b, log_x, log_y)
    far_a, a, log_x, log_y = _less_unequal(a, b, log_x, log_y)
    far_b, b, log_y, log_x = _less_unequal(b, a, log_y, log_x)
    plain = a * jnp.exp(log_y) - b * jnp.exp(log_x)
    shift = plain if shift is None else jnp.where(far_a | far_b, plain, shift)
    central = is_central(a, b, shift)
    p, q, near = (jnp.where(central, *pair) for pair in ((a, 1e9), (b, 1e9), (shift, 0)))
    inner = log_normal_tails(p, q, near)
    halves = zip((1, 1, -LOG_TWO, -LOG_TWO, 0), (a, b, log_x, log_y, shift), strict=True)
    outer = _log_beta_tails(*(jnp.where(central, half, p) for half, p in halves))
    below, above = (jnp.where(central, *tails) for tails in zip(inner, outer, strict=True))
    return below, above


def log_tails_of_chances(a: Array, b: Array, log_x: Array, log_y: Array) -> tuple[Array, Array]:
    """`log_betainc` for probabilities `x` and `y = 1 - x`, either of which may be 0."""
    inside = (log_x > -jnp.inf) & (log_y > -jnp.inf)
    inner = (jnp.where(inside, log, -LOG_TWO) for log in (log_x, log_y))
    below, above = log_betainc(a, b, *inner)
    return jnp.where(inside, below, log_x), jnp.where(inside, above, log_y)


def _less_unequal(a: Array, b: Array, log_x: Array, log_y: Array) -> tuple[Array, ...]:
    """Whether `a` is far greater than `b`; and arguments of equal `I` with a smaller `a`.

    For such an `a`, `I_x(a, b)` is a function of `b` and of `(a + (b - 1) / 2) log x` (DLMF
    8.18(ii)).
    """
    most = (b + 1) * (1e5 if is_single(a) else 1e9)
    far = (a > most) & (b < large(b))
    less, half = jnp.where(far, most, a), 0.5 * (b - 1)
    log_x = jnp.where(far, (a + half) / (less + half), 1) * log_x
    return far, less, log_x, jnp.where(far, log1mexp(jnp.where(far, log_x, -1)), log_y)


def _log_beta_tails(
    a: Array, b: Array, log_x: Array, log_y: Array, shift: Array
) -> tuple[Array, Array]:
    x, y = jnp.exp(log_x), jnp.exp(log_y)
    above = x > (a + 0.5) / (a + b + 1)
    p, q = jnp.where(above, b, a), jnp.where(above, a, b)
    fraction = beta_fraction(p, q, jnp.where(above, y, x), jnp.where(above, x, y))
    kernel = log_beta_kernel(a, b, log_x, log_y, shift)
    tail = jnp.minimum(kernel + fraction, 0)
    rest = log1mexp(tail)
    return jnp.where(above, rest, tail), jnp.where(above, tail, rest)


def _is_above(a: Array, x: Array) -> Array:
    return x > a + 0.5


def _gamma_numerator(n: Array, a: Array, x: Array) -> Array:
    k = a + 2 * n - 1
    lower = ((a + n - 1) / k * x) * (n / k * x)
    return jnp.where(_is_above(a, x), n * (a - n), lower)


def _gamma_denominator(n: Array, a: Array, x: Array) -> Array:
    k = a + 2 * n - 1
    first = jnp.where(n > 0, n * x / jnp.where(n > 0, k, 1), 0)
    lower = n + first + (a + n) / (k + 2) * (1 + a - x + 2 * n)
    return jnp.where(_is_above(a, x), x - a + 1 + 2 * n, lower)


@jax.custom_jvp
def _gamma_fraction(a: Array, x: Array) -> Array:
    """The log ratio of the tail beside `x` to `x^a exp(-x) / Gamma(a)`."""
    return _log_fraction(_gamma_numerator, _gamma_denominator, (a, x), jnp.eye(2)[:0])[0]


@_gamma_fraction.defjvp
def _gamma_fraction_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    a, x = primals
    units = jnp.eye(2, dtype=x.dtype)[:1]
    log_f, partials = _log_fraction(_gamma_numerator, _gamma_denominator, primals, units)
    sign = jnp.where(_is_above(a, x), -1, 1)
    slope = 1 + (sign * jnp.exp(-log_f) - a) / _nonzero(x)
    return log_f, partials[0] * tangents[0] + slope * tangents[1]


@jax.jit
def log_gammainc(a: Array, x: Array, shift: Array | None = None) -> tuple[Array, Array]:
    """The logarithms of the regularised incomplete gamma functions `P(a, x)` and `Q(a, x)`.

    `shift` is `a - x`, if it is known more precisely than from the two.
    """
    a, x = jnp.broadcast_arrays(a, x)
    info, is_empty = jnp.finfo(x.dtype), x <= 0
    x = jnp.clip(x, info.tiny, info.max)
    shift = a - x if shift is None else shift
    central = is_central(a, None, shift)
    inner = log_normal_tails(jnp.where(central, a, 1e9), None, jnp.where(central, shift, 0))
    ones = zip((1, 1, 0), (a, x, shift), strict=True)
    outer = _log_gamma_tails(*(jnp.where(central, one, p) for one, p in ones))
    below, above = (jnp.where(central, *tails) for tails in zip(inner, outer, strict=True))
    return jnp.where(is_empty, -jnp.inf, below), jnp.where(is_empty, 0, above)


def _log_gamma_tails(a: Array, x: Array, shift: Array) -> tuple[Array, Array]:
    above = _is_above(a, x)
    tail = log_gamma_kernel(a, x, jnp.log(x), -shift) + _gamma_fraction(a, x)
    tail = jnp.minimum(tail, 0)
    rest = log1mexp(tail)
    return jnp.where(above, rest, tail), jnp.where(above, tail, rest)
