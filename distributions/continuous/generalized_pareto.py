"""The generalized Pareto distribution, precise around a shape of 0."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.common.arrays import promote
from distributions.constraints import interval, positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.extreme_value_functions import (
    from_reduced_variate,
    reduced_variate,
    support_end,
)
from distributions.numerics.special import complement_of_exp


def _generalized_pareto_support(*parameters):
    loc, scale, c = promote(*parameters)
    return interval(loc, jnp.where(c < 0, support_end(loc, scale, c), jnp.inf))


def _generalized_pareto_variance(loc, scale, c):
    d = jnp.where(c < 0.5, c, 0)
    finite = jnp.square(scale / (1 - d)) / (1 - 2 * d)
    return jnp.where(c < 0.5, finite, jnp.inf)


def _generalized_pareto_quantile(q, loc, scale, c):
    inner = from_reduced_variate(-jnp.log1p(-jnp.where(q < 1, q, 0)), loc, scale, c)
    end = jnp.where(c < 0, support_end(loc, scale, c), jnp.inf)
    return jnp.where(q < 1, inner, end)


@family(
    support=_generalized_pareto_support,
    has_finite_slopes=True,
    log_prob=lambda x, loc, scale, c: -(1 + c) * reduced_variate(x, loc, scale, c) - jnp.log(scale),
    sample=lambda key, shape, dtype, *parameters: from_reduced_variate(
        random.exponential(key, shape, dtype), *parameters
    ),
    mean=lambda loc, scale, c: jnp.where(
        c < 1, loc + scale / (1 - jnp.where(c < 1, c, 0)), jnp.inf
    ),
    variance=_generalized_pareto_variance,
    mode=lambda loc, scale, c: jnp.where(c < -1, support_end(loc, scale, c), loc),
    entropy=lambda loc, scale, c: jnp.log(scale) + c + 1,
    cdf=lambda x, *parameters: complement_of_exp(-reduced_variate(x, *parameters)),
    log_survival=lambda x, *parameters: -reduced_variate(x, *parameters),
    quantile=_generalized_pareto_quantile,
    standard=LOCATION_SCALE,
)
class GeneralizedPareto(Family):
    r"""Generalized Pareto distribution: the limit law of excesses over a high threshold.

    `p(x) = (1 + c z)^(-1 / c - 1) / scale` where `z >= 0` and `1 + c z >= 0`, with
    `z = (x - loc) / scale` and `c = concentration`; `exp(-z) / scale` where `c` is 0.

    Args:
        loc: The threshold, the lower end.
        scale: The scale, positive.
        concentration: The shape: the upper end is finite where it is negative.

    >>> import distributions as dist
    >>> round(float(dist.GeneralizedPareto(0.0, 1.0, 0.5).log_prob(2.0)), 4)
    -2.0794

    References:
        Coles, *An Introduction to Statistical Modeling of Extreme Values* (2001), equation 4.2.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    concentration: ArrayLike = parameter(real)
