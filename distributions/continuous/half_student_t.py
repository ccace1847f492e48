"""The half-t distribution: Student's t folded at its location, for scales."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.constraints import at_least, positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.gamma_sampler import student_t
from distributions.numerics.special import LOG_TWO, ratio
from distributions.numerics.student_t_functions import (
    mean_distance,
    student_t_entropy,
    student_t_log_prob,
    student_t_tails,
)


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
    standard=LOCATION_SCALE,
)
class HalfStudentT(Family):
    r"""Half-t distribution: the upper half of Student's t.

    `p(x) = 2 (1 + z^2 / df)^(-(df + 1) / 2) / (scale sqrt(df) B(df / 2, 1 / 2))` for `x >= loc`,
    with `z = (x - loc) / scale`.

    Args:
        df: Degrees of freedom, positive.
        loc: The lower end.
        scale: The scale, positive.

    >>> import distributions as dist
    >>> round(float(dist.HalfStudentT(3.0, loc=0.0, scale=1.0).log_prob(0.0)), 4)
    -0.3077

    References:
        Gelman, "Prior distributions for variance parameters in hierarchical models", Bayesian
        Analysis 1 (2006).
    """

    df: ArrayLike = parameter(positive)
    _: KW_ONLY
    loc: ArrayLike = parameter(real)
    scale: ArrayLike = parameter(positive)
