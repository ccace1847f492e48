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
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from distributions.common.arrays import as_host_array
from distributions.common.linear_algebra import gram, inverse, matmul
from distributions.common.triangular_factors import cholesky

_FAR = 10.0
_STEP = 0.3  # of log-Cholesky coordinates: the spread of a matrix
_CLIMB = 3.0  # of the logs of the diagonal, where rounding hides a scale
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

    def can_make(self, natural: Natural) -> Array | bool:
        """Whether the density with natural parameters has a finite integral, by element."""
        del natural
        return True


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

    def can_make(self, natural: Natural) -> Array:
        """Whether the density with natural parameters has a finite integral, by element.

        It has one if the parameters of the distribution satisfy their constraints.
        """
        d = self.make(*natural)
        found = jnp.asarray(True)
        for field in dataclasses.fields(d):
            constraint = field.metadata.get("constraint")
            if constraint is not None:
                value = vars(d)[field.name]
                found = found & constraint.check(value) & jnp.isfinite(value)
        return found


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

    def can_make(self, natural: Natural) -> Array:
        """Whether the concentrations are positive, for all elements of a vector."""
        return jnp.all(natural[0] > -1, -1, keepdims=True)


def restrict_family(
    base: ExponentialFamily | None, low: Any, high: Any, make: Callable[[Any, float, float], Any]
) -> ScalarFamily | None:
    """`truncate_family` between bounds that are known, and equal for all elements; else None."""
    ends = [as_host_array(x) for x in (low, high)]
    if not isinstance(base, ScalarFamily) or any(x is None or x.size == 0 for x in ends):
        return None
    bounds = [float(x.flat[0]) for x in ends if x is not None]
    if any(np.any(x != bound) for x, bound in zip(ends, bounds, strict=True)):
        return None
    is_whole = all(map(math.isinf, bounds))
    return None if is_whole or bounds[0] >= bounds[1] else truncate_family(base, *bounds, make)


@functools.lru_cache(maxsize=64)
def truncate_family(
    base: ScalarFamily, low: float, high: float, make: Callable[[Any, float, float], Any]
) -> ScalarFamily:
    """A family of numbers, restricted to an interval.

    The statistics are those of `base`. The coordinate runs over the whole line: the logarithm of
    the distance from a bound, or the logit of the place between two bounds.

    Args:
        base: The family before truncation.
        low: The lower bound, or minus infinity.
        high: The upper bound, or infinity.
        make: The truncated distribution, from one of `base` and the bounds.
    """
    has_low = low > -math.inf
    has_high = high < math.inf

    def value(u: Array) -> Array:
        if has_low and has_high:
            return low + (high - low) * jax.nn.sigmoid(u)
        return low + jnp.exp(u) if has_low else high - jnp.exp(u)

    def coordinate(x: Array) -> Array:
        if has_low and has_high:
            return jnp.log(x - low) - jnp.log(high - x)
        return jnp.log(x - low) if has_low else jnp.log(high - x)

    def weight(x: Array) -> Array:
        if has_low and has_high:
            return (x - low) * (high - x) / (high - low)
        return x - low if has_low else x - high

    def basis(x: Array) -> tuple[Array, Array]:
        first, second = (b / base.weight(x) * weight(x) for b in base.basis(x))
        return first, second

    def place(*natural: Array) -> tuple[Array, Array]:
        """The bulk: about the mode between the bounds, as wide as the density there allows."""
        center, spread = base.place(*natural)
        mode = jnp.clip(base.value(center), low, high)
        width = jnp.abs(base.weight(mode)) * spread
        steep = sum(n * b for n, b in zip(natural, base.basis(mode), strict=True))
        steep = jnp.abs(steep / base.weight(mode))
        width = jnp.minimum(width, 1 / jnp.maximum(steep, 1 / width))
        margin = jnp.minimum(width, (high - low) / 4)
        x = jnp.clip(mode, low + margin, high - margin)
        at = coordinate(x)
        return at, jnp.minimum(margin / jnp.abs(weight(x)), 1)

    return RestrictedFamily(
        make=lambda *natural: make(base.make(*natural), low, high),
        value=value,
        weight=weight,
        basis=basis,
        place=place,
        base=base,
    )


