"""The Gompertz distribution of ages at death."""

import math

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import nonnegative, positive
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import RATE
from distributions.numerics.quadrature import exponential_expectation
from distributions.numerics.special import complement_of_exp


def _gompertz_log_prob(x, c, rate):
    t = jnp.minimum(rate * x, jnp.finfo(x.dtype).max)
    return jnp.log(c) + jnp.log(rate) + t - c * jnp.expm1(t)


def _gompertz_log_survival(x, c, rate):
    t = rate * x
    overflows = t + jnp.log(c) >= math.log(float(jnp.finfo(t.dtype).max))
    return select(overflows, -jnp.inf, -c * jnp.expm1(select(overflows, 0, t)))


def _gompertz_quantile(q, c, rate):
    is_inside = q < 1
    t = -jnp.log1p(-select(is_inside, q, 0)) / c
    return select(is_inside, jnp.log1p(t) / rate, jnp.inf)


def _gompertz_moments(c):
    """Mean and variance for concentration `c` and rate 1, by quadrature."""
    mean = exponential_expectation(lambda e, c: jnp.log1p(e / c), c)

    def square(e, c):
        return jnp.square(jnp.log1p(e / c) - mean[..., None])

    return mean, exponential_expectation(square, c)


@family(
    support=nonnegative,
    has_finite_slopes=True,
    log_prob=_gompertz_log_prob,
    sample=lambda key, shape, dtype, c, rate: (
        jnp.log1p(random.exponential(key, shape, dtype) / c) / rate
    ),
    mean=lambda c, rate: _gompertz_moments(c)[0] / rate,
    variance=lambda c, rate: _gompertz_moments(c)[1] / jnp.square(rate),
    mode=lambda c, rate: jnp.maximum(-jnp.log(c), 0) / rate,
    entropy=lambda c, rate: 1 - jnp.log(c) - jnp.log(rate) - _gompertz_moments(c)[0],
    cdf=lambda *args: complement_of_exp(_gompertz_log_survival(*args)),
    log_survival=_gompertz_log_survival,
    quantile=_gompertz_quantile,
    standard=RATE,
)
class Gompertz(Family):
    r"""Gompertz distribution of ages at death: the failure rate grows exponentially.

    `p(x) = c rate exp(rate x - c (exp(rate x) - 1))` for `x >= 0`, with `c = concentration`.
    Moments and entropy are by quadrature.

    Args:
        concentration: The failure rate at 0 over `rate`, positive.
        rate: The exponential growth rate of the failure rate, positive.

    >>> import distributions as dist
    >>> round(float(dist.Gompertz(2.0, 1.0).log_prob(0.0)), 4)
    0.6931

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 22.
    """

    concentration: ArrayLike = parameter(positive)
    rate: ArrayLike = parameter(positive, default=1.0)
