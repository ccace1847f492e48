"""The logarithmic series distribution."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import open_interval, positive_integer
from distributions.core.family import Family, family, parameter
from distributions.numerics.incomplete_gamma_beta import beta_fraction
from distributions.numerics.special import log1mexp, log1p_ratio, open_uniform


def _logarithmic_scale(probs):
    return -jnp.log1p(-probs)


def _logarithmic_log_survival(x, probs):
    """The log survival function: an incomplete beta function with second parameter 0."""
    a, p = jnp.broadcast_arrays(x + 1, probs)
    fraction = beta_fraction(a, jnp.zeros_like(a), p, 1 - p)
    return jnp.minimum(a * jnp.log(p) + fraction - jnp.log(_logarithmic_scale(p)), 0)


def _logarithmic_sample(key, shape, dtype, probs):
    """Draws of a geometric variable with a random probability (Kemp 1981)."""
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
