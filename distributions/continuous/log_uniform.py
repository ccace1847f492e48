"""The log-uniform (reciprocal) distribution."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import interval, positive
from distributions.core.family import Family, family, parameter
from distributions.numerics.exponential_tilt import log_place
from distributions.numerics.special import log_quotient


@family(
    support=interval,
    increasing=("low", "high"),
    has_finite_slopes=True,
    log_prob=lambda x, low, high: -jnp.log(x) - jnp.log(log_quotient(high, low)),
    sample=lambda key, shape, dtype, low, high: jnp.clip(
        low * jnp.exp(log_quotient(high, low) * random.uniform(key, shape, dtype)), low, high
    ),
    mean=lambda low, high: (high - low) / log_quotient(high, low),
    variance=lambda low, high: (
        (high - low)
        * (0.5 * (high + low) - (high - low) / log_quotient(high, low))
        / log_quotient(high, low)
    ),
    mode=lambda low, high: low,
    entropy=lambda low, high: (
        jnp.log(log_quotient(high, low)) + 0.5 * (jnp.log(low) + jnp.log(high))
    ),
    cdf=lambda x, low, high: log_place(x, low, high)[0],
    survival=lambda x, low, high: log_quotient(high, x) / log_quotient(high, low),
    quantile=lambda q, low, high: low * jnp.exp(q * log_quotient(high, low)),
)
class LogUniform(Family):
    r"""Log-uniform (reciprocal) distribution: the logarithm is uniform.

    `p(x) = 1 / (x log(high / low))` for `low <= x <= high`.

    Args:
        low: The lower end, positive.
        high: The upper end, greater than `low`.

    >>> import distributions as dist
    >>> round(float(dist.LogUniform(1.0, 10.0).log_prob(1.0)), 4)
    -0.834

    References:
        Hamming, "On the distribution of numbers", Bell System Technical Journal 49 (1970).
    """

    low: ArrayLike = parameter(positive)
    high: ArrayLike = parameter(positive)
