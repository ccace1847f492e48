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
from typing import Any, NamedTuple

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


def _add_unit(tril: Array, c: Array) -> Array:
    """`(I + T) / c`, where `tril` is `T / c`."""
    unit = align(jnp.eye(tril.shape[-1], dtype=tril.dtype), 2, tril.ndim - 2)
    return tril + unit / c[..., None]


class ScatterMatrix(NamedTuple):
    """The matrix `S`, by those of its parameters that are given."""

    covariance: Any
    precision: Any
    scale_tril: Any
    scale_diag: Any = None
    cov_factor: Any = None
    cov_diag: Any = None

    @property
    def _has_low_rank(self) -> bool:
        return self.cov_factor is not None and self.cov_diag is not None

    @property
    def _tril(self) -> Array:
        return cholesky(self.covariance) if self.scale_tril is None else self.scale_tril

    def square_and_log_det(self) -> tuple[Callable[[Array], Array], Array]:
        """The function `x -> x^T S^-1 x`, and `log det S / 2`, from one factor."""
        if self._has_low_rank:
            cov_diag = self.cov_diag
            a, c, tril = _capacitance(self.cov_factor, cov_diag)
            half_log_det = log_diagonal(tril) + a.shape[-1] * jnp.log(c[..., 0])
            half_log_det += 0.5 * jnp.sum(jnp.log(cov_diag), -1)
            return lambda x: _low_rank_square(x, a, c, tril, cov_diag), half_log_det
        if self.scale_diag is not None:
            scale = self.scale_diag
            return lambda x: square_sum(x / scale), jnp.sum(jnp.log(scale), -1)
        if self.precision is not None:
            tril = cholesky(self.precision)
            return lambda x: square_sum(multiply(tril.mT, x)), -log_diagonal(tril)
        tril = self._tril
        return lambda x: square_sum(solve(tril, x)), log_diagonal(tril)

    @property
    def half_log_det(self) -> Array:
        """`log det S / 2`."""
        return self.square_and_log_det()[1]

    @property
    def diagonal(self) -> Array:
        """The diagonal of `S`."""
        if self._has_low_rank:
            return square_sum(self.cov_factor) + self.cov_diag
        if self.scale_diag is not None:
            return jnp.square(self.scale_diag)
        if self.precision is not None:
            return inverse_diagonal(cholesky(self.precision))
        if self.scale_tril is None:
            return diagonal(self.covariance)
        return square_sum(self.scale_tril)

    def sample(self, key: Array, shape: tuple[int, ...], dtype: Any) -> Array:
        """Normal draws with mean 0 and covariance `S`."""
        if self._has_low_rank:
            key, few_key = random.split(key)
            z = random.normal(key, shape, dtype)
            few = random.normal(few_key, (*shape[:-1], self.cov_factor.shape[-1]), dtype)
            return multiply(self.cov_factor, few) + jnp.sqrt(self.cov_diag) * z
        return self.multiply_root(random.normal(key, shape, dtype))

    def multiply_root(self, z: Array) -> Array:
        """`R z` with a root `R R^T = S`; with `cov_factor`, `R = D^(1/2) (I + A (I + T)^-1 A^T)`.

        `T` is the Cholesky factor of `I + A^T A`, with `A = D^(-1/2) W`.
        """
        if self._has_low_rank:
            a, c, tril = _capacitance(self.cov_factor, self.cov_diag)
            u = solve(_add_unit(tril, c), multiply(a.mT, z))
            return jnp.sqrt(self.cov_diag) * (z + c * multiply(a, u))
        if self.scale_diag is not None:
            return self.scale_diag * z
        if self.precision is not None:
            return solve(cholesky(self.precision), z, transpose=True)
        return multiply(self._tril, z)

    def solve_root(self, x: Array) -> Array:
        """`R^-1 x` with the root `R` of `multiply_root`.

        With `cov_factor`, `R^-1 = (I - A (I + T^T)^-1 T^-1 A^T) D^(-1/2)`.
        """
        if self._has_low_rank:
            a, c, tril = _capacitance(self.cov_factor, self.cov_diag)
            y = x / jnp.sqrt(self.cov_diag)
            u = solve(_add_unit(tril, c), solve(tril, multiply(a.mT, y)), transpose=True)
            return y - multiply(a, u)
        if self.scale_diag is not None:
            return x / self.scale_diag
        if self.precision is not None:
            return multiply(cholesky(self.precision).mT, x)
        return solve(self._tril, x)

    @property
    def size(self) -> int:
        """The number of rows of `S`."""
        dense = (self.covariance, self.precision, self.scale_tril, self.scale_diag)
        return next((x for x in dense if x is not None), self.cov_diag).shape[-1]

    @property
    def dense_scale_tril(self) -> Array:
        """The Cholesky factor of `S`."""
        if self._has_low_rank:
            return cholesky(gram(self.cov_factor) + diagonal_matrix(self.cov_diag))
        if self.scale_diag is not None:
            return diagonal_matrix(self.scale_diag)
        if self.precision is not None:
            # With J that reverses the order, J (chol(J P J))^-T J is lower-triangular.
            reverse = jnp.flip(cholesky(jnp.flip(self.precision, (-2, -1))), (-2, -1))
            unit = diagonal_matrix(jnp.ones_like(reverse[..., 0]))
            return solve_matrix(reverse.mT, unit)
        return self._tril
