"""Sets of vectors, and of arrays that sum to zero along their axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from distributions import bijectors
from distributions.common.pytree import pytree_dataclass, static
from distributions.constraints.base import Constraint, Shape

SIMPLEX_TOLERANCE = 1e-5  # Absolute, of the sum.
UNIT_TOLERANCE = 2e-5  # Absolute, of the squared length.
ZERO_SUM_TOLERANCE = 1e-5  # Of a sum, relative to 1 plus the sum of absolute entries.


@pytree_dataclass
class Simplex(Constraint):
    """Vectors of nonnegative (or positive, when not `closed`) numbers that sum to 1 within 1e-5."""

    closed: bool = static(default=True)

    event_ndims = 1
    bijector = bijectors.StickBreaking()

    @property
    def description(self) -> str:
        """The set in words."""
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
class PositiveOrdered(Constraint):
    """Vectors of strictly increasing positive numbers."""

    event_ndims = 1
    description = "positive, strictly increasing and finite along the last axis"
    bijector = bijectors.PositiveOrdered()

    def check(self, value: Any) -> Any:
        """Whether the first entry is positive and each is larger than the one before."""
        return Ordered().check(value) & (value[..., 0] > 0)

    def feasible(self, shape: Shape = ()) -> Any:
        """1, 2, 3, ..."""
        return np.arange(1, shape[-1] + 1, dtype=float)


@pytree_dataclass
class UnitVector(Constraint):
    """Vectors of length 1, within 1e-5."""

    event_ndims = 1
    description = "a unit vector (of length 1 along the last axis)"
    bijector = bijectors.UnitVector()

    def check(self, value: Any) -> Any:
        """Whether the squares sum to 1."""
        return abs((value * value).sum(-1) - 1) < UNIT_TOLERANCE

    def feasible(self, shape: Shape = ()) -> Any:
        """The vector with equal entries."""
        return shape[-1] ** -0.5


@pytree_dataclass
class ZeroSum(Constraint):
    """Arrays that sum to zero, up to rounding, along each of the last `ndims` axes."""

    ndims: int = static(default=1)

    @property
    def event_ndims(self) -> int:
        """The number of axes that sum to zero."""
        return self.ndims

    @property
    def description(self) -> str:
        """The set in words."""
        axes = "axis" if self.ndims == 1 else f"{self.ndims} axes"
        return f"finite and summing to zero along the last {axes}"

    @property
    def bijector(self) -> bijectors.Bijector:
        """The isometry onto such arrays."""
        return bijectors.ZeroSum(self.ndims)

    def check(self, value: Any) -> Any:
        """Whether the sums are small beside the entries."""
        axes = tuple(range(-self.ndims, 0))
        valid = (abs(value) < np.inf).all(axes)
        for axis in axes:
            sums = abs(value.sum(axis, keepdims=True))
            bound = ZERO_SUM_TOLERANCE * (1 + abs(value).sum(axis, keepdims=True))
            valid = valid & (sums <= bound).all(axes)
        return valid

    def feasible(self, shape: Shape = ()) -> Any:
        """Zero."""
        return 0.0


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
