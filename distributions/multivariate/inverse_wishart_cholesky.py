"""The distribution of the Cholesky factor of an inverse Wishart matrix."""

from dataclasses import KW_ONLY

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma
from jax.typing import ArrayLike

from distributions.common.arrays import align, select
from distributions.common.linear_algebra import (
    diagonal_matrix,
    matmul,
)
from distributions.constraints import lower_cholesky, positive, positive_definite
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.inverse_wishart_functions import (
    inverse_cholesky_sample,
    inverse_entropy,
    inverse_score,
)
from distributions.numerics.special import LOG_TWO
from distributions.numerics.wishart_functions import (
    PARAMETERS,
    add_steps,
    ascending_df,
    cholesky,
    color_factor,
    log_jacobian,
    mean_chi,
    mean_log_jacobian,
    scale_columns,
    size,
    unit_scale,
    whiten_factor,
)


def _inverse_cholesky_variance(df, scale, scale_tril):
    """The variance; `E B_ij^2 = 1 / ((c_j - 1) (c_j - 2))` below a standard factor's diagonal."""
    tril = cholesky(scale, scale_tril)
    counts = ascending_df(df, tril.shape[-1])
    finite = counts > 2
    c = select(finite, counts, 3)
    on_diagonal = 1 / (c - 2) - jnp.square(mean_chi(c, -1))
    off = (1 / ((c - 1) * (c - 2)))[..., None, :]
    below = align(jnp.tri(tril.shape[-1], k=-1, dtype=tril.dtype), 0, off.ndim)
    standard = diagonal_matrix(on_diagonal) + below * off
    standard = select(finite[..., None, :] | (below + 0 * off == 0), standard, jnp.inf)
    return matmul(jnp.square(tril), align(standard, 2, tril.ndim - 2))


def _inverse_cholesky_entropy(df, scale, scale_tril):
    tril = cholesky(scale, scale_tril)
    log_entries = -0.5 * (digamma(0.5 * ascending_df(df, tril.shape[-1])) + LOG_TWO)
    return inverse_entropy(df, scale, scale_tril) - mean_log_jacobian(tril, log_entries)


@family(
    support=lower_cholesky,
    log_prob=lambda x, *parameters: inverse_score(x, *parameters) + log_jacobian(x),
    sample=inverse_cholesky_sample,
    mean=lambda df, scale, scale_tril: scale_columns(
        cholesky(scale, scale_tril), mean_chi(ascending_df(df, size(scale, scale_tril)), -1)
    ),
    variance=_inverse_cholesky_variance,
    mode=lambda df, scale, scale_tril: scale_columns(
        cholesky(scale, scale_tril),
        1 / jnp.sqrt(add_steps(df, 1 + np.arange(size(scale, scale_tril)))),
    ),
    entropy=_inverse_cholesky_entropy,
    standard=Factor(color_factor, whiten_factor, unit_scale),
    **PARAMETERS,
)
class InverseWishartCholesky(Family):
    r"""Distribution of the Cholesky factor `L` of an `InverseWishart` matrix.

    `p(L) = p(X) 2^n prod_(k=1..n) L_kk^(n - k + 1)` with `X = L L^T` and the density of
    `InverseWishart` at `X`, for lower-triangular `L` with a positive diagonal.

    Args:
        df: Degrees of freedom, greater than `n - 1`.
        scale: The matrix `S` of the inverse Wishart distribution, of shape `(..., n, n)`.
        scale_tril: The Cholesky factor of `S`; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.InverseWishartCholesky(3.0, scale=jnp.eye(2)).log_prob(jnp.eye(2))), 4)
    -2.1447

    References:
        Smith and Hocking, "Wishart variate generator", Applied Statistics 21 (1972).
    """

    df: ArrayLike = parameter(positive)
    _: KW_ONLY
    scale: ArrayLike | None = parameter(positive_definite, default=None)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None)