@dataclasses.dataclass(frozen=True)
class RestrictedFamily(ScalarFamily):
    """A family of numbers, restricted to an interval: `truncate_family` makes it.

    Attributes:
        base: The family before truncation.
    """

    base: ScalarFamily

    def can_make(self, natural: Natural) -> Array:
        """Whether the density before truncation has a finite integral, by element.

        `exp(x^2)` on an interval has one, and no normal distribution before truncation.
        """
        return self.base.can_make(natural)


@dataclasses.dataclass(frozen=True)
class MatrixFamily(ExponentialFamily):
    """A family of positive definite matrices, with the statistics `log |Y|` and `Y`.

    `log p(X) = a log |Y| - tr(B Y) / 2`, where `Y` is the matrix `X` or its inverse; the natural
    parameters are `a` and `B`. The slope in `Y` is `a Y^-1 - B / 2`. Coordinates of a matrix are
    its Cholesky factor with the logarithms of the diagonal.

    Attributes:
        is_inverse: Whether `Y` is the inverse of the value.
    """

    is_inverse: bool = False

    def start(self, shape: tuple[int, ...], dtype: Any) -> CenterAndSpread:
        """The unit matrix."""
        return self._place(jnp.broadcast_to(jnp.eye(shape[-1], dtype=dtype), shape))

    def _place(self, factor: Array) -> CenterAndSpread:
        """The place about `Y = factor factor^T`: a row varies in proportion to its diagonal."""
        eye = jnp.eye(factor.shape[-1], dtype=factor.dtype)
        scale = jnp.sum(factor * eye, -1, keepdims=True)
        center = jnp.where(eye > 0, jnp.log(scale), jnp.tril(factor))
        return CenterAndSpread(center, _STEP * jnp.where(eye > 0, 1, jnp.tril(scale * (1 - eye))))

    def find_place(self, natural: Natural, before: CenterAndSpread) -> CenterAndSpread:
        """The place about `(2 a + n + 1) B^-1`, near the mode and the mean.

        Where rounding hides `B`, the matrices of the bulk are larger than those before.
        """
        of_log, of_value = natural
        n = of_value.shape[-1]
        factor = cholesky(inverse(of_value))
        size = jnp.sqrt(jnp.maximum(2 * of_log, 0) + n + 1)[..., None, None]
        found = self._place(size * factor)
        is_found = jnp.all(jnp.isfinite(found.center), (-2, -1), keepdims=True)
        larger = _factor_at(before.center) * math.exp(_CLIMB)
        return jax.tree.map(lambda x, y: jnp.where(is_found, x, y), found, self._place(larger))

    def value_at(self, coordinate: Array) -> Array:
        """The matrix at a coordinate."""
        y = gram(_factor_at(coordinate))
        return inverse(y) if self.is_inverse else y

    def slope(self, x: Array, gradient: Array) -> Array:
        """The slope in `Y`, symmetric: entries of a gradient above and below the diagonal."""
        slope = (gradient + gradient.mT) / 2
        return -matmul(matmul(x, slope), x) if self.is_inverse else slope

    def predict(self, x: Array, natural: Natural) -> Array:
        """The slope of the log density with given natural parameters."""
        of_log, of_value = natural
        of_y = x if self.is_inverse else inverse(x)
        return of_log[..., None, None] * of_y - of_value / 2

    def fit(self, x: Array, slope: Array) -> Natural:
        """The difference of two slopes gives `a`, their mean then `B`."""
        of_y = x if self.is_inverse else inverse(x)
        step = of_y[1] - of_y[0]
        square = jnp.sum(step * step, (-2, -1))
        of_log = jnp.sum(step * (slope[1] - slope[0]), (-2, -1)) / square
        rest = of_log[..., None, None] * (of_y[0] + of_y[1]) - slope[0] - slope[1]
        return of_log, rest


def _factor_at(coordinate: Array) -> Array:
    """The Cholesky factor at a coordinate."""
    eye = jnp.eye(coordinate.shape[-1], dtype=coordinate.dtype)
    return jnp.where(eye > 0, jnp.exp(coordinate), jnp.tril(coordinate))
