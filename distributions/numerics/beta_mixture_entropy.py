"""Entropies of counts whose probability of success has a beta or Dirichlet distribution.

A sum over any number of counts is split smoothly into two parts:

- masses near the ends of the support are summed, with weights that fall from 1 to 0 over `log k`;
- the rest, smooth at the scale of one count, is integrated over the log odds.

The error is below the rounding of float64. Masses lose digits for large parameters, and so are
divided by their sum. Masses near a normal density have a series instead.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.common.arrays import select
from distributions.numerics.cumulative_sum import cumulative_sum
from distributions.numerics.loader_log_pmf import column, log_negative_binomial
from distributions.numerics.special import LOG_SQRT_TWO_PI, gauss_legendre, ratio, times_log

# Counts: up to a rounding, all of the mass is summed at the first, half at 36, none at the last.
_FIRST = 8.0
_LAST = 161
_LEFT_OUT = 37.0  # Minus the log mass below which nothing is integrated.


def _integrated_share(k: Array) -> Array:
    """The part of the mass at `k` that is integrated."""
    return 0.5 * lax.erfc(4 * (math.log(36) - jnp.log(jnp.maximum(k, 1))))


def _reach(shape: Array) -> Array:
    """The reach of a log-gamma variable below its mean; above the mean it is `log1p` of that."""
    return (_LEFT_OUT + jnp.sqrt(2 * _LEFT_OUT * shape)) / shape


def _integral(low: Array, high: Array) -> tuple[Array, Array]:
    """Gauss-Legendre points and weights of an integral from `low` to `high`."""
    nodes, weights = gauss_legendre(low[..., 0], 256)
    return low + (high - low) * nodes, (high - low) * weights


def _ends(like: Array) -> Array:
    return jnp.arange(_LAST + 1, dtype=like.dtype).reshape((1,) * (like.ndim - 1) + (-1,))


def _join(*parts: Array) -> Array:
    shape = np.broadcast_shapes(*(x.shape[:-1] for x in parts))
    return jnp.concatenate([jnp.broadcast_to(x, (*shape, x.shape[-1])) for x in parts], -1)


def _columns(*parameters: Any) -> list[Array]:
    return [x[..., None] for x in jnp.broadcast_arrays(*parameters)]


def _is_spread(precision: Array) -> Array:
    """Whether `1 / precision^2` is below rounding."""
    return precision > float(jnp.finfo(precision.dtype).eps) ** -0.5


def beta_binomial_log_mass(k: Array, m: Array, a: Array, b: Array) -> Array:
    """The log mass of `k` successes and `m` failures, by negative binomial masses of one odds."""
    log_odds = jnp.log(jnp.maximum(k + m, 1)) - jnp.log(a + b)
    log_total = log_negative_binomial(k + m, a + b, log_odds)
    return log_negative_binomial(k, a, log_odds) + log_negative_binomial(m, b, log_odds) - log_total


def _beta_binomial_points(n: Array, a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Numbers of successes and of failures, with weights; for few trials, all of them."""
    many = jnp.maximum(n, 2 * _LAST)
    log_odds = jnp.log(a) - jnp.log(b)
    fall, rise = (_reach(1 / (1 / x + (a / many + b / many) / x)) for x in (a, b))
    end = jnp.log(many / _FIRST - 1)
    low = jnp.clip(log_odds - fall - jnp.log1p(rise), -end, end)
    high = jnp.clip(log_odds + rise + jnp.log1p(fall), -end, end)
    y, weights = _integral(low, high)
    p = lax.logistic(y)
    q = lax.logistic(-y)
    inner = weights * p * q * many * (_integrated_share(many * p) + _integrated_share(many * q) - 1)
    is_few = n < 2 * _LAST
    ends = _ends(n)
    each = select(2 * ends < n, 1, select(2 * ends > n, 0 * ends, 0.5))
    outer = select(is_few, each, 1 - _integrated_share(ends))
    k = jnp.minimum(ends, n)
    weights = _join(outer, outer, select(is_few, 0, inner))
    return _join(k, n - k, many * p), _join(n - k, k, many * q), weights


def _beta_binomial_mean(function: Callable[[Array], Array], n: Array, a: Array, b: Array) -> Array:
    """The mean of a function of the number of successes."""
    k, m, weights = _beta_binomial_points(*lax.stop_gradient((n, a, b)))
    mass = weights * jnp.exp(beta_binomial_log_mass(k, m, a, b))
    return jnp.sum(times_log(mass, function(k)), -1) / jnp.sum(mass, -1)


