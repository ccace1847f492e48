"""The matrix normal distribution."""

from dataclasses import KW_ONLY

import numpy as np
from jax import random
from jax.typing import ArrayLike

from distributions.common.linear_algebra import (
    last_axis,
    log_diagonal,
    matmul,
    solve_matrix,
    square_sum,
)
from distributions.constraints import independent, lower_cholesky, real
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.special import LOG_SQRT_TWO_PI


def _rows(matrix):
    """A stand-in with the shape of one column, for the comparison of shapes alone."""
    return None if np.ndim(matrix) < 2 else np.broadcast_to(0, np.shape(matrix)[:-1])


def _half_log_det(scale_tril_row, scale_tril_column):
    n = scale_tril_row.shape[-1]
    p = scale_tril_column.shape[-1]
    log_dets = p * log_diagonal(scale_tril_row) + n * log_diagonal(scale_tril_column)
    return log_dets + n * p * LOG_SQRT_TWO_PI


def _color(z, loc, scale_tril_row, scale_tril_column):
    return loc + matmul(matmul(scale_tril_row, z), scale_tril_column.mT)


def _whiten(x, loc, scale_tril_row, scale_tril_column):
    z = solve_matrix(scale_tril_row, x - loc)
    return solve_matrix(scale_tril_column, z.mT).mT


def _matrix_normal_log_prob(x, loc, scale_tril_row, scale_tril_column):
    z = _whiten(x, loc, scale_tril_row, scale_tril_column)
    return -0.5 * square_sum(z, 2) - _half_log_det(scale_tril_row, scale_tril_column)


def _matrix_normal_sample(key, shape, dtype, loc, scale_tril_row, scale_tril_column):
    return _color(random.normal(key, shape, dtype), loc, scale_tril_row, scale_tril_column)


@family(
    support=independent(real, 2),
    event_shape=lambda loc, scale_tril_row, scale_tril_column: (
        *last_axis(_rows(loc), scale_tril_row),
        *last_axis(loc, scale_tril_column),
    ),
    log_prob=_matrix_normal_log_prob,
    sample=_matrix_normal_sample,
    mean=lambda loc, scale_tril_row, scale_tril_column: loc,
    variance=lambda loc, scale_tril_row, scale_tril_column: (
        square_sum(scale_tril_row)[..., None] * square_sum(scale_tril_column)[..., None, :]
    ),
    mode=lambda loc, scale_tril_row, scale_tril_column: loc,
    entropy=lambda loc, scale_tril_row, scale_tril_column: (
        0.5 * scale_tril_row.shape[-1] * scale_tril_column.shape[-1]
        + _half_log_det(scale_tril_row, scale_tril_column)
    ),
    standard=Factor(_color, _whiten),
)
class MatrixNormal(Family):
    r"""Matrix normal distribution with mean `loc`.

    `p(X) = exp(-tr(V^-1 (X - loc)^T U^-1 (X - loc)) / 2) / sqrt((2 pi)^(n p) |U|^p |V|^n)` for
    real `X` of `n` by `p`: the covariance of `X_ij` and `X_kl` is `U_ik V_jl`.

    Args:
        loc: The mean, of shape `(..., n, p)`, or one number for all entries.
        scale_tril_row: The Cholesky factor of `U`, of shape `(..., n, n)`.
        scale_tril_column: The Cholesky factor of `V`, of shape `(..., p, p)`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> normal = dist.MatrixNormal(0.0, scale_tril_row=jnp.eye(2), scale_tril_column=jnp.eye(3))
    >>> round(float(normal.log_prob(jnp.zeros((2, 3)))), 4)
    -5.5136

    References:
        Gupta and Nagar, *Matrix Variate Distributions* (2000), definition 2.2.1.
    """

    loc: ArrayLike = parameter(real, event_ndims=2)
    _: KW_ONLY
    scale_tril_row: ArrayLike = parameter(lower_cholesky)
    scale_tril_column: ArrayLike = parameter(lower_cholesky)
