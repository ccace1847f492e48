"""Other families of integers: DiscreteUniform, DiscreteWeibull, Logarithmic, Zipf."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.typing import ArrayLike

from distributions._arrays import select
from distributions._rejection import first_accepted
from distributions.constraints import (
    greater_than,
    integer,
    integer_interval,
    nonnegative_integer,
    open_interval,
    positive,
    positive_integer,
)
from distributions.family import Family, family
from distributions.incomplete import beta_fraction
from distributions.row import parameter
from distributions.special import log1mexp, log1mexp_exp, log1p_ratio, open_uniform
from distributions.special_counts import log_zeta


def _size(low, high):
    low, high = (jnp.asarray(x).astype(float) for x in (low, high))
    return high - low + 1


def _discrete_uniform_cdf(x, low, high):
    return (x - low.astype(x.dtype) + 1) / _size(low, high).astype(x.dtype)


def _discrete_uniform_survival(x, low, high):
    return (high.astype(x.dtype) - x) / _size(low, high).astype(x.dtype)


def _discrete_uniform_sample(key, shape, dtype, low, high):
    low, high = (jnp.asarray(x).astype(int) for x in (low, high))
    return random.randint(key, shape, low, high + 1)


@family(
    support=integer_interval,
    log_prob=lambda y, low, high: -jnp.log(_size(low, high)),
    is_flat=True,
    sample=_discrete_uniform_sample,
    mean=lambda low, high: low.astype(float) + 0.5 * (_size(low, high) - 1),
    variance=lambda low, high: (_size(low, high) - 1) * (_size(low, high) + 1) / 12,
    mode=lambda low, high: low,
    entropy=lambda low, high: jnp.log(_size(low, high)),
    cdf=_discrete_uniform_cdf,
    survival=_discrete_uniform_survival,
)
class DiscreteUniform(Family):
    r"""Uniform distribution on the integers from `low` to `high`.

    `p(k) = 1 / (high - low + 1)` for `k = low, low + 1, ..., high`.

    Args:
        low: The least integer.
        high: The greatest one, included.

    >>> import distributions as dist
    >>> round(float(dist.DiscreteUniform(1, 6).log_prob(6)), 4)
    -1.7918

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), section 6.10.1.
    """

    low: ArrayLike = parameter(integer)
    high: ArrayLike = parameter(integer)


def _discrete_weibull_log_prob(y, q, beta):
    k, log_q = y.astype(q.dtype), jnp.log(q)
    some = select(k > 0, k, 1)
    log_power, log_more = beta * jnp.log(some), jnp.log1p(1 / some)
    # The logarithm of `(k + 1)^beta / k^beta - 1`, which may underflow or overflow.
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
    log_survival=lambda x, q, beta: jnp.power(x + 1, beta) * jnp.log(q),
)
class DiscreteWeibull(Family):
    r"""Discrete Weibull distribution: the integer part of a Weibull variable.

    `p(k) = q^(k^beta) - q^((k + 1)^beta)` for `k = 0, 1, 2, ...`.

    Args:
        q: The probability of more than 0, between 0 and 1.
        beta: The shape, positive; with 1 it is a geometric distribution.

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


def _logarithmic_scale(probs):
    return -jnp.log1p(-probs)


def _logarithmic_log_survival(x, probs):
    """An incomplete beta function whose second parameter is 0."""
    a, p = jnp.broadcast_arrays(x + 1, probs)
    fraction = beta_fraction(a, jnp.zeros_like(a), p, 1 - p)
    return jnp.minimum(a * jnp.log(p) + fraction - jnp.log(_logarithmic_scale(p)), 0)


def _logarithmic_sample(key, shape, dtype, probs):
    """A geometric variable whose probability is itself random (Kemp 1981)."""
    key_u, key_v = random.split(key)
    u, v = (open_uniform(key, shape, dtype) for key in (key_u, key_v))
    return 1 + jnp.floor(jnp.log(v) / log1mexp(-u * _logarithmic_scale(probs)))


