"""Families on the whole real line: Normal, Cauchy, StudentT, Laplace."""

import jax.numpy as jnp
from jax import random
from jax.scipy.special import ndtr, ndtri
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.family import Family, family, parameter
from distributions.special import LOG_PI, LOG_SQRT_TWO_PI, LOG_TWO, log_beta, log_ndtr


@family(
    support=real,
    tfp="Normal",
    log_prob=lambda x, loc, scale: (
        -0.5 * jnp.square((x - loc) / scale) - jnp.log(scale) - LOG_SQRT_TWO_PI
    ),
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.normal(key, shape, dtype),
    mean=lambda loc, scale: loc,
    variance=lambda loc, scale: jnp.square(scale),
    mode=lambda loc, scale: loc,
    entropy=lambda loc, scale: 0.5 + LOG_SQRT_TWO_PI + jnp.log(scale),
    cdf=lambda x, loc, scale: ndtr((x - loc) / scale),
    survival=lambda x, loc, scale: ndtr((loc - x) / scale),
    log_cdf=lambda x, loc, scale: log_ndtr((x - loc) / scale),
    log_survival=lambda x, loc, scale: log_ndtr((loc - x) / scale),
    quantile=lambda q, loc, scale: loc + scale * ndtri(q),
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

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


@family(
    support=real,
    tfp="Cauchy",
    log_prob=lambda x, loc, scale: (
        -jnp.log1p(jnp.square((x - loc) / scale)) - jnp.log(scale) - LOG_PI
    ),
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.cauchy(key, shape, dtype),
)
class Cauchy(Family):
    r"""Cauchy distribution with median `loc`; it has no mean.

    `p(x) = 1 / (pi scale (1 + ((x - loc) / scale)^2))` for real `x`.

    Args:
        loc: The median.
        scale: Half the interquartile range, positive.

    >>> import distributions as dist
    >>> round(float(dist.Cauchy(0.0, 1.0).log_prob(0.0)), 4)
    -1.1447

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 1 (1994), chapter 16.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


def _student_t_log_prob(x, df, loc, scale):
    log_kernel = -0.5 * (df + 1) * jnp.log1p(jnp.square((x - loc) / scale) / df)
    return log_kernel - jnp.log(scale) - 0.5 * jnp.log(df) - log_beta(0.5 * df, 0.5)


@family(
    support=real,
    tfp="StudentT",
    log_prob=_student_t_log_prob,
    sample=lambda key, shape, dtype, df, loc, scale: loc + scale * random.t(key, df, shape, dtype),
)
class StudentT(Family):
    r"""Student's t distribution with `df` degrees of freedom, shifted and scaled.

    `p(x) = (1 + z^2 / df)^(-(df + 1) / 2) / (scale sqrt(df) B(df / 2, 1 / 2))` for real `x`, with
    `z = (x - loc) / scale`.

    Args:
        df: Degrees of freedom, positive.
        loc: The median.
        scale: The scale, positive; not the standard deviation.

    >>> import distributions as dist
    >>> round(float(dist.StudentT(3.0, 0.0, 1.0).log_prob(0.0)), 4)
    -1.0009

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    df: ArrayLike = parameter(positive)
    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)


@family(
    support=real,
    tfp="Laplace",
    log_prob=lambda x, loc, scale: -jnp.abs((x - loc) / scale) - jnp.log(scale) - LOG_TWO,
    sample=lambda key, shape, dtype, loc, scale: loc + scale * random.laplace(key, shape, dtype),
)
class Laplace(Family):
    r"""Laplace (double exponential) distribution with mean `loc`.

    `p(x) = exp(-|x - loc| / scale) / (2 scale)` for real `x`.

    Args:
        loc: The mean.
        scale: The mean absolute deviation, positive.

    >>> import distributions as dist
    >>> round(float(dist.Laplace(0.0, 1.0).log_prob(1.0)), 4)
    -1.6931

    References:
        Johnson, Kotz and Balakrishnan, *Continuous Univariate Distributions* 2 (1995), chapter 24.
    """

    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
