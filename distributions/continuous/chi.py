"""The chi distribution: the length of a standard normal vector."""

import math

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from distributions.common.point import log_of, value_of
from distributions.constraints import positive
from distributions.core.family import Family, family, parameter
from distributions.numerics.gamma_functions import gamma_entropy, log_beta_half
from distributions.numerics.gamma_sampler import log_gamma
from distributions.numerics.incomplete_gamma_beta import log_gammainc
from distributions.numerics.loader_kernels import log_gamma_kernel
from distributions.numerics.special import (
    LOG_PI,
    LOG_TWO,
    clip_positive,
    log_unless_tiny,
    steep_log,
)


def _chi_mean(df):
    return jnp.exp(0.5 * (LOG_PI + LOG_TWO) - log_beta_half(0.5 * df))


def _chi_variance(df):
    """The variance: for large `df` a series, as `df` less the squared mean would cancel."""
    y = 1 / df
    series = 0.5 - y * (1 / 8 + y * (1 / 16 - y * 5 / 128))
    large = 1000 if df.dtype == np.float64 else 30
    return jnp.where(df > large, series, df - jnp.square(_chi_mean(df)))


def _chi_log_prob(x, df):
    log_x = log_of(x)
    kernel = log_gamma_kernel(0.5 * df, 0.5 * jnp.square(value_of(x)), 2 * log_x - LOG_TWO)
    return kernel + LOG_TWO - log_x


def _log_tails(x, df):
    """The log probabilities below and above `x`, whose square may overflow or underflow."""
    half_square = 0.5 * jnp.square(jnp.minimum(x, float(jnp.finfo(x.dtype).max) ** 0.5))
    log_half_square = log_unless_tiny(half_square, 2 * steep_log(x) - LOG_TWO)
    return log_gammainc(0.5 * df, half_square, None, log_half_square)


@family(
    support=positive,
    log_prob=_chi_log_prob,
    reads_points=True,
    sample=lambda key, shape, dtype, df: clip_positive(
        math.sqrt(2) * jnp.exp(0.5 * log_gamma(key, 0.5 * df, shape, dtype))
    ),
    mean=_chi_mean,
    variance=_chi_variance,
    mode=lambda df: jnp.sqrt(jnp.maximum(df - 1, 0)),
    entropy=lambda df: gamma_entropy(0.5 * df, 0.5) - 0.5 * LOG_TWO,
    log_cdf=lambda x, df: _log_tails(x, df)[0],
    log_survival=lambda x, df: _log_tails(x, df)[1],
)
class Chi(Family):
    r"""Chi distribution: the length of a vector of `df` standard normal variables.

    `p(x) = 2^(1 - df / 2) x^(df - 1) exp(-x^2 / 2) / Gamma(df / 2)` for `x > 0`.

    Args:
        df: Degrees of freedom, positive.

    >>> import distributions as dist
    >>> round(float(dist.Chi(2.0).log_prob(1.0)), 4)
    -0.5

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 18.
    """

    df: ArrayLike = parameter(positive)
