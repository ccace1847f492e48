"""The uniform distribution on a range of integers."""

import jax.numpy as jnp
import numpy as np
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import integer, integer_interval
from distributions.core.family import Family, family, parameter


def _size(low, high):
    low, high = (jnp.asarray(x).astype(float) for x in (low, high))
    return high - low + 1


def _discrete_uniform_cdf(x, low, high):
    return (x - low.astype(x.dtype) + 1) / _size(low, high).astype(x.dtype)


def _discrete_uniform_survival(x, low, high):
    return (high.astype(x.dtype) - x) / _size(low, high).astype(x.dtype)


def _discrete_uniform_sample(key, shape, dtype, low, high):
    low, high = (jnp.asarray(x).astype(int) for x in (low, high))
    limits = jnp.iinfo(low.dtype)
    # `high + 1` would wrap at the end of the dtype: there, integers are drawn one below.
    shift = ((high == limits.max) & (low > limits.min)).astype(low.dtype)
    end = jnp.where(high < limits.max, high + 1, high)
    return random.randint(key, shape, low - shift, end) + shift


def _fault(low, high):
    if not np.all(low <= high):
        return f"low must be at most high; got {low} and {high}"
    limits = jnp.iinfo(jnp.result_type(int))
    if np.all((low >= limits.min) & (high <= limits.max)):
        return None
    return (
        f"low and high must be in the range of {limits.dtype}, as the draws are; got {low} and "
        f"{high}. jax.config.update('jax_enable_x64', True) makes room"
    )


@family(
    support=integer_interval,
    requires=_fault,
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
    r"""Discrete uniform distribution on the integers from `low` to `high`.

    `p(k) = 1 / (high - low + 1)` for `k = low, low + 1, ..., high`.

    Args:
        low: The least integer.
        high: The greatest integer, included.

    >>> import distributions as dist
    >>> round(float(dist.DiscreteUniform(1, 6).log_prob(6)), 4)
    -1.7918

    References:
        Johnson, Kemp and Kotz, *Univariate Discrete Distributions*, 3rd ed. (2005), section 6.10.1.
    """

    low: ArrayLike = parameter(integer)
    high: ArrayLike = parameter(integer)
