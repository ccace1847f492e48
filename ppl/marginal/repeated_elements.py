"""Evaluation of programs whose arrays repeat elements: repeated elements are computed once.

A state that is planted in all elements of a site is an array of equal numbers. So are many values
that are computed from it, as the transitions of a chain. An axis of equal elements is stored by its
runs. `vmap` does the same for operands that it does not map; here the program is already mapped.
Where elements are repeated for an operation, the longest axis of the result is stored last.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.array_primitives import Kind, array_primitive
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.rules import wiring_of
from ppl.harvest.wirings import Call
from ppl.marginal.array_axes import axes_of

_MAX_RUNS = 4  # along an axis
_MIN_ELEMENTS = 1024  # of an array whose axes may be stored in another order
_IDEMPOTENT = ("reduce_max", "reduce_min", "reduce_and", "reduce_or")
_REDUCTIONS = (*_IDEMPOTENT, "reduce_sum")

Starts = tuple[int, ...] | None


@dataclasses.dataclass(frozen=True)
class Runs:
    """An array that stores one element of each run of equal elements along an axis.

    Attributes:
        stored: The elements that are stored.
        shape: The shape of the array.
        starts: For each axis, the indices where runs start; None if all elements are stored.
        last: The axis that is stored behind all others; None if they are stored in their order.
    """

    stored: Any
    shape: tuple[int, ...]
    starts: tuple[Starts, ...]
    last: int | None = None

    @classmethod
    def of(cls, x: Any) -> "Runs":
        """An array with all elements stored."""
        return cls(x, np.shape(x), (None,) * np.ndim(x))

    @property
    def repeats(self) -> bool:
        """Whether some elements are not stored."""
        return any(starts is not None for starts in self.starts)

    def lengths(self, axis: int) -> list[int]:
        """The lengths of the runs along an axis."""
        return np.diff([*(self.starts[axis] or ()), self.shape[axis]]).tolist()

    def place(self, axis: int) -> int:
        """The axis of the stored elements that an axis of the array is."""
        if self.last is None or axis < self.last:
            return axis
        return len(self.shape) - 1 if axis == self.last else axis - 1

    def with_last(self, axis: int | None) -> "Runs":
        """The array with one axis stored behind all others."""
        end = len(self.shape) - 1
        axis = None if axis == end else axis
        if axis == self.last:
            return self
        x = self.stored if self.last is None else jnp.moveaxis(self.stored, end, self.last)
        x = x if axis is None else jnp.moveaxis(x, axis, end)
        return dataclasses.replace(self, stored=x, last=axis)

    def expand(self, axes: Sequence[int]) -> "Runs":
        """The array with all elements along some axes stored."""
        x = self.stored
        axes = [axis for axis in axes if self.starts[axis] is not None]
        single = [axis for axis in axes if len(self.starts[axis] or ()) == 1]
        if single:
            sizes = {self.place(axis): self.shape[axis] for axis in single}
            x = jnp.broadcast_to(x, [sizes.get(i, n) for i, n in enumerate(np.shape(x))])
        for axis in axes:
            if axis not in single:
                x = _repeat(x, self.place(axis), self.lengths(axis))
        starts = tuple(None if i in axes else run for i, run in enumerate(self.starts))
        return dataclasses.replace(self, stored=x, starts=starts)

    @property
    def full(self) -> Any:
        """The array with all elements."""
        return self.expand(range(len(self.shape))).with_last(None).stored


def _repeat(x: Any, axis: int, lengths: Sequence[int]) -> Any:
    parts = []
    for i, n in enumerate(lengths):
        part = lax.slice_in_dim(x, i, i + 1, axis=axis) if len(lengths) > 1 else x
        parts.append(jnp.broadcast_to(part, (*x.shape[:axis], n, *x.shape[axis + 1 :])))
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis)


def evaluate_once(f: Callable[..., Any], *args: Any) -> Any:
    """`f(*args)`, with elements that its program repeats computed once."""
    jaxpr, shape = jax.make_jaxpr(f, return_shape=True)(*args)
    outs = _evaluate(jaxpr, [Runs.of(x) for x in jax.tree.leaves(args)])
    return jax.tree.unflatten(jax.tree.structure(shape), [x.full for x in outs])


def _evaluate(jaxpr: Jaxpr, args: Sequence[Runs]) -> list[Runs]:
    inner, consts = jaxprs.raw(jaxpr)
    constants = map(Runs.of, consts)
    env = dict(zip([*inner.constvars, *inner.invars], [*constants, *args], strict=True))

    def read(v: Any) -> Runs:
        return Runs.of(v.val) if isinstance(v, jex.Literal) else env[v]

    for eqn in inner.eqns:
        outs = _equation(eqn, list(map(read, eqn.invars)))
        env.update(zip(eqn.outvars, outs, strict=True))
    return list(map(read, inner.outvars))


def _equation(eqn: jex.JaxprEqn, operands: list[Runs]) -> list[Runs]:
    name = eqn.primitive.name
    if name == "broadcast_in_dim" and len(operands) == 1:
        return [_broadcast(eqn, operands[0].with_last(None))]
    is_by_element = array_primitive(eqn).kind is Kind.BY_ELEMENT
    if is_by_element and len({x.shape for x in operands} - {()}) > 1:
        return _by_element(eqn, operands)
    if any(x.repeats or x.last is not None for x in operands):
        wiring = wiring_of(eqn)
        if isinstance(wiring, Call) and wiring.is_transparent:
            return _evaluate(wiring.body, [operands[i] for i in wiring.operands])
        if is_by_element:
            return _by_element(eqn, operands)
        if name == "custom_jvp_call" and isinstance(wiring, Call) and _has_rules(wiring.body):
            return _with_derivative(eqn, wiring, operands)
        if name in _REDUCTIONS:
            return [_reduce(eqn, operands[0])]
        if name == "squeeze":
            return [_remove(eqn, operands[0], "dimensions")]
        if name in _RULES:
            return [_RULES[name](eqn, [x.with_last(None) for x in operands])]
    return [Runs.of(x) for x in jax_core.bind(eqn, [x.full for x in operands])]


def _bind(eqn: jex.JaxprEqn, *operands: Any, **params: Any) -> Any:
    return jax_core.bind(eqn.replace(params=eqn.params | params), operands)[0]


def _one_run(size: int) -> Starts:
    return (0,) if size > 1 else None


def _align(operands: Sequence[Runs], axes: Sequence[int]) -> list[Runs]:
    """Arrays of one shape, changed to have equal runs along each of `axes`, or no runs."""
    for axis in axes:
        found = {x.starts[axis] for x in operands} - {(0,)}
        if found and None not in found and len(found) > 1:
            found.add(None)
        if None in found:
            operands = [x.expand([axis]) for x in operands]
        elif found:
            (starts,) = found
            operands = [_refine(x, axis, starts) for x in operands]
    return list(operands)


def _refine(x: Runs, axis: int, starts: Any) -> Runs:
    """An array with its single run along an axis cut into several runs."""
    if x.starts[axis] == starts:
        return x
    new = (*x.starts[:axis], starts, *x.starts[axis + 1 :])
    stored = _repeat(x.stored, x.place(axis), [len(starts)])
    return dataclasses.replace(x, stored=stored, starts=new)


def _by_element(eqn: jex.JaxprEqn, operands: list[Runs]) -> list[Runs]:
    shape = eqn.outvars[0].aval.shape  # pyright: ignore[reportAttributeAccessIssue]
    arrays = [i for i, x in enumerate(operands) if x.shape]
    stretched = [_stretch(operands[i], shape) for i in arrays]
    last = _choose_last(stretched, shape)
    aligned = _align([x.with_last(last) for x in stretched], range(len(shape)))
    stored = [x.stored for x in operands]
    for i, x in zip(arrays, aligned, strict=True):
        stored[i] = x.stored
    return [dataclasses.replace(aligned[0], stored=x) for x in jax_core.bind(eqn, stored)]


def _has_rules(jaxpr: Jaxpr) -> bool:
    """Whether no equation of a program needs repeated elements one by one."""
    for eqn in jaxprs.raw(jaxpr)[0].eqns:
        wiring = wiring_of(eqn)
        if isinstance(wiring, Call):
            if not _has_rules(wiring.body):
                return False
        elif array_primitive(eqn).kind is not Kind.BY_ELEMENT and (
            eqn.primitive.name not in ("broadcast_in_dim", "squeeze", *_RULES, *_REDUCTIONS)
        ):
            return False
    return True


def _with_derivative(eqn: jex.JaxprEqn, wiring: Call, operands: list[Runs]) -> list[Runs]:
    """Results of a function that has a derivative of its own, which is kept.

    Tangents repeat the elements that their primals repeat, and so do the tangents of the results.
    """
    empty = [dataclasses.replace(x, stored=None) for x in operands]
    like: list[Runs] = []

    def body(*stored: Any) -> list[Any]:
        values = _fill(empty, stored)
        outs = _evaluate(wiring.body, [values[i] for i in wiring.operands])
        like[:] = (dataclasses.replace(x, stored=None) for x in outs)
        return [x.stored for x in outs]

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        moving = [i for i, dot in enumerate(tangents) if not isinstance(dot, SymbolicZero)]

        def derivative(values: Sequence[Any], dots: Sequence[Any]) -> Any:
            def of_moving(*moved: Any) -> list[Any]:
                new = dict(zip(moving, moved, strict=True))
                return jax_core.bind(eqn, [new.get(i, x) for i, x in enumerate(values)])

            return jax.jvp(of_moving, [values[i] for i in moving], dots)

        values = _fill(empty, primals)
        dots = _fill([empty[i] for i in moving], [tangents[i] for i in moving])
        avals = [[jax.ShapeDtypeStruct(x.shape, x.stored.dtype) for x in y] for y in (values, dots)]
        found = _evaluate(jax.make_jaxpr(derivative)(*avals), [*values, *dots])
        stored = [_store_as(x, model) for x, model in zip(found, [*like, *like], strict=True)]
        return stored[: len(like)], stored[len(like) :]

    stored = [x.stored for x in operands]
    traced = jax.make_jaxpr(body)(*stored)
    function = jax.custom_jvp(lambda *args: jax_core.evaluate(traced, args))
    function.defjvp(rule, symbolic_zeros=True)
    return _fill(like, function(*stored))


def _fill(empty: Sequence[Runs], stored: Sequence[Any]) -> list[Runs]:
    return [dataclasses.replace(x, stored=y) for x, y in zip(empty, stored, strict=True)]


def _store_as(x: Runs, model: Runs) -> Any:
    """The stored elements of an array whose elements are equal wherever those of `model` are."""
    x = x.with_last(model.last)
    for axis, starts in enumerate(model.starts):
        if x.starts[axis] == (0,) and starts is not None:
            x = _refine(x, axis, starts)
        elif x.starts[axis] != starts:
            x = x.expand([axis])
            if starts is not None:  # Equal elements are not known to be equal.
                stored = jnp.take(x.stored, np.array(starts), x.place(axis))
                new = (*x.starts[:axis], starts, *x.starts[axis + 1 :])
                x = dataclasses.replace(x, stored=stored, starts=new)
    return x.stored


def _choose_last(operands: Sequence[Runs], shape: Sequence[int]) -> int | None:
    """The axis to store behind all others in an elementwise result.

    XLA loops over the last axis inside of all others, and a short loop is not vectorized. So the
    result has its longest axis last if it has more elements than each operand, and else the order
    of the largest operand.
    """
    sizes = [
        1 if all(x.starts[i] is not None for x in operands) else n for i, n in enumerate(shape)
    ]
    largest = max(operands, key=lambda x: np.size(x.stored))
    if math.prod(sizes) <= max(np.size(largest.stored), _MIN_ELEMENTS):
        return largest.last
    return _longest(sizes)


def _longest(sizes: Sequence[int]) -> int:
    return max(range(len(sizes)), key=lambda i: (sizes[i], i))


def _stretch(x: Runs, shape: Sequence[int]) -> Runs:
    """An array broadcast to a shape: each repeated axis becomes one run."""
    pairs = zip(x.shape, shape, x.starts, strict=True)
    starts = tuple((0,) if a != b else run for a, b, run in pairs)
    return dataclasses.replace(x, shape=tuple(shape), starts=starts)


def _broadcast(eqn: jex.JaxprEqn, x: Runs) -> Runs:
    shape = eqn.params["shape"]
    to = eqn.params["broadcast_dimensions"]
    sizes = [min(n, 1) for n in shape]
    starts = [_one_run(n) for n in shape]
    for i, axis in enumerate(to):
        if x.shape[i] == shape[axis]:
            sizes[axis], starts[axis] = np.shape(x.stored)[i], x.starts[i]
    return Runs(_bind(eqn, x.stored, shape=tuple(sizes)), shape, tuple(starts))


def _move(eqn: jex.JaxprEqn, operands: list[Runs]) -> Runs:
    """Rule of primitives that move axes; axes that `axes_of` does not keep are expanded first."""
    (x,), (places,) = operands, axes_of(eqn)
    x = x.expand([i for i, place in enumerate(places) if place is None])
    return _place(eqn, x, places)


def _place(eqn: jex.JaxprEqn, x: Runs, places: Sequence[int | None]) -> Runs:
    """The result of stored elements, with the runs of each axis at its place."""
    shape = eqn.outvars[0].aval.shape  # pyright: ignore[reportAttributeAccessIssue]
    sizes = list(shape)
    starts = list[Starts]([None] * len(shape))
    for i, place in enumerate(places):
        if place is not None:
            sizes[place], starts[place] = x.stored.shape[i], x.starts[i]
    params = {"new_sizes": tuple(sizes)} if "new_sizes" in eqn.params else {}
    return Runs(_bind(eqn, x.stored, **params), shape, tuple(starts))


def _reduce(eqn: jex.JaxprEqn, x: Runs) -> Runs:
    gone = eqn.params["axes"]
    stored = x.stored
    if eqn.primitive.name not in _IDEMPOTENT:
        for axis in gone:
            if x.starts[axis] is not None:
                others = [i for i in range(stored.ndim) if i != x.place(axis)]
                times = jnp.asarray(x.lengths(axis), stored.dtype)
                stored = stored * jnp.expand_dims(times, others)
    return _remove(eqn, dataclasses.replace(x, stored=stored), "axes")


def _remove(eqn: jex.JaxprEqn, x: Runs, param: str) -> Runs:
    """The result of a primitive that removes the axes in the parameter `param`."""
    gone = eqn.params[param]
    kept = [i for i in range(len(x.shape)) if i not in gone]
    last = kept.index(x.last) if x.last in kept[:-1] else None
    stored = _bind(eqn, x.stored, **{param: tuple(sorted(map(x.place, gone)))})
    return Runs(stored, tuple(x.shape[i] for i in kept), tuple(x.starts[i] for i in kept), last)


def _slice(eqn: jex.JaxprEqn, operands: list[Runs]) -> Runs:
    (x,), params = operands, eqn.params
    steps = params["strides"] or (1,) * len(x.shape)
    begins = list(params["start_indices"])
    ends = list(params["limit_indices"])
    shape = tuple(-(-(b - a) // step) for a, b, step in zip(begins, ends, steps, strict=True))
    x = x.expand([i for i, n in enumerate(shape) if steps[i] != 1 or n == 0])
    starts: list[Starts] = list(x.starts)
    for i, n in enumerate(shape):
        if (old := x.starts[i]) is not None:
            a = begins[i]
            b = ends[i]
            after = (*old[1:], x.shape[i])
            kept = [k for k in range(len(old)) if old[k] < b and after[k] > a]
            begins[i], ends[i] = kept[0], kept[-1] + 1
            starts[i] = tuple(max(old[k] - a, 0) for k in kept) if n > 1 else None
    bounds = {"start_indices": tuple(begins), "limit_indices": tuple(ends)}
    return Runs(_bind(eqn, x.stored, **bounds), shape, tuple(starts))


def _concatenate(eqn: jex.JaxprEqn, operands: list[Runs]) -> Runs:
    axis = eqn.params["dimension"]
    parts = _align(operands, [i for i in range(len(operands[0].shape)) if i != axis])
    runs = [(0,) if x.shape[axis] == 1 else x.starts[axis] for x in parts]
    sizes = [x.shape[axis] for x in parts]
    shape = (*parts[0].shape[:axis], sum(sizes), *parts[0].shape[axis + 1 :])
    starts = list(parts[0].starts)
    if None in runs or sum(map(len, filter(None, runs))) > _MAX_RUNS or 0 in sizes:
        parts, starts[axis] = [x.expand([axis]) for x in parts], None
    else:
        offsets = itertools.accumulate(sizes, initial=0)
        pairs = zip(offsets, runs, strict=False)
        starts[axis] = tuple(offset + i for offset, run in pairs for i in run or ())
    return Runs(_bind(eqn, *(x.stored for x in parts)), shape, tuple(starts))


def _gather(eqn: jex.JaxprEqn, operands: list[Runs]) -> Runs:
    """Rule of `gather`.

    Rows at equal indices are read once. Axes that are read whole keep their runs.
    """
    x, index = operands
    numbers = eqn.params["dimension_numbers"]
    sizes = eqn.params["slice_sizes"]
    axes, axes_of_index = axes_of(eqn)
    x = x.expand([i for i, place in enumerate(axes) if place is None])
    index = index.expand([len(index.shape) - 1])
    pairs = list(
        zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    )
    shared = [(i, j) for i, j in pairs if x.starts[i] == (0,) and index.starts[j] != (0,)]
    for i, j in (pair for pair in pairs if pair not in shared):
        if x.starts[i] is not None and index.starts[j] == (0,):
            index = _refine(index, j, x.starts[i])
        elif x.starts[i] != index.starts[j]:
            x = x.expand([i])
            index = index.expand([j])
    out = eqn.outvars[0].aval.shape  # pyright: ignore[reportAttributeAccessIssue]
    starts: list[Starts] = [None] * len(out)
    for places, runs in ((axes, x.starts), (axes_of_index, index.starts)):
        for place, run in zip(places, runs, strict=True):
            if place is not None:
                starts[place] = run
    batched = numbers.operand_batching_dims
    sizes = [
        x.stored.shape[i] if x.starts[i] and i not in batched else n for i, n in enumerate(sizes)
    ]
    params: dict[str, Any] = {"dimension_numbers": numbers, "slice_sizes": tuple(sizes)}
    stored = x.stored
    if shared:
        gone = [i for i, _ in shared]
        stored = lax.squeeze(stored, gone)
        params = _without_batch(numbers, sizes, gone)
    last = None
    shape = _shape_of_read([(axes, sizes), (axes_of_index, np.shape(index.stored))], len(out))
    if math.prod(shape) > max(np.size(stored), _MIN_ELEMENTS):
        longest = _longest(shape)
        last = longest if longest < len(out) - 1 else None
    if last is None or last not in axes_of_index:
        found = _bind(eqn, stored, index.stored, **params)
        return Runs(found, out, tuple(starts)).with_last(last)
    axis = axes_of_index.index(last)
    indices = jnp.moveaxis(index.stored, axis, -2)
    params = _put_last(params, [i for i in range(indices.ndim - 1) if i != axis] + [axis], last)
    return Runs(_bind(eqn, stored, indices, **params), out, tuple(starts), last)


def _shape_of_read(sizes: Sequence[tuple[Sequence[Any], Sequence[int]]], ndim: int) -> list[int]:
    """The shape of what a gather reads, from the place and the size of each operand's axes."""
    shape = [0] * ndim
    for places, each in sizes:
        for place, n in zip(places, each, strict=True):
            if place is not None:
                shape[place] = n
    return shape


