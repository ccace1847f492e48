"""Kernels of gamma and beta densities in Loader's form: at large parameters, nothing large cancels.

The large terms of a log density sum to `a (log(1 + t) - t)` and to errors of Stirling's formula,
with `t` the relative distance of the value from the middle of the distribution. For small
parameters, or values far from the middle, the textbook's sum loses nothing.

References:
    C. Loader, "Fast and accurate computation of binomial probabilities" (2000).
    A. R. DiDonato and A. H. Morris, "Algorithm 708", ACM Transactions on Mathematical Software 18
    (1992), 360-373.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.common.arrays import select
from distributions.numerics.gamma_functions import digamma_rest, stirling_error
from distributions.numerics.special import LOG_SQRT_TWO_PI

# The best polynomials in r^2 <= 1/9 for 2 (atanh(r) / r - 1) / r^2, in single and in double
# precision.
_SINGLE = (0.66666639, 0.400077823, 0.282312804, 0.26883609)
_DOUBLE = (
    0.66666666666666658,
    0.40000000000015248,
    0.28571428566948395,
    0.22222222732285749,
    0.18181788746989779,
    0.15385588012669137,
    0.13313869718013367,
    0.1200351898427581,
    0.08788984735945029,
    0.1618757452483668,
)

# The best polynomials in x from -1/4 to 1/4 for (exp(x) - 1 - x) / x^2, in single and double
# precision.
_SINGLE_EXP = (0.5, 0.166666424, 0.0416666121, 0.00834884846, 0.00139121592)
_DOUBLE_EXP = (
    0.5,
    0.16666666666666667,
    0.041666666666663553,
    0.0083333333333328064,
    0.00138888888928742,
    0.00019841269845990626,
    2.4801569449078824e-5,
    2.7557301960919926e-6,
    2.7589957646552668e-7,
    2.507972443438723e-8,
)


def is_single(x: Any) -> bool:
    """Whether `x` has single precision or less."""
    return np.dtype(x.dtype).itemsize < 8


def _large(x: Any) -> int:
    """The parameter up to which the textbook's sum is as precise as the dtype of `x`."""
    return 16 if is_single(x) else 64


def deviation(a: Array, d: Array) -> tuple[Array, Array]:
    """`a log(1 + d / a) - d`, which is about `-d**2 / (2 a)`, and whether it is precise.

    A series of the logarithm in `r = d / (2 a + d)`, whose first term is subtracted. It is precise
    for `d` from `-a / 2` to `a`.
    """
    r = d / (2 * a + d)
    w = r * r
    return r * (a * (w * _series(w)) - d), w < 1 / 9


def relative_excess(e: Array, log: Array) -> Array:
    """`e - log(1 + e)`, precise near 0; elsewhere from `log`, the given `log(1 + e)`."""
    near = (e > -0.5) & (e < 1)
    small = select(near, e, 0)
    return select(near, -deviation(jnp.ones_like(small), small)[0], e - log)


def _series(w: Array) -> Array:
    """`2 (atanh(r) / r - 1) / r^2` for `w = r^2`."""
    return _polynomial(_SINGLE if is_single(w) else _DOUBLE, w)


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """A polynomial in `x`, given with its lowest coefficient first."""
    *coefficients, total = coefficients
    for coefficient in reversed(coefficients):
        total = coefficient + x * total
    return jnp.asarray(total)


def exp_rest(x: Array) -> Array:
    """`exp(x) - 1 - x` for `x` from -1/4 to 1/4; farther from 0, the terms do not cancel."""
    return x * x * _polynomial(_SINGLE_EXP if is_single(x) else _DOUBLE_EXP, x)


def curvature(a: Array, d: Array) -> Array:
    """`2 (d - a log(1 + d / a)) / d**2`, about `1 / a`, for `d` small beside `a`."""
    twice = 2 * a + d
    r = d / twice
    return 2 / twice * (1 - a / twice * (r * _series(r * r)))


def is_small(a: Any) -> bool:
    """Whether a parameter is a number on the host, so small that the textbook's sum is precise."""
    return not isinstance(a, Array) and 0 < a <= _large(a)


def _is_small_pair(a: Any, b: Any) -> bool:
    """Whether two parameters of a beta density are host numbers with a precise textbook sum.

    The terms at the mean of the density must be no larger than for two small parameters. An example
    are 1 and 50: the logarithm that multiplies 50 is small.
    """
    if any(isinstance(x, Array) for x in (a, b)):
        return False
    low, high = sorted((float(a), float(b)))
    if not 0 < low <= high <= 1e4:
        return False
    terms = low * math.log1p(high / low) + high * math.log1p(low / high)
    return terms <= 2 * _large(a) * math.log(2)


def log_gamma(a: Any) -> Any:
    """`log Gamma(a)`; for a small number on the host, no operation."""
    return np.asarray(math.lgamma(a), a.dtype) if is_small(a) else lax.lgamma(a)


