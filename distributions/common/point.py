"""Points of a support with what rounding takes from them, and the logarithms that formulas read."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from distributions.common.pytree import pytree_dataclass


@pytree_dataclass(eq=False, repr=True)
class Point:
    """A value with its logarithm and its distance from 1, where these are known more precisely.

    In float32 no number lies between 1 - 6e-8 and 1, nor between 0 and 1e-45. Of an unconstrained
    position that goes there, the logarithms keep what the value loses.

    Attributes:
        value: The value, rounded.
        log: `log(value)`, or None where the value itself is all there is.
        complement: `1 - value`, or None.
        log_complement: `log(1 - value)`, or None.
        inner: The point that the outermost map of a chain took here, or None.
    """

    value: Any
    log: Any = None
    complement: Any = None
    log_complement: Any = None
    inner: Point | None = None

    def map(self, f: Any) -> Point:
        """The point with a function applied to each array."""
        return jax.tree.map(f, self)

    def beside(self, value: Any) -> Point:
        """The point of another value, with the arrays that this one has."""
        known = (name for name in _READINGS if getattr(self, name) is not None)
        return Point(value, **{name: _READINGS[name](value) for name in known})

    def without_inner(self) -> Point:
        """The point as any distribution reads it."""
        return dataclasses.replace(self, inner=None)


_READINGS = {
    "log": jnp.log,
    "complement": lambda x: 1 - x,
    "log_complement": lambda x: jnp.log1p(-x),
}


def value_of(x: Array | Point) -> Array:
    """The value of a point; an array is its own value."""
    return x.value if isinstance(x, Point) else x


def log_of(x: Array | Point) -> Array:
    """`log(x)` of an array or a point."""
    return _read("log", x)


def complement_of(x: Array | Point) -> Array:
    """`1 - x` of an array or a point."""
    return _read("complement", x)


def log_complement_of(x: Array | Point) -> Array:
    """`log(1 - x)` of an array or a point."""
    return _read("log_complement", x)


def logit_of(x: Array | Point) -> Array:
    """`log(x / (1 - x))` of an array or a point."""
    return log_of(x) - log_complement_of(x)


def _read(name: str, x: Array | Point) -> Array:
    known = getattr(x, name) if isinstance(x, Point) else None
    return _READINGS[name](value_of(x)) if known is None else known
