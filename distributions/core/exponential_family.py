"""Exponential families in which full conditionals lie, found from slopes of log densities.

A full conditional lies in a family if its log density is a combination of the sufficient statistics
of the family:

    log p(x | rest) = sum_i eta_i T_i(x) + const

The slope of both sides in a coordinate u of the support, such as `log x`, is linear in `eta`, and
free of the constant. Slopes at two points give `eta`; others tell whether the equation holds.

A family says in the entry `conjugate` of its row which of these it belongs to.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

_FAR = 10.0
Natural = tuple[Array, ...]


class CenterAndSpread(NamedTuple):
    """Center and spread of the bulk of a distribution, in the coordinate of its family."""

    center: Array
    spread: Array


@dataclasses.dataclass(frozen=True)
class ExponentialFamily(abc.ABC):
    """An exponential family with its support.

    Attributes:
        make: The distribution with given natural parameters.
    """

    make: Callable[..., Any]

    @abc.abstractmethod
    def start(self, shape: tuple[int, ...], dtype: Any) -> CenterAndSpread:
        """A place to begin at, for values of a shape."""

    @abc.abstractmethod
    def find_place(self, natural: Natural, before: CenterAndSpread) -> CenterAndSpread:
        """The place of the distribution with given natural parameters."""

    @abc.abstractmethod
    def value_at(self, coordinate: Array) -> Array:
        """The value at a coordinate."""

    @abc.abstractmethod
    def slope(self, x: Array, gradient: Array) -> Array:
        """The slope in the coordinate, from the gradient in the value."""

    @abc.abstractmethod
    def predict(self, x: Array, natural: Natural) -> Array:
        """The slope of the log density with given natural parameters."""

    @abc.abstractmethod
    def fit(self, x: Array, slope: Array) -> Natural:
        """The natural parameters, from slopes at two values, which stand along the first axis."""


@dataclasses.dataclass(frozen=True)
class ScalarFamily(ExponentialFamily):
    """A family of numbers with two natural parameters.

    Attributes:
        value: The value at a coordinate.
        weight: The derivative of the value, as a function of the value.
        basis: The slopes of the two statistics in the coordinate, as functions of the value.
        place: Center and spread of the distribution with given natural parameters.
    """

    value: Callable[[Array], Array]
    weight: Callable[[Array], Array]
    basis: Callable[[Array], tuple[Any, Any]]
    place: Callable[..., tuple[Any, Any]]

    def start(self, shape: tuple[int, ...], dtype: Any) -> CenterAndSpread:
        """The coordinate 0."""
        return CenterAndSpread(jnp.zeros(shape, dtype), jnp.ones(shape, dtype))

    def find_place(self, natural: Natural, before: CenterAndSpread) -> CenterAndSpread:
        """The place of the distribution with given natural parameters.

        Where rounding hides one of them, it is infinitely far: then some steps from before.
        """
        center, spread = (jnp.broadcast_to(x, before.center.shape) for x in self.place(*natural))
        far = before.center + _FAR * jnp.sign(center) * before.spread
        center = jnp.where(jnp.isinf(center), far, center)
        is_found = ~jnp.isnan(center) & jnp.isfinite(spread) & (spread > 0)
        return CenterAndSpread(
            jnp.where(is_found, center, before.center), jnp.where(is_found, spread, before.spread)
        )

    def value_at(self, coordinate: Array) -> Array:
        """The value at a coordinate."""
        return self.value(coordinate)

    def slope(self, x: Array, gradient: Array) -> Array:
        """The slope in the coordinate, from the gradient in the value."""
        return self.weight(x) * gradient

    def predict(self, x: Array, natural: Natural) -> Array:
        """The slope of the log density with given natural parameters."""
        first, second = self.basis(x)
        return natural[0] * first + natural[1] * second

    def fit(self, x: Array, slope: Array) -> Natural:
        """The solution of two equations in two unknowns."""
        first, second = (jnp.broadcast_to(b, x.shape) for b in self.basis(x))
        det = first[0] * second[1] - first[1] * second[0]
        return (
            (slope[0] * second[1] - slope[1] * second[0]) / det,
            (first[0] * slope[1] - first[1] * slope[0]) / det,
        )


@dataclasses.dataclass(frozen=True)
class SimplexFamily(ExponentialFamily):
    """The Dirichlet family, with the statistics `log x_i` and softmax as coordinate.

    `eta_i = concentration_i - 1`. The slope in coordinate i is `eta_i - x_i sum(eta)`. Gradients
    off the simplex have no effect on it.
    """

    def start(self, shape: tuple[int, ...], dtype: Any) -> CenterAndSpread:
        """The uniform vector."""
        return CenterAndSpread(jnp.zeros(shape, dtype), jnp.ones((), dtype))

    def find_place(self, natural: Natural, before: CenterAndSpread) -> CenterAndSpread:
        """The mean."""
        total = jnp.sum(natural[0] + 1, -1, keepdims=True)
        least = 1e-3 * jnp.abs(total) / natural[0].shape[-1]
        center = jnp.log(jnp.maximum(natural[0] + 1, least))
        is_found = jnp.all(jnp.isfinite(center), -1, keepdims=True)
        return CenterAndSpread(jnp.where(is_found, center, before.center), before.spread)

    def value_at(self, coordinate: Array) -> Array:
        """The softmax."""
        return jax.nn.softmax(coordinate, -1)

    def slope(self, x: Array, gradient: Array) -> Array:
        """The slope in each coordinate of the softmax."""
        return x * (gradient - jnp.sum(x * gradient, -1, keepdims=True))

    def predict(self, x: Array, natural: Natural) -> Array:
        """The slope of the log density with given natural parameters."""
        return natural[0] - x * jnp.sum(natural[0], -1, keepdims=True)

    def fit(self, x: Array, slope: Array) -> Natural:
        """The difference of two slopes gives the sum of the parameters."""
        step = x[1] - x[0]
        square = jnp.sum(step * step, -1, keepdims=True)
        total = jnp.sum(step * (slope[0] - slope[1]), -1, keepdims=True) / square
        return ((slope[0] + slope[1] + (x[0] + x[1]) * total) / 2,)