@jax.jit
def _log_gamma_kernel(a: Array, x: Array, log_x: Array, shift: Array | None) -> Array:
    a = lax.convert_element_type(a, x.dtype)  # A weak type costs a conversion in each operation.
    if shift is None:
        shift = lax.min(x, jnp.full_like(x, jnp.finfo(x.dtype).max / 8)) - a
    return _gamma_kernel(a, log_x, x, shift)


@jax.custom_jvp
def _gamma_kernel(a: Array, log_x: Array, x: Array, shift: Array) -> Array:
    """The gamma kernel as a function of `a` and `log_x`, which determine `x` and `shift`."""
    return _gamma_parts(a, log_x, x, shift)[0]


def _gamma_parts(a: Array, log_x: Array, x: Array, shift: Array) -> tuple[Array, ...]:
    """The kernel; its term in `shift`, for `x` near `a`; whether `x` is near; and `log(x / a)`."""
    log_a = jnp.log(a)
    rest, is_near = deviation(a, shift)
    far = log_x - log_a
    scale = 0.5 * log_a - LOG_SQRT_TWO_PI - stirling_error(a)
    return select(is_near, rest, a * far - shift) + scale, rest, is_near, far


@_gamma_kernel.defjvp
def _gamma_kernel_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    a = primals[0]
    shift = primals[3]
    value, rest, is_near, far = _gamma_parts(*primals)
    by_a = select(is_near, (rest + shift) / a, far) - digamma_rest(a)
    return value, by_a * tangents[0] - shift * tangents[1]


def log_gamma_kernel(a: Any, x: Any, log_x: Any, shift: Array | None = None) -> Array:
    """`a log x - x - log Gamma(a)`; `shift` is `x - a`, if it is known more precisely."""
    if is_small(a):
        return a * log_x - x - log_gamma(a)
    return _log_gamma_kernel(a, x, log_x, shift)


def log_beta_kernel(a: Any, b: Any, log_x: Any, log_y: Any, shift: Any) -> Array:
    """`a log x + b log y - log B(a, b)` for `x + y = 1`, where `shift` is `a y - b x`."""
    if _is_small_pair(a, b):
        log_beta_ = math.lgamma(a) + math.lgamma(b) - math.lgamma(float(a) + float(b))
        return a * log_x + b * log_y - log_beta_
    return _log_beta_kernel(a, b, log_x, log_y, shift)


@jax.jit
def _log_beta_kernel(a: Array, b: Array, log_x: Array, log_y: Array, shift: Array) -> Array:
    a, b = jnp.broadcast_arrays(a, b)
    return _beta_kernel(a, b, log_x, log_y, shift)


def _beta_parts(a: Array, b: Array, log_x: Array, log_y: Array, shift: Array) -> tuple[Array, ...]:
    """The kernel; `log(x / p)` and `log(y / (1 - p))` for `p = a / (a + b)`."""
    both = jnp.stack([a, b, a + b])
    log_a, log_b, log_total = jnp.log(both)
    of_a, of_b, of_total = stirling_error(both)
    shares = log_x - (log_a - log_total), log_y - (log_b - log_total)
    kernel, by_a, by_b = _weighted_log_shares(a, b, *shares, shift)
    scale = 0.5 * (log_a + log_b - log_total) - LOG_SQRT_TWO_PI
    return kernel + (scale + (of_total - of_a - of_b)), by_a, by_b


@jax.custom_jvp
def _beta_kernel(a: Array, b: Array, log_x: Array, log_y: Array, shift: Array) -> Array:
    """The beta kernel as a function of all but `shift`, which the others determine."""
    return _beta_parts(a, b, log_x, log_y, shift)[0]


@_beta_kernel.defjvp
def _beta_kernel_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    a, b, _, _, shift = primals
    value, by_a, by_b = _beta_parts(*primals)
    of_a, of_b, of_total = digamma_rest(jnp.stack([a, b, a + b]))
    of_both = (by_a - (of_a - of_total)) * tangents[0] + (by_b - (of_b - of_total)) * tangents[1]
    return value, of_both + shift * (tangents[2] - tangents[3])


def _weighted_log_shares(
    a: Any, b: Any, log_p: Array, log_q: Array, shift: Array
) -> tuple[Array, ...]:
    """`a log_p + b log_q`, and the two logarithms, precise near 0.

    `exp(log_p)` is `1 - shift / a`, and `exp(log_q)` is `1 + shift / b`. Near 1, the first terms of
    the two series cancel; they may be much larger than the rest.
    """
    (rest_a, near_a), (rest_b, near_b) = deviation(a, -shift), deviation(b, shift)
    first = select(near_a, rest_a, a * log_p)
    second = select(near_b, rest_b, b * log_q)
    linear = select(near_b, shift, 0) - select(near_a, shift, 0)
    by_a = select(near_a, (rest_a - shift) / a, log_p)
    by_b = select(near_b, (rest_b + shift) / b, log_q)
    return first + second + linear, by_a, by_b
