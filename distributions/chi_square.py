"""Lengths of normal vectors: Chi2, Chi, InverseChi2, Rayleigh, and of t variables: HalfStudentT."""

import math

import jax.numpy as jnp
import numpy as np
from jax import Array, random
from jax.typing import ArrayLike

from distributions._derive import reparameterised
from distributions._gamma_draw import log_gamma, student_t
from distributions.constraints import at_least, positive, real
from distributions.family import Family, family
from distributions.gamma_functions import gamma_entropy, log_beta_half
from distributions.half_line import Gamma, InverseGamma
from distributions.incomplete import log_gammainc
from distributions.kernels import log_gamma_kernel
from distributions.real_line import student_t_entropy, student_t_log_prob, student_t_tails
from distributions.row import parameter
from distributions.special import (
    EULER_GAMMA,
    LOG_PI,
    LOG_TWO,
    bounded_ratio,
    clip_positive,
    ratio,
)


@family(
    support=positive,
    **reparameterised(Gamma, lambda df: (0.5 * df, jnp.full_like(df, 0.5))),
)
class Chi2(Family):
    r"""Chi-square distribution: of the sum of the squares of `df` standard normal variables.

    `p(x) = x^(df / 2 - 1) exp(-x / 2) / (2^(df / 2) Gamma(df / 2))` for `x > 0`.

    Args:
        df: Degrees of freedom, positive; the mean.

    >>> import distributions as dist
    >>> round(float(dist.Chi2(2.0).log_prob(2.0)), 4)
    -1.6931

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 18.
    """

    df: ArrayLike = parameter(positive)


def _chi_mean(df):
    return jnp.exp(0.5 * (LOG_PI + LOG_TWO) - log_beta_half(0.5 * df))


def _chi_variance(df):
    """A series where the square of the mean would cancel more digits than the series leaves."""
    y = 1 / df
    series = 0.5 - y * (1 / 8 + y * (1 / 16 - y * 5 / 128))
    large = 1000 if df.dtype == np.float64 else 30
    return jnp.where(df > large, series, df - jnp.square(_chi_mean(df)))


def _chi_log_prob(x, df):
    log_x = jnp.log(x)
    kernel = log_gamma_kernel(0.5 * df, 0.5 * jnp.square(x), 2 * log_x - LOG_TWO)
    return kernel + LOG_TWO - log_x


@family(
    support=positive,
    log_prob=_chi_log_prob,
    sample=lambda key, shape, dtype, df: clip_positive(
        math.sqrt(2) * jnp.exp(0.5 * log_gamma(key, 0.5 * df, shape, dtype))
    ),
    mean=_chi_mean,
    variance=_chi_variance,
    mode=lambda df: jnp.sqrt(jnp.maximum(df - 1, 0)),
    entropy=lambda df: gamma_entropy(0.5 * df, 0.5) - 0.5 * LOG_TWO,
    log_cdf=lambda x, df: log_gammainc(0.5 * df, 0.5 * jnp.square(x))[0],
    log_survival=lambda x, df: log_gammainc(0.5 * df, 0.5 * jnp.square(x))[1],
)
class Chi(Family):
    r"""Chi distribution: of the length of a vector of `df` standard normal variables.

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


def _inverse_chi_square_log_prob(x, df, scale):
    log_x, root = jnp.log(x), jnp.sqrt(x)
    log_y = jnp.log(0.5 * df) + 2 * jnp.log(scale) - log_x
    return log_gamma_kernel(0.5 * df, 0.5 * df * jnp.square(scale / root), log_y) - log_x


@family(
    support=positive,
    **reparameterised(InverseGamma, lambda df, scale: (0.5 * df, 0.5 * df * jnp.square(scale)))
    | {"log_prob": _inverse_chi_square_log_prob},
)
class InverseChi2(Family):
    r"""Scaled inverse chi-square distribution: of `df scale^2 / y` for a chi-square variable `y`.

    `p(x) = (h scale^2)^h x^(-h - 1) exp(-h scale^2 / x) / Gamma(h)` with `h = df / 2`, for `x > 0`.

    Args:
        df: Degrees of freedom, positive.
        scale: The scale, positive: a standard deviation where `x` is a variance.

    >>> import distributions as dist
    >>> round(float(dist.InverseChi2(4.0, 1.0).log_prob(1.0)), 4)
    -0.6137

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    df: ArrayLike = parameter(positive)
    scale: ArrayLike = parameter(positive)


