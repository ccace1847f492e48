"""The Kumaraswamy distribution."""

import jax.numpy as jnp
from jax import random
from jax.scipy.special import digamma
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.common.point import log_complement_of, log_of
from distributions.constraints import positive
from distributions.continuous.unit_support import clip_unit, unit
from distributions.core.family import Family, family, parameter
from distributions.numerics.gamma_functions import log_beta
from distributions.numerics.special import EULER_GAMMA, log1mexp


def _log_rest(x, a):
    """`log(1 - x^a)`, next to 1 by its limit `a (1 - x)`: there `log(x)` underflows."""
    log_power = a * log_of(x)
    near = log_power > -jnp.finfo(log_power.dtype).eps
    return select(near, jnp.log(a) + log_complement_of(x), log1mexp(select(near, -1.0, log_power)))


def _kumaraswamy_moment(a, b, order):
    return b * jnp.exp(log_beta(1 + order / a, b))


def _kumaraswamy_mode(a, b):
    inner = (a > 1) & (b > 1)
    ratio = jnp.where(inner, (a - 1) / jnp.where(inner, a * b - 1, 1), 0.5)
    ends = jnp.where((a < 1) & (b >= 1), 0, jnp.where((a >= 1) & (b <= 1), 1, 0))
    return jnp.where(inner, jnp.power(ratio, 1 / a), ends)


def _kumaraswamy_quantile(q, a, b):
    log_power = log1mexp(jnp.log1p(-q) / b)
    underflows = log_power == -jnp.inf
    return select(underflows, 0, jnp.exp(select(underflows, 0, log_power) / a))


@family(
    support=unit,
    reads_points=True,
    has_steep_ends=True,
    log_prob=lambda x, a, b: (
        jnp.log(a) + jnp.log(b) + (a - 1) * log_of(x) + (b - 1) * _log_rest(x, a)
    ),
    sample=lambda key, shape, dtype, a, b: clip_unit(
        jnp.exp(log1mexp(-random.exponential(key, shape, dtype) / b) / a)
    ),
    mean=lambda a, b: _kumaraswamy_moment(a, b, 1),
    variance=lambda a, b: _kumaraswamy_moment(a, b, 2) - jnp.square(_kumaraswamy_moment(a, b, 1)),
    mode=_kumaraswamy_mode,
    entropy=lambda a, b: (
        (1 - 1 / b) + (1 - 1 / a) * (digamma(b + 1) + EULER_GAMMA) - jnp.log(a) - jnp.log(b)
    ),
    log_cdf=lambda x, a, b: log1mexp(b * _log_rest(x, a)),
    log_survival=lambda x, a, b: b * _log_rest(x, a),
    quantile=_kumaraswamy_quantile,
)
class Kumaraswamy(Family):
    r"""Kumaraswamy distribution: like the beta distribution, with a `cdf` in closed form.

    `p(x) = a b x^(a - 1) (1 - x^a)^(b - 1)` for `0 < x < 1`, with `a = concentration1` and
    `b = concentration0`.

    Args:
        concentration1: The power of `x`, positive.
        concentration0: The power of `1 - x^a`, positive.

    >>> import distributions as dist
    >>> round(float(dist.Kumaraswamy(2.0, 2.0).log_prob(0.5)), 4)
    0.4055

    References:
        Jones, "Kumaraswamy's distribution", Statistical Methodology 6 (2009), 70-81.
    """

    concentration1: ArrayLike = parameter(positive)
    concentration0: ArrayLike = parameter(positive)
