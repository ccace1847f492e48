"""Countable sets: all integers, finite sets of numbers, and vectors of integers."""

from __future__ import annotations

from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.common.arrays import align, common_dtype, promote
from distributions.common.pytree import pytree_dataclass
from distributions.constraints.base import Constraint, Shape


def _is_integer(value: Any) -> Any:
    if jnp.issubdtype(value.dtype, jnp.floating):
        floor = np.floor if isinstance(value, np.ndarray) else jnp.floor
        return (abs(value) < np.inf) & (value == floor(value))
    return value == value


class _Countable(Constraint):
    is_discrete = True

    @property
    def bijector(self) -> NoReturn:
        """Raises NotImplementedError."""
        raise NotImplementedError(f"{self} is discrete: there is no map from unconstrained space")


@pytree_dataclass
class Integer(_Countable):
    """The integers, of any dtype."""

    description = "an integer"

    def check(self, value: Any) -> Any:
        """Whether the value is an integer."""
        return _is_integer(value)

    def feasible(self, shape: Shape = ()) -> Any:
        """Zero."""
        return 0


@pytree_dataclass
class FiniteSet(_Countable):
    """The numbers along the last axis of `members`."""

    members: ArrayLike

    @property
    def description(self) -> str:
        """The set in words."""
        return f"one of {self.members}"

    def check(self, value: Any) -> Any:
        """Whether the value is one of the members."""
        if not isinstance(value, Array):
            return (np.asarray(value)[..., None] == np.asarray(self.members)).any(-1)
        dtype = common_dtype(value, self.members)
        members = jnp.asarray(self.members, dtype)
        return (value.astype(dtype)[..., None] == align(members, 1, value.ndim)).any(-1)

    def feasible(self, shape: Shape = ()) -> Any:
        """The first member."""
        return jnp.asarray(self.members)[..., 0]


@pytree_dataclass
class Multinomial(_Countable):
    """Vectors of nonnegative integers that sum to `total_count`."""

    total_count: ArrayLike

    event_ndims = 1

    @property
    def description(self) -> str:
        """The set in words."""
        return f"nonnegative integers that sum to {self.total_count} along the last axis"

    def check(self, value: Any) -> Any:
        """Whether the entries are nonnegative integers with that sum."""
        counts = _is_integer(value) & (value >= 0)
        total = value.sum(-1)
        if isinstance(value, Array):
            dtype = common_dtype(value, self.total_count)
            total, expected = promote(total, self.total_count, dtype=dtype)
        else:
            expected = self.total_count
        return counts.all(-1) & (total == expected)

    def feasible(self, shape: Shape = ()) -> Any:
        """The vector with the whole sum in its first entry."""
        total = jnp.asarray(self.total_count)[..., None]
        first = jnp.arange(shape[-1]) == 0
        return jnp.where(first.reshape((1,) * (total.ndim - 1) + (-1,)), total, 0)


@pytree_dataclass
class OneHot(_Countable):
    """Vectors of zeros and one 1."""

    event_ndims = 1
    description = "zeros and one 1 along the last axis"

    def check(self, value: Any) -> Any:
        """Whether one entry is 1 and all others are 0."""
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)

    def feasible(self, shape: Shape = ()) -> Any:
        """The vector with 1 in its first entry."""
        return np.eye(1, shape[-1], dtype=int)[0]


@pytree_dataclass
class Permutation(_Countable):
    """Permutations of `0, 1, ..., n - 1`."""

    event_ndims = 1
    description = "an order of 0, 1, ..., n - 1 along the last axis"

    def check(self, value: Any) -> Any:
        """Whether each of the integers occurs once."""
        xp = np if isinstance(value, np.ndarray) else jnp
        identity = xp.arange(value.shape[-1]).astype(value.dtype)
        return (xp.sort(value, -1) == identity.reshape((1,) * (value.ndim - 1) + (-1,))).all(-1)

    def feasible(self, shape: Shape = ()) -> Any:
        """0, 1, 2, ..."""
        return np.arange(shape[-1])
