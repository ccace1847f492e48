"""Special functions that stay precise, and differentiable, where their textbook forms do not."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.custom_derivatives import SymbolicZero

from distributions.common.arrays import select

LOG_TWO = math.log(2)
LOG_PI = math.log(math.pi)
EULER_GAMMA = 0.5772156649015329
LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)
# Values of the Riemann zeta function at 2, 3, ..., 13.
ZETA = (1.6449340668482264, 1.2020569031595942, 1.0823232337111382, 1.03692775514337)
ZETA += (1.0173430619844491, 1.0083492773819228, 1.0040773561979443, 1.0020083928260822)
ZETA += (1.000994575127818, 1.000494188604119, 1.000246086553308, 1.0001227133475785)


@functools.cache
def _gauss_legendre(num: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(num)
    return 0.5 * (nodes + 1), 0.5 * weights


def gauss_legendre(like: Array, num: int = 40) -> list[np.ndarray]:
    """Gauss-Legendre nodes and weights for an integral from 0 to 1, along a new last axis."""
    return [x.reshape((1,) * like.ndim + (-1,)).astype(like.dtype) for x in _gauss_legendre(num)]


def open_uniform(key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Uniform draws in the open interval (0, 1)."""
    info = jnp.finfo(dtype)
    return jax.random.uniform(key, shape, dtype, info.tiny, 1 - info.epsneg)


def clip_positive(draw: Array) -> Array:
    """Draws clipped to positive finite numbers, where they underflowed or overflowed."""
    info = jnp.finfo(draw.dtype)
    return lax.clamp(info.tiny, draw, info.max)


def log(x: Any) -> Any:
    """`log(x)`; for a number on the host, no JAX operation."""
    if isinstance(x, Array):
        return jnp.log(x)
    return np.log(x) if np.ndim(x) else float(np.log(x))


def safe_log(x: Array) -> Array:
    """`log(x)`, and `-inf` with a gradient of zero where `x <= 0`."""
    ok = x > 0
    return select(ok, jnp.log(select(ok, x, 1)), -jnp.inf)


@jax.custom_jvp
def steep_log(x: Array) -> Array:
    """`log(x)`, with derivatives that do not square `x`, whose square may underflow."""
    return jnp.log(x)


@steep_log.defjvp
def _steep_log_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    return steep_log(*primals), ratio(tangents[0], primals[0])


def log_unless_tiny(x: Array, log_x: Array) -> Array:
    """`log(x)`, and the given one where the square of `x` underflows, or `x` itself does."""
    info = jnp.finfo(x.dtype)
    is_tiny = x < float(info.tiny) ** 0.5
    return select(is_tiny, log_x, jnp.log(jnp.minimum(select(is_tiny, 1, x), info.max)))


def safe_log1m(x: Array) -> Array:
    """`log(1 - x)`, and `-inf` with a gradient of zero where `x >= 1`."""
    ok = x < 1
    return select(ok, jnp.log1p(-select(ok, x, 0)), -jnp.inf)


@jax.custom_jvp
def log_weighted_sum(weights: Array, x: Array) -> Array:
    """`log(sum(weights exp(x)))` along the last axis, `-inf` where no part has a weight.

    The derivative with respect to a weight, `exp(x - result)`, is right for a weight of 0, too,
    below the root of the greatest number; it is no greater. All derivatives are zero where the
    result is `-inf`.
    """
    has_weight = weights > 0
    most = jnp.max(select(has_weight, x, -jnp.inf), -1, keepdims=True)
    most = select(lax.is_finite(most), most, 0)
    parts = select(has_weight, weights, 0) * jnp.exp(select(has_weight, x - most, 0))
    return jnp.log(jnp.sum(parts, -1)) + most[..., 0]


@log_weighted_sum.defjvp
def _log_weighted_sum_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    weights, x = primals
    total = log_weighted_sum(weights, x)
    excess = x - select(lax.is_finite(total), total, 0)[..., None]
    most = 0.5 * math.log(float(jnp.finfo(x.dtype).max))
    slope = jnp.exp(jnp.minimum(excess, most))
    is_tiny = (weights > 0) & (excess > most)  # a weight whose slope would overflow
    log_weight = jnp.log(select(is_tiny, weights, 1))
    share = select(is_tiny, jnp.exp(select(is_tiny, excess, 0) + log_weight), weights * slope)
    dot = jnp.sum(share * tangents[1] + slope * tangents[0], -1)
    return total, select(total == -jnp.inf, 0, dot)


