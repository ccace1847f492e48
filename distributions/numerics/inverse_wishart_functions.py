"""Density, draws and entropy of InverseWishart, in terms of Cholesky factors."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from distributions.common.arrays import align
from distributions.common.linear_algebra import (
    log_diagonal,
    matmul,
    solve_matrix,
    square_sum,
)
from distributions.numerics.wishart_functions import (
    ascending_df,
    chi_factor,
    cholesky,
    entropy,
    log_normalizer,
)


def inverse_score(tril: Array, df: Any, scale: Any, scale_tril: Any) -> Array:
    """The log density of InverseWishart at `tril tril^T`."""
    n = tril.shape[-1]
    factor = cholesky(scale, scale_tril)
    square = square_sum(solve_matrix(tril, factor), 2)
    log_dets = df * log_diagonal(factor) - (df + n + 1) * log_diagonal(tril)
    return log_dets - 0.5 * square - log_normalizer(df, n)


def inverse_cholesky_sample(
    key: Array, shape: tuple[int, ...], dtype: Any, df: Any, scale: Any, scale_tril: Any
) -> Array:
    """Cholesky factors of draws: `L T^-1`, where `L L^T = S` and `T^T T` is standard Wishart."""
    t = chi_factor(key, shape, dtype, ascending_df(df, shape[-1]))
    unit = align(jnp.eye(shape[-1], dtype=dtype), 0, len(shape))
    return matmul(cholesky(scale, scale_tril), solve_matrix(t, unit))


def inverse_entropy(df: Any, scale: Any, scale_tril: Any) -> Array:
    """The entropy of InverseWishart: `wishart_functions.entropy` with `sign = -1`."""
    return entropy(cholesky(scale, scale_tril), df, -1)
