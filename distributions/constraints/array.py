"""Sets of vectors and of matrices."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from distributions import bijectors
from distributions._pytree import pytree_dataclass, static
from distributions.constraints.base import Constraint, Shape

SIMPLEX_TOLERANCE = 1e-5
SYMMETRY_TOLERANCE = 1e-5


@pytree_dataclass
class Simplex(Constraint):
    """Vectors of nonnegative (or positive, when not `closed`) numbers that sum to 1 within 1e-5."""

    closed: bool = static(default=True)

    event_ndims = 1
    bijector = bijectors.StickBreaking()

    @property
    def description(self) -> str:
        """In words."""
        sign = "nonnegative" if self.closed else "positive"
        return f"a simplex ({sign}, summing to 1 along the last axis)"

    def check(self, value: Any) -> Any:
        """Whether the entries have the right sign and sum to 1."""
        entries = value >= 0 if self.closed else value > 0
        return entries.all(-1) & (abs(value.sum(-1) - 1) < SIMPLEX_TOLERANCE)

    def feasible(self, shape: Shape = ()) -> Any:
        """The uniform point."""
        return 1 / shape[-1]


@pytree_dataclass
class Ordered(Constraint):
    """Vectors of strictly increasing finite numbers."""

    event_ndims = 1
    description = "strictly increasing and finite along the last axis"
    bijector = bijectors.Ordered()

    def check(self, value: Any) -> Any:
        """Whether each entry is larger than the one before."""
        return (value[..., 1:] > value[..., :-1]).all(-1) & (abs(value) < np.inf).all(-1)

    def feasible(self, shape: Shape = ()) -> Any:
        """0, 1, 2, ..."""
        return np.arange(shape[-1], dtype=float)


@pytree_dataclass
class LogWeights(Constraint):
    """Vectors of log weights, `-inf` standing for a weight of zero; not all weights are zero."""

    event_ndims = 1
    description = "log weights (neither NaN nor inf, and not all -inf along the last axis)"
    bijector = bijectors.Independent(bijectors.Identity(), 1)

    def check(self, value: Any) -> Any:
        """Whether the entries are below infinity and one of them is finite."""
        return (value < np.inf).all(-1) & (value > -np.inf).any(-1)

    def feasible(self, shape: Shape = ()) -> Any:
        """Zero."""
        return 0.0


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
class PositiveDefinite(Constraint):
    """Matrices that are symmetric up to rounding and have a Cholesky factor."""

    event_ndims = 2
    description = "symmetric and positive definite"
    bijector = bijectors.PositiveDefinite()

    def check(self, value: Any) -> Any:
        """Whether the matrix equals its transpose and its Cholesky factorisation succeeds."""
        if value.shape[-2] != value.shape[-1]:
            return np.zeros(value.shape[:-2], bool)
        tolerance = SYMMETRY_TOLERANCE * abs(value).max((-2, -1), keepdims=True)
        symmetric = (abs(value - value.swapaxes(-1, -2)) <= tolerance).all((-2, -1))
        if not isinstance(value, np.ndarray):
            return symmetric & (abs(jnp.linalg.cholesky(value)) < np.inf).all((-2, -1))
        matrices = value.reshape(-1, *value.shape[-2:])
        return symmetric & np.array([_has_cholesky(m) for m in matrices], bool).reshape(
            value.shape[:-2]
        )

    def feasible(self, shape: Shape = ()) -> Any:
        """The identity matrix."""
        return np.eye(shape[-1])


def _has_cholesky(matrix: np.ndarray) -> bool:
    try:
        return bool(np.isfinite(np.linalg.cholesky(matrix)).all())
    except np.linalg.LinAlgError:
        return False
