"""Rules for the axes of arrays: for each primitive, which elements of its operands it reads.

A rule `(eqn, operands)` gives the dependences of the results from the dependences of the operands.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax.extend import core as jex

from ppl.harvest.array_primitives import Kind, array_primitive
from ppl.marginal.abstract_values import AbstractValue
from ppl.marginal.array_axes import axes_of
from ppl.marginal.element_dependence import Indexed, Place, Uses, join, mix, move_axes
from ppl.marginal.moved_elements import move_elements
from ppl.marginal.written_elements import write_elements

Rule = Callable[[jex.JaxprEqn, Sequence[AbstractValue]], list[Uses]]


def apply_rule(eqn: jex.JaxprEqn, operands: Sequence[AbstractValue]) -> list[Uses]:
    """The dependences of the results of an equation without inner programs."""
    if not any(value.uses for value in operands):
        return [{}] * len(eqn.outvars)
    return _RULES.get(array_primitive(eqn).kind, _move_axes)(eqn, operands)


def _pass_on(eqn: jex.JaxprEqn, operands: Sequence[AbstractValue]) -> list[Uses]:
    return [value.uses for value in operands[: len(eqn.outvars)]]


def _move_axes(eqn: jex.JaxprEqn, operands: Sequence[AbstractValue]) -> list[Uses]:
    """Rule of most primitives: elements are mixed along the axes that `axes_of` does not keep."""
    pairs = zip(operands, axes_of(eqn), strict=True)
    return [join(*(move_axes(x.uses, axes) for x, axes in pairs if x.uses))] * len(eqn.outvars)


def _read(eqn: jex.JaxprEqn, operands: Sequence[AbstractValue]) -> list[Uses]:
    return [(_dynamic_slice if eqn.primitive.name == "dynamic_slice" else _gather)(eqn, operands)]


def _dynamic_slice(eqn: jex.JaxprEqn, operands: Sequence[AbstractValue]) -> Uses:
    x, *starts = operands
    places: list[Place] = [*axes_of(eqn)[0]]
    for axis, (size, start) in enumerate(zip(eqn.params["slice_sizes"], starts, strict=True)):
        if places[axis] is None and not start.uses and start.read is not None:
            read = functools.partial(_read_slice, start.read, size, x.shape[axis])
            places[axis] = Indexed((axis,), ("from", start.term, size), read)
    return join(move_axes(x.uses, places), *(mix(start.uses) for start in starts))


def _read_slice(read_start: Callable[[], Any], size: int, length: int) -> Any:
    """Indices of a slice; JAX clips the start so that the slice is within the array."""
    return jnp.clip(read_start(), 0, length - size) + jnp.arange(size)


def _gather(eqn: jex.JaxprEqn, operands: Sequence[AbstractValue]) -> Uses:
    x, index = operands
    axes, axes_of_index = axes_of(eqn)
    if index.read is None or index.uses:
        return join(move_axes(x.uses, axes), move_axes(index.uses, axes_of_index))
    places: list[Place] = [*axes]
    for column, axis in enumerate(eqn.params["dimension_numbers"].start_index_map):
        size = x.shape[axis]
        if eqn.params["slice_sizes"][axis] == 1 and size > 1:
            places[axis] = _read_column(index, column, axes_of_index[:-1], size)
    return move_axes(x.uses, places)


def _read_column(index: AbstractValue, column: int, axes: tuple[Any, ...], size: int) -> Indexed:
    """The index along one axis, a column of an index array."""
    at = index.read

    def read():
        return jnp.clip(at()[..., column], 0, size - 1)  # pyright: ignore

    term = index.term if index.shape[-1] == 1 else (index.term, column)
    if index.columns is not None:
        term = index.columns[column]
    return Indexed(axes, ("gather", term), read)


_RULES: dict[Kind, Rule] = {
    Kind.IDENTITY: _pass_on,
    Kind.MOVEMENT: move_elements,
    Kind.READ: _read,
    Kind.WRITE: write_elements,
}
