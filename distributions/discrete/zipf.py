"""The Zipf (zeta) distribution."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.constraints import greater_than, positive_integer
from distributions.core.family import Family, family, parameter
from distributions.numerics.loader_log_pmf import log_zeta
from distributions.numerics.rejection_sampler import draw_first_accepted
from distributions.numerics.special import open_uniform


def _zipf_log_prob(y, power):
    return -power * jnp.log(y.astype(power.dtype)) - log_zeta(power, jnp.ones_like(power))


def _zipf_sample(key, shape, dtype, power):
    """Rejection from the integer part of a Pareto variable (Devroye 1986, section X.6.1)."""
    slope = jnp.broadcast_to(jnp.asarray(power - 1), shape)
    limit = -jnp.expm1(-slope * np.log(2).astype(dtype))
    most = float(jnp.iinfo(jnp.result_type(int)).max)

    def propose(key):
        u, v = (open_uniform(part, shape, dtype) for part in random.split(key))
        x = jnp.floor(jnp.exp(-jnp.log(u) / slope))
        step = -jnp.expm1(-slope * jnp.log1p(1 / x))
        x = jnp.minimum(x, most)
        return x, v * step * x <= limit

    return draw_first_accepted(propose, key, shape, dtype, none=-1)


def _zipf_moment(power, order):
    one = jnp.ones_like(power)
    exists = power > order + 1
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
    and the variance for `power <= 3`.

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
