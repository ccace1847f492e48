"""Log masses of counts in Loader's form: precise for counts of any size, no large terms cancel.

`log(C(n, k) p^k q^(n - k))` is minus `n` times the divergence of `p` from `k / n`, plus the errors
of Stirling's formula for the factorials. The negative binomial mass has the same parts, and the
masses of other families are made of the two.

References:
    C. Loader, "Fast and accurate computation of binomial probabilities" (2000).
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.common.arrays import align, select
from distributions.numerics.cumulative_sum import cumulative_sum
from distributions.numerics.gamma_functions import (
    digamma_rest,
    large_stirling_error,
    num_steps,
    stirling_error,
)
from distributions.numerics.loader_kernels import deviation, exp_rest
from distributions.numerics.special import (
    LOG_SQRT_TWO_PI,
    exponentials,
    log1p_or,
    safe_log,
    safe_log1m,
    times_log,
)

# Coefficients B(2 k) / (2 k)! of the Euler-Maclaurin formula.
_EULER_MACLAURIN = (
    *(1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160),
    *(-691 / 1307674368000, 1 / 74724249600, -3617 / 10670622842880000),
)


def _divergence(k: Array, m: Array, inner: Array, excess: Array) -> tuple[Array, ...]:
    """`k log(k / (n p)) + m log(m / (n q))` with `n = k + m`, and its derivatives.

    Derivatives are by the log odds, by `k` and by `m`. `inner` is false for pairs with a count of
    0, which have one of the two terms. `excess` is `log(p / q) - log(k / m)`, without the second
    logarithm for these pairs. The smaller of the fractions `k / n` and `m / n` weighs an
    exponential, so that a logarithm is taken of 1/2 at least.
    """
    # A comparison: at equality, one side gives the derivatives.
    n = k + m
    swap = k > m
    w = select(inner, select(swap, m, k) / select(inner, n, 1), 0)
    x = select(swap, -excess, excess)
    y = lax.min(x, jnp.full_like(x, math.log(float(jnp.finfo(x.dtype).max)) - 3))
    power, less = exponentials(y)
    z = select(inner, w * less, power)
    near, is_near = deviation(jnp.ones_like(z), z)  # Less to compile than a log1p.
    log_total = select(is_near, z + near, jnp.log(1 + z)) + (x - y)
    slope = n * (1 - w) * _share(z)
    other = log_total - x
    by_k = select(swap, log_total, other)
    by_m = select(swap, other, log_total)
    return n * (log_total - w * x), select(swap, -slope, slope), by_k, by_m


@jax.custom_jvp
def _share(odds: Array) -> Array:
    """The share of an outcome by its odds; the derivative takes no square, which may overflow."""
    return odds / (1 + odds)


@_share.defjvp
def _share_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    rest = 1 / (1 + primals[0])
    return _share(*primals), rest * (rest * tangents[0])


def _log_choose(a: Array, b: Array) -> Array:
    """`log C(a + b, a)` less its leading terms, for positive counts."""
    n = a + b
    error = stirling_error(n) - stirling_error(a) - stirling_error(b)
    return error + 0.5 * (jnp.log(n) - jnp.log(a) - jnp.log(b)) - LOG_SQRT_TWO_PI


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _log_mass(is_negative: bool, k: Array, m: Array, log_odds: Array) -> Array:
    """`log_negative_binomial` if `is_negative`, else `log_binomial`."""
    return _mass_and_slopes(is_negative, k, m, log_odds)[0]


def _mass_and_slopes(
    is_negative: bool, k: Array, m: Array, log_odds: Array
) -> tuple[Array, tuple[Array, ...]]:
    """The log mass, and the derivatives of its divergence by the log odds, by `k` and by `m`.

    Logarithms of `k` and `m` are taken apart, as one of them, such as a size, often has fewer
    entries.
    """
    inner = (k > 0) & (m > 0)
    a = select(k > 0, k, 1)
    b = select(m > 0, m, 1)
    log_a = jnp.log(a)
    gap = log_a - jnp.log(b)
    if is_negative:
        # A share of the total that underflows would be lost. It is bounded: shares below the bound
        # all give one sum.
        info = jnp.finfo(k.dtype)
        share = min(1e10 * float(info.tiny), float(info.eps))
        most = float(info.eps) ** 2
        gap = lax.min(gap, lax.max(log_a - math.log(most), jnp.full_like(k, -math.log(share))))
        m = lax.max(m, lax.min(share * k, jnp.full_like(k, most)))
    divergence, *slopes = _divergence(k, m, inner, log_odds - select(inner, gap, 0))
    mass = _log_choose(a, b)
    if is_negative:
        mass = mass + (jnp.log(b) - jnp.log(a + b))
    return select(inner, mass, 0) - divergence, tuple(slopes)


@_log_mass.defjvp
def _log_mass_jvp(is_negative: bool, primals: Any, tangents: Any) -> tuple[Array, Array]:
    k, m, _ = primals
    value, (by_log_odds, *by_counts) = _mass_and_slopes(is_negative, *primals)
    inner = (k > 0) & (m > 0)
    a = select(k > 0, k, 1)
    b = select(m > 0, m, 1)
    by_k, by_m = (
        select(inner, _step(is_negative, a + b) - _step(negative, x), 0) - slope
        for x, slope, negative in zip((a, b), by_counts, (False, is_negative), strict=True)
    )
    return value, by_k * tangents[0] + by_m * tangents[1] - by_log_odds * tangents[2]


def _step(is_negative: bool, x: Array) -> Array:
    """`digamma(x + 1) - log(x)`, or `digamma(x) - log(x)`."""
    return digamma_rest(x) + (0 if is_negative else 1 / x)


@jax.jit
def log_binomial(k: Array, m: Array, log_odds: Array) -> Array:
    """`log(Gamma(k + m + 1) / (Gamma(k + 1) Gamma(m + 1)) p^k q^m)` for nonnegative `k` and `m`.

    Neither need be an integer. `log_odds` is `log(p / q)`, finite.
    """
    return _log_mass(False, k, m, log_odds)


@jax.jit
def log_binomial_of_probs(k: Array, m: Array, probs: Array) -> Array:
    """`log_binomial` for a probability `p` from 0 to 1 in place of the log odds."""
    inner = (k > 0) & (m > 0)
    a = select(k > 0, k, 1)
    b = select(m > 0, m, 1)
    n = jnp.maximum(k + m, 1)
    excess = select(k < m, probs - k / n, m / n - (1 - probs))  # Precise: from the rarer outcome.
    first = log1p_or(excess * (n / a), safe_log(probs) - jnp.log(a / n))
    second = log1p_or(-excess * (n / b), safe_log1m(probs) - jnp.log(b / n))
    terms = select(k > 0, k * first, 0) + select(m > 0, m * second, 0)
    return select(inner, _log_choose(a, b), 0) + terms


@jax.jit
def log_negative_binomial(k: Array, r: Array, log_odds: Array) -> Array:
    """`log(Gamma(k + r) / (Gamma(k + 1) Gamma(r)) p^k q^r)` for `k >= 0` and `r > 0`.

    Neither need be an integer. `log_odds` is `log(p / q)`, finite.
    """
    return _log_mass(True, k, r, log_odds)


@jax.custom_jvp
def _log_factorial_rest(k: Array) -> Array:
    """`log k! - (k log k - k)` for integers: tabulated for small ones, else Stirling's series."""
    num_small = num_steps(k)
    some = _replace_zero_by_one(k)
    rest = large_stirling_error(some) + (0.5 * jnp.log(some) + LOG_SQRT_TWO_PI)
    for i in reversed(range(num_small)):
        rest = select(k < i + 0.5, math.lgamma(i + 1) - i * (math.log(max(i, 1)) - 1), rest)
    return rest