def _logarithmic_mean(probs):
    return probs / ((1 - probs) * _logarithmic_scale(probs))


def _logarithmic_variance(probs):
    mean = _logarithmic_mean(probs)
    return mean * (1 / (1 - probs) - mean)


@family(
    support=positive_integer,
    log_prob=lambda y, probs: (
        (y.astype(probs.dtype) - 1) * jnp.log(probs)
        - jnp.log(y.astype(probs.dtype) * log1p_ratio(-probs))
    ),
    sample=_logarithmic_sample,
    mean=_logarithmic_mean,
    variance=_logarithmic_variance,
    mode=lambda probs: 1,
    log_survival=_logarithmic_log_survival,
)
class Logarithmic(Family):
    r"""Logarithmic series distribution.

    `p(k) = probs^k / (-k log(1 - probs))` for `k = 1, 2, 3, ...`.

    Args:
        probs: The limit of `p(k + 1) / p(k)`, between 0 and 1.

    >>> import distributions as dist
    >>> round(float(dist.Logarithmic(0.5).log_prob(1)), 4)
    -0.3266

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), chapter 7.
        A. W. Kemp, "Efficient generation of logarithmically distributed pseudo-random variables",
        Applied Statistics 30 (1981), 249-253.
    """

    probs: ArrayLike = parameter(open_interval(0.0, 1.0))


def _zipf_log_prob(y, power):
    return -power * jnp.log(y.astype(power.dtype)) - log_zeta(power, jnp.ones_like(power))


def _zipf_sample(key, shape, dtype, power):
    """Rejection from the integer part of a Pareto variable (Devroye 1986, section X.6.1)."""
    slope = jnp.broadcast_to(jnp.asarray(power - 1), shape)
    limit = -jnp.expm1(-slope * np.log(2).astype(dtype))
    most = float(jnp.iinfo(jnp.result_type(int)).max // 2)

    def propose(key):
        u, v = (open_uniform(part, shape, dtype) for part in random.split(key))
        x = jnp.floor(jnp.exp(-jnp.log(u) / slope))
        step = -jnp.expm1(-slope * jnp.log1p(1 / x))
        x = jnp.minimum(x, most)
        return x, v * step * x <= limit

    return first_accepted(propose, key, shape, dtype, none=-1)


def _zipf_moment(power, order):
    one, exists = jnp.ones_like(power), power > order + 1
    numerator = log_zeta(select(exists, power - order, 2), one)
    return select(exists, jnp.exp(numerator - log_zeta(power, one)), jnp.inf)


def _zipf_variance(power):
    second = _zipf_moment(power, 2)
    return select(second < jnp.inf, second - jnp.square(_zipf_moment(power, 1)), jnp.inf)


def _zipf_entropy(power):
    power = jnp.asarray(power)
    log, slope = jax.jvp(lambda s: log_zeta(s, jnp.ones_like(s)), (power,), (jnp.ones_like(power),))
    return log - power * slope


@family(
    support=positive_integer,
    log_prob=_zipf_log_prob,
    sample=_zipf_sample,
    mean=lambda power: _zipf_moment(power, 1),
    variance=_zipf_variance,
    mode=lambda power: 1,
    entropy=_zipf_entropy,
    log_survival=lambda x, power: log_zeta(power, x + 1) - log_zeta(power, jnp.ones_like(power)),
)
class Zipf(Family):
    r"""Zipf (zeta) distribution.

    `p(k) = k^-power / zeta(power)` for `k = 1, 2, 3, ...`. The mean is infinite for `power <= 2`
    and the variance for `power <= 3`. Draws that the integer dtype cannot hold are replaced by half
    of its largest.

    Args:
        power: The exponent, greater than 1.

    >>> import distributions as dist
    >>> round(float(dist.Zipf(2.0).log_prob(1)), 4)
    -0.4977

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), section 11.2.
        L. Devroye, *Non-Uniform Random Variate Generation* (1986), section X.6.1.
    """

    power: ArrayLike = parameter(greater_than(1.0))
