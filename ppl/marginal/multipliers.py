"""Multipliers: the factors by which `scale` multiplies each score of a program."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jax.extend import core as jex

from ppl.analysis.terms import Term
from ppl.common.scaled_distribution import factors_at
from ppl.harvest.program import Program
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path
from ppl.marginal.abstract_values import AbstractValue
from ppl.marginal.array_axes import axes_of
from ppl.marginal.element_dependence import Uses
from ppl.marginal.score_dependence import DependenceReader, Dependences


@dataclasses.dataclass(frozen=True)
class Multiplier:
    """A factor of a score.

    Attributes:
        place: Its place among the extra operands of the site.
        value: Its value; `read` is None if the value differs between steps of a loop.
        axes: For each of its axes, the matching axis of the recorded score.
        loops: The axes of the score along loops.
    """

    place: int
    value: AbstractValue
    axes: tuple[int, ...]
    loops: tuple[int, ...]

    @property
    def varies_by_step(self) -> bool:
        """Whether it may differ between steps of a loop."""
        return bool(self.loops) and self.value.read is None

    @property
    def all_axes(self) -> tuple[int, ...]:
        """The axes of the score along which it may differ."""
        return (*self.axes, *(self.loops if self.varies_by_step else ()))


class _Repeat(NamedTuple):
    """An array made of another array by moving and repeating axes.

    Attributes:
        of: The other array.
        axes: For each axis, the matching axis of `of`; None for a repeated axis.
    """

    of: AbstractValue
    axes: tuple[int | None, ...]


class _Reader(DependenceReader):
    """Reader of the factors of all scores.

    Attributes:
        found: By path, the factors at each equation that sows the site.
    """

    def __init__(self, summed: Sequence[Path], planted: Mapping[Path, Sequence[Any]]):
        super().__init__(summed, (), planted)
        self.found: dict[Path, dict[int, list[Multiplier]]] = {}
        self._repeats: dict[Term, _Repeat] = {}

    def _sow(
        self, eqn: jex.JaxprEqn, operands: list[AbstractValue], dependences: Dependences
    ) -> list[AbstractValue]:
        site = eqn.params["site"]
        extras = site.split(operands)[2]
        self.found.setdefault(site.path, {})[id(eqn)] = [
            self._read_factor(site, place, extras[place]) for place in factors_at(site)
        ]
        return super()._sow(eqn, operands, dependences)

    def _row(self, x: AbstractValue, loop: int) -> AbstractValue:
        """A row of an array as a step reads it, with a term that is equal for equal rows.

        If all rows of the array are equal, all steps have one term.
        """
        row = super()._row(x, loop)
        of, axes = self._repeat_of(x)
        if x.read is None or axes[0] is not None:
            return dataclasses.replace(row, term=self._terms.of("row", x.term, loop))
        is_same = row.shape == of.shape and all(
            i == j or n == 1 for i, (j, n) in enumerate(zip(axes[1:], row.shape, strict=True))
        )
        term = of.term if is_same else self._terms.of("repeated", of.term, axes[1:], row.shape)
        self._repeats.setdefault(term, _Repeat(of, axes[1:]))
        return dataclasses.replace(row, term=term, read=lambda: x.read()[0])  # pyright: ignore

    def _results(
        self, eqn: jex.JaxprEqn, operands: list[AbstractValue], uses: Sequence[Uses]
    ) -> list[AbstractValue]:
        outs = super()._results(eqn, operands, uses)
        if eqn.primitive.name in ("broadcast_in_dim", "transpose", "reshape", "squeeze"):
            of, axes = self._repeat_of(operands[0])
            moved = _moved_axes(eqn, operands[0].shape)
            if moved is not None and not any(uses):
                places = tuple(None if i is None else axes[i] for i in moved)
                self._repeats.setdefault(outs[0].term, _Repeat(of, places))
        return outs

    def _repeat_of(self, x: AbstractValue) -> _Repeat:
        return self._repeats.get(x.term, _Repeat(x, tuple(range(len(x.shape)))))

    def _read_factor(self, site: Site, place: int, value: AbstractValue) -> Multiplier:
        depths = range(len(site.axes))
        mapped = [d for d in depths if site.axes[len(site.axes) - 1 - d].mapped[place]]
        own = range(len(site.axes), len(site.axes) + len(value.shape) - len(mapped))
        order: list[Any] = [*depths, *own]
        loops = [("loop", depth) for depth in range(len(self._loops_entered))]
        for depth, loop in enumerate(loops):
            order.insert(site.num_axes_outside(depth + 1), loop)
        axes = tuple(order.index(axis) for axis in (*mapped, *own))
        of, places = self._repeat_of(value)
        moved = {place: axis for place, axis in zip(places, axes, strict=True) if place is not None}
        if len(moved) == len(of.shape) and value.read is not None:
            value = of
            axes = tuple(moved[i] for i in range(len(moved)))
        return Multiplier(place, value, axes, tuple(map(order.index, loops)))


def _moved_axes(eqn: jex.JaxprEqn, shape: tuple[int, ...]) -> tuple[int | None, ...] | None:
    """For each axis of a result, the matching axis of the operand, or None for a repeated axis.

    None as a whole if the equation does not keep the axes of the operand.
    """
    is_transpose = eqn.primitive.name == "transpose"
    places = axes_of(eqn)[0]
    kept = {j: i for i, j in enumerate(places) if is_transpose or shape[i] != 1}
    num = len(eqn.outvars[0].aval.shape)  # pyright: ignore
    return None if None in kept else tuple(map(kept.get, range(num)))


def read_multipliers(
    program: Program, summed: Sequence[Path], planted: Mapping[Path, Sequence[Any]]
) -> dict[Path, list[list[Multiplier]]]:
    """The factors of all scores of a program, for each branch of a cond around a site.

    Args:
        program: The program.
        summed: Paths of the sites that are taken out.
        planted: Values of other sites, from which factors may be computed.
    """
    reader = _Reader(summed, planted)
    reader.read(program.jaxpr, program.inputs)
    return {path: list(each.values()) for path, each in reader.found.items()}