@_log_factorial_rest.defjvp
def _log_factorial_rest_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    (k,) = primals
    some = _replace_zero_by_one(k)
    slope = select(k > 0, digamma_rest(some) + 1 / some, 0)
    return _log_factorial_rest(k), slope * tangents[0]


def _replace_zero_by_one(k: Array) -> Array:
    return select(k > 0, k, 1)


@jax.jit
def log_poisson(k: Array, rate: Array) -> Array:
    """`k log rate - rate - log k!` for nonnegative integers `k` and nonnegative `rate`."""
    some = _replace_zero_by_one(k)
    return -_log_factorial_rest(k) - _divergence_of_rate(k, some, rate, safe_log(rate))


@jax.custom_jvp
def _divergence_of_rate(k: Array, some: Array, rate: Array, log_rate: Array) -> Array:
    """`rate - some - some log(rate / some)`, and `rate` where `k` is 0."""
    near, is_near = deviation(some, rate - some)
    far = rate - some - some * (log_rate - jnp.log(some))
    return select(k > 0, select(is_near, -near, far), rate)


@_divergence_of_rate.defjvp
def _divergence_of_rate_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """Derivatives by `rate`, without a difference of logarithms, and by `some`.

    `log_rate` is a function of `rate` and adds no derivative of its own.
    """
    k, some, rate, log_rate = primals
    by_rate = select((k > 0) & (rate > 0), 1 - some / select(rate > 0, rate, 1), 1)
    by_some = jnp.log(some) - log_rate
    dot = by_rate * tangents[2] + select(k > 0, by_some, 0) * tangents[1]
    return _divergence_of_rate(*primals), dot


