"""Logarithms of incomplete beta and gamma functions, precise and differentiable in both tails.

References:
    F. W. J. Olver et al., *NIST Digital Library of Mathematical Functions*: 8.9 and 8.17(v).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from distributions.numerics.loader_kernels import is_single, log_beta_kernel, log_gamma_kernel
from distributions.numerics.normal_limit import is_central, large, log_normal_tails
from distributions.numerics.special import LOG_TWO, log1mexp

Term = Callable[..., Array]
Places = tuple[int, ...]
Orders = tuple[Places, ...]
_MAX_STEPS = 10_000  # Terms of a continued fraction.


def _nonzero(x: Array) -> Array:
    tiny = jnp.finfo(x.dtype).tiny
    return jnp.where(jnp.abs(x) < tiny, tiny, x)


class _Lentz(NamedTuple):
    """State of the modified Lentz algorithm."""

    c: Array
    d: Array
    log_f: Array


def _units(places: Places, arguments: tuple[Array, ...]) -> tuple[Array, ...]:
    """The directions of the arguments at some places, stacked."""
    ones = jnp.ones_like(arguments[0])
    rows = [[ones * float(i == j) for j in places] for i in range(len(arguments))]
    return tuple(map(jnp.stack, rows))


def _with_partials(f: Callable[..., Any], places: Places) -> Callable[..., Any]:
    """`f`, paired with its partial derivatives in the arguments at some places, stacked."""

    def pair(*arguments):
        along = jax.vmap(lambda unit: jax.jvp(f, arguments, unit)[1])
        return f(*arguments), along(_units(places, arguments))

    return pair


def _step_with_partials(step: Callable[..., Any], places: Places) -> Callable[..., Any]:
    """A step of a state and arguments, as one of a state and its partial derivatives."""

    def pair(state, *arguments):
        state, dots = state

        def along(dot, unit):
            return jax.jvp(step, (state, *arguments), (dot, *unit))[1]

        return step(state, *arguments), jax.vmap(along)(dots, _units(places, arguments))

    return pair


def _log_fraction(
    numerator: Term, denominator: Term, orders: Orders, arguments: tuple[Array, ...]
) -> Any:
    """`-log(b[0] + a[1] / (b[1] + a[2] / (b[2] + ...)))`, with partial derivatives.

    `a[n]` is `numerator(n, *arguments)`, and `b[n]` is `denominator(n, *arguments)`. For each of
    `orders`, the result so far is paired with its partial derivatives in the arguments at these
    places. Each step of the modified Lentz algorithm is differentiated. The loop runs until value
    and derivatives have converged: for integer arguments the fraction may end, but its derivatives
    do not.
    """
    ones = jnp.ones_like(arguments[0])
    most = 4 * jnp.finfo(ones.dtype).eps

    def start(*arguments):
        return _Lentz(ones, 0 * ones, -jnp.log(denominator(0 * ones, *arguments)))

    def advance(n):
        def step(state, *arguments):
            # Reciprocals: the product of the denominators, or its square, would overflow.
            scale = 1 / _nonzero(denominator(n, *arguments))
            ratio = numerator(n, *arguments) * scale / _nonzero(denominator(n - 1, *arguments))
            d = 1 / _nonzero(1 + ratio * state.d)
            c = _nonzero(1 + ratio / state.c)
            return _Lentz(c, d, state.log_f - jnp.log(jnp.abs(c * d)))

        return functools.reduce(_step_with_partials, orders, step)

    def greatest(x):
        return jnp.abs(x).reshape(-1, *ones.shape).max(0)

    def body(loop):
        n, state, _ = loop
        new = advance(n)(state, *arguments)
        changes = jax.tree.map(jnp.subtract, _log_f(new), _log_f(state))
        moved = sum(map(greatest, jax.tree.leaves(changes)))
        scale = 1 + sum(map(greatest, jax.tree.leaves(new)[len(_Lentz._fields) :]))
        return n + 1, new, jnp.any(moved > most * scale)

    first = functools.reduce(_with_partials, orders, start)(*arguments)
    loop = jnp.ones((), ones.dtype), first, jnp.ones((), bool)
    state = lax.while_loop(lambda loop: loop[2] & (loop[0] < _MAX_STEPS), body, loop)[1]
    return _log_f(state)


def _log_f(state: Any) -> Any:
    """The logarithm of the fraction, and its derivatives, out of a state with its derivatives."""

    def is_state(x):
        return isinstance(x, _Lentz)

    return jax.tree.map(lambda x: x.log_f, state, is_leaf=is_state)


@dataclasses.dataclass(frozen=True, eq=False)
class _Fraction:
    """A continued fraction as a function of parameters, a number `x`, and functions of `x`.

    Attributes:
        numerator: `a[n]`, a function of `n` and of the arguments.
        denominator: `b[n]`, likewise.
        slope: The derivative in `x` of the logarithm, a function of it and of the arguments.
        num_parameters: The number of arguments in front of `x`.
    """

    numerator: Term
    denominator: Term
    slope: Term
    num_parameters: int


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _fraction(fraction: _Fraction, orders: Orders, *arguments: Array) -> Any:
    """The result of `_log_fraction`, with derivatives of any order, forward and reverse."""
    return _log_fraction(fraction.numerator, fraction.denominator, orders, arguments)


@functools.partial(_fraction.defjvp, symbolic_zeros=True)
def _fraction_jvp(
    fraction: _Fraction, orders: Orders, arguments: tuple[Array, ...], tangents: Any
) -> tuple[Any, Any]:
    def slope(*arguments):
        return fraction.slope(_fraction(fraction, (), *arguments), *arguments)

    moving = [i for i, dot in enumerate(tangents) if not isinstance(dot, SymbolicZero)]
    at = fraction.num_parameters  # the place of `x`
    places = tuple(i for i in moving if i < at)
    if places:
        value, partials = _fraction(fraction, (*orders, places), *arguments)
    else:
        value = _fraction(fraction, orders, *arguments)
        partials = None
    dots = [jax.tree.map(lambda x, i=i: x[i], partials) for i in range(len(places))]
    if at in moving and orders:
        dots.append(functools.reduce(_with_partials, orders, slope)(*arguments))
    elif at in moving:
        dots.append(fraction.slope(value, *arguments))
    terms = [
        jax.tree.map(lambda x, i=i: x * tangents[i], dot)
        for i, dot in zip((*places, at), dots, strict=False)
    ]
    return value, jax.tree.map(lambda x, *rest: sum(rest, 0 * x), value, *terms)


def _beta_numerator(n: Array, a: Array, b: Array, x: Array, y: Array) -> Array:
    k = a + 2 * n - 1
    return ((a + n - 1) / k * x) * ((a + b + n - 1) / k * x) * n * (b - n)


def _beta_denominator(n: Array, a: Array, b: Array, x: Array, y: Array) -> Array:
    k = a + 2 * n - 1
    first = jnp.where(n > 0, n * (b - n) * x / jnp.where(n > 0, k, 1), 0)
    return n + first + (a + n) / (k + 2) * (1 + a * y - b * x + n * (1 + y))


def beta_fraction(a: Array, b: Array, x: Array, y: Array) -> Array:
    """`log(I_x(a, b) B(a, b) / (x^a y^b))`, for `x` below `(a + 1) / (a + b)` and `y = 1 - x`."""
    return _fraction(_BETA, (), a, b, x, y)


def _beta_slope(log_f: Array, a: Array, b: Array, x: Array, y: Array) -> Array:
    """The derivative of `beta_fraction` in `x`, with `y = 1 - x`."""
    return b / y + (jnp.exp(-log_f) / y - a) / _nonzero(x)


_BETA = _Fraction(_beta_numerator, _beta_denominator, _beta_slope, 2)


@jax.jit
def log_betainc(
    a: Array, b: Array, log_x: Array, log_y: Array, shift: Array | None = None
) -> tuple[Array, Array]:
    """The logarithms of the regularized incomplete beta function `I_x(a, b)` and of `1 - I`.

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


