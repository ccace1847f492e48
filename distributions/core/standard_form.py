"""Standard forms: a variable as a function of a standard one, as non-centered models need it.

A family says in the entry `standard` of its row which rule it follows:

| rule            | value                                    | standard variable z              |
| --------------- | ---------------------------------------- | -------------------------------- |
| `LocationScale` | `loc + scale z`, `scale z` or `z / rate` | the standard member              |
| `ImageOf`       | a function, as `exp`, of another family  | that of the other family         |
| `Factor`        | `loc + L z` with a factor `L`            | standard normals, or the member  |
|                 |                                          | whose factor is the identity     |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from distributions.common.arrays import align, as_array, float_dtype, promote


class StandardForm(NamedTuple):
    """A variable x as a function of a standard variable z.

    Attributes:
        base: The distribution of z; None if its entries are independent standard normals.
        forward: The map from z to x.
        inverse: The map from x to z.
    """

    base: Any
    forward: Callable[[Any], Any]
    inverse: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class LocationScale:
    """Rule of a family that is closed under `x -> a + b x`, or under `x -> b x`.

    Args:
        location: The parameter `p` that becomes `a + b p`, or None.
        scales: Parameters that become `b p`; the first is the scale.
        rates: Parameters that become `p / b`; without scales, the first is the inverse of one.
    """

    location: str | None = None
    scales: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()

    def form(self, d: Any, centeredness: Any) -> StandardForm:
        """The form with weight c: z has location `c loc` and scale `scale^c`; None is exactly 0."""
        given = vars(d)
        loc = None if self.location is None else given[self.location]
        stretch = scale = given[self.scales[0]] if self.scales else 1 / given[self.rates[0]]
        shift = None
        if centeredness is not None:
            stretch = scale / _power(scale, centeredness)
            shift = None if loc is None else centeredness * loc
        standard = {name: _over(given[name], stretch) for name in self.scales}
        standard |= {name: _over(given[name], 1 / stretch) for name in self.rates}
        first = (*self.scales, *self.rates)[0]
        if centeredness is None:
            standard[first] = _ones(given[first])  # exactly
        else:
            standard[first] = _power(given[first], centeredness)
        if self.location is not None:
            standard[self.location] = 0 * _ones(loc) if shift is None else shift
        return StandardForm(dataclasses.replace(d, **standard), *affine(loc, stretch, shift))


@dataclasses.dataclass(frozen=True)
class ImageOf:
    """Rule of a fixed function of a variable of another family with the same parameters.

    Args:
        family: The other family.
        forward: The function.
        inverse: Its inverse.
    """

    family: Callable[..., Any]
    forward: Callable[[Any], Any]
    inverse: Callable[[Any], Any]

    def form(self, d: Any, centeredness: Any) -> StandardForm:
        """The form of the other family, followed by the function."""
        base, forward, inverse = self.family(**d._fields()).standard_form(centeredness)
        return StandardForm(
            base, lambda z: self.forward(forward(z)), lambda x: inverse(self.inverse(x))
        )


@dataclasses.dataclass(frozen=True)
class Factor:
    """Rule of a family of arrays with a factor of its covariance, or of a scale matrix.

    Args:
        color: Formula from z and the parameters to x.
        whiten: Formula from x and the parameters to z.
        unit: Function from the distribution to those parameters that differ in the distribution of
            z, a member of the family; without it, z is standard normal.
    """

    color: Callable[..., Any]
    whiten: Callable[..., Any]
    unit: Callable[[Any], dict[str, Any]] | None = None

    def form(self, d: Any, centeredness: Any) -> StandardForm:
        """The form by the factor; there is no weight.

        Raises:
            NotImplementedError: A weight is given.
        """
        refuse_weight(d, centeredness)

        def at(formula: Callable[..., Any]) -> Callable[[Any], Array]:
            def apply(x: Any) -> Array:
                event_ndims = len(d.event_shape)
                dtype = float_dtype(x, *(value for _, value in d._given()))
                batch_ndims = max(np.ndim(x) - event_ndims, len(d.batch_shape))
                x = align(as_array(x, dtype), event_ndims, batch_ndims)
                return formula(x, *d._arrays(dtype, batch_ndims))

            return apply

        base = None if self.unit is None else dataclasses.replace(d, **self.unit(d))
        return StandardForm(base, at(self.color), at(self.whiten))


LOCATION_SCALE = LocationScale("loc", ("scale",))
SCALE = LocationScale(scales=("scale",))
RATE = LocationScale(rates=("rate",))


def affine(loc: Any, stretch: Any, shift: Any = None) -> tuple[Any, Any]:
    """The maps from z to `loc + stretch (z - shift)` and back; None is 0."""
    loc, shift = (0.0 if p is None else p for p in (loc, shift))

    def forward(z: Any) -> Array:
        z, a, b, c = promote(z, loc, stretch, shift)
        return a + b * (z - c)

    def inverse(x: Any) -> Array:
        x, a, b, c = promote(x, loc, stretch, shift)
        return (x - a) / b + c

    return forward, inverse


def _power(base: Any, exponent: Any) -> Array:
    """A power of a positive number, and 1 for the exponent 0.

    XLA computes logarithms and exponentials of many numbers faster than their powers.
    """
    base, exponent = promote(base, exponent)
    return jnp.exp(exponent * jnp.log(jnp.where(exponent == 0, 1, base)))


def refuse_weight(d: Any, centeredness: Any) -> None:
    """Check that no weight is given, for families that have none.

    Raises:
        NotImplementedError: One is.
    """
    if centeredness is not None:
        raise NotImplementedError(f"{type(d).__name__} has no partial centering.")


def _over(x: Any, y: Any) -> Array:
    x, y = promote(x, y)
    return x / y


def _ones(x: Any) -> Any:
    return jnp.ones_like(x) if isinstance(x, Array) else 0 * x + 1
