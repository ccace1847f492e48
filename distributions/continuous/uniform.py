"""The uniform distribution on an interval."""

import jax.numpy as jnp
import numpy as np
from jax import random
from jax.typing import ArrayLike

from distributions.common.arrays import as_host_array
from distributions.constraints import interval, real
from distributions.continuous.beta import BETA
from distributions.core.exponential_family import ExponentialFamily
from distributions.core.family import Family, family, parameter


@family(
    support=interval,
    increasing=("low", "high"),
    log_prob=lambda x, low, high: -jnp.log(high - low),
    is_flat=True,
    sample=lambda key, shape, dtype, low, high: random.uniform(key, shape, dtype, low, high),
    mean=lambda low, high: low / 2 + high / 2,
    variance=lambda low, high: jnp.square(high - low) / 12,
    mode=lambda low, high: low,
    entropy=lambda low, high: jnp.log(high - low),
    cdf=lambda x, low, high: (x - low) / (high - low),
    survival=lambda x, low, high: (high - x) / (high - low),
    quantile=lambda q, low, high: low + (high - low) * q,
)
class Uniform(Family):
    r"""Uniform distribution.

    `p(x) = 1 / (high - low)` for `low <= x <= high`.

    Args:
        low: The lower end.
        high: The upper end, greater than `low`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.Uniform(0.0, 2.0).log_prob(jnp.array([1.0, 3.0])).round(4))
    [-0.6931    -inf]

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 26.
    """

    low: ArrayLike = parameter(real, default=0.0)
    high: ArrayLike = parameter(real, default=1.0)

    @property
    def exponential_family(self) -> ExponentialFamily | None:
        """The beta family, for the unit interval."""
        ends = as_host_array(self.low), as_host_array(self.high)
        is_unit = all(x is not None and np.all(x == i) for i, x in enumerate(ends))
        return BETA if is_unit else None
