"""Sets of values: the supports of distributions and the constraints on their parameters.

A constraint is a pytree whose leaves are its bounds. `check` works on NumPy arrays on the host, without any
compilation, and on JAX arrays, traced or not.

    >>> from distributions import constraints
    >>> constraints.interval(0.0, 2.0).check(jnp.array([1.0, 3.0]))
    Array([ True, False], dtype=bool)
    >>> constraints.positive.bijector.forward(0.0)
    Array(1., dtype=float32, weak_type=True)
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions import bijectors
from distributions._arrays import common_dtype, known, promote
from distributions._pytree import pytree_dataclass, static

Shape = tuple[int, ...]
SIMPLEX_TOLERANCE = 1e-5


class Constraint(abc.ABC):
    """A set of values.

    Attributes:
        event_ndims: The number of trailing axes that one value takes.
        is_discrete: Whether the set is countable.
        is_unrestricted: Whether every finite value belongs to it.
    """

    event_ndims: ClassVar[int] = 0
    is_discrete: ClassVar[bool] = False
    is_unrestricted: ClassVar[bool] = False

    @abc.abstractmethod
    def check(self, value: Any) -> Any:
        """Whether `value` belongs to the set: a boolean per event. NaN and infinity do not."""

    @abc.abstractmethod
    def feasible(self, shape: Shape = ()) -> Any:
        """A point of the set, which broadcasts to an event of the given shape."""

    @property
    @abc.abstractmethod
    def description(self) -> str:
        """What a value of the set is, for an error message."""

    @property
    @abc.abstractmethod
    def bijector(self) -> bijectors.Bijector:
        """A smooth map from unconstrained space onto the set (its interior, where it is closed)."""


class Discrete(Constraint):
    """A countable set: nothing smooth maps onto it."""

    is_discrete: ClassVar[bool] = True

    @property
    def bijector(self) -> bijectors.Bijector:
        """Raises NotImplementedError."""
        raise NotImplementedError(f"{self} is discrete: there is no map from unconstrained space")


def _match(value: Any, *bounds: Any, dtype: Any = None) -> tuple[Any, ...]:
    """Value and bounds in one dtype and of one rank, unless the value is on the host."""
    return promote(value, *bounds, dtype=dtype) if isinstance(value, Array) else (value, *bounds)


@pytree_dataclass
class Real(Constraint):
    """Finite real numbers."""

    is_unrestricted: ClassVar[bool] = True

    def check(self, value: Any) -> Any:
        """Whether the value is finite."""
        return abs(value) < np.inf

    def feasible(self, shape: Shape = ()) -> Any:
        """Zero."""
        return 0.0

    @property
    def description(self) -> str:
        """Finite."""
        return "finite"

    @property
    def bijector(self) -> bijectors.Bijector:
        """The identity."""
        return bijectors.Identity()


@pytree_dataclass
class ExtendedReal(Real):
    """Real numbers and both infinities: the bounds of an interval."""

    is_unrestricted: ClassVar[bool] = False

    def check(self, value: Any) -> Any:
        """Whether the value is a number."""
        return value == value

    @property
    def description(self) -> str:
        """Not NaN."""
        return "a number (infinity is one, NaN is not)"


@pytree_dataclass
class GreaterThan(Constraint):
    """The numbers above `low`, and `low` itself when `closed`."""

    low: ArrayLike
    closed: bool = static(default=False)

    def check(self, value: Any) -> Any:
        """Whether the value is finite and above the bound."""
        value, low = _match(value, self.low)
        return (value >= low if self.closed else value > low) & (value < np.inf)

    def feasible(self, shape: Shape = ()) -> Any:
        """`low + 1`, or twice `low` where that is more."""
        return self.low + abs(self.low) + 1  # pyright: ignore[reportOperatorIssue, reportArgumentType]

    @property
    def description(self) -> str:
        """The bound."""
        zero = isinstance(self.low, float) and self.low == 0
        if zero:
            return "nonnegative and finite" if self.closed else "positive and finite"
        return f"finite and {'at least' if self.closed else 'greater than'} {self.low}"

    @property
    def bijector(self) -> bijectors.Bijector:
        """`exp`, shifted."""
        zero = isinstance(self.low, float) and self.low == 0
        return bijectors.Exp() if zero else bijectors.Lower(self.low)


@pytree_dataclass
class LessThan(Constraint):
    """The numbers below `high`."""

    high: ArrayLike

    def check(self, value: Any) -> Any:
        """Whether the value is finite and below the bound."""
        value, high = _match(value, self.high)
        return (value < high) & (value > -np.inf)

    def feasible(self, shape: Shape = ()) -> Any:
        """`high - 1`, or less."""
        return self.high - abs(self.high) - 1  # pyright: ignore[reportOperatorIssue, reportArgumentType]

    @property
    def description(self) -> str:
        """The bound."""
        return f"finite and less than {self.high}"

    @property
    def bijector(self) -> bijectors.Bijector:
        """`high - exp(-x)`."""
        return bijectors.Upper(self.high)


@pytree_dataclass
class Interval(Constraint):
    """The numbers between two bounds, which belong to it when `closed` and which may be infinite."""

    low: ArrayLike
    high: ArrayLike
    closed: bool = static(default=True)

    def check(self, value: Any) -> Any:
        """Whether the value is finite and between the bounds."""
        value, low, high = _match(value, self.low, self.high)
        inside = (value >= low) & (value <= high) if self.closed else (value > low) & (value < high)
        return inside & (abs(value) < np.inf)

    def feasible(self, shape: Shape = ()) -> Any:
        """The middle; some point beside the finite bound where the other one is infinite."""
        low, high, xp = known(self.low), known(self.high), np
        if low is None or high is None:
            low, high, xp = self.low, self.high, jnp
        below, above = xp.isfinite(low), xp.isfinite(high)
        low, high = xp.where(below, low, 0), xp.where(above, high, 0)
        a = xp.where(below, low, high - abs(high) - 1)
        b = xp.where(above, high, a + abs(a) + 1)
        return a / 2 + b / 2

    @property
    def description(self) -> str:
        """The bounds."""
        left, right = "[]" if self.closed else "()"
        return f"in the {'' if self.closed else 'open '}interval {left}{self.low}, {self.high}{right}"

    @property
    def bijector(self) -> bijectors.Bijector:
        """A scaled logistic function, or its limits where a bound is infinite."""
        low, high = known(self.low), known(self.high)
        if low is not None and high is not None and np.isfinite(low).all() and np.isfinite(high).all():
            return bijectors.Sigmoid(self.low, self.high)
        return bijectors.Bounded(self.low, self.high)


@pytree_dataclass
class IntegerInterval(Discrete):
    """The integers from `low` to `high`, both included; `high` may be infinite."""

    low: ArrayLike
    high: ArrayLike

    def check(self, value: Any) -> Any:
        """Whether the value is an integer (of any dtype) between the bounds."""
        high = value if self.high is np.inf else self.high
        dtype = common_dtype(value, self.low, high)
        value, low, high = _match(value, self.low, high, dtype=dtype)
        inside = (value >= low) & (value <= high)
        if jnp.issubdtype(dtype, jnp.integer):
            return inside
        return inside & (value < np.inf) & (value == (np if isinstance(value, np.ndarray) else jnp).floor(value))

    def feasible(self, shape: Shape = ()) -> Any:
        """`low`."""
        return self.low

    @property
    def description(self) -> str:
        """The bounds."""
        if self.high is np.inf:
            return "a nonnegative integer" if self.low is _ZERO else f"an integer of at least {self.low}"
        return f"an integer in [{self.low}, {self.high}]"


@pytree_dataclass
class Simplex(Constraint):
    """Vectors of nonnegative (positive, unless `closed`) numbers that sum to 1, up to rounding."""

    event_ndims: ClassVar[int] = 1
    closed: bool = static(default=True)

    def check(self, value: Any) -> Any:
        """Whether the entries are nonnegative and sum to 1 within 1e-5."""
        entries = value >= 0 if self.closed else value > 0
        return entries.all(-1) & (abs(value.sum(-1) - 1) < SIMPLEX_TOLERANCE)

    def feasible(self, shape: Shape = ()) -> Any:
        """The uniform point."""
        return np.float64(1 / shape[-1])

    @property
    def description(self) -> str:
        """In words."""
        return f"a simplex ({'nonnegative' if self.closed else 'positive'}, summing to 1 along the last axis)"

    @property
    def bijector(self) -> bijectors.Bijector:
        """Stick breaking."""
        return bijectors.StickBreaking()


@pytree_dataclass
class Ordered(Constraint):
    """Vectors of strictly increasing finite numbers."""

    event_ndims: ClassVar[int] = 1

    def check(self, value: Any) -> Any:
        """Whether each entry is larger than the one before."""
        return (value[..., 1:] > value[..., :-1]).all(-1) & (abs(value) < np.inf).all(-1)

    def feasible(self, shape: Shape = ()) -> Any:
        """0, 1, 2, ..."""
        return np.arange(shape[-1], dtype=float).reshape((1,) * (len(shape) - 1) + (-1,))

    @property
    def description(self) -> str:
        """In words."""
        return "strictly increasing along the last axis"

    @property
    def bijector(self) -> bijectors.Bijector:
        """Exponentiated steps."""
        return bijectors.Ordered()


@pytree_dataclass
class LogWeights(Constraint):
    """Vectors of logarithms of nonnegative weights, not all zero: `-inf` stands for a weight of zero."""

    event_ndims: ClassVar[int] = 1

    def check(self, value: Any) -> Any:
        """Whether the entries are below infinity and one of them is finite."""
        return (value < np.inf).all(-1) & (value > -np.inf).any(-1)

    def feasible(self, shape: Shape = ()) -> Any:
        """Zeros."""
        return 0.0

    @property
    def description(self) -> str:
        """In words."""
        return "log weights (neither NaN nor inf, and not all -inf along the last axis)"

    @property
    def bijector(self) -> bijectors.Bijector:
        """The identity."""
        return bijectors.Independent(bijectors.Identity(), 1)


@pytree_dataclass
class LowerCholesky(Constraint):
    """Lower-triangular matrices with a positive diagonal."""

    event_ndims: ClassVar[int] = 2

    def check(self, value: Any) -> Any:
        """Whether the upper triangle is zero, the diagonal positive and everything finite."""
        outside = np.triu(np.ones(value.shape[-2:], bool), 1)
        zero = ((value == 0) | ~outside.reshape((1,) * (value.ndim - 2) + outside.shape)).all((-2, -1))
        positive = (value.diagonal(axis1=-2, axis2=-1) > 0).all(-1)
        return zero & positive & (abs(value) < np.inf).all((-2, -1))

    def feasible(self, shape: Shape = ()) -> Any:
        """The identity matrix."""
        return np.eye(shape[-1]).reshape((1,) * (len(shape) - 2) + (shape[-1], shape[-1]))

    @property
    def description(self) -> str:
        """In words."""
        return "lower-triangular with a positive diagonal"

    @property
    def bijector(self) -> bijectors.Bijector:
        """The triangle with its diagonal exponentiated."""
        return bijectors.CholeskyFactor()


@pytree_dataclass
class PositiveDefinite(LowerCholesky):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value: Any) -> Any:
        """Whether the matrix is symmetric up to rounding and its Cholesky factorisation succeeds."""
        tolerance = 1e-5 * abs(value).max((-2, -1), keepdims=True)
        symmetric = (abs(value - value.swapaxes(-1, -2)) <= tolerance).all((-2, -1))
        if not isinstance(value, np.ndarray):
            factor = jnp.linalg.cholesky(value)
            return symmetric & (abs(factor) < np.inf).all((-2, -1))
        flat = value.reshape(-1, *value.shape[-2:])
        return symmetric & np.array([_has_cholesky(m) for m in flat]).reshape(value.shape[:-2])

    @property
    def description(self) -> str:
        """In words."""
        return "symmetric and positive definite"

    @property
    def bijector(self) -> bijectors.Bijector:
        """The square of a Cholesky factor."""
        return bijectors.PositiveDefinite()


def _has_cholesky(matrix: np.ndarray) -> bool:
    try:
        return bool(np.isfinite(np.linalg.cholesky(matrix)).all())
    except np.linalg.LinAlgError:
        return False


@pytree_dataclass
class Independent(Constraint):
    """A constraint on each entry of an event with `ndims` more axes."""

    base: Constraint
    ndims: int = static()

    @property
    def event_ndims(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Axes of one value."""
        return self.base.event_ndims + self.ndims

    @property
    def is_discrete(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the constraint on the entries."""
        return self.base.is_discrete

    @property
    def is_unrestricted(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As the constraint on the entries."""
        return self.base.is_unrestricted

    def check(self, value: Any) -> Any:
        """Whether all entries satisfy the constraint."""
        return self.base.check(value).all(tuple(range(-self.ndims, 0)))

    def feasible(self, shape: Shape = ()) -> Any:
        """A point for every entry."""
        return self.base.feasible(shape)

    @property
    def description(self) -> str:
        """That of the entries."""
        return self.base.description

    @property
    def bijector(self) -> bijectors.Bijector:
        """That of the entries, its log determinants summed."""
        return bijectors.Independent(self.base.bijector, self.ndims)


_ZERO = 0

real = Real()
extended_real = ExtendedReal()
real_vector = Independent(Real(), 1)
positive = GreaterThan(0.0)
nonnegative = GreaterThan(0.0, closed=True)
unit_interval = Interval(0.0, 1.0)
boolean = IntegerInterval(0, 1)
nonnegative_integer = IntegerInterval(_ZERO, np.inf)
simplex = Simplex()
open_simplex = Simplex(closed=False)
ordered = Ordered()
log_weights = LogWeights()
lower_cholesky = LowerCholesky()
positive_definite = PositiveDefinite()


def greater_than(low: ArrayLike) -> GreaterThan:
    """The numbers above `low`."""
    return GreaterThan(low)


def at_least(low: ArrayLike) -> GreaterThan:
    """The numbers from `low` upwards."""
    return GreaterThan(low, closed=True)


def less_than(high: ArrayLike) -> LessThan:
    """The numbers below `high`."""
    return LessThan(high)


def interval(low: ArrayLike, high: ArrayLike) -> Interval:
    """The numbers from `low` to `high`, both included."""
    return Interval(low, high)


def open_interval(low: ArrayLike, high: ArrayLike) -> Interval:
    """The numbers between `low` and `high`, both excluded."""
    return Interval(low, high, closed=False)


def integer_interval(low: ArrayLike, high: ArrayLike) -> IntegerInterval:
    """The integers from `low` to `high`, both included."""
    return IntegerInterval(low, high)


def independent(constraint: Constraint, ndims: int) -> Constraint:
    """`constraint` on each entry of an event with `ndims` more axes."""
    return Independent(constraint, ndims) if ndims else constraint


def host_check(constraint: Constraint, value: Any) -> np.ndarray | None:
    """`constraint.check(value)` on the host, or None when a number that it needs is traced."""
    array = known(value)
    bounds = [known(leaf) for leaf in jax.tree.leaves(constraint)]
    if array is None or any(bound is None for bound in bounds):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(jax.tree.unflatten(jax.tree.structure(constraint), bounds).check(array))


__all__ = [
    "Constraint", "at_least", "boolean", "extended_real", "greater_than", "independent", "integer_interval",
    "interval", "less_than", "log_weights", "lower_cholesky", "nonnegative", "nonnegative_integer", "open_interval",
    "open_simplex", "ordered", "positive", "positive_definite", "real", "real_vector", "simplex", "unit_interval",
]
