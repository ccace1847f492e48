"""The log-logistic distribution."""

import math
from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.common.point import log_of
from distributions.constraints import positive, real
from distributions.continuous.logistic import Logistic
from distributions.core.derived_formulas import transform_formulas
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import ImageOf
from distributions.numerics.special import (
    clip_positive,
    safe_exp,
)


def _log_logistic_mean(loc, scale):
    w = math.pi * jnp.where(scale < 1, scale, 0.5)
    return jnp.where(scale < 1, jnp.exp(loc) * w / jnp.sin(w), jnp.inf)


def _log_logistic_variance(loc, scale):
    w = math.pi * jnp.where(scale < 0.5, scale, 0.25)
    finite = jnp.square(jnp.exp(loc) * w / jnp.sin(w)) * (jnp.tan(w) / w - 1)
    return jnp.where(scale < 0.5, finite, jnp.inf)


def _log_logistic_mode(loc, scale):
    s = jnp.minimum(scale, 1)
    return jnp.exp(loc) * jnp.power((1 - s) / (1 + s), s)


@family(
    support=positive,
    has_steep_ends=True,
    reads_points=True,
    **transform_formulas(
        Logistic,
        forward=lambda z, loc, scale: clip_positive(jnp.exp(z)),
        inverse=lambda x, loc, scale: log_of(x),
        log_det=lambda x, loc, scale: -log_of(x),
        mean=_log_logistic_mean,
        variance=_log_logistic_variance,
        mode=_log_logistic_mode,
        entropy=lambda loc, scale: loc + jnp.log(scale) + 2,
        quantile=lambda q, loc, scale: safe_exp(loc + scale * (jnp.log(q) - jnp.log1p(-q))),
    ),
    standard=ImageOf(Logistic, jnp.exp, jnp.log),
)
class LogLogistic(Family):
    r"""Log-logistic distribution: the exponential of a logistic variable.

    `p(x) = exp(-z) / (x scale (1 + exp(-z))^2)` for `x > 0`, with `z = (log x - loc) / scale`.

    Args:
        loc: The mean of `log x`: the logarithm of the median.
        scale: The scale of `log x`, positive: the inverse of the exponent of the tail.

    >>> import distributions as dist
    >>> round(float(dist.LogLogistic(loc=0.0, scale=1.0).log_prob(1.0)), 4)
    -1.3863

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 23,
        section 11.
    """

    _: KW_ONLY
    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
