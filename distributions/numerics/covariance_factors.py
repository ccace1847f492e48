"""The matrix `S` of MultivariateNormal and MultivariateStudentT, in five parametrizations.

| given                        | `S`                                                          |
| ---------------------------- | ------------------------------------------------------------ |
| `covariance`                 | `covariance`                                                 |
| `precision`                  | `precision^-1`                                               |
| `scale_tril`                 | `L L^T` with `L = scale_tril`                                |
| `scale_diag`                 | `diag(scale_diag)^2`                                         |
| `cov_factor` with `cov_diag` | `W W^T + D` with `W = cov_factor` and `D = diag(cov_diag)`   |
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array, lax, random

from distributions.common.arrays import align
from distributions.common.linear_algebra import (
    diagonal,
    diagonal_matrix,
    gram,
    inverse_diagonal,
    log_diagonal,
    multiply,
    solve,
    solve_matrix,
    square_sum,
)
from distributions.common.triangular_factors import cholesky


def _tril(covariance, scale_tril):
    return cholesky(covariance) if scale_tril is None else scale_tril


def _capacitance(cov_factor, cov_diag):
    """`A = D^(-1/2) W / c`, the number `c`, and the Cholesky factor of `I / c^2 + A^T A`.

    `c` is the largest entry of `D^(-1/2) W`, at least 1: squares of large entries would overflow.
    """
    a = cov_factor / jnp.sqrt(cov_diag)[..., None]
    c = lax.stop_gradient(jnp.max(jnp.abs(a), (-2, -1), keepdims=True, initial=1))
    a = a / c
    inner = gram(a.mT)
    unit = align(jnp.eye(inner.shape[-1], dtype=inner.dtype), 2, inner.ndim - 2)
    return a, c[..., 0], cholesky(inner + unit / c / c)


def _low_rank_square(x, a, c, tril, cov_diag):
    """`x^T S^-1 x` by the matrix inversion lemma, without terms that cancel.

    It is `min_u |y - A u|^2 + |u / c|^2` with `y = D^(-1/2) x`.
    """
    y = x / jnp.sqrt(cov_diag)
    u = solve(tril, solve(tril, multiply(a.mT, y)), transpose=True)
    return square_sum(y - multiply(a, u)) + square_sum(u / c)


def square_and_log_det(
    covariance: Any,
    precision: Any,
    scale_tril: Any,
    scale_diag: Any = None,
    cov_factor: Any = None,
    cov_diag: Any = None,
) -> tuple[Callable[[Array], Array], Array]:
    """The function `x -> x^T S^-1 x`, and `log det S / 2`, from one factor, differentiated once."""
    if cov_factor is not None and cov_diag is not None:
        a, c, tril = _capacitance(cov_factor, cov_diag)
        half_log_det = log_diagonal(tril) + a.shape[-1] * jnp.log(c[..., 0])
        half_log_det += 0.5 * jnp.sum(jnp.log(cov_diag), -1)
        return lambda x: _low_rank_square(x, a, c, tril, cov_diag), half_log_det
    if scale_diag is not None:
        return lambda x: square_sum(x / scale_diag), jnp.sum(jnp.log(scale_diag), -1)
    if precision is not None:
        tril = cholesky(precision)
        return lambda x: square_sum(multiply(tril.mT, x)), -log_diagonal(tril)
    tril = _tril(covariance, scale_tril)
    return lambda x: square_sum(solve(tril, x)), log_diagonal(tril)


def factor_half_log_det(*matrix: Any) -> Array:
    """`log det S / 2`."""
    return square_and_log_det(*matrix)[1]


def factor_diagonal(
    covariance: Any,
    precision: Any,
    scale_tril: Any,
    scale_diag: Any = None,
    cov_factor: Any = None,
    cov_diag: Any = None,
) -> Array:
    """The diagonal of `S`."""
    if cov_factor is not None and cov_diag is not None:
        return square_sum(cov_factor) + cov_diag
    if scale_diag is not None:
        return jnp.square(scale_diag)
    if precision is not None:
        return inverse_diagonal(cholesky(precision))
    return diagonal(covariance) if scale_tril is None else square_sum(scale_tril)


def draw_from_factor(
    key: Array,
    shape: tuple[int, ...],
    dtype: Any,
    covariance: Any,
    precision: Any,
    scale_tril: Any,
    scale_diag: Any = None,
    cov_factor: Any = None,
    cov_diag: Any = None,
) -> Array:
    """Normal draws with mean 0 and covariance `S`."""
    if cov_factor is not None and cov_diag is not None:
        key, few_key = random.split(key)
        z = random.normal(key, shape, dtype)
        few = random.normal(few_key, (*shape[:-1], cov_factor.shape[-1]), dtype)
        return multiply(cov_factor, few) + jnp.sqrt(cov_diag) * z
    z = random.normal(key, shape, dtype)
    return multiply_factor(z, covariance, precision, scale_tril, scale_diag)


def multiply_factor(
    z: Array,
    covariance: Any,
    precision: Any,
    scale_tril: Any,
    scale_diag: Any = None,
    cov_factor: Any = None,
    cov_diag: Any = None,
) -> Array:
    """`R z` with a root `R R^T = S`; with `cov_factor`, `R = D^(1/2) (I + A (I + T)^-1 A^T)`.

    `T` is the Cholesky factor of `I + A^T A`, with `A = D^(-1/2) W`.
    """
    if cov_factor is not None and cov_diag is not None:
        a, c, tril = _capacitance(cov_factor, cov_diag)
        u = solve(_add_unit(tril, c), multiply(a.mT, z))
        return jnp.sqrt(cov_diag) * (z + c * multiply(a, u))
    if scale_diag is not None:
        return scale_diag * z
    if precision is not None:
        return solve(cholesky(precision), z, transpose=True)
    return multiply(_tril(covariance, scale_tril), z)


def solve_factor(
    x: Array,
    covariance: Any,
    precision: Any,
    scale_tril: Any,
    scale_diag: Any = None,
    cov_factor: Any = None,
    cov_diag: Any = None,
) -> Array:
    """`R^-1 x` with the root `R` of `multiply_factor`.

    With `cov_factor`, `R^-1 = (I - A (I + T^T)^-1 T^-1 A^T) D^(-1/2)`.
    """
    if cov_factor is not None and cov_diag is not None:
        a, c, tril = _capacitance(cov_factor, cov_diag)
        y = x / jnp.sqrt(cov_diag)
        u = solve(_add_unit(tril, c), solve(tril, multiply(a.mT, y)), transpose=True)
        return y - multiply(a, u)
    if scale_diag is not None:
        return x / scale_diag
    if precision is not None:
        return multiply(cholesky(precision).mT, x)
    return solve(_tril(covariance, scale_tril), x)


def _add_unit(tril: Array, c: Array) -> Array:
    """`(I + T) / c`, where `tril` is `T / c`."""
    unit = align(jnp.eye(tril.shape[-1], dtype=tril.dtype), 2, tril.ndim - 2)
    return tril + unit / c[..., None]


def event_size(
    covariance: Any,
    precision: Any,
    scale_tril: Any,
    scale_diag: Any = None,
    cov_factor: Any = None,
    cov_diag: Any = None,
) -> int:
    """The number of rows of `S`."""
    matrices = (m for m in (covariance, precision, scale_tril, scale_diag) if m is not None)
    return next(matrices, cov_diag).shape[-1]  # pyright: ignore[reportOptionalMemberAccess]


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
        reverse = jnp.flip(cholesky(jnp.flip(precision, (-2, -1))), (-2, -1))
        unit = diagonal_matrix(jnp.ones_like(reverse[..., 0]))
        return solve_matrix(reverse.mT, unit)
    return _tril(covariance, scale_tril)
