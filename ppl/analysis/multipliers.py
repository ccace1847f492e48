"""Multipliers: the factors by which `scale` multiplies each score of a program."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jax.extend import core as jex

from ppl.analysis.scopes import ScopeReader, Scopes
from ppl.analysis.values import Value
from ppl.common.scaled_distribution import factors_at
from ppl.harvest._program import Program
from ppl.harvest._sow import Site
from ppl.harvest._survey import Path


@dataclasses.dataclass(frozen=True)
class Multiplier:
    """A factor of a score.

    Attributes:
        place: Its place among the extra operands of the site.
        value: Its value; `read` is None where it differs between steps of a loop.
        axes: For each of its axes, that of the score as it is recorded.
        loops: The axes of the score along loops.
    """

    place: int
    value: Value
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


class _Reader(ScopeReader):
    """Reader of the factors of all scores; by path, those of each equation that sows it."""

    def __init__(self, summed: Sequence[Path], planted: Mapping[Path, Sequence[Any]]):
        super().__init__(summed, (), planted)
        self.found: dict[Path, dict[int, list[Multiplier]]] = {}

    def _sow(self, eqn: jex.JaxprEqn, operands: list[Value], scopes: Scopes) -> list[Value]:
        site = eqn.params["site"]
        extras = site.split(operands)[2]
        self.found.setdefault(site.path, {})[id(eqn)] = [
            self._read_factor(site, place, extras[place]) for place in factors_at(site)
        ]
        return super()._sow(eqn, operands, scopes)

    def _row(self, x: Value, loop: int) -> Value:
        """A row of an array: equal for equal arrays, at one step."""
        return dataclasses.replace(super()._row(x, loop), term=self._terms.of("row", x.term, loop))

    def _read_factor(self, site: Site, place: int, value: Value) -> Multiplier:
        depths = range(len(site.axes))
        mapped = [d for d in depths if site.axes[len(site.axes) - 1 - d].mapped[place]]
        own = range(len(site.axes), len(site.axes) + len(value.shape) - len(mapped))
        order: list[Any] = [*depths, *own]
        loops = [("loop", depth) for depth in range(len(self._loops_entered))]
        for depth, loop in enumerate(loops):
            order.insert(site.num_axes_outside(depth + 1), loop)
        axes = tuple(order.index(axis) for axis in (*mapped, *own))
        return Multiplier(place, value, axes, tuple(map(order.index, loops)))


def read_multipliers(
    program: Program, summed: Sequence[Path], planted: Mapping[Path, Sequence[Any]]
) -> dict[Path, list[list[Multiplier]]]:
    """The factors of all scores of a program, for each branch of a cond around a site.

    Args:
        program: The program.
        summed: Paths of the sites that are taken out.
        planted: Values of other sites, as far as factors may be computed from them.
    """
    reader = _Reader(summed, planted)
    reader.read(program.jaxpr, program.inputs)
    return {path: list(each.values()) for path, each in reader.found.items()}
