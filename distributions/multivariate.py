"""Families of vectors on the whole space: MultivariateNormal and MultivariateStudentT."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.typing import ArrayLike

from distributions._arrays import align, select
from distributions._gamma_draw import gamma
from distributions._linalg import (
    diagonal,
    diagonal_matrix,
    gram,
    last_axis,
    log_diagonal,
    multiply,
    per_event,
    solve,
    solve_matrix,
    square_sum,
)
from distributions.constraints import (
    independent,
    lower_cholesky,
    positive,
    positive_definite,
    real,
    real_vector,
)
from distributions.family import Family, family
from distributions.gamma_functions import digamma_step, log_beta
from distributions.row import parameter
from distributions.special import LOG_PI, LOG_SQRT_TWO_PI, log1p_quotient

# What follows is given a matrix S in one of five ways, as `MultivariateNormal` is its covariance;
# the ways that are not used are None.


def _tril(covariance, scale_tril):
    return jnp.linalg.cholesky(covariance) if scale_tril is None else scale_tril


def _capacitance(cov_factor, cov_diag):
    """`A = D^(-1/2) W / c`, `c`, the size of its entries, and a factor of `I / c^2 + A^T A`.

    The squares of entries of that size would overflow. Where they are less than 1, `c` is 1.
    """
    a = cov_factor / jnp.sqrt(cov_diag)[..., None]
    c = lax.stop_gradient(jnp.max(jnp.abs(a), (-2, -1), keepdims=True, initial=1))
    a = a / c
    inner = gram(a.mT)
    unit = align(jnp.eye(inner.shape[-1], dtype=inner.dtype), 2, inner.ndim - 2)
    return a, c[..., 0], jnp.linalg.cholesky(inner + unit / c / c)


def _low_rank_square(x, a, c, tril, cov_diag):
    """By the matrix inversion lemma: `min_u |y - A u|^2 + |u / c|^2`, which does not cancel."""
    y = x / jnp.sqrt(cov_diag)
    u = solve(tril, solve(tril, multiply(a.mT, y)), transpose=True)
    return square_sum(y - multiply(a, u)) + square_sum(u / c)


def _by_factor(covariance, precision, scale_tril, scale_diag=None, cov_factor=None, cov_diag=None):
    """`x -> x^T S^-1 x` and `log det S / 2`, by one factor: derivatives go through it once."""
    if cov_factor is not None and cov_diag is not None:
        a, c, tril = _capacitance(cov_factor, cov_diag)
        half_log_det = log_diagonal(tril) + a.shape[-1] * jnp.log(c[..., 0])
        half_log_det += 0.5 * jnp.sum(jnp.log(cov_diag), -1)
        return lambda x: _low_rank_square(x, a, c, tril, cov_diag), half_log_det
    if scale_diag is not None:
        return lambda x: square_sum(x / scale_diag), jnp.sum(jnp.log(scale_diag), -1)
    if precision is not None:
        tril = jnp.linalg.cholesky(precision)
        return lambda x: square_sum(multiply(tril.mT, x)), -log_diagonal(tril)
    tril = _tril(covariance, scale_tril)
    return lambda x: square_sum(solve(tril, x)), log_diagonal(tril)


def _half_log_det(*matrix):
    """`log det S / 2`."""
    return _by_factor(*matrix)[1]


def _diagonal(covariance, precision, scale_tril, scale_diag=None, cov_factor=None, cov_diag=None):
    """The diagonal of `S`."""
    if cov_factor is not None and cov_diag is not None:
        return square_sum(cov_factor) + cov_diag
    if scale_diag is not None:
        return jnp.square(scale_diag)
    if precision is not None:
        covariance = jnp.linalg.inv(precision)
    return diagonal(covariance) if scale_tril is None else square_sum(scale_tril)


def _draw(
    key,
    shape,
    dtype,
    covariance,
    precision,
    scale_tril,
    scale_diag=None,
    cov_factor=None,
    cov_diag=None,
):
    """Normal draws with mean 0 and covariance `S`."""
    if cov_factor is not None and cov_diag is not None:
        key, few_key = random.split(key)
        z = random.normal(key, shape, dtype)
        few = random.normal(few_key, (*shape[:-1], cov_factor.shape[-1]), dtype)
        return multiply(cov_factor, few) + jnp.sqrt(cov_diag) * z
    z = random.normal(key, shape, dtype)
    if scale_diag is not None:
        return scale_diag * z
    if precision is not None:
        return solve(jnp.linalg.cholesky(precision), z, transpose=True)
    return multiply(_tril(covariance, scale_tril), z)


def _size(covariance, precision, scale_tril, scale_diag=None, cov_factor=None, cov_diag=None):
    matrices = (m for m in (covariance, precision, scale_tril, scale_diag) if m is not None)
    return next(matrices, cov_diag).shape[-1]  # pyright: ignore[reportOptionalMemberAccess]


def _rows(matrix):
    return None if matrix is None else np.broadcast_to(0, np.shape(matrix)[:-1])


def dense_scale_tril(d: Any) -> Array:
    """The Cholesky factor of the covariance of a `MultivariateNormal`."""
    _, covariance, precision, scale_tril, scale_diag, cov_factor, cov_diag = d._arrays(
        d._float_dtype, len(d.batch_shape)
    )
    if cov_factor is not None and cov_diag is not None:
        covariance = gram(cov_factor) + diagonal_matrix(cov_diag)
    if scale_diag is not None:
        return diagonal_matrix(scale_diag)
    if precision is not None:
        # With J that reverses the order, J (chol(J P J))^-T J is lower-triangular.
        reverse = jnp.flip(jnp.linalg.cholesky(jnp.flip(precision, (-2, -1))), (-2, -1))
        unit = diagonal_matrix(jnp.ones_like(reverse[..., 0]))
        return solve_matrix(reverse.mT, unit)
    return _tril(covariance, scale_tril)


def _multivariate_normal_log_prob(x, loc, *matrix):
    square, half_log_det = _by_factor(*matrix)
    return -0.5 * square(x - loc) - (half_log_det + x.shape[-1] * LOG_SQRT_TWO_PI)


@family(
    support=real_vector,
    event_shape=lambda loc, *matrix: last_axis(loc, *matrix[:4], _rows(matrix[4]), matrix[5]),
    one_of=("covariance", "precision", "scale_tril", "scale_diag", ("cov_factor", "cov_diag")),
    log_prob=_multivariate_normal_log_prob,
    sample=lambda key, shape, dtype, loc, *matrix: loc + _draw(key, shape, dtype, *matrix),
    mean=lambda loc, *matrix: loc,
    variance=lambda loc, *matrix: _diagonal(*matrix),
    mode=lambda loc, *matrix: loc,
    entropy=lambda loc, *matrix: _half_log_det(*matrix) + _size(*matrix) * (0.5 + LOG_SQRT_TWO_PI),
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
        covariance: Positive definite, of shape `(..., n, n)`.
        precision: The inverse of the covariance matrix; its own factor is used, and nothing is
            inverted.
        scale_tril: Lower-triangular with a positive diagonal.
        scale_diag: The standard deviations of independent entries, of shape `(..., n)`.
        cov_factor: Of shape `(..., n, r)`; with `cov_diag`.
        cov_diag: Positive, of shape `(..., n)`: variances, that is.

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
    covariance: ArrayLike | None = parameter(positive_definite, default=None, kw_only=True)
    precision: ArrayLike | None = parameter(positive_definite, default=None, kw_only=True)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None, kw_only=True)
    scale_diag: ArrayLike | None = parameter(independent(positive, 1), default=None, kw_only=True)
    cov_factor: ArrayLike | None = parameter(independent(real, 2), default=None, kw_only=True)
    cov_diag: ArrayLike | None = parameter(independent(positive, 1), default=None, kw_only=True)


def _standard_t_normaliser(df, n):
    log_gammas = log_beta(0.5 * df, jnp.full_like(df, 0.5 * n)) - math.lgamma(0.5 * n)
    return 0.5 * n * (jnp.log(df) + LOG_PI) + log_gammas


def _student_t_log_prob(x, df, loc, *matrix):
    n, (square, half_log_det) = x.shape[-1], _by_factor(*matrix)
    log_kernel = -0.5 * (df + n) * log1p_quotient(square(x - loc), df)
    return log_kernel - (half_log_det + _standard_t_normaliser(df, n))


def _student_t_sample(key, shape, dtype, df, loc, *matrix):
    key, gamma_key = random.split(key)
    half_chi2 = gamma(gamma_key, 0.5 * df, shape[:-1], dtype)
    half_chi2 = jnp.maximum(half_chi2, jnp.finfo(dtype).tiny)
    return loc + _draw(key, shape, dtype, *matrix) * jnp.sqrt(0.5 * df / half_chi2)[..., None]


def _student_t_variance(df, loc, *matrix):
    df = per_event(df)
    factor = select(df > 2, df / (select(df > 2, df, 3) - 2), jnp.inf)
    return select(df > 1, factor, jnp.nan) * _diagonal(*matrix)


def _student_t_entropy(df, loc, *matrix):
    n = _size(*matrix)
    normaliser = _half_log_det(*matrix) + _standard_t_normaliser(df, n)
    return normaliser + 0.5 * (df + n) * digamma_step(0.5 * df, 0.5 * n)


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
        precision: Its inverse.
        scale_tril: Its Cholesky factor, lower-triangular with a positive diagonal.

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
    scale: ArrayLike | None = parameter(positive_definite, default=None, kw_only=True)
    precision: ArrayLike | None = parameter(positive_definite, default=None, kw_only=True)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None, kw_only=True)
