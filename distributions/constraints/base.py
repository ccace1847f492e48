"""The base class of constraints, and `Independent`, a constraint on each entry of an event."""

from __future__ import annotations

import abc
from typing import Any

import jax
import numpy as np

from distributions import bijectors
from distributions.common.arrays import as_host_array
from distributions.common.pytree import pytree_dataclass, static

Shape = tuple[int, ...]


class Constraint(abc.ABC):
    """A set of values.

    Attributes:
        event_ndims: The number of trailing axes that one value takes.
        is_discrete: Whether the set is countable.
        has_atoms: Whether points of a set of floating numbers have a probability of their own and
            no density.
        is_unrestricted: Whether every finite value belongs to the set.
        description: The set in words, for error messages: "`scale` must be ...".
        bijector: A smooth map from unconstrained space onto the set (onto its interior, if it is
            closed).
    """

    event_ndims: int = 0
    is_discrete: bool = False
    has_atoms: bool = False
    is_unrestricted: bool = False
    description: str
    bijector: bijectors.Bijector

    @abc.abstractmethod
    def check(self, value: Any) -> Any:
        """Whether `value` belongs to the set: a boolean per event. NaN and infinity do not."""

    @abc.abstractmethod
    def feasible(self, shape: Shape = ()) -> Any:
        """A point of the set that broadcasts to an event of the given shape."""


@pytree_dataclass
class Independent(Constraint):
    """A constraint on each entry of an event with `ndims` more axes."""

    base: Constraint
    ndims: int = static()

    @property
    def event_ndims(self) -> int:
        """The number of trailing axes of one value."""
        return self.base.event_ndims + self.ndims

    @property
    def is_discrete(self) -> bool:
        """Whether the set of the entries is countable."""
        return self.base.is_discrete

    @property
    def has_atoms(self) -> bool:
        """Whether some values of an entry have a probability of their own."""
        return self.base.has_atoms

    @property
    def is_unrestricted(self) -> bool:
        """Whether every finite entry belongs to the set."""
        return self.base.is_unrestricted

    @property
    def description(self) -> str:
        """The set of the entries in words."""
        return self.base.description

    @property
    def bijector(self) -> bijectors.Bijector:
        """The bijector of the entries, with log determinants summed over them."""
        return bijectors.Independent(self.base.bijector, self.ndims)

    def check(self, value: Any) -> Any:
        """Whether all entries satisfy the constraint."""
        return self.base.check(value).all(tuple(range(-self.ndims, 0)))

    def feasible(self, shape: Shape = ()) -> Any:
        """A point for every entry."""
        return self.base.feasible(shape)


def bounds(constraint: Constraint) -> tuple[Any, Any]:
    """The ends of a set of numbers, infinite where it has none."""
    return getattr(constraint, "low", -np.inf), getattr(constraint, "high", np.inf)


def check_bounds(owner: str, constraint: Constraint) -> None:
    """Raises ValueError if the bounds of a support, where they are known, hold no number."""
    low, high = map(as_host_array, bounds(constraint))
    if low is not None and high is not None and not np.all(low <= high):
        raise ValueError(f"{owner}: support must hold a number; got {constraint!r}")


def host_check(constraint: Constraint, value: Any) -> np.ndarray | None:
    """`constraint.check(value)` on the host, or None if the value or a bound is not known there."""
    array = as_host_array(value)
    bounds = [as_host_array(leaf) for leaf in jax.tree.leaves(constraint)]
    if array is None or any(bound is None for bound in bounds):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(jax.tree.unflatten(jax.tree.structure(constraint), bounds).check(array))
