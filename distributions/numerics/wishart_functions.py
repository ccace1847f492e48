"""Formulas shared by the Wishart families, with scale matrix `S` of `n` rows and `df`.

`L` is the Cholesky factor of `S`, and `T` the Bartlett factor of a draw with `S = I`.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random

from distributions.common import triangular_factors
from distributions.common.arrays import align, select
from distributions.common.linear_algebra import (
    diagonal,
    diagonal_matrix,
    gram,
    last_axis,
    log_diagonal,
    matmul,
    solve_matrix,
    square_sum,
)
from distributions.numerics.gamma_functions import gamma_entropy, log_beta_half
from distributions.numerics.gamma_sampler import log_gamma
from distributions.numerics.special import LOG_PI, LOG_TWO


def cholesky(scale: Any, scale_tril: Any) -> Array:
    """The Cholesky factor `L` of `S`."""
    return triangular_factors.cholesky(scale) if scale_tril is None else scale_tril


def matrix(scale: Any, scale_tril: Any) -> Array:
    """The scale matrix `S`, given or `L L^T`."""
    return gram(scale_tril) if scale is None else scale


def add_steps(df: Any, steps: Any) -> Array:
    """`df` plus each of the steps, along a new last axis."""
    df = jnp.asarray(df)
    return df[..., None] + align(jnp.asarray(steps, df.dtype), 0, df.ndim + 1)


def descending_df(df: Any, n: Any) -> Array:
    """`df - k` for `k = 0 .. n - 1`."""
    return add_steps(df, -np.arange(n))


def ascending_df(df: Any, n: Any) -> Array:
    """`df - k` for `k = n - 1 .. 0`."""
    return add_steps(df, np.arange(n) - n + 1)


def size(scale: Any, scale_tril: Any) -> int:
    """The number of rows `n` of `S`."""
    return (scale_tril if scale is None else scale).shape[-1]


def log_multigamma(a: Any, n: Any) -> Array:
    """`log Gamma_n(a)`, the log of the multivariate gamma function."""
    return jnp.sum(lax.lgamma(descending_df(2 * a, n) / 2), -1) + 0.25 * n * (n - 1) * LOG_PI


def log_normalizer(df: Any, n: Any) -> Array:
    """`df n log(2) / 2 + log Gamma_n(df / 2)`, the log normalizer of both families at `S = I`."""
    return 0.5 * df * n * LOG_TWO + log_multigamma(0.5 * df, n)


def entropy(tril: Any, df: Any, sign: int) -> Array:
    """The entropy of a Wishart variable for a `sign` of 1, or of its inverse for -1.

    Only the independent gamma variables on the diagonal of a factor depend on `df`; the other terms
    are constants.
    """
    n = tril.shape[-1]
    halves = 0.5 * descending_df(df, n)
    powers = align(0.5 * (sign * (n + 1) - jnp.arange(n, dtype=halves.dtype)), 0, halves.ndim)
    constant = 0.25 * n * (n - 1) * (1 + LOG_PI) + 0.5 * sign * n * (n + 1) * LOG_TWO
    return jnp.sum(gamma_entropy(halves, powers), -1) + constant + (n + 1) * log_diagonal(tril)


def log_jacobian(tril: Any) -> Array:
    """`log |d (L L^T) / dL|`."""
    n = tril.shape[-1]
    powers = align(jnp.arange(n, 0, -1, dtype=tril.dtype), 0, tril.ndim - 1)
    return n * LOG_TWO + jnp.sum(powers * jnp.log(diagonal(tril)), -1)


def mean_log_jacobian(tril: Any, log_entries: Any) -> Array:
    """The mean of `log_jacobian(L T)`, with the mean logs of the diagonal of `T`."""
    n = tril.shape[-1]
    powers = align(jnp.arange(n, 0, -1, dtype=tril.dtype), 0, log_entries.ndim)
    return log_jacobian(tril) + jnp.sum(powers * log_entries, -1)


def chi_factor(key: Any, shape: Any, dtype: Any, counts: Any) -> Array:
    """Bartlett factors: normal entries below a diagonal of chi variables with `counts` as `df`."""
    normal_key, gamma_key = random.split(key)
    below = align(jnp.tri(shape[-1], k=-1, dtype=dtype), 0, len(shape))
    log_draw = log_gamma(gamma_key, 0.5 * counts, shape[:-1], dtype)
    chi = jnp.exp(0.5 * (LOG_TWO + log_draw))
    chi = jnp.clip(chi, jnp.sqrt(jnp.finfo(dtype).tiny), jnp.sqrt(jnp.finfo(dtype).max))
    return below * random.normal(normal_key, shape, dtype) + diagonal_matrix(chi)


def mean_chi(counts: Any, power: Any) -> Array:
    """The expectation of a chi variable to the power 1 or -1; infinite where it does not exist."""
    ok = counts + power > 0
    safe = select(ok, counts, 2.0 * jnp.ones_like(counts))
    # By log B(x, 1/2): a difference of log-gammas of large numbers would cancel.
    log_beta = log_beta_half(0.5 * (safe + min(power, 0)))
    return select(ok, jnp.exp(power * (0.5 * (LOG_PI + LOG_TWO) - log_beta)), jnp.inf)


def scale_columns(tril: Any, x: Any) -> Array:
    """`tril diag(x)`: each column times its number."""
    x = jnp.asarray(x)[..., None, :]
    ndim = max(tril.ndim, x.ndim)
    return align(tril, 0, ndim) * align(x, 0, ndim)


def outer_diagonal(s: Any) -> Array:
    """The matrix of products `s_ii s_jj`."""
    d = diagonal(s)
    return d[..., None] * d[..., None, :]


def _requires(df, scale, scale_tril):
    least = np.shape(scale_tril if scale is None else scale)[-1] - 1
    if np.all(df > least):
        return None
    return f"df must be greater than the number of rows less 1, {least}; got {np.min(df)}"


PARAMETERS = {
    "event_shape": lambda df, scale, scale_tril: 2 * last_axis(scale, scale_tril),
    "one_of": ("scale", "scale_tril"),
    "requires": _requires,
}


def wishart_score(tril: Array, df: Any, scale: Any, scale_tril: Any) -> Array:
    """The log density of Wishart at `tril tril^T`."""
    n = tril.shape[-1]
    factor = cholesky(scale, scale_tril)
    square = square_sum(solve_matrix(factor, tril), 2)
    log_dets = (df - n - 1) * log_diagonal(tril) - df * log_diagonal(factor)
    return log_dets - 0.5 * square - log_normalizer(df, n)


def color(z: Array, df: Any, scale: Any, scale_tril: Any) -> Array:
    """`L z L^T`."""
    tril = cholesky(scale, scale_tril)
    return matmul(matmul(tril, z), tril.mT)


def whiten(x: Array, df: Any, scale: Any, scale_tril: Any) -> Array:
    """`L^-1 x L^-T` for symmetric `x`."""
    tril = cholesky(scale, scale_tril)
    return solve_matrix(tril, solve_matrix(tril, x).mT)


def color_factor(z: Array, df: Any, scale: Any, scale_tril: Any) -> Array:
    """`L z`."""
    return matmul(cholesky(scale, scale_tril), z)


def whiten_factor(x: Array, df: Any, scale: Any, scale_tril: Any) -> Array:
    """`L^-1 x`."""
    return solve_matrix(cholesky(scale, scale_tril), x)


def unit_scale(d: Any) -> dict[str, Any]:
    """The scale matrix `S = I` as parameters, with the batch of a distribution."""
    unit = jnp.eye(d.event_shape[-1], dtype=d.dtype)
    return {
        "scale": None,
        "scale_tril": jnp.broadcast_to(unit, d.batch_shape + d.event_shape),
    }


def wishart_cholesky_sample(
    key: Array, shape: tuple[int, ...], dtype: Any, df: Any, scale: Any, scale_tril: Any
) -> Array:
    """Cholesky factors `L T` of draws, by Bartlett's decomposition."""
    counts = descending_df(df, shape[-1])
    return matmul(cholesky(scale, scale_tril), chi_factor(key, shape, dtype, counts))


def wishart_entropy(df: Any, scale: Any, scale_tril: Any) -> Array:
    """The entropy of Wishart: `entropy` with `sign = 1`."""
    return entropy(cholesky(scale, scale_tril), df, 1)
