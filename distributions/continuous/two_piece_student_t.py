"""The two-piece (split) Student's t distribution."""

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.derived_formulas import differentiate_implicitly
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.gamma_sampler import student_t
from distributions.numerics.special import LOG_TWO, bounded_ratio, log1mexp, log_two_sided
from distributions.numerics.student_t_functions import (
    mean_distance,
    standard_t_log_prob,
    student_t_entropy,
    student_t_tails,
    student_t_variance,
)
from distributions.numerics.two_piece_functions import from_mode


def _t_log_prob(x, df, loc, scale, k):
    distance, side = from_mode(x, loc, scale, k)
    density = standard_t_log_prob(distance, df, side)
    return density + LOG_TWO - jnp.log(scale) - log_two_sided(k)


def _t_log_cdf(x, df, loc, scale, k):
    """The log probability below, from the mass beyond the value on its side of the mode."""
    left = x < loc
    outer = student_t_tails(bounded_ratio(*from_mode(x, loc, scale, k)), df)[1]
    below = outer - jnp.log1p(jnp.square(k))
    above = outer - jnp.log1p(1 / jnp.square(k))
    return jnp.where(left, below, log1mexp(jnp.where(left, -1, above)))


def _t_draw(key, shape, dtype, df, loc, scale, k):
    key, side_key = random.split(key)
    size = jnp.abs(student_t(key, df, shape, dtype))
    right = random.uniform(side_key, shape, dtype) * (1 + 1 / jnp.square(k)) < 1
    return loc + scale * jnp.where(right, k * size, -size / k)


def _t_mean(df, loc, scale, k):
    finite = df > 1
    distance = mean_distance(jnp.where(finite, df, 2))
    return jnp.where(finite, loc + scale * (k - 1 / k) * distance, jnp.nan)


def _t_variance(df, loc, scale, k):
    finite = df > 2
    inner = jnp.where(finite, df, 3)
    square = jnp.square(k - 1 / k)
    spread = student_t_variance(inner, jnp.ones_like(inner)) * (1 + square)
    value = jnp.square(scale) * (spread - jnp.square(mean_distance(inner)) * square)
    return jnp.where(finite, value, jnp.where(df > 1, jnp.inf, jnp.nan))


@family(
    support=real,
    has_finite_slopes=True,
    log_prob=_t_log_prob,
    sample=differentiate_implicitly(_t_draw, lambda x, *p: jnp.exp(_t_log_cdf(x, *p)), _t_log_prob),
    mean=_t_mean,
    variance=_t_variance,
    mode=lambda df, loc, scale, k: loc,
    entropy=lambda df, loc, scale, k: (
        student_t_entropy(df) + jnp.log(scale) + log_two_sided(k) - LOG_TWO
    ),
    log_cdf=_t_log_cdf,
    log_survival=lambda x, df, loc, scale, k: _t_log_cdf(-x, df, -loc, scale, 1 / k),
    standard=LOCATION_SCALE,
)
class TwoPieceStudentT(Family):
    r"""Two-piece (split) Student's t distribution: each side of the mode has its own scale.

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
