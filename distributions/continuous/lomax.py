"""The Lomax (Pareto type II) distribution."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import nonnegative, positive
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import SCALE
from distributions.numerics.power_law_functions import pareto_variance, where_finite
from distributions.numerics.special import (
    clip_positive,
    complement_of_exp,
    log1p_quotient,
)


@family(
    support=nonnegative,
    has_finite_slopes=True,
    log_prob=lambda x, a, scale: jnp.log(a) - jnp.log(scale) - (a + 1) * log1p_quotient(x, scale),
    sample=lambda key, shape, dtype, a, scale: clip_positive(
        scale * jnp.expm1(random.exponential(key, shape, dtype) / a)
    ),
    mean=lambda a, scale: scale * where_finite(a, 1, lambda a: 1 / (a - 1)),
    variance=pareto_variance,
    mode=lambda a, scale: 0.0,
    entropy=lambda a, scale: jnp.log(scale) - jnp.log(a) + 1 / a + 1,
    cdf=lambda x, a, scale: complement_of_exp(-a * log1p_quotient(x, scale)),
    log_survival=lambda x, a, scale: -a * log1p_quotient(x, scale),
    quantile=lambda q, a, scale: scale * jnp.expm1(-jnp.log1p(-q) / a),
    standard=SCALE,
)
class Lomax(Family):
    r"""Lomax distribution: a Pareto distribution (of the second type) that begins at 0.

    `p(x) = (a / scale) (1 + x / scale)^(-a - 1)` with `a = concentration`, for `x >= 0`.

    Args:
        concentration: The exponent of the tail, positive: moments exist below it.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.Lomax(2.0, 1.0).log_prob(1.0)), 4)
    -1.3863

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 20.
    """

    concentration: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)
