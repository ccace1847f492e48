"""The discrete Weibull distribution."""

import math

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import (
    nonnegative_integer,
    open_interval,
    positive,
)
from distributions.core.family import Family, family, parameter
from distributions.numerics.special import log1mexp_exp, scaled_power


def _discrete_weibull_log_prob(y, q, beta):
    k = y.astype(q.dtype)
    log_q = jnp.log(q)
    some = select(k > 0, k, 1)
    log_power = beta * jnp.log(some)
    log_more = jnp.log1p(1 / some)
    # The logarithm of `(k + 1)^beta / k^beta - 1`: the number itself may under- or overflow.
    rise = beta * log_more
    small = rise < 1e-3
    near = jnp.log(beta) + jnp.log(log_more) + 0.5 * rise + rise * rise / 24
    log_step = select(small, near, rise + jnp.log(-jnp.expm1(-select(small, 1, rise))))
    most = 0.9 * math.log(jnp.finfo(q.dtype).max)
    log_change = jnp.minimum(log_power + log_step + jnp.log(-log_q), most)
    mass = jnp.exp(log_power) * log_q + log1mexp_exp(-log_change)
    return select(k > 0, mass, jnp.log1p(-q))


def _discrete_weibull_sample(key, shape, dtype, q, beta):
    return jnp.floor(jnp.power(random.exponential(key, shape, dtype) / -jnp.log(q), 1 / beta))


@family(
    support=nonnegative_integer,
    has_finite_slopes=True,
    log_prob=_discrete_weibull_log_prob,
    sample=_discrete_weibull_sample,
    log_survival=lambda x, q, beta: -scaled_power(-jnp.log(q), x + 1, beta),
)
class DiscreteWeibull(Family):
    r"""Discrete Weibull distribution: the integer part of a Weibull variable.

    `p(k) = q^(k^beta) - q^((k + 1)^beta)` for `k = 0, 1, 2, ...`.

    Args:
        q: The probability of a positive count, between 0 and 1.
        beta: The shape, positive; 1 gives a geometric distribution.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.DiscreteWeibull(0.5, 1.0).log_prob(jnp.array([0, 1])).round(4))
    [-0.6931 -1.3863]

    References:
        T. Nakagawa and S. Osaki, "The discrete Weibull distribution", IEEE Transactions on
        Reliability 24 (1975), 300-301.
    """

    q: ArrayLike = parameter(open_interval(0.0, 1.0))
    beta: ArrayLike = parameter(positive)
