"""Bijectors onto matrices: Cholesky factors and positive definite matrices."""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from distributions.bijectors.base import Bijector, Shape
from distributions.common.arrays import as_float
from distributions.common.pytree import pytree_dataclass
from distributions.common.triangular_factors import cholesky


@pytree_dataclass
class CholeskyFactor(Bijector):
    """Map from `n (n + 1) / 2` numbers onto lower-triangular matrices with a positive diagonal.

    The entries fill the triangle row by row; diagonal entries are exponentiated.
    """

    event_ndims = 1

    def forward(self, x: ArrayLike) -> Array:
        """The lower-triangular matrix."""
        x = as_float(x)
        n = self.forward_event_shape(x.shape)[-1]
        rows, columns = jnp.tril_indices(n)
        filled = jnp.where(
            _expand(rows == columns, x), jnp.exp(_diagonal_only(x, rows == columns)), x
        )
        return jnp.zeros((*x.shape[:-1], n, n), x.dtype).at[..., rows, columns].set(filled)

    def inverse(self, y: ArrayLike) -> Array:
        """The triangle, row by row, with the logs of the diagonal."""
        y = as_float(y)
        rows, columns = jnp.tril_indices(y.shape[-1])
        x = y[..., rows, columns]
        diagonal = _expand(rows == columns, y[..., 0])
        return jnp.where(diagonal, jnp.log(jnp.where(diagonal, x, 1)), x)

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """The sum of the entries that go to the diagonal."""
        x = as_float(x)
        n = self.forward_event_shape(x.shape)[-1]
        rows, columns = jnp.tril_indices(n)
        return jnp.sum(_diagonal_only(x, rows == columns), axis=-1)

    def forward_event_shape(self, shape: Shape) -> Shape:
        """`(..., n (n + 1) / 2)` to `(..., n, n)`."""
        n = (math.isqrt(8 * shape[-1] + 1) - 1) // 2
        if n * (n + 1) // 2 != shape[-1]:
            raise ValueError(
                f"a triangle has n (n + 1) / 2 entries for some n; the last axis has {shape[-1]}"
            )
        return (*shape[:-1], n, n)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """`(..., n, n)` to `(..., n (n + 1) / 2)`."""
        return (*shape[:-2], shape[-1] * (shape[-1] + 1) // 2)


def _expand(mask: Array, like: Array) -> Array:
    return mask.reshape((1,) * (like.ndim - 1) + mask.shape)


def _diagonal_only(x: Array, diagonal: Array) -> Array:
    return jnp.where(_expand(diagonal, x), x, 0)


@pytree_dataclass
class PositiveDefinite(Bijector):
    """Map from `n (n + 1) / 2` numbers onto positive definite matrices, by a Cholesky factor."""

    event_ndims = 1

    def forward(self, x: ArrayLike) -> Array:
        """`L L^T`, with `L` from `CholeskyFactor`."""
        tril = CholeskyFactor().forward(x)
        return jnp.einsum("...ik,...jk->...ij", tril, tril, precision=lax.Precision.HIGHEST)

    def inverse(self, y: ArrayLike) -> Array:
        """The entries of the Cholesky factor of `y`."""
        return CholeskyFactor().inverse(cholesky(as_float(y)))

    def forward_log_det_jacobian(self, x: ArrayLike) -> Array:
        """`n log 2 + sum_{i=1}^n (n - i + 2) log L_ii`, of the map to the lower triangle."""
        x = as_float(x)
        n = self.forward_event_shape(x.shape)[-1]
        diagonal = x[..., jnp.cumsum(jnp.arange(1, n + 1)) - 1]
        powers = jnp.arange(n + 1, 1, -1, dtype=x.dtype)
        return n * math.log(2) + jnp.sum(diagonal * _expand(powers, diagonal), axis=-1)

    def forward_event_shape(self, shape: Shape) -> Shape:
        """`(..., n (n + 1) / 2)` to `(..., n, n)`."""
        return CholeskyFactor().forward_event_shape(shape)

    def inverse_event_shape(self, shape: Shape) -> Shape:
        """`(..., n, n)` to `(..., n (n + 1) / 2)`."""
        return CholeskyFactor().inverse_event_shape(shape)
