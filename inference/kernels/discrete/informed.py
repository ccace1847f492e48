"""Base of kernels whose proposals look at the log density of neighboring values."""

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from inference.common.argument_checks import check_count, check_flags
from inference.common.leaf_names import named_leaves
from inference.common.log_densities import (
    check_log_density,
    require_log_density,
    wrap_log_density,
)
from inference.kernels.discrete.integers import Bounds, Integers


@dataclasses.dataclass(frozen=True)
class InformedKernel:
    """Kernel of bounded integers, which forecasts the log density at neighboring values.

    A table ``(size, values)`` has the change of the log density if one element takes another value.
    With the gradient it is a forecast, linear in the value; without it is exact, at the cost of
    one evaluation for each entry of the table.

    Attributes:
        log_density: Function of a position that returns a scalar, or `None` if a driver is to
            supply it. A position is a pytree of arrays of integers or booleans. With `gradient`
            the function gets their values as floating-point numbers.
        lower: Least value of each element: integer, or arrays that broadcast to the position.
            `None` for 0, unless a driver supplies it.
        upper: Largest value of each element, likewise. `None` for ``lower + num_values - 1``, or
            for ``lower + 1`` without `num_values`.
        num_values: Largest number of values of an element. `None` to read it from the bounds, which
            then must not be traced.
        gradient: Whether forecasts come from the gradient of the log density by the values.
            Otherwise each neighbor is evaluated, for densities that cannot be differentiated by
            the values, such as those that use them as indices.
    """

    log_density: Callable[[Any], jax.Array] | None = None
    lower: Any = dataclasses.field(default=None, kw_only=True)
    upper: Any = dataclasses.field(default=None, kw_only=True)
    num_values: int | None = dataclasses.field(
        default=None, kw_only=True, metadata={"static": True}
    )
    gradient: bool = dataclasses.field(default=True, kw_only=True, metadata={"static": True})

    def __post_init__(self) -> None:
        wrap_log_density(self)
        check_flags(self)
        if self.num_values is not None:
            number = check_count("num_values", self.num_values, least=1)
            object.__setattr__(self, "num_values", number)

    def begin(self, position: Any) -> tuple[Any, jax.Array, jax.Array]:
        """A position as arrays, its log density and the table of changes, after all checks.

        Raises:
            TypeError: if the position, a bound or the log density is of a wrong type, or the log
                density does not take floating-point numbers or has no gradient.
            ValueError: if the position is out of bounds, or there is no log density, or its
                gradient by a leaf is missing or not finite.
        """
        form = self.form_of(position)
        position = jax.tree.map(jnp.asarray, position)
        vector = form.ravel(position)
        form.check_inside(vector, self.bounds(form)[0])
        density = require_log_density(self, also="")
        jax.eval_shape(lambda x: check_log_density(density(x)), position)
        if self.gradient:
            self._check_gradient(form, vector)
        return position, *self.forecast(form, vector)

    def form_of(self, position: Any) -> Integers:
        """Form of positions.

        Raises:
            TypeError: if a leaf holds neither integers nor booleans.
        """
        return Integers.of(position, type(self).__name__)

    def bounds(self, form: Integers) -> tuple[Bounds, int]:
        """Bounds of elements, and the largest number of values of an element.

        Raises:
            TypeError: if a bound is no integer.
            ValueError: if bounds do not fit the position, or the number of values is not known or
                too small.
        """
        number = self.num_values
        lower = form.spread("lower", 0 if self.lower is None else self.lower)
        width = 2 if number is None else number
        upper = lower + (width - 1) if self.upper is None else form.spread("upper", self.upper)
        largest = None
        with suppress(jax.errors.TracerArrayConversionError):
            largest = int(np.max(np.asarray(upper) - np.asarray(lower))) + 1
        if number is None and largest is None and self.upper is not None:
            raise ValueError(
                f"the bounds of {type(self).__name__} are traced, so that the number of values "
                "between them is not known; give it num_values, the largest number of values"
            )
        if number is not None and largest is not None and largest > number:
            raise ValueError(
                f"num_values is {number}, and an element has {largest} values from lower to upper"
            )
        width = number or largest or width
        if largest is None:
            upper = jnp.minimum(upper, lower + (width - 1))
        return Bounds(lower, upper), max(width, 1)

    def values(self, form: Integers) -> jax.Array:
        """Values of each element, ``(size, values)``; the last ones may exceed its upper bound."""
        (lower, _), number = self.bounds(form)
        return jnp.asarray(lower)[:, None] + jnp.arange(number, dtype=form.dtype)[None]

    def forecast(self, form: Integers, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Log density at a flat position, and the table of changes ``(size, values)``.

        A change that is not finite is 0 if it is by the gradient: any table leaves proposals
        right. An exact one of NaN is that of a value without density.
        """
        (lower, upper), number = self.bounds(form)
        if self.gradient:
            log_density, gradient = self._value_and_grad(form, vector)
            distances = self.values(form) - vector[:, None]
            changes = gradient[:, None] * distances.astype(form.real)
            return log_density, jnp.where(jnp.isfinite(changes), changes, 0)
        elements = jnp.arange(form.size)
        lower = jnp.asarray(lower)
        shifts = jnp.arange(1, number, dtype=form.dtype)
        columns = ((vector - lower)[:, None] + shifts[None]) % (upper - lower + 1)[:, None]

        def value(element: jax.Array, column: jax.Array) -> jax.Array:
            return self._value(form, vector.at[element].set(lower[element] + column))

        each = jax.vmap(jax.vmap(value, (None, 0)))
        log_density = self._value(form, vector)
        # Without density at the position, neighbors are compared with each other.
        changes = each(elements, columns) - jnp.where(jnp.isfinite(log_density), log_density, 0)
        changes = jnp.where(jnp.isnan(changes), -jnp.inf, changes)
        table = jnp.zeros((form.size, number), form.real)
        return log_density, table.at[elements[:, None], columns].set(changes)

    def num_evaluations(self, form: Integers) -> int:
        """Evaluations of the log density, or of it with its gradient, for one forecast."""
        return 1 if self.gradient else 1 + form.size * (self.bounds(form)[1] - 1)

    def _value(self, form: Integers, vector: jax.Array) -> jax.Array:
        density = require_log_density(self, also="")
        return check_log_density(density(form.unravel(vector))).astype(form.real)

    def _value_of_floats(self, form: Integers, vector: jax.Array) -> jax.Array:
        density = require_log_density(self, also="")
        return check_log_density(density(form.unravel_floats(vector))).astype(form.real)

    def _value_and_grad(self, form: Integers, vector: jax.Array) -> tuple[jax.Array, jax.Array]:
        value = partial(self._value_of_floats, form)
        return jax.value_and_grad(value)(vector.astype(form.real))

    def _check_gradient(self, form: Integers, vector: jax.Array) -> None:
        """Checks that the log density takes floating-point numbers and has a gradient."""
        name = type(self).__name__
        instead = f"{name}(gradient=False) evaluates neighbors in place of a gradient."
        density = require_log_density(self, also="")
        floats = form.unravel_floats(vector.astype(form.real))

        def value(position: Any) -> jax.Array:
            return check_log_density(density(position))

        try:
            missing = leaves_without_gradient(value, floats)
        except (TypeError, ValueError, IndexError) as error:
            raise TypeError(
                f"{name} differentiates log_density by the values as floating-point numbers, "
                f"and it failed at these: {error}\n{instead}"
            ) from error
        if missing:
            raise ValueError(
                f"log_density depends on {', '.join(missing)}, but its gradient by it is zero "
                "whatever the values: they are compared, rounded or made integers. Write it in a "
                f"form that can be differentiated. {instead}"
            )
        found, gradient = self._value_and_grad(form, vector)
        expected = self._value(form, vector)
        with suppress(jax.errors.TracerArrayConversionError):
            if not np.allclose(found, expected, rtol=1e-3, atol=1e-3, equal_nan=True):
                raise ValueError(
                    f"log_density is {expected} at the position, and {found} at the same values "
                    f"as floating-point numbers, which {name} uses. {instead}"
                )
            bad = form.unravel_floats(~jnp.isfinite(gradient))
            for leaf, is_bad in named_leaves(bad):
                if np.any(is_bad) and np.isfinite(found):
                    raise ValueError(
                        f"the gradient of log_density by {leaf} is not finite at the position, "
                        f"though log_density is {found}. {instead}"
                    )


def draw_index(unit: jax.Array, log_probs: jax.Array) -> jax.Array:
    """Index with given log probabilities along the last axis, by inversion of a uniform number."""
    total = jnp.cumsum(jnp.exp(log_probs), -1)
    return jnp.sum(total < unit[..., None] * total[..., -1:], -1)


_KEEP_ZEROS = ("broadcast_in_dim", "convert_element_type", "copy", "reshape")


def leaves_without_gradient(function: Callable[[Any], jax.Array], point: Any) -> list[str]:
    """Names of leaves on which a function depends, though its derivative is zero as written.

    Args:
        function: Function of a pytree of floating-point arrays that returns a scalar.
        point: Such a pytree.
    """
    value = jax.make_jaxpr(function)(point).jaxpr
    gradient = jax.make_jaxpr(jax.grad(function))(point).jaxpr
    zeros = set()

    def is_zero(x: Any) -> bool:
        return not np.any(x.val) if hasattr(x, "val") else x in zeros

    for equation in gradient.eqns:
        if equation.primitive.name in _KEEP_ZEROS and all(map(is_zero, equation.invars)):
            zeros.update(equation.outvars)
    missing = []
    names = [name for name, _ in named_leaves(point)]
    for name, start, derivative in zip(names, value.invars, gradient.outvars, strict=True):
        reached = {start}
        for equation in value.eqns:
            if any(x in reached for x in equation.invars if not hasattr(x, "val")):
                reached.update(equation.outvars)
        is_used = any(x in reached for x in value.outvars if not hasattr(x, "val"))
        if is_used and is_zero(derivative):
            missing.append(name)
    return missing
