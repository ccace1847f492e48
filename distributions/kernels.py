"""Kernels of gamma and beta densities in Loader's form: at large parameters, nothing large cancels.

The sum of a density's large terms is `a (log(1 + t) - t)`, with `t` the relative distance of the
value from the middle of the distribution, and what Stirling's formula leaves of the log-gammas.
Where parameters are small, or the value is far from the middle, the textbook's sum loses nothing.

References:
    C. Loader, "Fast and accurate computation of binomial probabilities" (2000).
    A. R. DiDonato and A. H. Morris, "Algorithm 708", ACM Transactions on Mathematical Software 18
    (1992), 360-373.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions._arrays import select
from distributions.special import LOG_SQRT_TWO_PI, log1p_or, ratio, stirling_error

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


def is_single(x: Any) -> bool:
    """Whether its precision is single, or less."""
    return np.dtype(x.dtype).itemsize < 8


def _large(x: Any) -> int:
    """From where on the rest of `_stirling_error` is below the precision of the dtype of `x`."""
    return 16 if is_single(x) else 64


def _stirling_error(x: Array) -> Array:
    """`log Gamma(x) - ((x - 1/2) log x - x + log sqrt(2 pi))` for large `x`."""
    return (1 / 12) / x if is_single(x) else 1 / (12 * x + 0.4 / x)


def _deviation(a: Array, d: Array) -> tuple[Array, Array]:
    """`a log(1 + d / a) - d`, which is about `-d**2 / (2 a)`, and whether it is precise.

    By the series of the logarithm in `r = d / (2 a + d)`, of which the first term is subtracted:
    for `d` from `-a / 2` to `a`.
    """
    r = d / (2 * a + d)
    w = r * r
    return r * (a * (w * _series(w)) - d), w < 1 / 9


def _series(w: Array) -> Array:
    """`2 (atanh(r) / r - 1) / r^2` for `w = r^2`."""
    *coefficients, total = _SINGLE if is_single(w) else _DOUBLE
    for coefficient in reversed(coefficients):
        total = coefficient + w * total
    return jnp.asarray(total)


def curvature(a: Array, d: Array) -> Array:
    """`2 (d - a log(1 + d / a)) / d**2`, about `1 / a`, for `d` small beside `a`."""
    twice = 2 * a + d
    r = d / twice
    return 2 / twice * (1 - a / twice * (r * _series(r * r)))


def is_small(*parameters: Any) -> bool:
    """Whether they are numbers at hand and so small that nothing is lost without these kernels."""
    return all(not isinstance(a, Array) and 0 < a <= _large(a) for a in parameters)


def log_gamma(a: Any) -> Any:
    """`log Gamma(a)`: for a number at hand, no operation."""
    return np.asarray(math.lgamma(a), a.dtype) if is_small(a) else lax.lgamma(a)


@jax.jit
def _log_gamma_kernel(a: Array, x: Array, log_x: Array, shift: Array | None) -> Array:
    a = lax.convert_element_type(a, x.dtype)  # Not weakly typed: that costs a conversion each.
    p = lax.max(a, jnp.full_like(a, _large(a)))
    if shift is None:
        shift = lax.min(x, jnp.full_like(x, jnp.finfo(x.dtype).max / 8)) - p
    excess, is_near = _deviation(p, shift)
    scale = 0.5 * jnp.log(p) - LOG_SQRT_TWO_PI - _stirling_error(p)
    plain = a * log_x - x - lax.lgamma(a)
    return select(is_near & (p == a), excess + scale, plain)


def log_gamma_kernel(a: Any, x: Any, log_x: Any, shift: Array | None = None) -> Array:
    """`a log x - x - log Gamma(a)`; `shift` is `x - a`, where there is a more precise way to it."""
    if is_small(a):
        return a * log_x - x - log_gamma(a)
    return _log_gamma_kernel(a, x, log_x, shift)


def log_beta_kernel(a: Any, b: Any, log_x: Any, log_y: Any, shift: Any) -> Array:
    """`a log x + b log y - log B(a, b)` for `x + y = 1`, where `shift` is `a y - b x`."""
    if is_small(a, b):
        log_beta_ = math.lgamma(a) + math.lgamma(b) - math.lgamma(float(a) + float(b))
        return a * log_x + b * log_y - log_beta_
    return _log_beta_kernel(a, b, log_x, log_y, shift)


@jax.jit
def _log_beta_kernel(a: Array, b: Array, log_x: Array, log_y: Array, shift: Array) -> Array:
    a, b = jnp.broadcast_arrays(a, b)
    both = jnp.stack([a, b, a + b])
    log_a, log_b, log_total = jnp.log(both)
    of_a, of_b, of_total = stirling_error(both)
    first = a * log1p_or(ratio(-shift, a), log_x - (log_a - log_total))
    second = b * log1p_or(ratio(shift, b), log_y - (log_b - log_total))
    # Where both are near, their first terms cancel, which may be much larger than the rest.
    is_near = (shift > -jnp.minimum(a, 0.5 * b)) & (shift < jnp.minimum(0.5 * a, b))
    near = jnp.where(is_near, shift, 0)
    excess = _deviation(a, -near)[0] + _deviation(b, near)[0]
    scale = 0.5 * (log_a + log_b - log_total) - LOG_SQRT_TWO_PI
    return jnp.where(is_near, excess, first + second) + (scale + (of_total - of_a - of_b))
