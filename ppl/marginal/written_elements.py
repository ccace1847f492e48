"""Primitives that write an array into another at indices, such as scatter.

Each element of a result is an old element or a written element. To find out which, the primitive
writes the indices of the elements instead of the elements.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jex

from ppl.harvest import jax_core
from ppl.marginal.abstract_values import AbstractValue
from ppl.marginal.element_dependence import Indexed, Place, Uses, join, mix, move_axes

_SLICE = "dynamic_update_slice"


def write_elements(eqn: jex.JaxprEqn, operands: Sequence[AbstractValue]) -> list[Uses]:
    """The dependences of an array into which a primitive of kind `WRITE` writes another.

    Overwritten elements still count as dependences of the result.
    """
    base, *rest = operands
    updates, indices = (rest[0], rest[1:]) if eqn.primitive.name == _SLICE else (rest[1], rest[:1])
    written = _Written(eqn, base.shape, updates.shape, indices)
    places = written.places if updates.uses else []
    moved = mix(updates.uses) if places is None else move_axes(updates.uses, places)
    return [join(base.uses, moved, *(mix(x.uses) for x in indices))]


@dataclasses.dataclass(frozen=True)
class _Written:
    """An array written into another of some shape."""

    eqn: jex.JaxprEqn
    shape: tuple[int, ...]
    shape_of_updates: tuple[int, ...]
    indices: Sequence[AbstractValue]

    @property
    def places(self) -> list[Place] | None:
        """The places of the axes of the updates; None if two updates may reach one element."""
        is_known = all(x.read is not None and not x.uses for x in self.indices)
        return (
            [*map(self._place, range(len(self.shape_of_updates)))]
            if is_known and self._is_apart
            else None
        )

    @property
    def _is_apart(self) -> bool:
        """Whether at most one update counts for each element of the result."""
        if self.eqn.primitive.name in (_SLICE, "scatter") or self.eqn.params["unique_indices"]:
            return True
        ones = np.ones(self.shape_of_updates, np.int32)
        try:
            with jax.ensure_compile_time_eval():
                return bool(np.max(np.asarray(self._write(ones, lax.scatter_add)), initial=0) < 2)
        except (TypeError, jax.errors.JAXTypeError):  # the indices are arguments of the model
            return False

    def _write(self, updates: Any, scatter: Any = lax.scatter) -> Any:
        """Zeros, into which the primitive writes an array instead of the updates."""
        base = jnp.zeros(self.shape, jnp.int32)
        indices = [x.read() for x in self.indices]  # pyright: ignore
        if self.eqn.primitive.name == _SLICE:
            return jax_core.bind(self.eqn, [base, updates, *indices])[0]
        numbers = self.eqn.params["dimension_numbers"]
        mode = self.eqn.params["mode"]
        return scatter(base, indices[0], updates, numbers, mode=mode)

    def _place(self, axis: int) -> Place:
        """The place of an axis of the updates: an axis of the result, or an index."""
        over = self._axes_of_result(axis)
        size = self.shape_of_updates[axis]
        if [self.shape[i] for i in over] == [size] and self._is_window(axis):
            return over[0]
        counted = np.arange(1, size + 1, dtype=np.int32)
        counted = np.expand_dims(
            counted, [i for i in range(len(self.shape_of_updates)) if i != axis]
        )
        counted = np.broadcast_to(counted, self.shape_of_updates)
        others = tuple(i for i in range(len(self.shape)) if i not in over)

        def read():
            return jnp.maximum(jnp.max(self._write(counted), others) - 1, 0)

        terms = tuple(x.term for x in self.indices)
        shapes = self.shape, self.shape_of_updates
        return Indexed(
            over, ("written", self.eqn.params.get("dimension_numbers"), *shapes, axis, terms), read
        )

    def _is_window(self, axis: int) -> bool:
        """Whether all elements along an axis are written side by side."""
        if self.eqn.primitive.name == _SLICE:
            return True
        return axis in self.eqn.params["dimension_numbers"].update_window_dims

    def _axes_of_result(self, axis: int) -> tuple[int, ...]:
        """The axes of the result that an axis of the updates runs along."""
        if self.eqn.primitive.name == _SLICE:
            return (axis,)
        numbers = self.eqn.params["dimension_numbers"]
        gone = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        kept = [i for i in range(len(self.shape)) if i not in gone]
        window = dict(zip(numbers.update_window_dims, kept, strict=True))
        if axis in window:
            return (window[axis],)
        return tuple(
            sorted({*numbers.scatter_dims_to_operand_dims, *numbers.operand_batching_dims})
        )