def beta_binomial_entropy(n: Array, a: Array, b: Array) -> Array:
    """The entropy of beta-binomial counts: `dirichlet_multinomial_entropy` of two categories."""
    n, a, b = jnp.broadcast_arrays(n, a, b)
    return dirichlet_multinomial_entropy(n, jnp.stack([a, b], -1))


@jax.jit
def dirichlet_multinomial_entropy(n: Array, a: Array) -> Array:
    """The entropy of Dirichlet-multinomial counts.

    Each category adds the mean of its negative binomial log mass, or a series for spread counts.
    """
    if a.shape[-1] == 1:
        return jnp.zeros_like(a[..., 0])
    n = column(n)
    total = jnp.sum(a, axis=-1, keepdims=True)
    rest = _sum_of_others(a)
    size = jnp.maximum(n, 1)
    log_odds = jnp.log(size) - jnp.log(total)

    def score(k):
        return -log_negative_binomial(k, *_columns(a, log_odds))

    means = _beta_binomial_mean(score, *_columns(n, a, rest))
    s = ratio(size, total)
    q = ratio(rest, total)
    variance = a * s * (1 + s)
    last = ratio(1 - q - q * q, variance) + ratio(1 + 2 * q - 7 * q * q, a)
    limit = LOG_SQRT_TWO_PI + 0.5 * (jnp.log(variance) + q / (1 + 1 / total)) + last / 12
    parts = select(_is_spread(a * (s / (1 + s))), limit, means)
    return jnp.sum(parts, -1) + log_negative_binomial(n, total, log_odds)[..., 0]


def _sum_of_others(a: Array) -> Array:
    """`sum_{j != i} a_j` along the last axis, without subtraction."""
    none = jnp.zeros_like(a[..., :1])
    before = cumulative_sum(jnp.concatenate([none, a[..., :-1]], -1))
    return before + cumulative_sum(jnp.concatenate([a[..., 1:], none], -1), reverse=True)


def _beta_negative_binomial_points(n: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Counts with their weights; the last stands for all beyond, whose mass is a power law."""
    log_mean = jnp.log(n) + jnp.log(a) - jnp.log(b)
    first = math.log(_FIRST)
    reach = [_reach(x) for x in (n, a, jnp.exp(log_mean))]
    low = log_mean - sum(reach) - jnp.log1p(_reach(b))
    high = log_mean + sum(jnp.log1p(x) for x in reach) + _reach(b)
    power = log_mean + jnp.log1p(b * (1 + b / n + b / a)) - math.log(jnp.finfo(a.dtype).eps)
    most = 0.8 * math.log(jnp.finfo(a.dtype).max)
    high = jnp.clip(jnp.minimum(high, power), first, most)
    y, weights = _integral(jnp.clip(low, first, high), high)
    ends = _ends(a)
    k = jnp.exp(y)
    last = jnp.exp(high)
    weights = _join(
        1 - _integrated_share(ends),
        weights * k * _integrated_share(k),
        last * _integrated_share(last),
    )
    return _join(ends, k, last), weights


@functools.partial(jax.jit, static_argnums=0)
def beta_negative_binomial_entropy(
    log_mass: Callable[..., Array], n: Array, a: Array, b: Array
) -> Array:
    """The entropy of counts with `log_mass(k, n, a, b)`; the Edgeworth series for spread counts."""
    columns = _columns(n, a, b)
    k, weights = _beta_negative_binomial_points(*lax.stop_gradient(columns))
    is_last = np.arange(k.shape[-1]) == k.shape[-1] - 1
    tail = 1 / columns[-1]
    score = log_mass(k, *columns)
    mass = weights * select(is_last, tail, 1) * jnp.exp(score)
    values = select(is_last, 1 + tail, 0) - score
    total = jnp.sum(times_log(mass, values), -1) / jnp.sum(mass, -1)
    c = jnp.maximum(b, 4)
    log_mean = jnp.log(n) + jnp.log(a) - jnp.log(c - 1)
    log_variance = log_mean + jnp.log1p(ratio(a, c - 1)) + jnp.log1p(ratio(n + 1, c - 2))
    # The factors (b + 2 x) / (b + x) and (b + 2 x) / x of the skewness.
    asymmetry = [(1 + ratio(x, x + c)) * (2 + ratio(c, x)) for x in (n, a)]
    square_skewness = ratio(asymmetry[0], c) * asymmetry[1]
    limit = 0.5 + LOG_SQRT_TWO_PI + 0.5 * log_variance - square_skewness / 12
    return select(_is_spread(1 / (1 / n + 1 / a + 1 / b + jnp.exp(-log_mean))), limit, total)
