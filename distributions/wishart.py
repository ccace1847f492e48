"""Families of positive definite matrices: Wishart, its inverse, and their Cholesky factors."""

import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.scipy.special import digamma
from jax.typing import ArrayLike

from distributions._arrays import align, select
from distributions._linalg import (
    diagonal,
    diagonal_matrix,
    gram,
    last_axis,
    log_diagonal,
    matmul,
    per_event,
    solve_matrix,
    square_sum,
)
from distributions.constraints import lower_cholesky, positive, positive_definite
from distributions.family import Family, family, parameter
from distributions.special import LOG_PI, LOG_TWO

# `scale` is a matrix S, given as it is or by its Cholesky factor; n is the number of its rows. A
# factor of a draw is the product of that of S and of one for S = I, the standard one.


def _tril(scale, scale_tril):
    return jnp.linalg.cholesky(scale) if scale_tril is None else scale_tril


def _matrix(scale, scale_tril):
    return gram(scale_tril) if scale is None else scale


def _plus(df, steps):
    """`df` plus each of the steps, along a new last axis."""
    df = jnp.asarray(df)
    return df[..., None] + align(jnp.asarray(steps, df.dtype), 0, df.ndim + 1)


def _falling(df, n):
    return _plus(df, -np.arange(n))


def _rising(df, n):
    return _plus(df, np.arange(n) - n + 1)


def _size(scale, scale_tril):
    return (scale_tril if scale is None else scale).shape[-1]


def _log_multigamma(a, n):
    return jnp.sum(lax.lgamma(_falling(2 * a, n) / 2), -1) + 0.25 * n * (n - 1) * LOG_PI


def _log_normaliser(df, n):
    """Of the densities of both families at `S = I`."""
    return 0.5 * df * n * LOG_TWO + _log_multigamma(0.5 * df, n)


def _log_jacobian(tril):
    """`log |d (L L^T) / dL|`."""
    n = tril.shape[-1]
    powers = align(jnp.arange(n, 0, -1, dtype=tril.dtype), 0, tril.ndim - 1)
    return n * LOG_TWO + jnp.sum(powers * jnp.log(diagonal(tril)), -1)


def _chi_factor(key, shape, dtype, counts):
    """Lower-triangular: normal entries, and on the diagonal chi variables of `counts`."""
    normal_key, gamma_key = random.split(key)
    below = align(jnp.tri(shape[-1], k=-1, dtype=dtype), 0, len(shape))
    log_gamma = random.loggamma(gamma_key, 0.5 * counts, shape[:-1], dtype)
    chi = jnp.exp(0.5 * (LOG_TWO + log_gamma))
    chi = jnp.clip(chi, jnp.sqrt(jnp.finfo(dtype).tiny), jnp.sqrt(jnp.finfo(dtype).max))
    return below * random.normal(normal_key, shape, dtype) + diagonal_matrix(chi)


def _mean_chi(counts, power):
    """The expectation of a chi variable to the power 1 or -1; infinite where it does not exist."""
    ok = counts + power > 0
    safe = select(ok, counts, 2.0 * jnp.ones_like(counts))
    log_mean = lax.lgamma(0.5 * (safe + power)) - lax.lgamma(0.5 * safe) + 0.5 * power * LOG_TWO
    return select(ok, jnp.exp(log_mean), jnp.inf)


def _scaled(tril, x):
    """`tril diag(x)`."""
    return tril * align(jnp.asarray(x), 1, tril.ndim - 1)[..., None, :]


def _outer(s):
    """`s_ii s_jj`."""
    d = diagonal(s)
    return d[..., None] * d[..., None, :]


def _requires(df, scale, scale_tril):
    least = np.shape(scale_tril if scale is None else scale)[-1] - 1
    if np.all(df > least):
        return None
    return f"df must be greater than the number of rows less 1, {least}; got {np.min(df)}"


_PARAMETERS = {
    "event_shape": lambda df, scale, scale_tril: 2 * last_axis(scale, scale_tril),
    "one_of": ("scale", "scale_tril"),
    "requires": _requires,
}


