"""Normal families on grids: MatrixNormal and KroneckerNormal."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, random
from jax.typing import ArrayLike

from distributions._arrays import align, convert, float_dtype
from distributions._linalg import (
    last_axis,
    log_diagonal,
    matmul,
    multiply,
    solve,
    solve_matrix,
    square_sum,
)
from distributions._pytree import pytree_dataclass
from distributions.constraints import Constraint, independent, lower_cholesky, real, real_vector
from distributions.distribution import Distribution, Shape, full
from distributions.family import Family, family, parameter
from distributions.multivariate import MultivariateNormal
from distributions.special import LOG_SQRT_TWO_PI


def _rows(matrix):
    """Nothing of the shape of its columns, but for the shapes' comparison."""
    return None if np.ndim(matrix) < 2 else np.broadcast_to(0, np.shape(matrix)[:-1])


def _half_log_det(scale_tril_row, scale_tril_column):
    n, p = scale_tril_row.shape[-1], scale_tril_column.shape[-1]
    log_dets = p * log_diagonal(scale_tril_row) + n * log_diagonal(scale_tril_column)
    return log_dets + n * p * LOG_SQRT_TWO_PI


def _matrix_normal_log_prob(x, loc, scale_tril_row, scale_tril_column):
    z = solve_matrix(scale_tril_row, x - loc)
    z = solve_matrix(scale_tril_column, z.mT)
    return -0.5 * square_sum(z, 2) - _half_log_det(scale_tril_row, scale_tril_column)


def _matrix_normal_sample(key, shape, dtype, loc, scale_tril_row, scale_tril_column):
    z = random.normal(key, shape, dtype)
    return loc + matmul(matmul(scale_tril_row, z), scale_tril_column.mT)


@family(
    support=independent(real, 2),
    event_shape=lambda loc, scale_tril_row, scale_tril_column: (
        *last_axis(_rows(loc), scale_tril_row),
        *last_axis(loc, scale_tril_column),
    ),
    log_prob=_matrix_normal_log_prob,
    sample=_matrix_normal_sample,
    mean=lambda loc, scale_tril_row, scale_tril_column: loc,
    variance=lambda loc, scale_tril_row, scale_tril_column: (
        square_sum(scale_tril_row)[..., None] * square_sum(scale_tril_column)[..., None, :]
    ),
    mode=lambda loc, scale_tril_row, scale_tril_column: loc,
    entropy=lambda loc, scale_tril_row, scale_tril_column: (
        0.5 * scale_tril_row.shape[-1] * scale_tril_column.shape[-1]
        + _half_log_det(scale_tril_row, scale_tril_column)
    ),
)
class MatrixNormal(Family):
    r"""Matrix normal distribution with mean `loc`.

    `p(X) = exp(-tr(V^-1 (X - loc)^T U^-1 (X - loc)) / 2) / sqrt((2 pi)^(n p) |U|^p |V|^n)` for
    real `X` of `n` by `p`: the covariance of `X_ij` and `X_kl` is `U_ik V_jl`.

    Args:
        loc: The mean, of shape `(..., n, p)`, or one number for all entries.
        scale_tril_row: The Cholesky factor of `U`, of shape `(..., n, n)`.
        scale_tril_column: The Cholesky factor of `V`, of shape `(..., p, p)`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> normal = dist.MatrixNormal(0.0, jnp.eye(2), jnp.eye(3))
    >>> round(float(normal.log_prob(jnp.zeros((2, 3)))), 4)
    -5.5136

    References:
        Gupta and Nagar, *Matrix Variate Distributions* (2000), definition 2.2.1.
    """

    loc: ArrayLike = parameter(real, event_ndims=2)
    scale_tril_row: ArrayLike = parameter(lower_cholesky)
    scale_tril_column: ArrayLike = parameter(lower_cholesky)


