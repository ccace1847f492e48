"""Sets of matrices."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from distributions import bijectors
from distributions._pytree import pytree_dataclass
from distributions.constraints.base import Constraint, Shape

SYMMETRY_TOLERANCE = 1e-5
UNIT_TOLERANCE = 2e-5


@pytree_dataclass
class LowerCholesky(Constraint):
    """Finite lower-triangular matrices with a positive diagonal."""

    event_ndims = 2
    description = "lower-triangular with a positive diagonal"
    bijector = bijectors.CholeskyFactor()

    def check(self, value: Any) -> Any:
        """Whether the upper triangle is zero, the diagonal positive and every entry finite."""
        if value.shape[-2] != value.shape[-1]:
            return np.zeros(value.shape[:-2], bool)
        lower = np.tri(value.shape[-1], dtype=bool).reshape(
            (1,) * (value.ndim - 2) + value.shape[-2:]
        )
        positive = (value.diagonal(axis1=-2, axis2=-1) > 0).all(-1)
        return ((value == 0) | lower).all((-2, -1)) & positive & (abs(value) < np.inf).all((-2, -1))

    def feasible(self, shape: Shape = ()) -> Any:
        """The identity matrix."""
        return np.eye(shape[-1])


@pytree_dataclass
class CorrelationCholesky(Constraint):
    """The Cholesky factors of correlation matrices: their rows have length 1, within 1e-5."""

    event_ndims = 2
    description = "lower-triangular with a positive diagonal and rows of length 1"
    bijector = bijectors.CorrelationCholesky()

    def check(self, value: Any) -> Any:
        """Whether it is a Cholesky factor of a matrix with ones on the diagonal."""
        lengths = abs((value * value).sum(-1) - 1) < UNIT_TOLERANCE
        return LowerCholesky().check(value) & lengths.all(-1)

    def feasible(self, shape: Shape = ()) -> Any:
        """The identity matrix."""
        return np.eye(shape[-1])


@pytree_dataclass
class Symmetric(Constraint):
    """Matrices of finite numbers that are symmetric up to rounding."""

    event_ndims = 2
    description = "a symmetric matrix of finite numbers"
    bijector = bijectors.Independent(bijectors.Identity(), 2)

    def check(self, value: Any) -> Any:
        """Whether the matrix equals its transpose."""
        if value.shape[-2] != value.shape[-1]:
            return np.zeros(value.shape[:-2], bool)
        tolerance = SYMMETRY_TOLERANCE * abs(value).max((-2, -1), keepdims=True)
        return (abs(value - value.swapaxes(-1, -2)) <= tolerance).all((-2, -1)) & (
            abs(value) < np.inf
        ).all((-2, -1))

    def feasible(self, shape: Shape = ()) -> Any:
        """The identity matrix."""
        return np.eye(shape[-1])


@pytree_dataclass
class Adjacency(Constraint):
    """The weights of an undirected graph: symmetric, nonnegative, with zeros on the diagonal.

    Every vertex has a neighbour.
    """

    event_ndims = 2
    description = "symmetric, nonnegative, with a zero diagonal and no row of zeros"
    bijector = bijectors.Independent(bijectors.Identity(), 2)

    def check(self, value: Any) -> Any:
        """Whether the matrix is that of a graph."""
        symmetric = Symmetric().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        entries = (value >= 0).all((-2, -1)) & (value.sum(-1) > 0).all(-1)
        return symmetric & entries & (value.diagonal(axis1=-2, axis2=-1) == 0).all(-1)

    def feasible(self, shape: Shape = ()) -> Any:
        """The complete graph."""
        return 1.0 - np.eye(shape[-1])


@pytree_dataclass
class PositiveDefinite(Constraint):
    """Matrices that are symmetric up to rounding and have a Cholesky factor."""

    event_ndims = 2
    description = "symmetric and positive definite"
    bijector = bijectors.PositiveDefinite()

    def check(self, value: Any) -> Any:
        """Whether the matrix equals its transpose and its Cholesky factorisation succeeds."""
        symmetric = Symmetric().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        if not isinstance(value, np.ndarray):
            return symmetric & (abs(jnp.linalg.cholesky(value)) < np.inf).all((-2, -1))
        matrices = value.reshape(-1, *value.shape[-2:])
        return symmetric & np.array([_has_cholesky(m) for m in matrices], bool).reshape(
            value.shape[:-2]
        )

    def feasible(self, shape: Shape = ()) -> Any:
        """The identity matrix."""
        return np.eye(shape[-1])


@pytree_dataclass
class Correlation(Constraint):
    """Positive definite matrices with ones on the diagonal, within 1e-5."""

    event_ndims = 2
    description = "a correlation matrix (symmetric and positive definite with a unit diagonal)"
    bijector = bijectors.Correlation()

    def check(self, value: Any) -> Any:
        """Whether the matrix is positive definite with a unit diagonal."""
        unit = abs(value.diagonal(axis1=-2, axis2=-1) - 1) < UNIT_TOLERANCE
        return PositiveDefinite().check(value) & unit.all(-1)

    def feasible(self, shape: Shape = ()) -> Any:
        """The identity matrix."""
        return np.eye(shape[-1])


def _has_cholesky(matrix: np.ndarray) -> bool:
    try:
        return bool(np.isfinite(np.linalg.cholesky(matrix)).all())
    except np.linalg.LinAlgError:
        return False
