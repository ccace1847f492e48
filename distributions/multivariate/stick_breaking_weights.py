"""The stick-breaking weights of a truncated Dirichlet process."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.common.arrays import align, select
from distributions.common.linear_algebra import per_event
from distributions.common.pytree import static
from distributions.common.unit_vectors import unit_vector
from distributions.constraints import open_simplex, positive
from distributions.core.family import Family, family, parameter
from distributions.numerics.cumulative_sum import cumulative_sum


def _sticks_log_prob(x, a, num_breaks):
    left = cumulative_sum(x, reverse=True)[..., 1:-1]
    last = jnp.log(x[..., -1])
    return num_breaks * jnp.log(a) + (a - 1) * last - jnp.sum(jnp.log(left), -1)


def _sticks_sample(key, shape, dtype, a, num_breaks):
    broken = random.exponential(key, (*shape[:-1], num_breaks), dtype) / per_event(a)
    left = jnp.exp(-cumulative_sum(broken))
    before = jnp.concatenate([jnp.ones_like(left[..., :1]), left[..., :-1]], -1)
    weights = jnp.concatenate([-jnp.expm1(-broken) * before, left[..., -1:]], -1)
    return jnp.maximum(weights, jnp.finfo(dtype).tiny)


def _sticks_moment(first, left, num_breaks):
    """`first left^k` for `k = 0 .. num_breaks - 1`, and `left^num_breaks`."""
    ndim = jnp.ndim(first)
    powers = align(jnp.arange(num_breaks + 1, dtype=first.dtype), 0, ndim + 1)
    each = jnp.exp(jnp.log(left)[..., None] * powers)
    front = select(powers < num_breaks, first[..., None], 1)
    return front * each


def _sticks_mean(a, num_breaks):
    a = jnp.asarray(a)
    return _sticks_moment(1 / (1 + a), a / (1 + a), num_breaks)


def _sticks_variance(a, num_breaks):
    a = jnp.asarray(a)
    second = _sticks_moment(2 / ((1 + a) * (2 + a)), a / (2 + a), num_breaks)
    return second - jnp.square(_sticks_mean(a, num_breaks))


@family(
    support=open_simplex,
    event_shape=lambda a, num_breaks: (num_breaks + 1,),
    requires=lambda a, num_breaks: (
        None
        if isinstance(num_breaks, int) and num_breaks > 0
        else f"num_breaks must be a positive integer; got {num_breaks!r}"
    ),
    log_prob=_sticks_log_prob,
    sample=_sticks_sample,
    mean=_sticks_mean,
    variance=_sticks_variance,
    mode=lambda a, num_breaks: unit_vector(
        select(jnp.asarray(a) >= num_breaks, num_breaks, jnp.asarray(0)),
        num_breaks + 1,
        a.dtype,
    ),
    entropy=lambda a, num_breaks: (
        num_breaks * ((1 - 0.5 * (num_breaks + 1) / a) + (0.0 - jnp.log(a)))
    ),
)
class StickBreakingWeights(Family):
    r"""Stick-breaking weights: the weights of a truncated Dirichlet process.

    `x_k = b_k (1 - b_1) ... (1 - b_(k-1))` for `k = 1 .. K`, with independent `b_k` from
    `Beta(1, concentration)`, and the last entry is the rest. `p(x) = a^K x_(K+1)^(a - 1) /
    prod_(k=2..K) (x_k + ... + x_(K+1))` with `a = concentration`, for `x` on the open simplex.

    Args:
        concentration: The concentration, positive: the larger, the more even are the weights.
        num_breaks: The number of breaks `K`; there are `K + 1` weights.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.StickBreakingWeights(1.0, 3).mean())
    [0.5   0.25  0.125 0.125]

    References:
        Ishwaran and James, "Gibbs sampling methods for stick-breaking priors", Journal of the
        American Statistical Association 96 (2001), section 3.2.
    """

    concentration: ArrayLike = parameter(positive)
    num_breaks: int = static()