@family(
    support=positive,
    has_finite_slopes=True,
    log_prob=lambda x, scale: (
        jnp.log(bounded_ratio(x, scale))
        - jnp.log(scale)
        - 0.5 * jnp.square(bounded_ratio(x, scale))
    ),
    sample=lambda key, shape, dtype, scale: clip_positive(
        scale * jnp.sqrt(2 * random.exponential(key, shape, dtype))
    ),
    mean=lambda scale: math.sqrt(math.pi / 2) * scale,
    variance=lambda scale: (2 - math.pi / 2) * jnp.square(scale),
    mode=lambda scale: scale,
    entropy=lambda scale: 1 + jnp.log(scale) + 0.5 * (EULER_GAMMA - LOG_TWO),
    cdf=lambda x, scale: -jnp.expm1(-0.5 * jnp.square(ratio(x, scale))),
    log_survival=lambda x, scale: -0.5 * jnp.square(ratio(x, scale)),
    quantile=lambda q, scale: scale * jnp.sqrt(-2 * jnp.log1p(-q)),
)
class Rayleigh(Family):
    r"""Rayleigh distribution: of the length of a vector of two normal variables.

    `p(x) = x exp(-(x / scale)^2 / 2) / scale^2` for `x > 0`.

    Args:
        scale: The standard deviation of the normal variables, positive; the mode.

    >>> import distributions as dist
    >>> round(float(dist.Rayleigh(1.0).log_prob(1.0)), 4)
    -0.5

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 18,
        section 10.
    """

    scale: ArrayLike = parameter(positive)


def mean_distance(df: Array) -> Array:
    """Of a standard t variable from its centre; infinite up to one degree of freedom."""
    excess = jnp.where(df > 1, df - 1, 1)
    inner = jnp.sqrt(df) * jnp.exp(-log_beta_half(0.5 * df))
    return jnp.where(df > 1, 2 * inner / excess, jnp.inf)


def _half_t_variance(df, loc, scale):
    excess = jnp.where(df > 2, df - 2, 1)
    finite = df / excess - jnp.square(mean_distance(jnp.where(df > 2, df, 3)))
    return jnp.where(df > 2, jnp.square(scale) * finite, jnp.inf)


@family(
    support=lambda df, loc, scale: at_least(loc),
    has_finite_slopes=True,
    log_prob=lambda x, df, loc, scale: student_t_log_prob(x, df, loc, scale) + LOG_TWO,
    sample=lambda key, shape, dtype, df, loc, scale: (
        loc + scale * jnp.abs(student_t(key, df, shape, dtype))
    ),
    mean=lambda df, loc, scale: loc + scale * mean_distance(df),
    variance=_half_t_variance,
    mode=lambda df, loc, scale: loc,
    entropy=lambda df, loc, scale: student_t_entropy(df) + jnp.log(scale) - LOG_TWO,
    log_cdf=lambda x, df, loc, scale: student_t_tails(ratio(x - loc, scale), df)[0],
    log_survival=lambda x, df, loc, scale: student_t_tails(ratio(x - loc, scale), df)[1],
)
class HalfStudentT(Family):
    r"""Upper half of a t distribution.

    `p(x) = 2 (1 + z^2 / df)^(-(df + 1) / 2) / (scale sqrt(df) B(df / 2, 1 / 2))` for `x >= loc`,
    with `z = (x - loc) / scale`.

    Args:
        df: Degrees of freedom, positive.
        loc: The lower end.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.HalfStudentT(3.0, 0.0, 1.0).log_prob(0.0)), 4)
    -0.3077

    References:
        Gelman, "Prior distributions for variance parameters in hierarchical models", Bayesian
        Analysis 1 (2006).
    """

    df: ArrayLike = parameter(positive)
    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
