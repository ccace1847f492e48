"""The multivariate Student's t distribution."""

import math
from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions.common.arrays import select
from distributions.common.linear_algebra import (
    last_axis,
    per_event,
)
from distributions.constraints import (
    lower_cholesky,
    positive,
    positive_definite,
    real,
    real_vector,
)
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.covariance_factors import ScatterMatrix
from distributions.numerics.gamma_functions import digamma_step, log_beta
from distributions.numerics.gamma_sampler import gamma
from distributions.numerics.special import LOG_PI, log1p_quotient


def _standard_t_normalizer(df, n):
    log_gammas = log_beta(0.5 * df, jnp.full_like(df, 0.5 * n)) - math.lgamma(0.5 * n)
    return 0.5 * n * (jnp.log(df) + LOG_PI) + log_gammas


def _student_t_log_prob(x, df, loc, *matrix):
    n = x.shape[-1]
    square, half_log_det = ScatterMatrix(*matrix).square_and_log_det()
    log_kernel = -0.5 * (df + n) * log1p_quotient(square(x - loc), df)
    return log_kernel - (half_log_det + _standard_t_normalizer(df, n))


def _student_t_sample(key, shape, dtype, df, loc, *matrix):
    key, gamma_key = random.split(key)
    half_chi2 = gamma(gamma_key, 0.5 * df, shape[:-1], dtype)
    half_chi2 = jnp.maximum(half_chi2, jnp.finfo(dtype).tiny)
    draw = ScatterMatrix(*matrix).sample(key, shape, dtype)
    return loc + draw * jnp.sqrt(0.5 * df / half_chi2)[..., None]


def _student_t_variance(df, loc, *matrix):
    df = per_event(df)
    factor = select(df > 2, df / (select(df > 2, df, 3) - 2), jnp.inf)
    return select(df > 1, factor, jnp.nan) * ScatterMatrix(*matrix).diagonal


def _student_t_entropy(df, loc, *matrix):
    s = ScatterMatrix(*matrix)
    n = s.size
    normalizer = s.half_log_det + _standard_t_normalizer(df, n)
    return normalizer + 0.5 * (df + n) * digamma_step(0.5 * df, 0.5 * n)


@family(
    support=real_vector,
    event_shape=lambda df, loc, *matrix: last_axis(loc, *matrix),
    one_of=("scale", "precision", "scale_tril"),
    log_prob=_student_t_log_prob,
    sample=_student_t_sample,
    mean=lambda df, loc, *matrix: select(per_event(df) > 1, loc, jnp.nan),
    variance=_student_t_variance,
    mode=lambda df, loc, *matrix: loc,
    entropy=_student_t_entropy,
    standard=Factor(
        lambda z, df, loc, *matrix: loc + ScatterMatrix(*matrix).multiply_root(z),
        lambda x, df, loc, *matrix: ScatterMatrix(*matrix).solve_root(x - loc),
        lambda d: {
            "loc": jnp.zeros(d.batch_shape + d.event_shape, d.dtype),
            **dict.fromkeys(("scale", "precision")),
            "scale_tril": jnp.eye(*d.event_shape, dtype=d.dtype),
        },
    ),
)
class MultivariateStudentT(Family):
    r"""Multivariate Student's t distribution with `df` degrees of freedom.

    `p(x) = Gamma((df + n) / 2) / Gamma(df / 2) (1 + z / df)^(-(df + n) / 2) / sqrt(det(df pi S))`
    for real vectors `x` of `n` entries, with `z = (x - loc)^T S^-1 (x - loc)`. The matrix `S` is
    not the covariance, which is `S df / (df - 2)`. It is given in exactly one of three ways: as it
    is, by its inverse, or by its Cholesky factor `L` with `S = L L^T`.

    Args:
        df: Degrees of freedom, positive.
        loc: The median, of shape `(..., n)`, or one number for all entries.
        scale: The matrix `S`, positive definite, of shape `(..., n, n)`.
        precision: The inverse of `S`.
        scale_tril: The Cholesky factor of `S`, lower-triangular with a positive diagonal.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> t = dist.MultivariateStudentT(3.0, 0.0, scale=jnp.eye(2))
    >>> round(float(t.log_prob(jnp.zeros(2))), 4)
    -1.8379

    References:
        Kotz and Nadarajah, *Multivariate t Distributions and Their Applications* (2004),
        equation 1.1.
    """

    df: ArrayLike = parameter(positive)
    loc: ArrayLike = parameter(real, event_ndims=1)
    _: KW_ONLY
    scale: ArrayLike | None = parameter(positive_definite, default=None)
    precision: ArrayLike | None = parameter(positive_definite, default=None)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None)
