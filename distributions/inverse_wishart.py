"""Families of positive definite matrices: InverseWishart and InverseWishartCholesky."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma
from jax.typing import ArrayLike

from distributions._arrays import align, select
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
    log_jacobian,
    log_normaliser,
    matrix,
    mean_chi,
    mean_log_jacobian,
    outer_diagonal,
    plus,
    rising,
    scaled,
    size,
)
from distributions.constraints import lower_cholesky, positive, positive_definite
from distributions.family import Family, family
from distributions.row import parameter
from distributions.special import LOG_TWO


def _inverse_score(tril, df, scale, scale_tril):
    """The log density of InverseWishart at `tril tril^T`."""
    n, factor = tril.shape[-1], cholesky(scale, scale_tril)
    square = square_sum(solve_matrix(tril, factor), 2)
    log_dets = df * log_diagonal(factor) - (df + n + 1) * log_diagonal(tril)
    return log_dets - 0.5 * square - log_normaliser(df, n)


def _inverse_cholesky_sample(key, shape, dtype, df, scale, scale_tril):
    """`S^(1/2) T^-1`, where `T^T T` has the standard Wishart distribution."""
    t = chi_factor(key, shape, dtype, rising(df, shape[-1]))
    unit = align(jnp.eye(shape[-1], dtype=dtype), 0, len(shape))
    return matmul(cholesky(scale, scale_tril), solve_matrix(t, unit))


def _inverse_mean(df, scale, scale_tril):
    s = matrix(scale, scale_tril)
    excess = per_event(df - s.shape[-1] - 1, 2)
    return select(excess > 0, s / select(excess > 0, excess, 1), jnp.nan)


def _inverse_variance(df, scale, scale_tril):
    s = matrix(scale, scale_tril)
    excess = per_event(df - s.shape[-1] - 1, 2)
    a = select(excess > 2, excess, 3)
    finite = ((a + 2) * jnp.square(s) + a * outer_diagonal(s)) / ((a + 1) * jnp.square(a) * (a - 2))
    return select(excess > 2, finite, select(excess > 0, jnp.inf, jnp.full_like(excess, jnp.nan)))


def _inverse_entropy(df, scale, scale_tril):
    return entropy(cholesky(scale, scale_tril), df, -1)


def _inverse_cholesky_variance(df, scale, scale_tril):
    """Of a standard factor, `E B_ij^2` is `1 / ((c_j - 1) (c_j - 2))` below the diagonal."""
    tril = cholesky(scale, scale_tril)
    counts = rising(df, tril.shape[-1])
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
    log_entries = -0.5 * (digamma(0.5 * rising(df, tril.shape[-1])) + LOG_TWO)
    return _inverse_entropy(df, scale, scale_tril) - mean_log_jacobian(tril, log_entries)


@family(
    support=positive_definite,
    log_prob=lambda x, *parameters: _inverse_score(jnp.linalg.cholesky(x), *parameters),
    sample=lambda *arguments: gram(_inverse_cholesky_sample(*arguments)),
    mean=_inverse_mean,
    variance=_inverse_variance,
    mode=lambda df, scale, scale_tril: (
        matrix(scale, scale_tril) / per_event(df + size(scale, scale_tril) + 1, 2)
    ),
    entropy=_inverse_entropy,
    **PARAMETERS,
)
class InverseWishart(Family):
    r"""Distribution of the inverse of a Wishart matrix, with mean `scale / (df - n - 1)`.

    `p(X) = |S|^(df / 2) |X|^(-(df + n + 1) / 2) exp(-tr(S X^-1) / 2) / (2^(df n / 2)
    Gamma_n(df / 2))` with `S = scale`, for positive definite `X` of `n` by `n`: a density in the
    entries of the lower triangle. The inverse of `X` is `Wishart` with `df` and `S^-1`.

    Args:
        df: Degrees of freedom, greater than `n - 1`.
        scale: The matrix `S`, positive definite, of shape `(..., n, n)`.
        scale_tril: Its Cholesky factor; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.InverseWishart(3.0, scale=jnp.eye(2)).log_prob(jnp.eye(2))), 4)
    -3.531

    References:
        Gelman et al., *Bayesian Data Analysis*, 3rd ed. (2013), appendix A.
    """

    df: ArrayLike = parameter(positive)
    scale: ArrayLike | None = parameter(positive_definite, default=None)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None)


@family(
    support=lower_cholesky,
    log_prob=lambda x, *parameters: _inverse_score(x, *parameters) + log_jacobian(x),
    sample=_inverse_cholesky_sample,
    mean=lambda df, scale, scale_tril: scaled(
        cholesky(scale, scale_tril), mean_chi(rising(df, size(scale, scale_tril)), -1)
    ),
    variance=_inverse_cholesky_variance,
    mode=lambda df, scale, scale_tril: scaled(
        cholesky(scale, scale_tril),
        1 / jnp.sqrt(plus(df, 1 + np.arange(size(scale, scale_tril)))),
    ),
    entropy=_inverse_cholesky_entropy,
    **PARAMETERS,
)
class InverseWishartCholesky(Family):
    r"""Distribution of the Cholesky factor `L` of an `InverseWishart` matrix.

    `p(L) = p(X) 2^n prod_(k=1..n) L_kk^(n - k + 1)` with `X = L L^T` and the density of
    `InverseWishart` at `X`, for lower-triangular `L` with a positive diagonal.

    Args:
        df: Degrees of freedom, greater than `n - 1`.
        scale: The matrix `S` of the inverse Wishart distribution, of shape `(..., n, n)`.
        scale_tril: Its Cholesky factor; exactly one of the two is given.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.InverseWishartCholesky(3.0, scale=jnp.eye(2)).log_prob(jnp.eye(2))), 4)
    -2.1447

    References:
        Smith and Hocking, "Wishart variate generator", Applied Statistics 21 (1972).
    """

    df: ArrayLike = parameter(positive)
    scale: ArrayLike | None = parameter(positive_definite, default=None)
    scale_tril: ArrayLike | None = parameter(lower_cholesky, default=None)