def safe_exp(x: Array) -> Array:
    """`exp(x)`, and infinity with a gradient of zero where it overflows."""
    is_large = x >= math.log(float(jnp.finfo(x.dtype).max))
    return select(is_large, jnp.inf, jnp.exp(select(is_large, 0, x)))


def scaled_power(scale: Array, x: Array, y: Array) -> Array:
    """`scale x^y` for `x >= 0`, and infinity with a gradient of zero where the power overflows."""
    overflows = y * jnp.log(x) >= math.log(float(jnp.finfo(x.dtype).max))
    return select(overflows, jnp.inf, scale * jnp.power(select(overflows, 1, x), y))


def times_log(x: Array, log_y: Array) -> Array:
    """`x log_y`, and 0 where `x` is 0, whatever the logarithm."""
    return select(x == 0, 0, select(x == 0, 1, x) * log_y)


def ratio(x: Any, scale: Any) -> Any:
    """`x / scale`, with a derivative in `scale` that does not square it.

    The derivative of JAX's quotient does: in single precision the square of 1e-30 is 0.
    """
    return _quotient(x, scale, False) if isinstance(scale, Array) else x / scale


def scale_by_reciprocal(x: Any, scale: Any) -> Any:
    """`ratio` to within a rounding, by reciprocals if there are fewer scales than values.

    A reciprocal is 0 for scales next to the largest number, in single precision from 8.5e37 on.
    """
    return _quotient(x, scale, True) if _has_fewer(scale, x) else ratio(x, scale)


def _has_fewer(scale: Any, x: Any) -> bool:
    is_fewer = isinstance(scale, Array) and (scale.ndim == 0 or scale.size < np.size(x))
    return is_fewer and _has_reciprocal(scale)


def _has_reciprocal(scale: Array) -> bool:
    """Whether reciprocals may be taken; in half precision they overflow below 1.5e-5."""
    return scale.dtype.itemsize >= 4


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _quotient(x: Array, scale: Array, by_reciprocal: bool) -> Array:
    return x * (1 / scale) if by_reciprocal else x / scale


def _quotient_jvp(by_reciprocal: bool, primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x, scale), (x_dot, scale_dot) = primals, tangents
    z = _quotient(x, scale, by_reciprocal)
    # A quotient that overflows has a slope of 0: a product with an infinite one would be NaN.
    is_finite = jnp.abs(z) < jnp.inf
    change = jnp.zeros((), z.dtype) if isinstance(x_dot, SymbolicZero) else x_dot
    if not isinstance(scale_dot, SymbolicZero):
        change = change - select(is_finite, z, 0) * scale_dot
    change = select(is_finite, change, 0)
    # A reciprocal: XLA rewrites a quotient of a quotient by the square of the scale.
    return z, _quotient(change, scale, _has_reciprocal(scale))


_quotient.defjvp(_quotient_jvp, symbolic_zeros=True)


def finite_slopes(formula: Callable[..., Array]) -> Callable[..., Array]:
    """A formula of single numbers, with derivatives of 0 where its value is infinite or NaN.

    Values are infinite or NaN outside of a support and where a density underflows: the chain rule
    would multiply 0 by infinity there. Each argument is differentiated by itself, in forward mode,
    so that its derivative can be selected. Formulas take longer to trace, and quadratures to run.
    """

    def of_numbers(*arguments: Any) -> Array:
        places = [i for i, x in enumerate(arguments) if isinstance(x, Array)]

        @jax.custom_jvp
        def call(*arrays: Array) -> Array:
            changed = dict(zip(places, arrays, strict=True))
            return formula(*(changed.get(i, x) for i, x in enumerate(arguments)))

        @functools.partial(call.defjvp, symbolic_zeros=True)
        def _(primals: tuple[Array, ...], tangents: Any) -> tuple[Array, Any]:
            value = call(*primals)
            total = 0
            is_finite = jnp.abs(value) < jnp.inf
            for i, (x, x_dot) in enumerate(zip(primals, tangents, strict=True)):
                if not isinstance(x_dot, SymbolicZero):

                    def alone(x, i=i):
                        return call.fun(*primals[:i], x, *primals[i + 1 :])

                    slope = jax.jvp(alone, (x,), (jnp.ones_like(x),))[1]
                    total = total + select(is_finite, slope, 0) * x_dot
            return value, total

        return call(*(arguments[i] for i in places))

    return of_numbers


