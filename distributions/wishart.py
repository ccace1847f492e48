"""Families of positive definite matrices: Wishart and WishartCholesky."""

import jax.numpy as jnp
from jax.scipy.special import digamma
from jax.typing import ArrayLike

from distributions._arrays import align
from distributions._linalg import (
    diagonal_matrix,
    gram,
    log_diagonal,
    matmul,
    per_event,
    solve_matrix,
    square_sum,
)
from distributions._wishart import (
    PARAMETERS,
    chi_factor,
    cholesky,
    entropy,
    falling,
    log_jacobian,
    log_normaliser,
    matrix,
    mean_chi,
    mean_log_jacobian,
    outer_diagonal,
    scaled,
    size,
)
from distributions.constraints import lower_cholesky, positive, positive_definite
from distributions.family import Family, family
from distributions.row import parameter
from distributions.special import LOG_TWO


def _wishart_score(tril, df, scale, scale_tril):
    """The log density of Wishart at `tril tril^T`."""
    n, factor = tril.shape[-1], cholesky(scale, scale_tril)
    square = square_sum(solve_matrix(factor, tril), 2)
    log_dets = (df - n - 1) * log_diagonal(tril) - df * log_diagonal(factor)
    return log_dets - 0.5 * square - log_normaliser(df, n)


def _wishart_cholesky_sample(key, shape, dtype, df, scale, scale_tril):
    counts = falling(df, shape[-1])
    return matmul(cholesky(scale, scale_tril), chi_factor(key, shape, dtype, counts))


def _wishart_variance(df, scale, scale_tril):
    s = matrix(scale, scale_tril)
    return per_event(df, 2) * (jnp.square(s) + outer_diagonal(s))


def _wishart_entropy(df, scale, scale_tril):
    return entropy(cholesky(scale, scale_tril), df, 1)


def _wishart_cholesky_variance(df, scale, scale_tril):
    tril = cholesky(scale, scale_tril)
    counts = falling(df, tril.shape[-1])
    on_diagonal = diagonal_matrix(counts - jnp.square(mean_chi(counts, 1)))
    below = align(jnp.tri(tril.shape[-1], k=-1, dtype=tril.dtype), 0, on_diagonal.ndim)
    standard = on_diagonal + below
    return matmul(jnp.square(tril), align(standard, 2, tril.ndim - 2))


def _wishart_cholesky_entropy(df, scale, scale_tril):
    tril = cholesky(scale, scale_tril)
    counts = falling(df, tril.shape[-1])
    log_entries = 0.5 * (digamma(0.5 * counts) + LOG_TWO)
    return _wishart_entropy(df, scale, scale_tril) - mean_log_jacobian(tril, log_entries)


@family(
    support=positive_definite,
    log_prob=lambda x, *parameters: _wishart_score(jnp.linalg.cholesky(x), *parameters),
    sample=lambda *arguments: gram(_wishart_cholesky_sample(*arguments)),
    mean=lambda df, scale, scale_tril: per_event(df, 2) * matrix(scale, scale_tril),
    variance=_wishart_variance,
    mode=lambda df, scale, scale_tril: (
        per_event(jnp.maximum(df - size(scale, scale_tril) - 1, 0), 2) * matrix(scale, scale_tril)
    ),
    entropy=_wishart_entropy,
    **PARAMETERS,
)
class Wishart(Family):
    r"""Wishart distribution over positive definite matrices, with mean `df scale`.

    `p(X) = |X|^((df - n - 1) / 2) exp(-tr(S^-1 X) / 2) / (2^(df n / 2) |S|^(df / 2)
    Gamma_n(df / 2))` with `S = scale`, for positive definite `X` of `n` by `n`: a density in the
    entries of the lower triangle.

    Args:
        df: Degrees of freedom, greater than `n - 1`.
        scale: The matrix `S`, positive definite, of shape `(..., n, n)`.
        scale_tril: Its Cholesky factor; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.Wishart(3.0, scale=jnp.eye(2)).log_prob(jnp.eye(2))), 4)
    -3.531

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
        Smith and Hocking, "Wishart variate generator", Applied Statistics 21 (1972).
    """

    df: ArrayLike = parameter(positive)
    scale: ArrayLike | None = parameter(positive_definite, default=None)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None)


@family(
    support=lower_cholesky,
    log_prob=lambda x, *parameters: _wishart_score(x, *parameters) + log_jacobian(x),
    sample=_wishart_cholesky_sample,
    mean=lambda df, scale, scale_tril: scaled(
        cholesky(scale, scale_tril), mean_chi(falling(df, size(scale, scale_tril)), 1)
    ),
    variance=_wishart_cholesky_variance,
    mode=lambda df, scale, scale_tril: scaled(
        cholesky(scale, scale_tril),
        jnp.sqrt(jnp.maximum(falling(df, size(scale, scale_tril)) - 1, 0)),
    ),
    entropy=_wishart_cholesky_entropy,
    **PARAMETERS,
)
class WishartCholesky(Family):
    r"""Distribution of the Cholesky factor `L` of a matrix with a `Wishart` distribution.

    `p(L) = p(X) 2^n prod_(k=1..n) L_kk^(n - k + 1)` with `X = L L^T` and the density of `Wishart`
    at `X`, for lower-triangular `L` with a positive diagonal.

    Args:
        df: Degrees of freedom, greater than `n - 1`.
        scale: The matrix `S` of the Wishart distribution, of shape `(..., n, n)`.
        scale_tril: Its Cholesky factor; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.WishartCholesky(3.0, scale=jnp.eye(2)).log_prob(jnp.eye(2))), 4)
    -2.1447

    References:
        Smith and Hocking, "Wishart variate generator", Applied Statistics 21 (1972).
    """

    df: ArrayLike = parameter(positive)
    scale: ArrayLike | None = parameter(positive_definite, default=None)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None)
