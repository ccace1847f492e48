"""The normal distribution."""

import jax.numpy as jnp
from jax import random
from jax.scipy.special import ndtr, ndtri
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.exponential_family import ScalarFamily
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.normal_functions import log_ndtr
from distributions.numerics.special import LOG_SQRT_TWO_PI, log, ratio, scale_by_reciprocal


def _from_natural(of_value, of_square):
    return of_value / (-2 * of_square), jnp.sqrt(1 / (-2 * of_square))


NORMAL = ScalarFamily(
    make=lambda *natural: Normal(*_from_natural(*natural)),  # pyright: ignore[reportCallIssue]
    value=lambda u: u,
    weight=jnp.ones_like,
    basis=lambda x: (jnp.ones_like(x), 2 * x),
    place=_from_natural,
)


@family(
    support=real,
    log_prob=lambda x, loc, scale: (
        -0.5 * jnp.square(scale_by_reciprocal(x - loc, scale)) - (log(scale) + LOG_SQRT_TWO_PI)
    ),
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.normal(key, shape, dtype),
    mean=lambda loc, scale: loc,
    variance=lambda loc, scale: jnp.square(scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: 0.5 + LOG_SQRT_TWO_PI + jnp.log(scale),
    cdf=lambda x, loc, scale: ndtr(ratio(x - loc, scale)),
    survival=lambda x, loc, scale: ndtr(ratio(loc - x, scale)),
    log_cdf=lambda x, loc, scale: log_ndtr(ratio(x - loc, scale)),
    log_survival=lambda x, loc, scale: log_ndtr(ratio(loc - x, scale)),
    quantile=lambda q, loc, scale: loc + scale * ndtri(q),
    standard=LOCATION_SCALE,
    conjugate=NORMAL,
)
class Normal(Family):
    r"""Normal distribution with mean `loc` and standard deviation `scale`.

    `p(x) = exp(-((x - loc) / scale)^2 / 2) / (scale sqrt(2 pi))` for real `x`.

    Args:
        loc: The mean.
        scale: The standard deviation, positive.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> print(dist.Normal(0.0, 2.0).log_prob(jnp.array([0.0, 2.0])).round(4))
    [-1.6121 -2.1121]

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    loc: ArrayLike = parameter(real, default=0.0)
    scale: ArrayLike = parameter(positive, default=1.0)
