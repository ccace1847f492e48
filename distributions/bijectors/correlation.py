"""Bijectors onto correlation matrices and their Cholesky factors."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from distributions.bijectors.base import Bijector, Shape
from distributions.common.arrays import align, as_float
from distributions.common.pytree import pytree_dataclass
from distributions.common.triangular_factors import cholesky
from distributions.numerics.cumulative_sum import cumulative_sum


def _log_sech(x: Array) -> Array:
    return math.log(2) - jnp.abs(x) - jnp.log1p(jnp.exp(-2 * jnp.abs(x)))


@pytree_dataclass
class CorrelationCholesky(Bijector):
    """Map from `n (n - 1) / 2` numbers onto the Cholesky factors of correlation matrices.

    The entries fill the triangle below the diagonal row by row. Each row has length 1, and
    `tanh(x_j)` is the share of the remaining length that `y_j` takes:
    `y_j = tanh(x_j) sech(x_1) ... sech(x_(j-1))`. The diagonal entry is the length left in the end.

    >>> from distributions import bijectors
    >>> print(bijectors.CorrelationCholesky().forward(jnp.zeros(1)))
    [[1. 0.]
     [0. 1.]]

    References:
        Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and
        extended onion method", Journal of Multivariate Analysis 100 (2009).
        Stan Development Team, *Stan Reference Manual*, "Cholesky factors of correlation matrices".
    """

    event_ndims = 1

    def _rows(self, x: ArrayLike) -> tuple[Array, Array, Array]:
        """The entries as a matrix; their `log sech`; the logs of the lengths left before each."""
        x = as_float(x)
        n = self.forward_event_shape(x.shape)[-1]
        below = jnp.tril_indices(n, -1)
        square = jnp.zeros((*x.shape[:-1], n, n), x.dtype).at[(..., *below)].set(x)
        log_rest = _log_sech(square) * align(jnp.tri(n, k=-1, dtype=x.dtype), 2, x.ndim - 1)
        return square, log_rest, cumulative_sum(log_rest) - log_rest

    def forward(self, x: ArrayLike) -> Array:
        """The factor; entries of the diagonal that underflow are the smallest normal number."""
        square, _, log_left = self._rows(x)
        n = square.shape[-1]
        ndim = square.ndim
        left = jnp.maximum(jnp.exp(log_left), jnp.finfo(square.dtype).tiny)
        unit = align(jnp.eye(n, dtype=bool), 0, ndim)
        return jnp.where(unit, left, jnp.tanh(square) * left)

    def inverse(self, y: ArrayLike) -> Array:
        """`x_j = asinh(y_j / |(y_(j+1), ..., y_n)|)` in each row."""
        y = as_float(y)
        n = y.shape[-1]
        after = cumulative_sum(jnp.square(y), reverse=True)[..., 1:]
        rows, columns = jnp.tril_indices(n, -1)
        return jnp.arcsinh(y[..., rows, columns] / jnp.sqrt(after[..., rows, columns]))

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """The log determinant of the map to the entries below the diagonal."""
        square, log_rest, log_left = self._rows(x)
        below = align(jnp.tri(square.shape[-1], k=-1, dtype=square.dtype), 0, square.ndim)
        return jnp.sum(2 * log_rest + log_left * below, axis=(-2, -1))

    def forward_event_shape(self, shape: Shape) -> Shape:
        """`(..., n (n - 1) / 2)` to `(..., n, n)`."""
        n = (math.isqrt(8 * shape[-1] + 1) + 1) // 2
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError(
                "a triangle without its diagonal has n (n - 1) / 2 entries for some n; "
                f"the last axis has {shape[-1]}"
            )
        return (*shape[:-1], n, n)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """`(..., n, n)` to `(..., n (n - 1) / 2)`."""
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


@pytree_dataclass
class Correlation(Bijector):
    """Map from `n (n - 1) / 2` numbers onto correlation matrices, by their Cholesky factor."""

    event_ndims = 1

    def forward(self, x: ArrayLike) -> Array:
        """`L L^T`, with `L` from `CorrelationCholesky`."""
        tril = CorrelationCholesky().forward(x)
        y = jnp.einsum("...ik,...jk->...ij", tril, tril, precision=lax.Precision.HIGHEST)
        unit = align(jnp.eye(y.shape[-1], dtype=bool), 0, y.ndim)
        return jnp.where(unit, lax.full_like(y, 1), y)

    def inverse(self, y: ArrayLike) -> Array:
        """The entries of the Cholesky factor of `y`."""
        return CorrelationCholesky().inverse(cholesky(as_float(y)))

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """The log determinant of the map to the entries below the diagonal."""
        factor = CorrelationCholesky()
        square, _, log_left = factor._rows(x)
        n = square.shape[-1]
        log_diagonal = jnp.diagonal(log_left, axis1=-2, axis2=-1)
        powers = align(jnp.arange(n - 1, -1, -1, dtype=square.dtype), 0, log_diagonal.ndim)
        return factor.forward_log_det_jacobian(x) + jnp.sum(powers * log_diagonal, axis=-1)

    def forward_event_shape(self, shape: Shape) -> Shape:
        """`(..., n (n - 1) / 2)` to `(..., n, n)`."""
        return CorrelationCholesky().forward_event_shape(shape)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """`(..., n, n)` to `(..., n (n - 1) / 2)`."""
        return CorrelationCholesky().inverse_event_shape(shape)
