"""The log-normal distribution."""

import jax.numpy as jnp
from jax import random
from jax.scipy.special import ndtr, ndtri
from jax.typing import ArrayLike

from distributions.common.point import log_of
from distributions.constraints import positive, real
from distributions.continuous.normal import Normal
from distributions.core.exponential_family import ScalarFamily
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import ImageOf
from distributions.numerics.normal_functions import log_ndtr
from distributions.numerics.special import (
    LOG_SQRT_TWO_PI,
    clip_positive,
    log,
    ratio,
    safe_exp,
    scale_by_reciprocal,
)


def _log_normal_log_prob(x, loc, scale):
    log_x = log_of(x)
    constant = log(scale) + LOG_SQRT_TWO_PI
    return -0.5 * jnp.square(scale_by_reciprocal(log_x - loc, scale)) - log_x - constant


def _from_natural(of_log, of_square):
    # The density in `x` is that in `log x`, divided by `x`.
    return (of_log + 1) / (-2 * of_square), jnp.sqrt(1 / (-2 * of_square))


LOG_NORMAL = ScalarFamily(
    make=lambda *natural: LogNormal(*_from_natural(*natural)),  # pyright: ignore[reportCallIssue]
    value=jnp.exp,
    weight=lambda x: x,
    basis=lambda x: (jnp.ones_like(x), 2 * jnp.log(x)),
    place=_from_natural,
)


@family(
    support=positive,
    has_steep_ends=True,
    log_prob=_log_normal_log_prob,
    reads_points=True,
    sample=lambda key, shape, dtype, loc, scale: clip_positive(
        jnp.exp(loc + scale * random.normal(key, shape, dtype))
    ),
    mean=lambda loc, scale: jnp.exp(loc + 0.5 * jnp.square(scale)),
    variance=lambda loc, scale: jnp.expm1(jnp.square(scale)) * jnp.exp(2 * loc + jnp.square(scale)),
    mode=lambda loc, scale: jnp.exp(loc - jnp.square(scale)),
    entropy=lambda loc, scale: 0.5 + LOG_SQRT_TWO_PI + jnp.log(scale) + loc,
    cdf=lambda x, loc, scale: ndtr(ratio(jnp.log(x) - loc, scale)),
    survival=lambda x, loc, scale: ndtr(ratio(loc - jnp.log(x), scale)),
    log_cdf=lambda x, loc, scale: log_ndtr(ratio(jnp.log(x) - loc, scale)),
    log_survival=lambda x, loc, scale: log_ndtr(ratio(loc - jnp.log(x), scale)),
    quantile=lambda q, loc, scale: safe_exp(loc + scale * ndtri(q)),
    standard=ImageOf(Normal, jnp.exp, jnp.log),
    conjugate=LOG_NORMAL,
)
class LogNormal(Family):
    r"""Log-normal distribution: the exponential of a normal variable.

    `p(x) = exp(-((log x - loc) / scale)^2 / 2) / (x scale sqrt(2 pi))` for `x > 0`.

    Args:
        loc: The mean of `log x`.
        scale: The standard deviation of `log x`, positive.

    >>> import distributions as dist
    >>> round(float(dist.LogNormal(0.0, 1.0).log_prob(1.0)), 4)
    -0.9189

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 14.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
