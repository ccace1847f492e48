"""Student's t distribution, and its log survival function."""

import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from distributions.constraints import positive, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import LOCATION_SCALE
from distributions.numerics.gamma_sampler import student_t
from distributions.numerics.special import LOG_TWO, ratio
from distributions.numerics.student_t_functions import (
    student_t_entropy,
    student_t_log_prob,
    student_t_tails,
    student_t_variance,
)


def student_t_log_survival(z: Array, df: Array) -> Array:
    """The logarithm of the probability of a standard t variable above `z`."""
    outer = student_t_tails(z, df)[1]
    return jnp.where(z < 0, jnp.log1p(-0.5 * jnp.exp(outer)), outer - LOG_TWO)


@family(
    support=real,
    log_prob=student_t_log_prob,
    sample=lambda key, shape, dtype, df, loc, scale: loc + scale * student_t(key, df, shape, dtype),
    mean=lambda df, loc, scale: jnp.where(df > 1, loc, jnp.nan),
    variance=lambda df, loc, scale: student_t_variance(df, scale),
    mode=lambda df, loc, scale: loc,
    entropy=lambda df, loc, scale: student_t_entropy(df) + jnp.log(scale),
    log_cdf=lambda x, df, loc, scale: student_t_log_survival(ratio(loc - x, scale), df),
    log_survival=lambda x, df, loc, scale: student_t_log_survival(ratio(x - loc, scale), df),
    standard=LOCATION_SCALE,
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
    loc: ArrayLike = parameter(real, default=0.0)
    scale: ArrayLike = parameter(positive, default=1.0)