@jax.jit
def log_poisson_of_log(k: Array, log_rate: Array) -> Array:
    """`k log_rate - exp(log_rate) - log k!` for nonnegative integers `k`."""
    some = _replace_zero_by_one(k)
    return -_log_factorial_rest(k) - _divergence_of_log(k, some, log_rate)


@jax.custom_jvp
def _divergence_of_log(k: Array, some: Array, log_rate: Array) -> Array:
    """`exp(log_rate) - some - some (log_rate - log(some))`, and `exp(log_rate)` where `k` is 0."""
    return _divergence_and_rate(k, some, log_rate)[0]


def _divergence_and_rate(k: Array, some: Array, log_rate: Array) -> tuple[Array, Array]:
    excess = log_rate - jnp.log(some)
    power = jnp.exp(excess)
    rate = some * power
    is_near = excess * excess < 1 / 16
    near = some * exp_rest(excess)
    far = some * (power - (1 + excess))
    return select(k > 0, select(is_near, near, far), rate), rate


@_divergence_of_log.defjvp
def _divergence_of_log_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    k, some, log_rate = primals
    value, rate = _divergence_and_rate(*primals)
    by_some = select(k > 0, jnp.log(some) - log_rate, 0)
    most = jnp.full_like(rate, jnp.finfo(rate.dtype).max)
    by_log_rate = lax.min(rate, most) - k  # Finite: infinity times 0 would be NaN.
    return value, by_log_rate * tangents[2] + by_some * tangents[1]


@jax.jit
def log_zeta(s: Array, q: Array) -> Array:
    """`log sum_{j >= 0} (q + j)^-s` for `s > 1` and `q >= 1`, by the Euler-Maclaurin formula."""
    a = q + 12
    decay = s * jnp.log1p(12 / q)
    first = sum(jnp.exp(-s * jnp.log1p(j / q)) for j in range(12))
    s_near = select(decay < 800, s, 2)  # For larger s the powers overflow; the tail is 0.
    tail = a / (s_near - 1) + 0.5
    term = s_near / a
    for i, coefficient in enumerate(_EULER_MACLAURIN):
        tail = tail + coefficient * term
        term = term * (s_near + 2 * i + 1) / a * (s_near + 2 * i + 2) / a
    return -s * jnp.log(q) + jnp.log(first + jnp.exp(-decay) * tail)


def column(x: Any) -> Any:
    """`x` with a new last axis; a scalar or None unchanged."""
    return x if x is None or np.ndim(x) == 0 else x[..., None]


