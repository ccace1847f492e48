"""Log-gamma, digamma and log-beta functions, precise where their textbook forms cancel.

References:
    A. R. DiDonato and A. H. Morris, "Algorithm 708", ACM Transactions on Mathematical Software 18
    (1992), 360-373.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from distributions.common.arrays import select
from distributions.numerics.special import LOG_PI, LOG_SQRT_TWO_PI, ratio

# Coefficients of x**-(2 k + 1) in Stirling's series. The error is below 1e-14 for x >= 8; the error
# of the first three terms is below 4e-8 for x >= 4.
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
    """A polynomial in `1 / y^2` for large `y`; in float32, its first three terms."""
    if y.dtype.itemsize < 8:
        coefficients = coefficients[:3]
    square = 1 / (y * y)
    total: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * square + coefficient
    return total


def large_stirling_error(x: Array) -> Array:
    """`stirling_error` for `x >= 8`, or 4 in float32, by a series."""
    return _in_inverse_squares(x, _STIRLING) / x


def num_steps(x: Array) -> int:
    """The least `x` for which the series are precise; as many steps of 1 lead there from 0."""
    return 8 if x.dtype.itemsize == 8 else 4


def _shift_small(x: Array) -> tuple[Array, Array, Array]:
    """Whether `x` is small; `x` if it is, else 1; and `x`, raised by steps if it is small."""
    steps = num_steps(x)
    small = x < steps
    z = select(small, x, 1)
    return small, z, select(small, z + steps, x)


def _rising_factorial(z: Array) -> Array:
    """`z (z + 1) ... (z + n - 1)` for `n` steps."""
    if num_steps(z) == 4:
        u = z * (z + 3)
        return u * (u + 2)
    u = z * (z + 7)
    return (u * (u + 6)) * ((u + 10) * (u + 12))


def _inverse_sum(z: Array) -> Array:
    """`1 / z + ... + 1 / (z + n - 1)`, the derivative of the log of `_rising_factorial`."""
    if num_steps(z) == 4:
        return (2 * z + 3) * ((2 * (z * (z + 3)) + 2) / _rising_factorial(z))
    u = z * (z + 7)
    return (2 * z + 7) * ((((4 * u + 84) * u + 504) * u + 720) / _rising_factorial(z))


@jax.custom_jvp
def stirling_error(x: Array) -> Array:
    """`log Gamma(x) - ((x - 1/2) log x - x + log sqrt(2 pi))` for positive `x`.

    Small `x` are raised by the recurrence of the gamma function; cheaper than a log-gamma.
    """
    steps, (small, z, y) = num_steps(x), _shift_small(x)
    product = _rising_factorial(z)
    power = y * y
    for _ in range(steps.bit_length() - 2):
        power = power * power
    shift = (z - 0.5) * jnp.log(y / z) - jnp.log(product / power) - steps
    return large_stirling_error(y) + select(small, shift, 0)


@stirling_error.defjvp
def _stirling_error_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (x,), (x_dot,) = primals, tangents
    return stirling_error(x), (digamma_rest(x) + 0.5 / x) * x_dot


def digamma_rest(x: Array) -> Array:
    """`digamma(x) - log(x)` for positive `x`; small `x` are raised by the recurrence."""
    small, z, y = _shift_small(x)
    shift = jnp.log(y / z) - _inverse_sum(z)
    large = (0.5 + _in_inverse_squares(y, _DIGAMMA) / y) / y
    return select(small, shift, 0) - large


@jax.jit
def log_beta(a: Array, b: Array) -> Array:
    """`log B(a, b)` for positive `a` and `b`, without log-gammas of large numbers that cancel.

    Stirling's formula with combined logarithms; its three errors are evaluated on one stack, which
    is less to compile.
    """
    a, b = jnp.broadcast_arrays(a, b)
    less = a < b
    small = select(less, a, b)
    large = select(less, b, a)
    total = a + b
    share = jnp.maximum(ratio(small, total), jnp.finfo(a.dtype).tiny)
    of_small, of_large, of_total = stirling_error(jnp.stack([small, large, total]))
    powers = small * jnp.log(share) + (large - 0.5) * jnp.log1p(-share)
    return powers - 0.5 * jnp.log(small) + LOG_SQRT_TWO_PI + (of_small + (of_large - of_total))


@jax.jit
def log_multivariate_beta(a: Array) -> Array:
    """`sum_i log Gamma(a_i) - log Gamma(sum_i a_i)` along the last axis, precise as `log_beta`."""
    total = jnp.sum(a, -1, keepdims=True)
    most = a > 0.5 * total  # At most one entry, with a share that may round to 1.
    others = jnp.sum(select(most, 0, a), -1, keepdims=True)
    share = ratio(select(most, others, a), total)  # For that entry, 1 minus its share.
    log_share = jnp.log(jnp.maximum(share, jnp.finfo(a.dtype).tiny))
    log_share = select(most, jnp.log1p(-share), log_share)
    errors = stirling_error(jnp.concatenate([a, total], -1))
    parts = (a - 0.5) * log_share + errors[..., :-1]
    n = a.shape[-1]
    rest = (n - 1) * (LOG_SQRT_TWO_PI - 0.5 * jnp.log(total)) - errors[..., -1:]
    return jnp.sum(parts, -1) + rest[..., 0]


def gamma_entropy(a: Array, power: Any = 1.0) -> Array:
    """`log Gamma(a) + a - (a - power) digamma(a)`: for a power of 1, a gamma variable's entropy."""
    rest = stirling_error(a) - (a - power) * digamma_rest(a)
    return LOG_SQRT_TWO_PI + (power - 0.5) * jnp.log(a) + rest


def dirichlet_entropy(a: Array, powers: Sequence[float] | None = None) -> Array:
    """`log B(a) - sum_i (a_i - powers_i) (digamma(a_i) - digamma(sum a))`, along the last axis.

    With powers of 1, the default, it is the entropy of a Dirichlet distribution.
    """
    total = jnp.sum(a, -1, keepdims=True)
    n = a.shape[-1]
    p = np.reshape(n * (1.0,) if powers is None else powers, (1,) * (a.ndim - 1) + (n,))
    p = p.astype(a.dtype)
    parts = (p - 0.5) * jnp.log(a / total) + stirling_error(a) - (a - p) * digamma_rest(a)
    rest = (total - p.sum()) * digamma_rest(total) - stirling_error(total)
    rest += (n - 1) * (LOG_SQRT_TWO_PI - 0.5 * jnp.log(total))
    return jnp.sum(parts, -1) + rest[..., 0]


def digamma_step(x: Array, step: Any) -> Array:
    """`digamma(x + step) - digamma(x)` for positive `x` and `step`."""
    return jnp.log1p(step / x) + (digamma_rest(x + step) - digamma_rest(x))


@jax.jit
def log_beta_half(x: Array) -> Array:
    """`log B(x, 1/2)` for positive `x`, with half the operations of `log_beta`.

    The series of `log Gamma(y + 1/2) - log Gamma(y)` in `1 / (y - 1/4)^2`, where `y` is `x` or some
    steps above; cheaper than log-gammas.
    """
    small, z, y = _shift_small(x)
    shift = jnp.log(_rising_factorial(z + 0.5)) - jnp.log(_rising_factorial(z))
    y = y - 0.25
    step = -0.5 * jnp.log(y) - _in_inverse_squares(y, _HALF_STEP) * (1 / (y * y))
    return 0.5 * LOG_PI + step + select(small, shift, 0)