@pytree_dataclass(eq=False, repr=False)
class KroneckerNormal(Distribution):
    r"""Multivariate normal distribution whose covariance is a Kronecker product.

    Normal vectors with mean `loc` and covariance `S_1 x S_2 x ...`, the Kronecker product of
    `S_k = L_k L_k^T` with `scale_trils = (L_1, L_2, ...)`: as of values on a grid, the last
    coordinate running fastest. The product is never formed: for matrices of `n_k` rows it takes
    `O(n sum_k n_k)` operations, with `n` the product of the `n_k`.

    Args:
        loc: The mean, of shape `(..., n)`, or one number for all entries.
        scale_trils: Cholesky factors, each of shape `(..., n_k, n_k)`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> normal = dist.KroneckerNormal(0.0, (jnp.eye(2), 2 * jnp.eye(3)))
    >>> round(float(normal.log_prob(jnp.zeros(6))), 4)
    -9.6725

    References:
        Saatci, *Scalable Inference for Structured Gaussian Process Models* (2011), chapter 5.
    """

    loc: ArrayLike
    scale_trils: tuple[ArrayLike, ...]

    def __post_init__(self) -> None:
        """Checks the factors, and that the mean fits."""
        object.__setattr__(self, "scale_trils", tuple(self.scale_trils))
        if not self.scale_trils:
            raise ValueError("KroneckerNormal: scale_trils must not be empty")
        for tril in self.scale_trils:
            MultivariateNormal(0.0, scale_tril=tril)
        try:
            _ = last_axis(self.loc, np.broadcast_to(0, self.event_shape)), self.batch_shape
        except ValueError:
            shapes = ", ".join(str(np.shape(tril)) for tril in self.scale_trils)
            raise ValueError(
                f"KroneckerNormal: the shapes do not fit: loc {np.shape(self.loc)}, "
                f"scale_trils {shapes}"
            ) from None

    @property
    def support(self) -> Constraint:
        """Real vectors."""
        return real_vector

    @property
    def batch_shape(self) -> Shape:
        """The shape of independent vectors."""
        trils = (np.shape(tril)[:-2] for tril in self.scale_trils)
        return np.broadcast_shapes(np.shape(self.loc)[:-1], *trils)

    @property
    def event_shape(self) -> Shape:
        """The product of the numbers of rows."""
        return (math.prod(self._sizes),)

    @property
    def _sizes(self) -> Shape:
        return tuple(np.shape(tril)[-1] for tril in self.scale_trils)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of draws."""
        return float_dtype(self.loc, *self.scale_trils)

    def _each_axis(self, apply: Callable[[Array, Array], Array], x: Array) -> Array:
        """A map along each axis of the grid of entries, given the factor of that axis."""
        batch, sizes = x.shape[:-1], self._sizes
        grid = x.reshape(*batch, *sizes)
        for k, tril in enumerate(self.scale_trils):
            axis = len(batch) + k
            last = jnp.moveaxis(grid, axis, -1)
            tril = align(jnp.asarray(tril, x.dtype), 2, len(batch))
            others = (1,) * (len(sizes) - 1)
            tril = tril.reshape(*tril.shape[:-2], *others, *tril.shape[-2:])
            grid = jnp.moveaxis(apply(tril, last), -1, axis)
        return grid.reshape(*grid.shape[: len(batch)], -1)

    def _half_log_det(self, dtype: Any) -> Array:
        n, ndim = self.event_shape[0], len(self.batch_shape)
        trils = (align(jnp.asarray(tril, dtype), 2, ndim) for tril in self.scale_trils)
        terms = [n // tril.shape[-1] * log_diagonal(tril) for tril in trils]
        return functools.reduce(operator.add, terms) + n * LOG_SQRT_TWO_PI

    def _log_prob(self, value: ArrayLike) -> Array:
        dtype = float_dtype(value, self.loc, *self.scale_trils)
        batch_ndims = max(np.ndim(value) - 1, len(self.batch_shape))
        x = align(jnp.asarray(value, dtype), 1, batch_ndims)
        z = self._each_axis(solve, x - align(convert(self.loc, dtype), 1, batch_ndims))
        normaliser = align(self._half_log_det(dtype), 0, batch_ndims)
        return -0.5 * square_sum(z) - normaliser

    def _sample(self, key: Array, shape: Shape) -> Array:
        z = self._each_axis(multiply, random.normal(key, shape, self.dtype))
        return align(convert(self.loc, self.dtype), 1, len(shape) - 1) + z

    def _moment(self, name: str) -> Array:
        dtype, batch, shape = self.dtype, self.batch_shape, self.event_shape
        if name == "entropy":
            return full(self._half_log_det(dtype) + 0.5 * shape[0], batch, dtype)
        if name == "variance":
            ones = jnp.ones((*batch, *shape), dtype)
            return self._each_axis(lambda tril, x: multiply(jnp.square(tril), x), ones)
        return full(align(convert(self.loc, dtype), 1, len(batch)), batch + shape, dtype)