def _wishart_score(tril, df, scale, scale_tril):
    """The log density of Wishart at `tril tril^T`."""
    n, factor = tril.shape[-1], _tril(scale, scale_tril)
    square = square_sum(solve_matrix(factor, tril), 2)
    log_dets = (df - n - 1) * log_diagonal(tril) - df * log_diagonal(factor)
    return log_dets - 0.5 * square - _log_normaliser(df, n)


def _wishart_cholesky_sample(key, shape, dtype, df, scale, scale_tril):
    counts = _falling(df, shape[-1])
    return matmul(_tril(scale, scale_tril), _chi_factor(key, shape, dtype, counts))


def _wishart_variance(df, scale, scale_tril):
    s = _matrix(scale, scale_tril)
    return per_event(df, 2) * (jnp.square(s) + _outer(s))


def _wishart_entropy(df, scale, scale_tril):
    tril = _tril(scale, scale_tril)
    n = tril.shape[-1]
    log_dets = jnp.sum(digamma(0.5 * _falling(df, n)), -1) + n * LOG_TWO
    centred = _log_normaliser(df, n) - 0.5 * (df - n - 1) * log_dets + 0.5 * df * n
    return centred + (n + 1) * log_diagonal(tril)


def _wishart_cholesky_variance(df, scale, scale_tril):
    tril = _tril(scale, scale_tril)
    counts = _falling(df, tril.shape[-1])
    on_diagonal = diagonal_matrix(counts - jnp.square(_mean_chi(counts, 1)))
    below = align(jnp.tri(tril.shape[-1], k=-1, dtype=tril.dtype), 0, on_diagonal.ndim)
    standard = on_diagonal + below
    return matmul(jnp.square(tril), align(standard, 2, tril.ndim - 2))


def _wishart_cholesky_entropy(df, scale, scale_tril):
    tril = _tril(scale, scale_tril)
    counts = _falling(df, tril.shape[-1])
    log_entries = 0.5 * (digamma(0.5 * counts) + LOG_TWO)
    return _wishart_entropy(df, scale, scale_tril) - _mean_log_jacobian(tril, log_entries)


def _mean_log_jacobian(tril, log_entries):
    """The expectation of `_log_jacobian`, given that of the logs of a standard factor."""
    n = tril.shape[-1]
    powers = align(jnp.arange(n, 0, -1, dtype=tril.dtype), 0, log_entries.ndim)
    return _log_jacobian(tril) + jnp.sum(powers * log_entries, -1)