def _less_unequal(a: Array, b: Array, log_x: Array, log_y: Array) -> tuple[Array, ...]:
    """Whether `a` is far greater than `b`; and arguments of equal `I` with a smaller `a`.

    For such an `a`, `I_x(a, b)` is a function of `b` and of `(a + (b - 1) / 2) log x` (DLMF
    8.18(ii)).
    """
    most = (b + 1) * (1e5 if is_single(a) else 1e9)
    far = (a > most) & (b < large(b))
    less = jnp.where(far, most, a)
    half = 0.5 * (b - 1)
    scale = jnp.where(far, a + half, 1) / jnp.where(far, less + half, 1)
    log_x = scale * log_x
    is_tiny = log_x > -jnp.finfo(log_x.dtype).eps  # `y` is, and may have underflowed.
    inner = log1mexp(jnp.where(far & ~is_tiny, log_x, -1))
    scaled = jnp.where(is_tiny, log_y + jnp.log(scale), inner)
    return far, less, log_x, jnp.where(far, scaled, log_y)


def _log_beta_tails(
    a: Array, b: Array, log_x: Array, log_y: Array, shift: Array
) -> tuple[Array, Array]:
    x = jnp.exp(log_x)
    y = jnp.exp(log_y)
    above = x > (a + 0.5) / (a + b + 1)
    p = jnp.where(above, b, a)
    q = jnp.where(above, a, b)
    # Below the bound the fraction is constant to rounding: derivatives would divide by `x^2`.
    least = lax.stop_gradient(1e-3 * jnp.finfo(x.dtype).eps / (a + b))
    less = jnp.maximum(jnp.where(above, y, x), least)
    fraction = beta_fraction(p, q, less, jnp.where(above, x, y))
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


