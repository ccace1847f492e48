"""Sets of matrices."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from distributions import bijectors
from distributions.common.pytree import pytree_dataclass
from distributions.common.triangular_factors import cholesky
from distributions.constraints.base import Constraint, Shape

SYMMETRY_TOLERANCE = 1e-5  # Relative to the largest entry of the matrix.
UNIT_TOLERANCE = 2e-5  # Absolute, of squared lengths of rows and of entries of a unit diagonal.


class _Square(Constraint):
    """A set of square matrices."""

    event_ndims = 2

    def check(self, value: Any) -> Any:
        """Whether the matrix is a square one of the set."""
        if value.shape[-2] != value.shape[-1]:
            return np.zeros(value.shape[:-2], bool)
        return self._check(value)

    @abc.abstractmethod
    def _check(self, value: Any) -> Any:
        """`check` for a square matrix."""


class _AroundIdentity(_Square):
    def feasible(self, shape: Shape = ()) -> Any:
        """The identity matrix."""
        return np.eye(shape[-1])


def _diagonal(value: Any) -> Any:
    return value.diagonal(axis1=-2, axis2=-1)


@pytree_dataclass
class LowerCholesky(_AroundIdentity):
    """Finite lower-triangular matrices with a positive diagonal."""

    description = "lower-triangular with a positive diagonal"
    bijector = bijectors.CholeskyFactor()

    def _check(self, value: Any) -> Any:
        """Whether the upper triangle is zero, the diagonal positive and every entry finite."""
        lower = np.tri(value.shape[-1], dtype=bool).reshape(
            (1,) * (value.ndim - 2) + value.shape[-2:]
        )
        positive = (_diagonal(value) > 0).all(-1)
        return ((value == 0) | lower).all((-2, -1)) & positive & (abs(value) < np.inf).all((-2, -1))


@pytree_dataclass
class CorrelationCholesky(_AroundIdentity):
    """The Cholesky factors of correlation matrices: their rows have length 1, within 1e-5."""

    description = "lower-triangular with a positive diagonal and rows of length 1"
    bijector = bijectors.CorrelationCholesky()

    def _check(self, value: Any) -> Any:
        """Whether the matrix is a Cholesky factor with rows of length 1."""
        lengths = abs((value * value).sum(-1) - 1) < UNIT_TOLERANCE
        return LowerCholesky().check(value) & lengths.all(-1)


@pytree_dataclass
class Symmetric(_AroundIdentity):
    """Matrices of finite numbers that are symmetric up to rounding."""

    description = "a symmetric matrix of finite numbers"
    bijector = bijectors.Independent(bijectors.Identity(), 2)

    def _check(self, value: Any) -> Any:
        """Whether the matrix equals its transpose."""
        tolerance = SYMMETRY_TOLERANCE * abs(value).max((-2, -1), keepdims=True, initial=0)
        is_close = abs(value - value.swapaxes(-1, -2)) <= tolerance
        return (is_close & (abs(value) < np.inf)).all((-2, -1))


@pytree_dataclass
class Adjacency(_Square):
    """The weights of an undirected graph in which every vertex has a neighbor.

    Such matrices are symmetric and nonnegative, with a zero diagonal and no row of zeros.
    """

    description = "symmetric, nonnegative, with a zero diagonal and no row of zeros"
    bijector = bijectors.Independent(bijectors.Identity(), 2)

    def _check(self, value: Any) -> Any:
        """Whether the matrix holds the weights of such a graph."""
        symmetric = Symmetric().check(value)
        entries = (value >= 0).all((-2, -1)) & (value.sum(-1) > 0).all(-1)
        return symmetric & entries & (_diagonal(value) == 0).all(-1)

    def feasible(self, shape: Shape = ()) -> Any:
        """The complete graph, with weights of 1."""
        return 1.0 - np.eye(shape[-1])


@pytree_dataclass
class PositiveDefinite(_AroundIdentity):
    """Matrices that are symmetric up to rounding and have a Cholesky factor."""

    description = "symmetric and positive definite"
    bijector = bijectors.PositiveDefinite()

    def _check(self, value: Any) -> Any:
        """Whether the matrix equals its transpose and its Cholesky factorization succeeds."""
        symmetric = Symmetric().check(value)
        if not isinstance(value, np.ndarray):
            return symmetric & (abs(cholesky(value)) < np.inf).all((-2, -1))
        batch = value.shape[:-2]
        found = [_has_cholesky(value[index]) for index in np.ndindex(*batch)]
        return symmetric & np.array(found, bool).reshape(batch)


@pytree_dataclass
class Correlation(_AroundIdentity):
    """Positive definite matrices with ones on the diagonal, within 2e-5."""

    description = "a correlation matrix (symmetric and positive definite with a unit diagonal)"
    bijector = bijectors.Correlation()

    def _check(self, value: Any) -> Any:
        """Whether the matrix is positive definite with a unit diagonal."""
        unit = abs(_diagonal(value) - 1) < UNIT_TOLERANCE
        return PositiveDefinite().check(value) & unit.all(-1)


def _has_cholesky(matrix: np.ndarray) -> bool:
    try:
        return bool(np.isfinite(np.linalg.cholesky(matrix)).all())
    except np.linalg.LinAlgError:
        return False