@family(
    support=positive_definite,
    log_prob=lambda x, *parameters: _wishart_score(jnp.linalg.cholesky(x), *parameters),
    sample=lambda *arguments: gram(_wishart_cholesky_sample(*arguments)),
    mean=lambda df, scale, scale_tril: per_event(df, 2) * _matrix(scale, scale_tril),
    variance=_wishart_variance,
    mode=lambda df, scale, scale_tril: (
        per_event(jnp.maximum(df - _size(scale, scale_tril) - 1, 0), 2) * _matrix(scale, scale_tril)
    ),
    entropy=_wishart_entropy,
    **_PARAMETERS,
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
    log_prob=lambda x, *parameters: _wishart_score(x, *parameters) + _log_jacobian(x),
    sample=_wishart_cholesky_sample,
    mean=lambda df, scale, scale_tril: _scaled(
        _tril(scale, scale_tril), _mean_chi(_falling(df, _size(scale, scale_tril)), 1)
    ),
    variance=_wishart_cholesky_variance,
    mode=lambda df, scale, scale_tril: _scaled(
        _tril(scale, scale_tril),
        jnp.sqrt(jnp.maximum(_falling(df, _size(scale, scale_tril)) - 1, 0)),
    ),
    entropy=_wishart_cholesky_entropy,
    **_PARAMETERS,
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


def _inverse_score(tril, df, scale, scale_tril):
    """The log density of InverseWishart at `tril tril^T`."""
    n, factor = tril.shape[-1], _tril(scale, scale_tril)
    square = square_sum(solve_matrix(tril, factor), 2)
    log_dets = df * log_diagonal(factor) - (df + n + 1) * log_diagonal(tril)
    return log_dets - 0.5 * square - _log_normaliser(df, n)


def _inverse_cholesky_sample(key, shape, dtype, df, scale, scale_tril):
    """`S^(1/2) T^-1`, where `T^T T` has the standard Wishart distribution."""
    t = _chi_factor(key, shape, dtype, _rising(df, shape[-1]))
    unit = align(jnp.eye(shape[-1], dtype=dtype), 0, len(shape))
    return matmul(_tril(scale, scale_tril), solve_matrix(t, unit))


def _inverse_mean(df, scale, scale_tril):
    s = _matrix(scale, scale_tril)
    excess = per_event(df - s.shape[-1] - 1, 2)
    return select(excess > 0, s / select(excess > 0, excess, 1), jnp.nan)


def _inverse_variance(df, scale, scale_tril):
    s = _matrix(scale, scale_tril)
    excess = per_event(df - s.shape[-1] - 1, 2)
    a = select(excess > 2, excess, 3)
    finite = ((a + 2) * jnp.square(s) + a * _outer(s)) / ((a + 1) * jnp.square(a) * (a - 2))
    return select(excess > 2, finite, select(excess > 0, jnp.inf, jnp.full_like(excess, jnp.nan)))


def _inverse_entropy(df, scale, scale_tril):
    tril = _tril(scale, scale_tril)
    n = tril.shape[-1]
    log_dets = n * LOG_TWO + jnp.sum(digamma(0.5 * _falling(df, n)), -1)
    centred = _log_normaliser(df, n) - 0.5 * (df + n + 1) * log_dets + 0.5 * df * n
    return centred + (n + 1) * log_diagonal(tril)


def _inverse_cholesky_variance(df, scale, scale_tril):
    """Of a standard factor, `E B_ij^2` is `1 / ((c_j - 1) (c_j - 2))` below the diagonal."""
    tril = _tril(scale, scale_tril)
    counts = _rising(df, tril.shape[-1])
    finite = counts > 2
    c = select(finite, counts, 3)
    on_diagonal = 1 / (c - 2) - jnp.square(_mean_chi(c, -1))
    off = (1 / ((c - 1) * (c - 2)))[..., None, :]
    below = align(jnp.tri(tril.shape[-1], k=-1, dtype=tril.dtype), 0, off.ndim)
    standard = diagonal_matrix(on_diagonal) + below * off
    standard = select(finite[..., None, :] | (below + 0 * off == 0), standard, jnp.inf)
    return matmul(jnp.square(tril), align(standard, 2, tril.ndim - 2))


def _inverse_cholesky_entropy(df, scale, scale_tril):
    tril = _tril(scale, scale_tril)
    log_entries = -0.5 * (digamma(0.5 * _rising(df, tril.shape[-1])) + LOG_TWO)
    return _inverse_entropy(df, scale, scale_tril) - _mean_log_jacobian(tril, log_entries)


@family(
    support=positive_definite,
    log_prob=lambda x, *parameters: _inverse_score(jnp.linalg.cholesky(x), *parameters),
    sample=lambda *arguments: gram(_inverse_cholesky_sample(*arguments)),
    mean=_inverse_mean,
    variance=_inverse_variance,
    mode=lambda df, scale, scale_tril: (
        _matrix(scale, scale_tril) / per_event(df + _size(scale, scale_tril) + 1, 2)
    ),
    entropy=_inverse_entropy,
    **_PARAMETERS,
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
    log_prob=lambda x, *parameters: _inverse_score(x, *parameters) + _log_jacobian(x),
    sample=_inverse_cholesky_sample,
    mean=lambda df, scale, scale_tril: _scaled(
        _tril(scale, scale_tril), _mean_chi(_rising(df, _size(scale, scale_tril)), -1)
    ),
    variance=_inverse_cholesky_variance,
    mode=lambda df, scale, scale_tril: _scaled(
        _tril(scale, scale_tril),
        1 / jnp.sqrt(_plus(df, 1 + np.arange(_size(scale, scale_tril)))),
    ),
    entropy=_inverse_cholesky_entropy,
    **_PARAMETERS,
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