def exponentials(x: Array) -> tuple[Array, Array]:
    """`exp(x)` and `exp(x) - 1`, by one exponential and, near 0, a series."""
    value = jnp.exp(x)
    near = jnp.abs(x) < 0.5
    y = select(near, x, 0)
    last = 9 if x.dtype.itemsize < 8 else 16
    total: Any = 1 / math.factorial(last)
    for n in range(last - 1, 1, -1):
        total = total * y + 1 / math.factorial(n)
    return value, select(near, x + total * (y * y), value - 1)


@jax.custom_jvp
def bounded_ratio(x: Array, scale: Array) -> Array:
    """`x / scale`, clipped to the largest number, with derivatives of 0 where it is clipped.

    Derivatives that overflow are clipped to large numbers, whose sums and differences are finite.
    """
    most = jnp.finfo(x.dtype).max
    return lax.clamp(-most, x / scale, most)


@bounded_ratio.defjvp
def _bounded_ratio_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x, scale), (x_dot, scale_dot) = primals, tangents
    z = bounded_ratio(x, scale)
    inverse = _clip_large(1 / scale)
    inside = jnp.abs(z) < jnp.finfo(z.dtype).max
    by_x, by_scale = (select(inside, slope, 0) for slope in (inverse, _clip_large(-z * inverse)))
    return z, by_x * x_dot + by_scale * scale_dot


def _clip_large(x: Array) -> Array:
    most = jnp.finfo(x.dtype).max / 1024
    return lax.clamp(-most, x, most)


def log_two_sided(k: Array) -> Array:
    """`log(k + 1 / k)`."""
    return jnp.logaddexp(jnp.log(k), -jnp.log(k))


def log1p_quotient(x: Array, scale: Array) -> Array:
    """`log(1 + x / scale)` for nonnegative numbers, whose quotient may overflow."""
    far = x / min(1e10, float(jnp.finfo(x.dtype).max) / 8) > scale
    near = jnp.log1p(ratio(jnp.where(far, 0, x), scale))
    some = jnp.where(far, x, 1)
    rest = jnp.where(far, scale, 0) / some  # log(1 + u) - log(u) for large u = x / scale.
    return jnp.where(far, jnp.log(some) - jnp.log(scale) + rest, near)


@jax.custom_jvp
def log_quotient(high: Array, low: Array) -> Array:
    """`log(high / low)`, precise where they are near and where the quotient overflows."""
    near = (low < high) & (high < 2 * low)
    quotient = high / low
    excess = jnp.where(near, high - low, 0) / low
    far = jnp.where(quotient < jnp.inf, jnp.log(quotient), jnp.log(high) - jnp.log(low))
    return jnp.where(near, jnp.log1p(excess), far)


@log_quotient.defjvp
def _log_quotient_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (high, low), (high_dot, low_dot) = primals, tangents
    return log_quotient(high, low), high_dot / high - low_dot / low


def log1p_or(u: Array, far: Array) -> Array:
    """`log(1 + u)` for `u` near 0, and `far` elsewhere."""
    near = jnp.abs(u) < 0.5
    return select(near, jnp.log1p(select(near, u, 0)), far)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def log1p_square(x: Array, in_sum: bool = False) -> Array:
    """`log(1 + x^2)`, with its derivative also where the square overflows.

    With `in_sum` the error is a rounding of 1, not of the result, in half the time.
    """
    return _log1p_square(x, 2, lax.abs(x), in_sum)


def _log1p_square(x: Array, power: int, far: Array, in_sum: bool) -> Array:
    """`log(1 + x^2)`, or `power log(1 + far)` where the square is large."""
    is_far = _is_far(x)
    large = select(is_far, far, x * x)
    logarithm = lax.log(1 + large) if in_sum else lax.log1p(large)
    return select(is_far, power, jnp.ones_like(x)) * logarithm


def _is_far(x: Array) -> Array:
    """Whether 1 is below rounding beside `|x|`, or the square is near overflow."""
    info = jnp.finfo(x.dtype)
    return jnp.abs(x) > min(1 / float(info.eps), 0.5 * float(info.max) ** 0.5)


@log1p_square.defjvp
def _log1p_square_jvp(in_sum: bool, primals: Any, tangents: Any) -> tuple[Array, Array]:
    return log1p_square(*primals, in_sum), _slope_of_square(*primals) * tangents[0]


def _slope_of_square(x: Array) -> Array:
    far = _is_far(x)
    above = select(far, 2, 2 * x)
    below = select(far, x, 1 + x * x)
    return above / below if x.dtype.itemsize >= 4 else ratio(above, below)