def _gamma_fraction(a: Array, x: Array) -> Array:
    """The log ratio of the tail beside `x` to `x^a exp(-x) / Gamma(a)`."""
    return _fraction(_GAMMA, (), a, x)


def _gamma_slope(log_f: Array, a: Array, x: Array) -> Array:
    """The derivative of `_gamma_fraction` in `x`."""
    sign = jnp.where(_is_above(a, x), -1, 1)
    return 1 + (sign * jnp.exp(-log_f) - a) / _nonzero(x)


_GAMMA = _Fraction(_gamma_numerator, _gamma_denominator, _gamma_slope, 1)


@jax.jit
def log_gammainc(
    a: Array, x: Array, shift: Array | None = None, log_x: Array | None = None
) -> tuple[Array, Array]:
    """The logarithms of the regularized incomplete gamma functions `P(a, x)` and `Q(a, x)`.

    `shift` is `a - x`, if it is known more precisely than from the two. With `log_x`, `log(x)`, `x`
    may have underflowed.
    """
    a, x = jnp.broadcast_arrays(a, x)
    info = jnp.finfo(x.dtype)
    is_empty = jnp.zeros_like(x, bool) if log_x is not None else x <= 0
    x = jnp.clip(x, info.tiny, info.max)
    log_x = jnp.log(x) if log_x is None else jnp.broadcast_to(log_x, x.shape)
    shift = a - x if shift is None else shift
    central = is_central(a, None, shift)
    inner = log_normal_tails(jnp.where(central, a, 1e9), None, jnp.where(central, shift, 0))
    ones = zip((1, 1, 0, 0), (a, x, log_x, shift), strict=True)
    outer = _log_gamma_tails(*(jnp.where(central, one, p) for one, p in ones))
    below, above = (jnp.where(central, *tails) for tails in zip(inner, outer, strict=True))
    return jnp.where(is_empty, -jnp.inf, below), jnp.where(is_empty, 0, above)


def _log_gamma_tails(a: Array, x: Array, log_x: Array, shift: Array) -> tuple[Array, Array]:
    above = _is_above(a, x)
    # Below the bound the fraction is constant to rounding: derivatives would divide by `x^2`.
    fraction = _gamma_fraction(a, jnp.maximum(x, 1e-3 * jnp.finfo(x.dtype).eps))
    tail = jnp.minimum(log_gamma_kernel(a, x, log_x, -shift) + fraction, 0)
    rest = log1mexp(tail)
    return jnp.where(above, rest, tail), jnp.where(above, tail, rest)
