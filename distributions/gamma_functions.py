"""The gamma function's relatives, precise where their textbook forms cancel.

References:
    A. R. DiDonato and A. H. Morris, "Algorithm 708", ACM Transactions on Mathematical Software 18
    (1992), 360-373.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from distributions._arrays import select
from distributions.special import LOG_PI, LOG_SQRT_TWO_PI, ratio

# Coefficients of x**-(2 k + 1) in Stirling's series; at x >= 8 the rest is below 1e-14.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)

# Coefficients of x**-(2 k) in log(x) - 1 / (2 x) - digamma(x), to the same precision.
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)

# Coefficients of (x - 1/4)**(-2 k - 2) in log Gamma(x + 1/2) - log Gamma(x), at x >= 8 to 1e-15.
_HALF_STEP = (
    1 / 64,
    -5 / 2048,
    61 / 49152,
    -1385 / 1048576,
    50521 / 20971520,
    -2702765 / 402653184,
    199360981 / 7516192768,
)


def _in_inverse_squares(y: Array, coefficients: Sequence[float]) -> Array:
    """A polynomial in `1 / y^2` for `y` of 7 or more; in float32, its first three terms."""
    if y.dtype.itemsize < 8:
        coefficients = coefficients[:3]
    square = 1 / (y * y)
    total: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * square + coefficient
    return total


def large_stirling_error(x: Array) -> Array:
    """`stirling_error` for `x >= 8`, by a series."""
    return _in_inverse_squares(x, _STIRLING) / x


def _shifted(x: Array) -> tuple[Array, Array, Array]:
    """Whether `x` is below 8, the number or 1, and a number from 8 on: `x` or `x + 8`."""
    small = x < 8
    z = select(small, x, 1)
    return small, z, select(small, z + 8, x)


def _rising(z: Array) -> Array:
    """`z (z + 1) ... (z + 7)`."""
    u = z * (z + 7)
    return (u * (u + 6)) * ((u + 10) * (u + 12))


@jax.custom_jvp
def stirling_error(x: Array) -> Array:
    """`log Gamma(x) - ((x - 1/2) log x - x + log sqrt(2 pi))` for positive `x`.

    Below 8, the recurrence of the gamma function leads to `x + 8`; cheaper than a log-gamma.
    """
    small, z, y = _shifted(x)
    product, y2 = _rising(z), y * y
    shift = (z - 0.5) * jnp.log(y / z) - jnp.log(product / (y2 * y2 * y2 * y2)) - 8
    return large_stirling_error(y) + select(small, shift, 0)


@stirling_error.defjvp
def _stirling_error_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,), (x_dot,) = primals, tangents
    return stirling_error(x), (digamma_rest(x) + 0.5 / x) * x_dot


def digamma_rest(x: Array) -> Array:
    """`digamma(x) - log(x)` for positive `x`, by the same recurrence."""
    small, z, y = _shifted(x)
    u = z * (z + 7)
    slope = ((4 * u + 84) * u + 504) * u + 720
    shift = jnp.log(y / z) - (2 * z + 7) * (slope / _rising(z))
    large = (0.5 + _in_inverse_squares(y, _DIGAMMA) / y) / y
    return select(small, shift, 0) - large


@jax.jit
def log_beta(a: Array, b: Array) -> Array:
    """`log B(a, b)` for positive `a` and `b`: log-gammas of large numbers do not cancel.

    By Stirling's formula, whose logarithms are combined, with its errors, which are evaluated on a
    stack of them: less to compile.
    """
    a, b = jnp.broadcast_arrays(a, b)
    less = a < b
    small, large = select(less, a, b), select(less, b, a)
    total = a + b
    share = jnp.maximum(ratio(small, total), jnp.finfo(a.dtype).tiny)
    of_small, of_large, of_total = stirling_error(jnp.stack([small, large, total]))
    powers = small * jnp.log(share) + (large - 0.5) * jnp.log1p(-share)
    return powers - 0.5 * jnp.log(small) + LOG_SQRT_TWO_PI + (of_small + (of_large - of_total))


@jax.jit
def log_multivariate_beta(a: Array) -> Array:
    """`sum_i log Gamma(a_i) - log Gamma(sum_i a_i)` along the last axis, as `log_beta`."""
    total = jnp.sum(a, -1, keepdims=True)
    most = a > 0.5 * total  # One entry at most, whose share may be so near to 1 that it is rounded.
    others = jnp.sum(select(most, 0, a), -1, keepdims=True)
    share = ratio(select(most, others, a), total)  # Of that entry, what is left to 1.
    log_share = jnp.log(jnp.maximum(share, jnp.finfo(a.dtype).tiny))
    log_share = select(most, jnp.log1p(-share), log_share)
    errors = stirling_error(jnp.concatenate([a, total], -1))
    parts, n = (a - 0.5) * log_share + errors[..., :-1], a.shape[-1]
    rest = (n - 1) * (LOG_SQRT_TWO_PI - 0.5 * jnp.log(total)) - errors[..., -1:]
    return jnp.sum(parts, -1) + rest[..., 0]


@jax.jit
def log_beta_half(x: Array) -> Array:
    """`log B(x, 1/2)` for positive `x`, with half the operations of `log_beta`.

    By the series of `log Gamma(y + 1/2) - log Gamma(y)` in `1 / (y - 1/4)^2`, where `y` is `x`, or
    `x + 8` below 8; cheaper than log-gammas.
    """
    small, z, y = _shifted(x)
    shift = jnp.log(_rising(z + 0.5)) - jnp.log(_rising(z))
    y = y - 0.25
    step = -0.5 * jnp.log(y) - _in_inverse_squares(y, _HALF_STEP) * (1 / (y * y))
    return 0.5 * LOG_PI + step + select(small, shift, 0)
