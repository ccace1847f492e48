"""The Pareto distribution of the first type."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import at_least, positive
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import SCALE
from distributions.numerics.power_law_functions import pareto_variance, where_finite
from distributions.numerics.special import (
    clip_positive,
    complement_of_exp,
    log1p_quotient,
)


@family(
    support=lambda a, scale: at_least(scale),
    has_finite_slopes=True,
    log_prob=lambda x, a, scale: (
        jnp.log(a) - jnp.log(scale) - (a + 1) * log1p_quotient(x - scale, scale)
    ),
    sample=lambda key, shape, dtype, a, scale: clip_positive(
        scale * jnp.exp(random.exponential(key, shape, dtype) / a)
    ),
    mean=lambda a, scale: scale * where_finite(a, 1, lambda a: a / (a - 1)),
    variance=pareto_variance,
    mode=lambda a, scale: scale,
    entropy=lambda a, scale: jnp.log(scale) - jnp.log(a) + 1 / a + 1,
    cdf=lambda x, a, scale: complement_of_exp(-a * log1p_quotient(x - scale, scale)),
    log_survival=lambda x, a, scale: -a * log1p_quotient(x - scale, scale),
    quantile=lambda q, a, scale: scale * jnp.exp(-jnp.log1p(-q) / a),
    standard=SCALE,
)
class Pareto(Family):
    r"""Pareto distribution (of the first type).

    `p(x) = a scale^a / x^(a + 1)` with `a = concentration`, for `x >= scale`.

    Args:
        concentration: The exponent of the tail, positive: moments exist below it.
        scale: The lower end, positive.

    >>> import distributions as dist
    >>> round(float(dist.Pareto(concentration=2.0, scale=1.0).log_prob(2.0)), 4)
    -1.3863

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 20.
    """

    _: KW_ONLY
    concentration: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)
