"""The multivariate normal distribution, with its covariance in one of five forms."""

from dataclasses import KW_ONLY

import numpy as np
from jax.typing import ArrayLike

from distributions.common.linear_algebra import last_axis
from distributions.constraints import (
    independent,
    lower_cholesky,
    positive,
    positive_definite,
    real,
    real_vector,
)
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.covariance_factors import ScatterMatrix
from distributions.numerics.special import LOG_SQRT_TWO_PI


def _rows(matrix):
    return None if matrix is None else np.broadcast_to(0, np.shape(matrix)[:-1])


def _multivariate_normal_log_prob(x, loc, *matrix):
    square, half_log_det = ScatterMatrix(*matrix).square_and_log_det()
    return -0.5 * square(x - loc) - (half_log_det + x.shape[-1] * LOG_SQRT_TWO_PI)


@family(
    support=real_vector,
    event_shape=lambda loc, *matrix: last_axis(loc, *matrix[:4], _rows(matrix[4]), matrix[5]),
    one_of=("covariance", "precision", "scale_tril", "scale_diag", ("cov_factor", "cov_diag")),
    log_prob=_multivariate_normal_log_prob,
    sample=lambda key, shape, dtype, loc, *matrix: (
        loc + ScatterMatrix(*matrix).sample(key, shape, dtype)
    ),
    mean=lambda loc, *matrix: loc,
    variance=lambda loc, *matrix: ScatterMatrix(*matrix).diagonal,
    mode=lambda loc, *matrix: loc,
    entropy=lambda loc, *matrix: (
        ScatterMatrix(*matrix).half_log_det + ScatterMatrix(*matrix).size * (0.5 + LOG_SQRT_TWO_PI)
    ),
    standard=Factor(
        lambda z, loc, *matrix: loc + ScatterMatrix(*matrix).multiply_root(z),
        lambda x, loc, *matrix: ScatterMatrix(*matrix).solve_root(x - loc),
    ),
)
class MultivariateNormal(Family):
    r"""Multivariate normal distribution with mean `loc`.

    `p(x) = exp(-(x - loc)^T S^-1 (x - loc) / 2) / sqrt(det(2 pi S))` for real vectors `x`. The
    covariance matrix `S` is given in exactly one of five ways: as it is; by its inverse; by its
    Cholesky factor `L` with `S = L L^T`; by standard deviations, `S = diag(scale_diag)^2`; or as
    `S = cov_factor cov_factor^T + diag(cov_diag)`, of low rank but for its diagonal.

    A covariance or precision matrix is factored whenever a density or a draw is computed, which
    takes `O(n^3)` operations; give `scale_tril` where the matrix does not change. The form of low
    rank takes `O(n r^2)` and makes no matrix of `n` by `n`.

    Args:
        loc: The mean, of shape `(..., n)`, or one number for all entries.
        covariance: The covariance matrix, positive definite, of shape `(..., n, n)`.
        precision: The inverse of the covariance matrix; its own factor is used, and nothing is
            inverted.
        scale_tril: The Cholesky factor, lower-triangular with a positive diagonal.
        scale_diag: The standard deviations of independent entries, of shape `(..., n)`.
        cov_factor: The factor of low rank, of shape `(..., n, r)`; with `cov_diag`.
        cov_diag: Variances, positive, of shape `(..., n)`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> normal = dist.MultivariateNormal(0.0, covariance=jnp.eye(2))
    >>> round(float(normal.log_prob(jnp.zeros(2))), 4)
    -1.8379

    References:
        Rasmussen and Williams, *Gaussian Processes for Machine Learning* (2006), appendices A.2
        and A.3.
    """

    loc: ArrayLike = parameter(real, event_ndims=1)
    _: KW_ONLY
    covariance: ArrayLike | None = parameter(positive_definite, default=None)
    precision: ArrayLike | None = parameter(positive_definite, default=None)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None)
    scale_diag: ArrayLike | None = parameter(independent(positive, 1), default=None)
    cov_factor: ArrayLike | None = parameter(independent(real, 2), default=None)
    cov_diag: ArrayLike | None = parameter(independent(positive, 1), default=None)
