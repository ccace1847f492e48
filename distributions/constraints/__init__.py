"""Sets of values: the supports of distributions and the constraints on their parameters.

A constraint is a pytree whose leaves are its bounds. `check` works on NumPy arrays on the host,
without any compilation, and on JAX arrays, traced or not.

    >>> import jax.numpy as jnp
    >>> from distributions import constraints
    >>> print(constraints.interval(0.0, 2.0).check(jnp.array([1.0, 3.0])))
    [ True False]
    >>> print(constraints.positive.bijector.forward(0.0))
    1.0
"""

import numpy as np
from jax.typing import ArrayLike

from distributions.constraints.array import (
    LogWeights,
    Ordered,
    PositiveOrdered,
    Simplex,
    UnitVector,
    ZeroSum,
)
from distributions.constraints.atoms import WithAtoms
from distributions.constraints.base import Constraint as Constraint
from distributions.constraints.base import Independent
from distributions.constraints.counts import Integer, Multinomial, OneHot, Permutation
from distributions.constraints.matrix import (
    Adjacency,
    Correlation,
    CorrelationCholesky,
    LowerCholesky,
    PositiveDefinite,
    Symmetric,
)
from distributions.constraints.scalar import (
    ExtendedReal,
    GreaterThan,
    IntegerInterval,
    Interval,
    LessThan,
    Real,
)

__all__ = [
    "Constraint",
    "adjacency",
    "at_least",
    "boolean",
    "correlation",
    "correlation_cholesky",
    "extended_real",
    "greater_than",
    "independent",
    "integer",
    "integer_interval",
    "interval",
    "less_than",
    "log_weights",
    "lower_cholesky",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "open_interval",
    "open_simplex",
    "ordered",
    "permutation",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_ordered",
    "real",
    "real_vector",
    "simplex",
    "symmetric",
    "unit_interval",
    "unit_vector",
    "with_atoms",
    "zero_sum",
]

real = Real()
extended_real = ExtendedReal()
real_vector = Independent(Real(), 1)
positive = GreaterThan(0.0)
nonnegative = GreaterThan(0.0, closed=True)
unit_interval = Interval(0.0, 1.0)
boolean = IntegerInterval(0, 1)
integer = Integer()
nonnegative_integer = IntegerInterval(0, np.inf)
positive_integer = IntegerInterval(1, np.inf)
one_hot = OneHot()
permutation = Permutation()
simplex = Simplex()
open_simplex = Simplex(closed=False)
ordered = Ordered()
log_weights = LogWeights()
lower_cholesky = LowerCholesky()
positive_definite = PositiveDefinite()
positive_ordered = PositiveOrdered()
correlation = Correlation()
correlation_cholesky = CorrelationCholesky()
unit_vector = UnitVector()
symmetric = Symmetric()
adjacency = Adjacency()


def greater_than(low: ArrayLike) -> GreaterThan:
    """The finite numbers above `low`."""
    return GreaterThan(low)


def at_least(low: ArrayLike) -> GreaterThan:
    """The finite numbers from `low` upwards."""
    return GreaterThan(low, closed=True)


def less_than(high: ArrayLike) -> LessThan:
    """The finite numbers below `high`."""
    return LessThan(high)


def interval(low: ArrayLike, high: ArrayLike) -> Interval:
    """The finite numbers from `low` to `high`, both included; either may be infinite."""
    return Interval(low, high)


def open_interval(low: ArrayLike, high: ArrayLike) -> Interval:
    """The finite numbers between `low` and `high`, both excluded; either may be infinite."""
    return Interval(low, high, closed=False)


def integer_interval(low: ArrayLike, high: ArrayLike) -> IntegerInterval:
    """The integers from `low` to `high`, both included."""
    return IntegerInterval(low, high)


def multinomial(total_count: ArrayLike) -> Multinomial:
    """The vectors of nonnegative integers that sum to `total_count`."""
    return Multinomial(total_count)


def zero_sum(ndims: int = 1) -> ZeroSum:
    """Arrays that sum to zero along each of the last `ndims` axes."""
    return ZeroSum(ndims)


def with_atoms(constraint: Constraint, *atoms: ArrayLike) -> WithAtoms:
    """The numbers of `constraint`, and points that have a probability of their own."""
    return WithAtoms(constraint, atoms)


def independent(constraint: Constraint, ndims: int) -> Constraint:
    """`constraint` on each entry of an event with `ndims` more axes."""
    return Independent(constraint, ndims) if ndims else constraint
