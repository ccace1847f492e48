"""Known indices of a program: those that follow from arguments and constants, and their bounds.

JAX keeps an index that is out of range at the nearest element, without an error. The indices of
each read of an array are evaluated by NumPy if they depend on no random value, and only then.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jax.extend import core as jex

from ppl.analysis.known_values import (
    READS,
    GivenArray,
    KnownValue,
    LastEntry,
    LiteralNumber,
    LoopRow,
    MadeByEquation,
    StackedRows,
    find_sources,
    is_wrapped,
)
from ppl.harvest import jax_core, jaxprs
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.program import Program
from ppl.harvest.rules import wiring_of
from ppl.harvest.sowing import sow_p
from ppl.harvest.survey import Path
from ppl.harvest.wirings import Branches, Call, Scan, While


@dataclasses.dataclass(frozen=True)
class OutOfRange:
    """Read of an array at a known index that is out of range.

    Attributes:
        place: Numbers of the equation and of those around it, outermost first.
        shape: The shape of the array.
        axis: The axis that is indexed.
        index: The index that is out of range, the first one; negative ones count from the end.
        position: Its position among all indices of this axis, loops in front.
        shape_of_indices: The shape of these indices.
        sources: The arrays, arguments or constants, that the indices are made of.
        sites: The sites that the array is made of, with the shapes of their values.
    """

    place: tuple[int, ...]
    shape: tuple[int, ...]
    axis: int
    index: int
    position: tuple[int, ...]
    shape_of_indices: tuple[int, ...]
    sources: tuple[np.ndarray, ...]
    sites: Mapping[Path, tuple[int, ...]]


def reads_arrays(jaxpr: Jaxpr) -> bool:
    """Whether any equation, at any depth, reads an array at indices."""
    return any(
        eqn.primitive.name in READS or any(map(reads_arrays, jax_core.subjaxprs(eqn)))
        for eqn in jaxprs.raw(jaxpr)[0].eqns
    )


def find_out_of_range(program: Program) -> list[OutOfRange]:
    """The reads of arrays at known indices that are out of range, in program order.

    Reads with a `mode` of their own are as the modeler wants them, and so are slices of more than
    one element, which JAX moves into the array.
    """
    if not reads_arrays(program.jaxpr):
        return []
    walk = _Walk()
    inputs = [_Flow() if x is None else _Flow(GivenArray(x)) for x in program.inputs]
    walk.run(program.jaxpr, inputs, (), ())
    return walk.found


@dataclasses.dataclass(frozen=True)
class _Flow:
    """Value of a program: known or not, and the sites that it is made of."""

    known: KnownValue | None = None
    sites: Mapping[Path, tuple[int, ...]] = dataclasses.field(default_factory=dict)


class _Walk:
    """Walk through a program, into all constructs whose inner programs are known."""

    def __init__(self) -> None:
        self.found: list[OutOfRange] = []
        self._num_loops = 0

    def run(
        self,
        jaxpr: Jaxpr,
        args: Sequence[_Flow],
        loops: tuple[int, ...],
        place: tuple[int, ...],
    ) -> list[_Flow]:
        """The results of a jaxpr."""
        inner, consts = jaxprs.raw(jaxpr)
        given = [_Flow() if jax_core.is_traced(x) else _Flow(GivenArray(x)) for x in consts]
        env = dict(zip(inner.constvars, given, strict=False))
        env.update(zip(inner.invars, args, strict=True))

        def read(atom: Any) -> _Flow:
            if isinstance(atom, jex.Literal):
                return _Flow(LiteralNumber(atom))
            return env.get(atom, _Flow())

        for i, eqn in enumerate(inner.eqns):
            outs = self._equation(eqn, list(map(read, eqn.invars)), loops, (*place, i))
            env.update(zip(eqn.outvars, outs, strict=True))
        return list(map(read, inner.outvars))

    def _equation(
        self,
        eqn: jex.JaxprEqn,
        operands: list[_Flow],
        loops: tuple[int, ...],
        place: tuple[int, ...],
    ) -> Sequence[_Flow]:
        if eqn.primitive is sow_p:
            site = eqn.params["site"]
            shapes = [jax_core.shape_of(v) for v in eqn.outvars]
            return [_Flow(None, {site.path: shape}) for shape in shapes]
        if eqn.primitive.name in READS:
            self._look(eqn, operands, place)
        match wiring_of(eqn):
            case Call(body, indices):
                return self.run(body, [operands[i] for i in indices], loops, place)
            case Branches(bodies):
                branches = [
                    self.run(body, operands[1:], loops, (*place, i))
                    for i, body in enumerate(bodies)
                ]
                return [_Flow(None, _unite(flows)) for flows in zip(*branches, strict=True)]
            case Scan() as scan:
                return self._scan(scan, operands, loops, place)
            case While() as loop:
                _, consts, carry = loop.split(operands)
                carry = [_Flow(None, x.sites) for x in carry]
                self.run(loop.body, [*consts, *carry], loops, place)
        sites = _unite(operands)
        known = [x.known for x in operands]
        if len(eqn.outvars) != 1 or jax_core.acts(eqn) or jax_core.subjaxprs(eqn):
            return [_Flow(None, sites)] * len(eqn.outvars)
        if any(x is None for x in known):
            return [_Flow(None, sites)]
        return [_Flow(MadeByEquation(eqn, known), sites)]  # pyright: ignore[reportArgumentType]

    def _scan(
        self,
        scan: Scan,
        operands: list[_Flow],
        loops: tuple[int, ...],
        place: tuple[int, ...],
    ) -> list[_Flow]:
        """The results of a loop, whose rows are known if the stacked array is."""
        self._num_loops += 1
        loop = self._num_loops
        consts, carry, xs = scan.split(operands)
        carry = [_Flow(None, x.sites) for x in carry]
        rows = [_Flow(x.known and LoopRow(x.known, loop), x.sites) for x in xs]
        outs = self.run(scan.body, [*consts, *carry, *rows], (*loops, loop), place)
        last = [_Flow(None, x.sites) for x in outs[: scan.num_carry]]
        stacked = [
            _Flow(x.known and StackedRows(x.known, loop, scan.length), x.sites)
            for x in outs[scan.num_carry :]
        ]
        return [*last, *stacked]

    def _look(self, eqn: jex.JaxprEqn, operands: list[_Flow], place: tuple[int, ...]) -> None:
        """Compare the known indices of a read with the size of each axis that they index."""
        array, *rest = operands
        shape = jax_core.shape_of(eqn.invars[0])
        for axis, indices in _indices(eqn, [x.known for x in rest]):
            sources = tuple(dict.fromkeys(find_sources(indices)))
            if not sources:
                continue  # Numbers that the program counts itself.
            try:
                found = indices.array
                given = tuple(x.array for x in sources)
            except Exception:  # A value that is not known, or that NumPy does not have.
                continue
            is_out = (found < 0) | (found >= shape[axis])
            if is_out.any() and not jax_core.is_read_by_method(eqn):
                at = np.unravel_index(int(is_out.argmax()), is_out.shape)
                index = int(found[at])
                if index < 0 and is_wrapped(indices):
                    index -= shape[axis]
                position = tuple(map(int, at))
                self.found.append(
                    OutOfRange(place, shape, axis, index, position, found.shape, given, array.sites)
                )


def _indices(
    eqn: jex.JaxprEqn, operands: Sequence[KnownValue | None]
) -> Iterator[tuple[int, KnownValue]]:
    """The axes that an equation indexes element by element, each with the indices."""
    sizes = eqn.params["slice_sizes"]
    if eqn.primitive.name == "dynamic_slice":
        for axis, known in enumerate(operands):
            if known is not None and sizes[axis] == 1:
                yield axis, known
        return
    mode = eqn.params["mode"].name
    numbers = eqn.params["dimension_numbers"]
    # JAX makes such a read of a slice of one element under vmap.
    is_slice = not numbers.collapsed_slice_dims
    if mode != "PROMISE_IN_BOUNDS" and not (mode == "CLIP" and is_slice):
        return
    (known,) = operands
    if known is None:
        return
    for i, axis in enumerate(map(int, numbers.start_index_map)):
        if sizes[axis] == 1:
            yield axis, _column(known, i, jax_core.shape_of(eqn.invars[1]))


def _column(indices: KnownValue, i: int, shape: tuple[int, ...]) -> KnownValue:
    """One index of each row of indices."""
    if isinstance(indices, MadeByEquation) and indices.eqn.primitive.name == "concatenate":
        params = indices.eqn.params
        sizes = [jax_core.shape_of(v)[-1] for v in indices.eqn.invars]
        if params["dimension"] == len(shape) - 1:
            for part, size in zip(indices.operands, sizes, strict=True):
                if i < size:
                    return LastEntry(part, i)
                i -= size
    return LastEntry(indices, i)


def _unite(flows: Sequence[_Flow]) -> dict[Path, tuple[int, ...]]:
    united: dict[Path, tuple[int, ...]] = {}
    for flow in flows:
        united.update(flow.sites)
    return united
