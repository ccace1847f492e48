"""The distribution of the Cholesky factor of a Wishart matrix (Bartlett's decomposition)."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax.scipy.special import digamma
from jax.typing import ArrayLike

from distributions.common.arrays import align
from distributions.common.linear_algebra import (
    diagonal_matrix,
    matmul,
)
from distributions.constraints import lower_cholesky, positive, positive_definite
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.special import LOG_TWO
from distributions.numerics.wishart_functions import (
    PARAMETERS,
    cholesky,
    color_factor,
    descending_df,
    log_jacobian,
    mean_chi,
    mean_log_jacobian,
    scale_columns,
    size,
    unit_scale,
    whiten_factor,
    wishart_cholesky_sample,
    wishart_entropy,
    wishart_score,
)


def _wishart_cholesky_variance(df, scale, scale_tril):
    tril = cholesky(scale, scale_tril)
    counts = descending_df(df, tril.shape[-1])
    on_diagonal = diagonal_matrix(counts - jnp.square(mean_chi(counts, 1)))
    below = align(jnp.tri(tril.shape[-1], k=-1, dtype=tril.dtype), 0, on_diagonal.ndim)
    standard = on_diagonal + below
    return matmul(jnp.square(tril), align(standard, 2, tril.ndim - 2))


def _wishart_cholesky_entropy(df, scale, scale_tril):
    tril = cholesky(scale, scale_tril)
    counts = descending_df(df, tril.shape[-1])
    log_entries = 0.5 * (digamma(0.5 * counts) + LOG_TWO)
    return wishart_entropy(df, scale, scale_tril) - mean_log_jacobian(tril, log_entries)


@family(
    support=lower_cholesky,
    log_prob=lambda x, *parameters: wishart_score(x, *parameters) + log_jacobian(x),
    sample=wishart_cholesky_sample,
    mean=lambda df, scale, scale_tril: scale_columns(
        cholesky(scale, scale_tril), mean_chi(descending_df(df, size(scale, scale_tril)), 1)
    ),
    variance=_wishart_cholesky_variance,
    mode=lambda df, scale, scale_tril: scale_columns(
        cholesky(scale, scale_tril),
        jnp.sqrt(jnp.maximum(descending_df(df, size(scale, scale_tril)) - 1, 0)),
    ),
    entropy=_wishart_cholesky_entropy,
    standard=Factor(color_factor, whiten_factor, unit_scale),
    **PARAMETERS,
)
class WishartCholesky(Family):
    r"""Distribution of the Cholesky factor `L` of a matrix with a `Wishart` distribution.

    `p(L) = p(X) 2^n prod_(k=1..n) L_kk^(n - k + 1)` with `X = L L^T` and the density of `Wishart`
    at `X`, for lower-triangular `L` with a positive diagonal.

    Args:
        df: Degrees of freedom, greater than `n - 1`.
        scale: The matrix `S` of the Wishart distribution, of shape `(..., n, n)`.
        scale_tril: The Cholesky factor of `S`; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.WishartCholesky(3.0, scale=jnp.eye(2)).log_prob(jnp.eye(2))), 4)
    -2.1447

    References:
        Smith and Hocking, "Wishart variate generator", Applied Statistics 21 (1972).
    """

    df: ArrayLike = parameter(positive)
    _: KW_ONLY
    scale: ArrayLike | None = parameter(positive_definite, default=None)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None)