def limit_of_spread(dtype: Any) -> float:
    """The standard deviation above which `1 / sd^4` is below rounding beside 1."""
    return float(jnp.finfo(dtype).eps) ** -0.25


def mean_of_counts(
    function: Callable[[Array], Array],
    log_prob: Callable[[Array], Array],
    mean: Array,
    sd: Array,
    low: Any = 0,
    high: Any = np.inf,
) -> Array:
    """The mean of a function of counts whose mass is near a normal density when spread out.

    The sum runs over 200 points on either side of the mean:

    | standard deviation | points                                          |
    | ------------------ | ----------------------------------------------- |
    | below 16           | all integers                                    |
    | 16 and more        | steps of an eighth of the standard deviation    |

    For long steps, the mass beyond the last point and the error of the trapezoidal rule are below
    1e-12.
    """
    mean, sd, low, high = (
        align(jnp.asarray(x, mean.dtype)[..., None], 0, mean.ndim + 1)
        for x in (mean, sd, low, high)
    )
    step = jnp.maximum(jnp.floor(sd / 8), 1)
    offsets = np.arange(-200, 201).reshape((1,) * (mean.ndim - 1) + (-1,)).astype(mean.dtype)
    points = jnp.floor(mean) + step * offsets
    inside = (points >= low) & (points <= high)
    points = select(inside, points, jnp.clip(jnp.floor(mean), low, high))
    terms = times_log(jnp.exp(log_prob(points)), function(points))
    return jnp.sum(step * select(inside, terms, 0), axis=-1)


def entropy_of_counts(
    log_prob: Callable[[Array], Array],
    mean: Array,
    sd: Array,
    asymmetry: Any,
    low: Any = 0,
    high: Any = np.inf,
) -> Array:
    """The entropy of counts by `mean_of_counts`, or by the Edgeworth series for a large `sd`.

    `asymmetry` is the third central moment over the second. For a large `sd`, counts may be too
    large to differ from their neighbors in floating numbers.
    """
    is_spread = sd > limit_of_spread(sd.dtype)
    spread = select(is_spread, sd, 1)
    limit = 0.5 + LOG_SQRT_TWO_PI + jnp.log(spread) - jnp.square(asymmetry / spread) / 12
    total = mean_of_counts(lambda k: -log_prob(k), log_prob, mean, sd, low, high)
    return select(is_spread, limit, total)


def poisson_draw(key: Array, mean: Array, shape: tuple[int, ...]) -> Array:
    """Poisson draws with a key of any kind; JAX's sampler takes Threefry keys alone.

    Counts beyond the integers are the largest one, as those of a mean that overflowed.
    """
    integer = jnp.result_type(int)
    draws = jax.random.poisson(_threefry(key), mean, shape, integer)
    return jnp.where(mean == jnp.inf, jnp.iinfo(integer).max, draws)


def _threefry(key: Array) -> Array:
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    key = key if typed else jax.random.wrap_key_data(key)
    if str(jax.random.key_impl(key)) == "threefry2x32":
        return key
    return jax.random.wrap_key_data(jax.random.bits(key, (2,), jnp.uint32), impl="threefry2x32")


def multinomial_draw(key: Array, total: Array, probs: Array, shape: tuple[int, ...]) -> Array:
    """Counts of the categories along the last axis, by conditional binomial draws."""
    probs = jnp.moveaxis(jnp.broadcast_to(probs, shape), -1, 0)
    rest = cumulative_sum(probs, 0, reverse=True)
    ratios = jnp.minimum(probs / select(rest > 0, rest, 1), 1)

    def step(left: Array, ratio_and_key: tuple[Array, Array]) -> tuple[Array, Array]:
        ratio, key = ratio_and_key
        count = jax.random.binomial(key, left, ratio, dtype=ratio.dtype)
        return left - count, count

    left = jnp.broadcast_to(total.astype(probs.dtype), shape[:-1])
    keys = jax.random.split(key, shape[-1])
    return jnp.moveaxis(lax.scan(step, left, (ratios, keys))[1], 0, -1)
