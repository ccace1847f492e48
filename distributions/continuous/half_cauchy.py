"""The half-Cauchy distribution: a Cauchy folded at its location, for scales."""

import math

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import at_least, positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.special import (
    LOG_PI,
    LOG_TWO,
    log,
    log1p_square_ratio,
    ratio,
)
from distributions.numerics.student_t_functions import cauchy_survival


@family(
    support=lambda loc, scale: at_least(loc),
    log_prob=lambda x, loc, scale: (
        -log1p_square_ratio(x - loc, scale, in_sum=True) - (log(scale) + (LOG_PI - LOG_TWO))
    ),
    sample=lambda key, shape, dtype, loc, scale: (
        loc + scale * jnp.abs(random.cauchy(key, shape, dtype))
    ),
    mean=lambda loc, scale: jnp.inf,
    variance=lambda loc, scale: jnp.inf,
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: LOG_PI + LOG_TWO + jnp.log(scale),
    cdf=lambda x, loc, scale: jnp.arctan(ratio(x - loc, scale)) * (2 / math.pi),
    survival=lambda x, loc, scale: 2 * cauchy_survival(ratio(x - loc, scale)),
    quantile=lambda q, loc, scale: (
        loc + scale * jnp.where(q < 1, jnp.tan(math.pi / 2 * q), jnp.inf)
    ),
    standard=LOCATION_SCALE,
)
class HalfCauchy(Family):
    r"""Half-Cauchy distribution: the upper half of a Cauchy; its mean is infinite.

    `p(x) = 2 / (pi scale (1 + ((x - loc) / scale)^2))` for `x >= loc`.

    Args:
        loc: The lower end.
        scale: The distance from the lower end to the median, positive.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.HalfCauchy(0.0, 5.0).log_prob(jnp.array([5.0, -1.0])).round(4))
    [-2.7542    -inf]

    References:
        Gelman, "Prior distributions for variance parameters in hierarchical models", Bayesian
        Analysis 1 (2006).
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