def _put_last(params: Mapping[str, Any], order: Sequence[int], last: int) -> dict[str, Any]:
    """Parameters of a gather that writes the result's axis `last` behind all others.

    The axes of the indices are moved to `order` instead: XLA does not vectorize a transposition of
    what is read.
    """
    numbers = params["dimension_numbers"]
    numbers = numbers._replace(
        offset_dims=tuple(i if i < last else i - 1 for i in numbers.offset_dims),
        start_indices_batching_dims=tuple(map(order.index, numbers.start_indices_batching_dims)),
    )
    return {**params, "dimension_numbers": numbers, "indices_are_sorted": False}


def _without_batch(numbers: Any, sizes: Sequence[int], gone: Sequence[int]) -> dict[str, Any]:
    """Parameters of a gather after its batch axes `gone` are removed from the operand."""

    def at(axes):
        return tuple(i - sum(j < i for j in gone) for i in axes if i not in gone)

    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=numbers.offset_dims,
        collapsed_slice_dims=at(numbers.collapsed_slice_dims),
        start_index_map=at(numbers.start_index_map),
        operand_batching_dims=at(numbers.operand_batching_dims),
        start_indices_batching_dims=tuple(j for i, j in pairs if i not in gone),
    )
    return {
        "dimension_numbers": numbers,
        "slice_sizes": tuple(n for i, n in enumerate(sizes) if i not in gone),
        "unique_indices": False,
        "indices_are_sorted": False,
    }


_RULES: dict[str, Callable[[jex.JaxprEqn, list[Runs]], Runs]] = {
    **dict.fromkeys(("transpose", "reshape"), _move),
    "slice": _slice,
    "concatenate": _concatenate,
    "gather": _gather,
}
