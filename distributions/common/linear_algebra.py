"""Triangular systems and products, for batches and under strict promotion of ranks."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.common import triangular_factors
from distributions.common.arrays import promote


def last_axis(*vectors: Any) -> tuple[int, ...]:
    """The shape `(n,)` of the last axes of vectors or matrices; `()` if all are scalars or None.

    An axis of size 1 stands for `n` equal entries, as a scalar does.

    Raises:
        ValueError: The last axes differ in size.
    """
    sizes = {np.shape(v)[-1] for v in vectors if v is not None and np.ndim(v)}
    sizes = sizes - {1} or sizes
    if len(sizes) > 1:
        raise ValueError(f"last axes of different sizes: {sorted(sizes)}")
    return tuple(sizes)


def solve(tril: Array, x: Array, *, transpose: bool = False) -> Array:
    """The vectors `y` with `tril y = x` or `tril^T y = x`; a single factor serves all vectors."""
    n = x.shape[-1]
    if all(size == 1 for size in tril.shape[:-2]):
        columns = solve_matrix(tril.reshape(n, n), x.reshape(-1, n).T, transpose=transpose)
        return columns.T.reshape(x.shape)
    return solve_matrix(tril, x[..., None], transpose=transpose)[..., 0]


def solve_matrix(tril: Array, x: Array, *, transpose: bool = False) -> Array:
    """The matrices `y` with `tril y = x` or `tril^T y = x`."""
    tril, x = promote(tril, x)
    batch = jnp.broadcast_shapes(tril.shape[:-2], x.shape[:-2])
    tril = jnp.broadcast_to(tril, (*batch, *tril.shape[-2:]))
    x = jnp.broadcast_to(x, (*batch, *x.shape[-2:]))
    return triangular_factors.solve_lower(tril, x, transposed=transpose)


def inverse_diagonal(tril: Array) -> Array:
    """The diagonals of the inverses of `tril tril^T`."""
    unit = jnp.broadcast_to(jnp.eye(tril.shape[-1], dtype=tril.dtype), tril.shape)
    return square_sum(solve_matrix(tril, unit).mT)


def inverse(x: Array) -> Array:
    """The inverses of positive definite matrices; NaN for others."""
    unit = jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    half = solve_matrix(triangular_factors.cholesky(x), unit)
    return gram(half.mT)


def multiply(matrix: Array, x: Array) -> Array:
    """The products of matrices and vectors."""
    return jnp.einsum("...ij,...j->...i", matrix, x, precision=lax.Precision.HIGHEST)


def matmul(a: Array, b: Array) -> Array:
    """The products of matrices."""
    return jnp.einsum("...ij,...jk->...ik", a, b, precision=lax.Precision.HIGHEST)


def gram(a: Array) -> Array:
    """The products `a a^T`."""
    return jnp.einsum("...ik,...jk->...ij", a, a, precision=lax.Precision.HIGHEST)


def diagonal(matrix: Array) -> Array:
    """The diagonals of matrices."""
    return jnp.diagonal(matrix, axis1=-2, axis2=-1)


def log_diagonal(tril: Array) -> Array:
    """The sums of the logs of the diagonals: the log determinants of triangular matrices."""
    return jnp.sum(jnp.log(diagonal(tril)), -1)


def square_sum(x: Array, ndims: int = 1) -> Array:
    """The sum of squares over the last axes."""
    return jnp.sum(jnp.square(x), tuple(range(-ndims, 0)))


def diagonal_matrix(x: Array) -> Array:
    """Matrices with the given diagonals."""
    return x[..., None] * jnp.eye(x.shape[-1], dtype=x.dtype).reshape(
        (1,) * (x.ndim - 1) + 2 * x.shape[-1:]
    )


def per_event(x: Any, ndims: int = 1) -> Any:
    """One number per event, with axes for the entries of the event; a scalar stays one."""
    return x if x.ndim == 0 else x[(..., *(None,) * ndims)]
