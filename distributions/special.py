"""Special functions that stay precise, and differentiable, where their textbook forms do not.

References:
    A. R. DiDonato and A. H. Morris, "Algorithm 708", ACM Transactions on Mathematical Software 18
    (1992), 360-373.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.scipy import special as jsp

LOG_TWO = math.log(2)
LOG_PI = math.log(math.pi)
LOG_SQRT_TWO_PI = 0.5 * math.log(2 * math.pi)

_ROOT_HALF = math.sqrt(0.5)
_GAUSS_LEGENDRE = np.polynomial.legendre.leggauss(10)

# Coefficients of x**-(2 k + 1) in Stirling's series; at x >= 8 the rest is below 1e-14.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)


def safe_log(x: Array) -> Array:
    """`log(x)`, and `-inf` with a gradient of zero where `x <= 0`."""
    ok = x > 0
    return jnp.where(ok, jnp.log(jnp.where(ok, x, 1)), -jnp.inf)


def x_log_y(x: Array, y: Array) -> Array:
    """`x log(y)`, and 0 where `x` is 0; no gradient is NaN."""
    return jnp.where(x == 0, 0, jnp.where(x == 0, 1, x) * safe_log(y))


def x_log1m_y(x: Array, y: Array) -> Array:
    """`x log(1 - y)`, and 0 where `x` is 0; no gradient is NaN."""
    ok = y < 1
    log = jnp.where(ok, jnp.log1p(-jnp.where(ok, y, 0)), -jnp.inf)
    return jnp.where(x == 0, 0, jnp.where(x == 0, 1, x) * log)


def stirling_error(x: Array) -> Array:
    """`log Gamma(x) - ((x - 1/2) log x - x + log sqrt(2 pi))` for `x >= 8`."""
    y = 1 / (x * x)
    total = jnp.zeros_like(x)
    for coefficient in reversed(_STIRLING):
        total = total * y + coefficient
    return total / x


@jax.jit
def log_beta(a: Array, b: Array) -> Array:
    """`log B(a, b)` for positive `a` and `b`: log-gammas of large numbers do not cancel."""
    small, large = jnp.minimum(a, b), jnp.maximum(a, b)
    p, q = jnp.maximum(small, 8), jnp.maximum(large, 8)
    log_p, log_q = jnp.log(p / (p + q)), -jnp.log1p(p / q)
    both = LOG_SQRT_TWO_PI - 0.5 * jnp.log(q) + (p - 0.5) * log_p + q * log_q
    both = both + stirling_error(p) + stirling_error(q) - stirling_error(p + q)
    s = jnp.minimum(small, 8)
    one = lax.lgamma(s) + s - s * jnp.log(s + q) - (q - 0.5) * jnp.log1p(s / q)
    one = one + stirling_error(q) - stirling_error(s + q)
    r = jnp.minimum(large, 8)
    none = lax.lgamma(s) + lax.lgamma(r) - lax.lgamma(s + r)
    return jnp.where(large < 8, none, jnp.where(small < 8, one, both))


def erfcx(x: Array) -> Array:
    """The scaled complementary error function `exp(x^2) erfc(x)` for `x >= 0`.

    Far out it is the asymptotic series: JAX 0.10's function is 0 there in a narrow window where
    `erfc` underflows.
    """
    x = jnp.asarray(x)
    far = 20 if x.dtype == jnp.float64 else 6
    y = jnp.maximum(x, far)
    total = jnp.ones_like(y)
    for k in range(8, 0, -1):
        total = 1 - (2 * k - 1) / (2 * y * y) * total
    return jnp.where(x < far, jsp.erfcx(jnp.minimum(x, far)), total / (y * math.sqrt(math.pi)))


def _tail(a: Array, b: Array) -> Array:
    """`log integral_a^b exp((a^2 - t^2) / 2) dt` for `0 <= a < b`, `b` finite or not."""
    narrow = (b - a) * jnp.maximum(a, 1) < 1
    half = jnp.where(narrow, 0.5 * (b - a), 0.5)
    decay = jnp.where(narrow, a, 0)
    quadrature = jnp.zeros_like(half)
    for node, weight in zip(*(c.tolist() for c in _GAUSS_LEGENDRE), strict=True):
        u = half * (1 + node)
        quadrature = quadrature + weight * jnp.exp(-u * (decay + 0.5 * u))
    beyond = ~narrow & (b < jnp.inf)
    c = jnp.where(beyond, b, a + 1)
    rest = jnp.where(beyond, jnp.exp(-0.5 * (c - a) * (c + a)) * erfcx(c * _ROOT_HALF), 0)
    wide = math.sqrt(math.pi / 2) * (erfcx(a * _ROOT_HALF) - rest)
    return jnp.where(narrow, jnp.log(half * quadrature), jnp.log(wide))


@jax.jit
def log_normal_mass(a: Array, b: Array) -> tuple[Array, Array]:
    """`anchor` and `log integral_a^b exp((anchor^2 - t^2) / 2) dt` for `a < b`, finite or not.

    The anchor is the point of the interval that is nearest to 0: far out in a tail the large term
    `anchor^2 / 2` can then be subtracted where it cancels exactly. Narrow intervals are integrated
    by Gauss-Legendre quadrature, wide ones by scaled complementary error functions.
    """
    across = (a < 0) & (b > 0)
    left = b <= 0
    near, far = jnp.where(left, -b, a), jnp.where(left, -a, b)
    tail = _tail(jnp.where(across, 0, near), jnp.where(across, 1, far))
    centre = math.sqrt(math.pi / 2) * (lax.erf(b * _ROOT_HALF) - lax.erf(a * _ROOT_HALF))
    log_centre = jnp.log(jnp.where(across, centre, 1))
    return jnp.where(across, 0, jnp.where(left, b, a)), jnp.where(across, log_centre, tail)


def _far_tail(u: Array, a: Array, b: Array) -> Array:
    """`truncated_normal_quantile` for large positive `a`.

    A start that is exact for the density `t exp(-t^2 / 2)`, then two steps of Newton's method on
    the log mass above the point; what is left is below the rounding of float64.
    """
    bounded = b < jnp.inf
    c = jnp.where(bounded, b, a + 1)
    decay = jnp.exp(-0.5 * (c - a) * (c + a))
    start = jnp.log1p(-u * (1 - jnp.where(bounded, decay, 0)))
    mills = erfcx(a * _ROOT_HALF)
    target = jnp.log1p(-u * (1 - jnp.where(bounded, decay * erfcx(c * _ROOT_HALF) / mills, 0)))
    w = jnp.sqrt(a * a - 2 * start)
    for _ in range(2):
        scaled = erfcx(w * _ROOT_HALF)
        excess = jnp.log(scaled / mills) - 0.5 * (w - a) * (w + a) - target
        w = w + excess * math.sqrt(math.pi / 2) * scaled
    return w


@jax.jit
def truncated_normal_quantile(u: Array, a: Array, b: Array) -> Array:
    """The point below which lies the fraction `u` of the mass of a standard normal on `[a, b]`.

    Either bound may be infinite. The interval is mirrored to the side where the distribution
    function is precise.
    """
    mirrored = a + b > 0
    low, high = jnp.where(mirrored, -b, a), jnp.where(mirrored, -a, b)
    u = jnp.where(mirrored, 1 - u, u)
    far = high < -5
    below, above = jsp.ndtr(low), jsp.ndtr(jnp.where(far, 0, high))
    near_z = jsp.ndtri(
        jnp.clip(
            below + u * (above - below), jnp.finfo(u.dtype).tiny, 1 - jnp.finfo(u.dtype).epsneg
        )
    )
    far_z = -_far_tail(
        jnp.where(far, 1 - u, 0.5), jnp.where(far, -high, 5), jnp.where(far, -low, 6)
    )
    z = jnp.where(far, far_z, near_z)
    return jnp.where(mirrored, -z, z)
