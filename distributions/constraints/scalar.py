"""Sets of numbers."""

from __future__ import annotations

import functools
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from distributions import bijectors
from distributions.common.arrays import (
    as_float,
    as_host_array,
    common_dtype,
    promote,
    satisfies,
    select,
)
from distributions.common.pytree import pytree_dataclass, static
from distributions.constraints.base import Constraint, Shape


def match_bounds(value: Any, *bounds: Any, dtype: Any = None) -> tuple[Any, ...]:
    """Value and bounds in one dtype and of one rank, unless the value is on the host."""
    return promote(value, *bounds, dtype=dtype) if isinstance(value, Array) else (value, *bounds)


def _is_zero(bound: ArrayLike) -> bool:
    return isinstance(bound, float | int) and bound == 0


@pytree_dataclass
class Real(Constraint):
    """Finite real numbers."""

    is_unrestricted = True
    description = "finite"
    bijector = bijectors.Identity()

    def check(self, value: Any) -> Any:
        """Whether the value is finite."""
        return lax.is_finite(as_float(value)) if isinstance(value, Array) else np.isfinite(value)

    def feasible(self, shape: Shape = ()) -> Any:
        """Zero."""
        return 0.0


@pytree_dataclass
class ExtendedReal(Constraint):
    """Real numbers and both infinities: the bounds of an interval."""

    description = "a number (infinite or not), not NaN"
    bijector = bijectors.Identity()

    def check(self, value: Any) -> Any:
        """Whether the value is a number."""
        return value == value

    def feasible(self, shape: Shape = ()) -> Any:
        """Zero."""
        return 0.0


@pytree_dataclass
class GreaterThan(Constraint):
    """The finite numbers above `low`, and `low` itself when `closed`."""

    low: ArrayLike
    closed: bool = static(default=False)

    @property
    def description(self) -> str:
        """The set in words."""
        if _is_zero(self.low):
            return f"{'nonnegative' if self.closed else 'positive'} and finite"
        return f"finite and {'at least' if self.closed else 'greater than'} {self.low}"

    @property
    def bijector(self) -> bijectors.Bijector:
        """`low + exp(x)`."""
        return bijectors.Exp() if _is_zero(self.low) else bijectors.Lower(self.low)

    def check(self, value: Any) -> Any:
        """Whether the value is finite and above the bound."""
        value, low = match_bounds(value, self.low)
        return satisfies(value, **{"ge" if self.closed else "gt": low}, lt=np.inf)

    def feasible(self, shape: Shape = ()) -> Any:
        """A point above the bound."""
        return _point_above(self.low)


@pytree_dataclass
class LessThan(Constraint):
    """The finite numbers below `high`."""

    high: ArrayLike

    @property
    def description(self) -> str:
        """The set in words."""
        return f"finite and less than {self.high}"

    @property
    def bijector(self) -> bijectors.Bijector:
        """`high - exp(-x)`."""
        return bijectors.Upper(self.high)

    def check(self, value: Any) -> Any:
        """Whether the value is finite and below the bound."""
        value, high = match_bounds(value, self.high)
        return satisfies(value, lt=high, gt=-np.inf)

    def feasible(self, shape: Shape = ()) -> Any:
        """A point below the bound."""
        return _point_below(self.high)


def _is_infinite(bound: Any) -> bool:
    """Whether a bound is a scalar known to be infinite."""
    value = as_host_array(bound)
    return value is not None and np.ndim(value) == 0 and bool(np.isinf(value))


def _point_above(bound: Any) -> Any:
    return bound + abs(bound) + 1


def _point_below(bound: Any) -> Any:
    return bound - abs(bound) - 1


def _point_between(low: Any, high: Any, is_low: Any, is_high: Any, where: Any) -> Any:
    """The middle of two bounds; a point beside the only finite bound; 0 if both are infinite."""
    if is_low is True:
        return where(is_high, low / 2 + high / 2, _point_above(low))
    if is_high is True:
        return where(is_low, low / 2 + high / 2, _point_below(high))
    low = where(is_low, low, 0)
    high = where(is_high, high, 0)
    a = where(is_low, low, _point_below(high))
    b = where(is_high, high, _point_above(a))
    return a / 2 + b / 2


@functools.partial(jax.jit, static_argnums=(2, 3), inline=True)
def _traced_point_between(low: Array, high: Array, is_low: bool, is_high: bool) -> Array:
    """`_point_between` for traced bounds; `is_low` and `is_high`: known to be finite."""
    return _point_between(
        low, high, is_low or lax.is_finite(low), is_high or lax.is_finite(high), select
    )


@pytree_dataclass
class Interval(Constraint):
    """The finite numbers between two bounds, included when `closed`; either may be infinite."""

    low: ArrayLike
    high: ArrayLike
    closed: bool = static(default=True)

    @property
    def description(self) -> str:
        """The set in words."""
        left = "[" if self.closed and not _is_infinite(self.low) else "("
        right = "]" if self.closed and not _is_infinite(self.high) else ")"
        return f"in the interval {left}{self.low}, {self.high}{right}"

    @property
    def bijector(self) -> bijectors.Bijector:
        """A scaled logistic function, or its limit where a bound is infinite."""
        low = as_host_array(self.low)
        high = as_host_array(self.high)
        finite = (
            low is not None
            and high is not None
            and np.isfinite(low).all()
            and np.isfinite(high).all()
        )
        return (
            bijectors.Sigmoid(self.low, self.high)
            if finite
            else bijectors.Bounded(self.low, self.high)
        )

    def check(self, value: Any) -> Any:
        """Whether the value is finite and between the bounds."""
        value, low, high = match_bounds(value, self.low, self.high)
        if self.closed:
            return satisfies(value, ge=low, le=high) & Real().check(value)
        return satisfies(value, gt=low, lt=high)

    def feasible(self, shape: Shape = ()) -> Any:
        """The middle; a point beside the finite bound where the other one is infinite."""
        low = as_host_array(self.low)
        high = as_host_array(self.high)
        are_finite = (x is not None and bool(np.isfinite(x).all()) for x in (low, high))
        if low is None or high is None:
            return _traced_point_between(*promote(self.low, self.high), *are_finite)
        return _point_between(low, high, np.isfinite(low), np.isfinite(high), np.where)


@pytree_dataclass
class IntegerInterval(Constraint):
    """The integers from `low` to `high`, both included, of any dtype; `high` may be infinite."""

    low: ArrayLike
    high: ArrayLike

    is_discrete = True

    @property
    def description(self) -> str:
        """The set in words."""
        if not _is_infinite(self.high):
            return f"an integer in [{self.low}, {self.high}]"
        return (
            "a nonnegative integer" if _is_zero(self.low) else f"an integer of at least {self.low}"
        )

    @property
    def bijector(self) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplementedError(f"{self} is discrete: there is no map from unconstrained space")

    def check(self, value: Any) -> Any:
        """Whether the value is an integer between the bounds."""
        bounds = {"ge": self.low} | ({} if self.high is np.inf else {"le": self.high})
        dtype = common_dtype(value, *bounds.values())
        value, *matched = match_bounds(value, *bounds.values(), dtype=dtype)
        inside = satisfies(value, **dict(zip(bounds, matched, strict=True)))
        if jnp.issubdtype(dtype, jnp.integer):
            return inside
        floor = np.floor if isinstance(value, np.ndarray) else jnp.floor
        return inside & (value < np.inf) & (value == floor(value))

    def feasible(self, shape: Shape = ()) -> Any:
        """The least integer, `low`."""
        return self.low
