"""The Bates distribution: the mean of independent uniform variables, by B-splines."""

import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.common.pytree import static
from distributions.constraints import interval, real
from distributions.core.family import Family, family, parameter
from distributions.numerics.quadrature import integral
from distributions.numerics.scaled_numbers import (
    Scaled,
    add,
    log_of,
    multiply,
    scaled,
    scaled_zeros,
)
from distributions.numerics.special import bounded_ratio
from distributions.numerics.sphere import log_sum


def _log_splines(z, n):
    """The log densities at `z, z - 1, ..., z - n + 1` of the sum of `n` uniform variables.

    De Boor's recursion (1972) adds one variable at a time; all its terms are positive.
    """
    shifts = jnp.arange(n, dtype=z.dtype).reshape((1,) * z.ndim + (-1,))
    x = z[..., None] - shifts

    def shift(y, end):
        return jnp.concatenate([y[..., 1:], end], -1)

    none = scaled_zeros((*z.shape, 1), z.dtype)

    def step(k, density):
        rising = multiply(scaled(select(x < 0, 0, x)), density)
        falling = multiply(scaled(select(k < x, 0, k - x)), Scaled(*map(shift, density, none)))
        total = add(rising, falling)
        return Scaled(total.fraction, total.log_scale - jnp.log(k - 1))

    zeros = scaled_zeros(x.shape, z.dtype)
    is_first = (x >= 0) & (x < 1)
    start = Scaled(select(is_first, 1, zeros.fraction), select(is_first, 0, zeros.log_scale))

    def body(k, density):
        return step(jnp.asarray(k, z.dtype), density)

    return log_of(lax.fori_loop(2, n + 1, body, start))


def _sum(x, n, low, high):
    """The sum of standard uniform variables, from the nearer end, and whether that is the upper."""
    width = high - low
    upper = x > low + 0.5 * width
    return jnp.asarray(n * bounded_ratio(jnp.where(upper, high - x, x - low), width)), upper


def _log_prob(x, n, low, high):
    z, _ = _sum(x, n, low, high)
    return _log_splines(z, n)[..., 0] + jnp.log(n / (high - low))


def _log_tails(x, n, low, high):
    """The log probabilities below and above: sums of the densities for one variable more."""
    z, upper = _sum(x, n, low, high)
    parts = _log_splines(z, n + 1)
    empty = (parts == -jnp.inf).all(-1)
    total = log_sum(select(empty[..., None], 0, parts))
    near = select(empty, -jnp.inf, jnp.minimum(total, 0))
    far = jnp.log1p(-jnp.exp(near))
    return jnp.where(upper, far, near), jnp.where(upper, near, far)


def _sample(key, shape, dtype, n, low, high):
    return low + (high - low) * jnp.mean(random.uniform(key, (*shape, n), dtype), axis=-1)


def _entropy(n, low, high):
    """The entropy, by quadrature over the lower half, piece by analytic piece."""
    width = jnp.asarray(high - low)
    ends = np.minimum(np.arange((n + 1) // 2 + 1), n / 2)
    pieces = [jnp.asarray(part, width.dtype) for part in (ends[:-1], ends[1:])]

    def integrand(z):
        log_p = _log_splines(z, n)[..., 0]
        is_empty = log_p == -jnp.inf
        return -jnp.exp(log_p) * select(is_empty, 0, log_p)

    return 2 * jnp.sum(integral(integrand, *pieces)) + jnp.log(width / n)


def _check_total_count(n, low, high):
    if isinstance(n, int) and n > 0:
        return None
    return f"total_count must be a positive integer; got {n!r}"


@family(
    support=lambda n, low, high: interval(low, high),
    increasing=("low", "high"),
    requires=_check_total_count,
    has_finite_slopes=True,
    log_prob=_log_prob,
    sample=_sample,
    mean=lambda n, low, high: 0.5 * (low + high),
    variance=lambda n, low, high: jnp.square(high - low) / (12 * n),
    mode=lambda n, low, high: 0.5 * (low + high),
    entropy=_entropy,
    log_cdf=lambda x, *p: _log_tails(x, *p)[0],
    log_survival=lambda x, *p: _log_tails(x, *p)[1],
)
class Bates(Family):
    r"""Bates distribution: the mean of independent uniform variables.

    `p(x) = n / (w (n - 1)!) sum_k (-1)^k binom(n, k) max(n z - k, 0)^(n - 1)` for
    `low <= x <= high`, with `n = total_count`, `w = high - low` and `z = (x - low) / w`. A
    recursion over `n` computes it in `O(n^2)` operations, without cancellation.

    Args:
        total_count: The number of variables, a positive integer, the same for a whole batch.
        low: The lower end of their range.
        high: The upper end, greater than `low`.

    >>> import distributions as dist
    >>> round(float(dist.Bates(3, 0.0, 1.0).log_prob(0.5)), 4)
    0.8109

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), section
        26.9.
        de Boor, "On calculating with B-splines", Journal of Approximation Theory 6 (1972), 50-62.
    """

    total_count: int = static()
    low: ArrayLike = parameter(real, default=0.0)
    high: ArrayLike = parameter(real, default=1.0)
