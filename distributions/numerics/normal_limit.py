"""Normal limit of the incomplete beta and gamma functions: large parameters, near the middle.

A beta variable with large parameters `a` and `b` is normal up to the order `1 / sqrt(min(a, b))`.
Up to the third power of that order,

`I_x(a, b) = Phi(z) + phi(z) (1 / z - 1 / d)`.

Here `d` is the deviation of the value in standard deviations, and `z` is its signed root deviance:
`-z^2 / 2` is the exponent of the density. A gamma variable is the limit for infinite `b`.

References:
    N. M. Temme, "The asymptotic expansion of the incomplete gamma functions", SIAM Journal on
    Mathematical Analysis 10 (1979), 757-766.
    F. W. J. Olver et al., *NIST Digital Library of Mathematical Functions*: 8.12 and 8.18(ii).
"""

from typing import Any

import jax.numpy as jnp
from jax import Array

from distributions.numerics.loader_kernels import curvature, is_single
from distributions.numerics.normal_functions import log_ndtr
from distributions.numerics.special import LOG_SQRT_TWO_PI, log1mexp

# Reach of the limit, in standard deviations; farther out, continued fractions converge fast. It is
# longer for very large parameters (`is_central`): near the middle, continued fractions would then
# need more digits than there are.
_REACH = 8


def large(x: Array) -> float:
    """The parameter above which the limit may be used, in the precision of `x`."""
    return 1e4 if is_single(x) else 1e7


def is_central(a: Array, b: Array | None, shift: Array) -> Array:
    """Whether the limit is precise; `shift` is `a y - b x`, or `a - x` for a gamma variable."""
    least = a if b is None else jnp.minimum(a, b)
    inverse = 1 / a if b is None else 1 / a + 1 / b
    nearness = 1e-3 if is_single(shift) else 1e-4
    reach = jnp.maximum(_REACH, nearness * jnp.sqrt(least))
    return (least > large(shift)) & (jnp.abs(shift) * jnp.sqrt(inverse) < reach)


def log_normal_tails(a: Array, b: Array | None, shift: Array) -> tuple[Array, Array]:
    """The logarithms of the probabilities below and above the value."""
    p = 1 / a
    q = 0 if b is None else 1 / b
    inner = curvature(a, -shift) + (0 if b is None else curvature(b, shift))
    z = -shift * jnp.sqrt(inner)
    left = z < 0
    log_ratio = -0.5 * z * z - LOG_SQRT_TWO_PI - log_ndtr(-jnp.abs(z))
    excess = _correction(shift, p, q) * jnp.exp(log_ratio)
    less = log_ndtr(-jnp.abs(z)) + jnp.log1p(jnp.where(left, excess, -excess))
    more = log1mexp(less)
    return jnp.where(left, less, more), jnp.where(left, more, less)


def _correction(shift: Array, p: Any, q: Any) -> Array:
    """`1 / z - 1 / d` to the second order, from `z^2 = d^2 (1 + k s + l s^2 + m s^3 + ..)`."""
    k = 2 / 3 * (p - q)
    l = 0.5 * (p * p - p * q + q * q)  # noqa: E741
    m = 0.4 * (p - q) * (p * p + q * q)
    first = 0.375 * k * k - 0.5 * l
    second = 0.75 * k * l - 0.3125 * k * k * k - 0.5 * m
    return (0.5 * k - shift * (first + shift * second)) / jnp.sqrt(p + q)
