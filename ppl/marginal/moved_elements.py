"""Primitives that move elements and compute nothing, such as reshape, rev, slice and pad.

Each element of a result is an element of an operand. To find out which, the primitive is applied to
the indices of the elements instead of the elements.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from ppl.marginal.abstract_values import AbstractValue
from ppl.marginal.array_axes import axes_of
from ppl.marginal.element_dependence import (
    ALL,
    Aligned,
    Indexed,
    Numbers,
    Place,
    Source,
    Use,
    Uses,
    find_use,
    join_axis,
    move_axes,
    spread,
    unite_axes,
)

Params = Mapping[str, Any]


def _broadcast(params: Params, x: np.ndarray) -> list[np.ndarray]:
    shape = [1] * len(params["shape"])
    for n, axis in zip(x.shape, params["broadcast_dimensions"], strict=True):
        shape[axis] = n
    return [np.broadcast_to(x.reshape(shape), params["shape"])]


def _reshape(params: Params, x: np.ndarray) -> list[np.ndarray]:
    order = params.get("dimensions")
    return [(x if order is None else x.transpose(order)).reshape(params["new_sizes"])]


def _slice(params: Params, x: np.ndarray) -> list[np.ndarray]:
    steps = params["strides"] or (1,) * x.ndim
    bounds = zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    return [x[tuple(slice(*each) for each in bounds)]]


def _pad(params: Params, x: np.ndarray, value: np.ndarray) -> list[np.ndarray]:
    low, high, inner = np.asarray(params["padding_config"], int).reshape(-1, 3).T
    num = np.asarray(x.shape, int)
    ends = np.maximum(low, 0) + num + np.maximum(num - 1, 0) * inner
    found = np.full(ends + np.maximum(high, 0), value)
    found[tuple(map(slice, np.maximum(low, 0), ends, inner + 1))] = x
    return [found[tuple(map(slice, np.maximum(-low, 0), found.shape + np.minimum(high, 0)))]]


def _split(params: Params, x: np.ndarray) -> list[np.ndarray]:
    return np.split(x, np.cumsum(params["sizes"])[:-1].tolist(), params["axis"])


MOVES: Mapping[str, Callable[..., Sequence[np.ndarray]]] = {
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda params, *xs: [np.concatenate(xs, params["dimension"])],
    "pad": _pad,
    "reshape": _reshape,
    "rev": lambda params, x: [np.flip(x, params["dimensions"])],
    "slice": _slice,
    "split": _split,
    "squeeze": lambda params, x: [x.squeeze(tuple(params["dimensions"]))],
    "stack": lambda params, *xs: [np.stack(xs, params["axis"])],
    "tile": lambda params, x: [np.tile(x, params["reps"])],
    "transpose": lambda params, x: [x.transpose(params["permutation"])],
    "unstack": lambda params, x: list(np.moveaxis(x, params["axis"], 0)),
}


def move_elements(eqn: jex.JaxprEqn, operands: Sequence[AbstractValue]) -> list[Uses]:
    """The dependences of the results of a primitive of `MOVES`."""
    return [_Moved(eqn, operands, i).uses for i in range(len(eqn.outvars))]


class _Moved:
    """A result of a primitive that moves elements."""

    def __init__(self, eqn: jex.JaxprEqn, operands: Sequence[AbstractValue], number: int):
        self._eqn = eqn
        self._operands = operands
        self._number = number
        self._shape = tuple(eqn.outvars[number].aval.shape)  # pyright: ignore

    @property
    def uses(self) -> Uses:
        """The dependences of the result."""
        found = [move_axes(x.uses, self._places(k)) for k, x in enumerate(self._operands)]
        sources = dict.fromkeys(source for uses in found for source in uses)
        return {source: self._join(source, found) for source in sources}

    def _indices(self, operand: int, axis: int | None = None) -> np.ndarray:
        """Indices along an axis of an operand after the move; -1 for elements of other operands.

        Without an axis, all indices are 0.
        """
        filled = [np.broadcast_to(np.int32(-1), x.shape) for x in self._operands]
        shape = self._operands[operand].shape
        index: Any = np.zeros((), np.int32)
        if axis is not None:
            index = np.expand_dims(
                np.arange(shape[axis]), [i for i in range(len(shape)) if i != axis]
            )
        filled[operand] = np.broadcast_to(index, shape)
        return MOVES[self._eqn.primitive.name](self._eqn.params, *filled)[self._number]

    def _places(self, operand: int) -> list[Place]:
        """The place of each axis of an operand that some use names; None for other axes."""
        value = self._operands[operand]
        matter: set[Any] = set()
        for use in (use for uses in value.uses.values() for use in uses):
            matter |= {use.axis} if isinstance(use, Aligned) else set()
            matter |= set(use.axes) if isinstance(use, Indexed) else set()
        return [
            self._place(operand, axis) if axis in matter else None
            for axis in range(len(value.shape))
        ]

    def _place(self, operand: int, axis: int) -> Place:
        size = self._operands[operand].shape[axis]
        if size == 1:
            place = axes_of(self._eqn)[operand][axis]  # any place fits, as the index tells nothing
            return place if place is not None and self._shape[place : place + 1] == (1,) else None
        use = find_use(self._indices(operand, axis), size, range(len(self._shape)))
        if isinstance(use, Aligned):
            return use.axis
        return use if isinstance(use, Indexed) else None

    def _join(self, source: Source, found: Sequence[Uses]) -> tuple[Use, ...]:
        """The use of each axis of a site by a result with elements of several operands."""
        parts = {k: uses[source] for k, uses in enumerate(found) if source in uses}
        return tuple(
            self._join_axis(dict(zip(parts, each, strict=True)))
            for each in zip(*parts.values(), strict=True)
        )

    def _join_axis(self, parts: Mapping[int, Use]) -> Use:
        joined = functools.reduce(join_axis, parts.values())
        are_indices = all(_as_index(use, self._shape) for use in parts.values())
        return self._choose(parts) if joined == ALL and are_indices else joined

    def _choose(self, parts: Mapping[int, Use]) -> Use:
        """One index for all elements; each element takes it from the operand that it came from."""
        operand = np.full(self._shape, -1, np.int32)
        for k in parts:
            operand = np.where(self._indices(k) < 0, operand, k)
        chosen: Any = find_use(operand, -1, range(len(self._shape)))
        each: dict[int, Any] = {k: _as_index(use, self._shape) for k, use in parts.items()}
        over = unite_axes(chosen.axes, *(x.axes for x in each.values()))
        sizes = {x.term.size if isinstance(x.term, Numbers) else None for x in each.values()}
        are_known = len(sizes) == 1 and None not in sizes
        xp = np if are_known else jnp

        def read() -> Any:
            operand = spread(chosen.read(), chosen.axes, over)
            found = -1
            for k, x in each.items():
                found = xp.where(operand == k, spread(xp.asarray(x.read()), x.axes, over), found)
            return found

        if are_known:
            return find_use(np.asarray(read()), sizes.pop(), over)  # pyright: ignore
        terms = [(k, tuple(map(over.index, x.axes)), x.term) for k, x in each.items()]
        where = tuple(map(over.index, chosen.axes)), chosen.term
        return Indexed(over, ("chosen", where, *terms), lambda: jnp.maximum(read(), 0))


def _as_index(use: Use, shape: Sequence[int]) -> Indexed | None:
    """A use as an index along the axes of a value of this shape, if it is one."""
    if isinstance(use, Aligned) and use.lags == {0}:
        size = shape[use.axis]
        numbers = np.arange(size, dtype=np.int32)
        return Indexed((use.axis,), Numbers(size, (size,), numbers.tobytes()), lambda: numbers)
    return use if isinstance(use, Indexed) else None