def log1p_square_ratio(x: Any, scale: Any, *, in_sum: bool = False) -> Array:
    """`log(1 + (x / scale)^2)`: neither it nor its derivatives overflow with the quotient."""
    if not isinstance(scale, Array):
        return log1p_square(x / scale, in_sum)
    return _log1p_square_ratio(x, scale, in_sum)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def _log1p_square_ratio(x: Array, scale: Array, in_sum: bool) -> Array:
    z = x * (1 / scale) if _has_fewer(scale, x) else x / scale
    root = lax.sqrt(lax.abs(x)) * (1 / lax.sqrt(scale))  # Root of a quotient that may overflow.
    return _log1p_square(z, 4, root - 1, in_sum)


@_log1p_square_ratio.defjvp
def _log1p_square_ratio_jvp(in_sum: bool, primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x, scale), (x_dot, scale_dot) = primals, tangents
    z = scale_by_reciprocal(x, scale)
    slope = _slope_of_square(z)
    by_scale = select(_is_far(z), 2, slope * z)
    # Tangents are divided: a slope over a large scale may underflow before it is multiplied.
    dot = slope * scale_by_reciprocal(x_dot, scale) - by_scale * scale_by_reciprocal(
        scale_dot, scale
    )
    return _log1p_square_ratio(x, scale, in_sum), dot


@jax.custom_jvp
def hypot(x: Array, y: Array) -> Array:
    """`sqrt(x^2 + y^2)`, with its derivatives also where the squares underflow or overflow."""
    return jnp.hypot(x, y)


@hypot.defjvp
def _hypot_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x, y), (x_dot, y_dot) = primals, tangents
    length = hypot(x, y)
    return length, (x / length) * x_dot + (y / length) * y_dot


@jax.custom_jvp
def arcsinh_ratio(x: Array, scale: Array) -> Array:
    """`arcsinh(x / scale)`, without the quotient where that may overflow."""
    far = jnp.abs(x) > scale
    large = jnp.log(0.5 * jnp.abs(x) + 0.5 * hypot(x, scale)) + LOG_TWO - jnp.log(scale)
    small = jnp.arcsinh(jnp.where(far, 0, x) / scale)
    return jnp.where(far, jnp.sign(x) * large, small)


@arcsinh_ratio.defjvp
def _arcsinh_ratio_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x, scale), (x_dot, scale_dot) = primals, tangents
    length = hypot(x, scale)
    return arcsinh_ratio(x, scale), x_dot / length - (x / length) * (scale_dot / scale)


def log1p_ratio(u: Array) -> Array:
    """`log(1 + u) / u`, precise with its derivatives near 0."""
    small = jnp.abs(u) < 0.01
    v = jnp.where(small, u, 0)
    w = jnp.where(small, 1, u)
    series = sum((-v) ** k / (k + 1) for k in range(8))
    return jnp.where(small, series, jnp.log1p(w) / w)


def expm1_ratio(u: Array) -> Array:
    """`(exp(u) - 1) / u`, precise with its derivatives near 0."""
    small = jnp.abs(u) < 0.01
    v = jnp.where(small, u, 0)
    w = jnp.where(small, 1, u)
    series = sum(v**k / math.factorial(k + 1) for k in range(7))
    return jnp.where(small, series, jnp.expm1(w) / w)


def log1mexp(x: Array) -> Array:
    """`log(1 - exp(x))` for `x <= 0`, precise at both ends (Maechler 2012, equation 7)."""
    near = x > -0.6931472
    inner = near & (x <= -jnp.finfo(x.dtype).tiny)
    below = select(inner, jnp.log(-jnp.expm1(select(inner, x, -1))), -jnp.inf)
    return select(near, below, jnp.log1p(-jnp.exp(select(near, -1, x))))


def complement_of_exp(x: Array) -> Array:
    """`1 - exp(x)` for `x <= 0`, precise at both ends, with precise derivatives.

    The derivative of `expm1` is `expm1(x) + 1` in JAX, which cancels far below zero.
    """
    near = x > -0.6931472
    return select(near, -jnp.expm1(select(near, x, 0)), 1 - jnp.exp(select(near, -1, x)))


def log1mexp_exp(z: Array) -> Array:
    """`log(1 - exp(-exp(-z)))`, about `-z` for large `z`."""
    y = safe_exp(-z)
    small = jnp.where(z > 8, y, 0)
    near = -z - small / 2 + small * small / 24
    far = jnp.log1p(-jnp.exp(-jnp.where(z < 0, y, 1)))
    middle = jnp.log(-jnp.expm1(-jnp.where((z < 0) | (z > 8), 1, y)))
    return jnp.where(z > 8, near, jnp.where(z < 0, far, middle))
