"""Student's t distribution with a scale on either side: TwoPieceStudentT."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions._cumulative import log1mexp
from distributions._derive import implicit
from distributions.chi_square import mean_distance
from distributions.constraints import positive, real
from distributions.family import Family, family, parameter
from distributions.real_line import (
    standard_t_log_prob,
    student_t_entropy,
    student_t_tails,
    student_t_variance,
)
from distributions.special import LOG_TWO, ratio


def _log_prob(x, df, loc, scale, k):
    z = ratio(x - loc, scale) * jnp.where(x < loc, k, 1 / k)
    return standard_t_log_prob(z, df) + LOG_TWO - jnp.log(scale) - jnp.log(k + 1 / k)


def _log_cdf(x, df, loc, scale, k):
    """From the mass that is farther from the mode, of the half in which the value lies."""
    left = x < loc
    z = ratio(x - loc, scale) * jnp.where(left, k, 1 / k)
    outer = student_t_tails(z, df)[1]
    below = outer - jnp.log1p(jnp.square(k))
    above = outer - jnp.log1p(1 / jnp.square(k))
    return jnp.where(left, below, log1mexp(jnp.where(left, -1, above)))


def _draw(key, shape, dtype, df, loc, scale, k):
    key, side_key = random.split(key)
    size = jnp.abs(random.t(key, df, shape, dtype))
    right = random.uniform(side_key, shape, dtype) * (1 + 1 / jnp.square(k)) < 1
    return loc + scale * jnp.where(right, k * size, -size / k)


def _mean(df, loc, scale, k):
    finite = df > 1
    distance = mean_distance(jnp.where(finite, df, 2))
    return jnp.where(finite, loc + scale * (k - 1 / k) * distance, jnp.nan)


def _variance(df, loc, scale, k):
    finite = df > 2
    inner = jnp.where(finite, df, 3)
    square = jnp.square(k - 1 / k)
    spread = student_t_variance(inner, jnp.ones_like(inner)) * (1 + square)
    value = jnp.square(scale) * (spread - jnp.square(mean_distance(inner)) * square)
    return jnp.where(finite, value, jnp.where(df > 1, jnp.inf, jnp.nan))


@family(
    support=real,
    tfp="TwoPieceStudentT",
    log_prob=_log_prob,
    sample=implicit(_draw, lambda x, *p: jnp.exp(_log_cdf(x, *p)), _log_prob),
    mean=_mean,
    variance=_variance,
    mode=lambda df, loc, scale, k: loc,
    entropy=lambda df, loc, scale, k: (
        student_t_entropy(df) + jnp.log(scale) + jnp.log(k + 1 / k) - LOG_TWO
    ),
    log_cdf=_log_cdf,
    log_survival=lambda x, df, loc, scale, k: _log_cdf(-x, df, -loc, scale, 1 / k),
)
class TwoPieceStudentT(Family):
    r"""Student's t distribution with a scale on either side.

    `p(x) = 2 t((x - loc) / s) / (scale (k + 1 / k))` for real `x`, with `t` the density of
    Student's distribution with `df` degrees of freedom, `k = skewness` and `s` equal to `scale / k`
    on the left of `loc` and to `scale k` on its right.

    Args:
        df: Degrees of freedom, positive.
        loc: The mode.
        scale: The geometric mean of the two scales, positive.
        skewness: The square root of the right scale over the left one, positive.

    >>> import distributions as dist
    >>> round(float(dist.TwoPieceStudentT(3.0, 0.0, 1.0, 1.0).log_prob(0.0)), 4)
    -1.0009

    References:
        Fernandez and Steel, "On Bayesian modeling of fat tails and skewness", Journal of the
        American Statistical Association 93 (1998), 359-371.
    """

    df: ArrayLike = parameter(positive)
    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
    skewness: ArrayLike = parameter(positive)
