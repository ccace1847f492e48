"""Factors of groups: `scale` multiplies the log of a sum or an integral by them.

A program is scored without its factors. The sites that are summed together must have one common
factor, which multiplies the log of their sum.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from ppl.common.lift import lift
from ppl.core.model_run import SiteAction
from ppl.harvest import jax_core
from ppl.harvest.interpreter import Operands
from ppl.harvest.program import Harvester, Program
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, describe, describe_all
from ppl.marginal.multipliers import Multiplier, read_multipliers
from ppl.primitives.site_kinds import FACTOR, RANDOM


class Axes(NamedTuple):
    """Names of axes along which the elements of a sum or an integral are independent.

    Attributes:
        of_scores: By path, the name of each axis of a recorded score; None if elements along the
            axis are summed together.
        of_sum: The names of the axes of the log of the sum.
    """

    of_scores: Mapping[Path, Sequence[Any]]
    of_sum: Sequence[Any]


@dataclasses.dataclass(frozen=True)
class _RecordFactor(SiteAction):
    """Action that plants values, and records a factor of a site with all axes of the site."""

    path: Path
    place: int
    tags: ClassVar = (RANDOM, FACTOR)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted, and the factor."""
        return not planted, False, site.path == self.path

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, and the factor."""
        values = operands.values if plant is None else plant
        if site.path != self.path:
            return values, None

        def of(*leaves):
            return leaves[self.place]

        return values, lift(of, site.axes)(*operands.extras)


class GroupFactors:
    """Factors of the groups of scores of a program, some of whose sites are taken out.

    Args:
        program: The program with the factors of its scores.
        taken_out: The sites that are summed or integrated out.
        planted: Values of the other sites that factors depend on.
    """

    def __init__(
        self,
        program: Program,
        taken_out: Collection[Path],
        planted: Mapping[Path, Sequence[Any]],
    ):
        self._program, self._taken_out, self._planted = program, tuple(taken_out), planted
        self._found = read_multipliers(program, self._taken_out, planted)

    def of(self, group: Sequence[Path], find_axes: Any) -> tuple[list[Any], bool]:
        """The factors that multiply a group's log sum, and whether they vary along its axes.

        Args:
            group: The paths of the scores.
            find_axes: Gives the `Axes` of the group.

        Raises:
            ValueError: If the scores have different factors.
        """
        each = {path: self._found.get(path, [[]]) for path in group}
        if not any(m for branches in each.values() for m in branches):
            return [], False
        self._check_sources(each)
        varies = any(m.all_axes for branches in each.values() for b in branches for m in b)
        axes = find_axes() if varies else Axes({}, ())
        signatures = {
            path: [self._signature(path, branch, axes) for branch in branches]
            for path, branches in each.items()
        }
        first = next(path for path, branches in each.items() if branches[0])
        if any(s != signatures[first][0] for branches in signatures.values() for s in branches):
            self._check_numbers(each)
        elif varies:
            self._check_apart(each, axes)
        return [self._value(first, m, axes) for m in each[first][0]], varies

    def has_axes(self, path: Path) -> bool:
        """Whether a factor of a score varies between the elements of the score."""
        return any(m.all_axes for branch in self._found.get(path, []) for m in branch)

    def _signature(self, path: Path, factors: Sequence[Multiplier], axes: Axes) -> Any:
        """A hashable key; two keys are equal only if the factors are known to be equal."""

        def names(found):
            return tuple(axes.of_scores[path][i] for i in found)

        signs = [
            (m.value.term, names(m.axes), names(m.loops) if m.varies_by_step else ())
            for m in factors
        ]
        return sorted(signs, key=repr)

    def _check_sources(self, each: Mapping[Path, Sequence[Sequence[Multiplier]]]) -> None:
        for path, branches in each.items():
            sources = {s.path for b in branches for m in b for s in m.value.uses}
            if sources:
                raise ValueError(
                    f"marginalize: a factor of ppl.scale at site {describe(path)} depends on "
                    f"{describe_all(sources)}, which is taken out; a factor multiplies the log of "
                    "the whole sum or integral. Use a factor that does not, or leave "
                    f"{describe_all(sources)} among the sites to sample."
                )

    def _check_numbers(self, each: Mapping[Path, Sequence[Sequence[Multiplier]]]) -> None:
        """Check that factors without axes are equal as numbers."""
        numbers = {p: [self._number(b) for b in branches] for p, branches in each.items()}
        known = [x for found in numbers.values() for x in found]
        are_numbers = all(isinstance(x, float) for x in known)
        if are_numbers and len(set(known)) == 1:
            return
        told = ", ".join(
            f"{describe(p)} by {' or '.join(map(_tell, dict.fromkeys(x)))}"
            for p, x in numbers.items()
        )
        are_known = "different factors" if are_numbers else "factors that are not known to be equal"
        raise ValueError(
            f"marginalize: the scores of {describe_all(each)} are summed or integrated together, "
            f"but ppl.scale multiplies them by {are_known}: {told}. A factor multiplies the log of "
            "the whole sum or integral, so all of them need one: put them into one function, "
            "ppl.scale(f, factor), or leave "
            f"{describe_all([p for p in each if p in self._taken_out])} among the sites to sample."
        )

    def _number(self, factors: Sequence[Multiplier]) -> float | str:
        """The product of factors; a description for weights of elements or an unknown number."""
        if any(m.all_axes for m in factors):
            return "weights of its elements"
        values = [m.value.read and m.value.read() for m in factors]
        if any(x is None or jax_core.is_traced(x) for x in values):
            return "a number that is not known before it runs"
        return float(np.prod([np.asarray(x) for x in values]))

    def _check_apart(self, each: Mapping[Path, Sequence[Sequence[Multiplier]]], axes: Axes) -> None:
        for path, branches in each.items():
            names = {axes.of_scores[path][i] for b in branches for m in b for i in m.all_axes}
            if not names <= set(axes.of_sum):
                raise ValueError(
                    f"marginalize: the weights that ppl.scale gives the elements of site "
                    f"{describe(path)} may differ between elements that are summed or integrated "
                    "together, as they depend on the same elements of "
                    f"{describe_all([p for p in each if p in self._taken_out])}; a weight "
                    "multiplies the log of the whole sum or integral. Give elements that share "
                    "such sites one weight, or leave these among the sites to sample."
                )

    def _value(self, path: Path, factor: Multiplier, axes: Axes) -> Any:
        """A factor with the axes of the log of the sum, of size 1 where it does not vary."""
        if not factor.all_axes:
            return factor.value.read()  # pyright: ignore[reportOptionalCall]
        if factor.varies_by_step:
            action = _RecordFactor(path, factor.place)
            run = Harvester(self._program, action)
            value = run.run(self._planted, live_outs=False)[1][path]
            names = list(axes.of_scores[path][: value.ndim])
        else:
            value = factor.value.read()  # pyright: ignore[reportOptionalCall]
            names = [axes.of_scores[path][i] for i in factor.axes]
        kept = [name for name in axes.of_sum if name in names]
        rest = [i for i, name in enumerate(names) if name not in kept]
        value = jnp.transpose(value, [*map(names.index, kept), *rest])
        value = value[(..., *[0] * len(rest))] if rest else value
        absent = [i for i, name in enumerate(axes.of_sum) if name not in names]
        return jnp.expand_dims(value, absent) if absent else value


def _tell(number: float | str) -> str:
    return number if isinstance(number, str) else f"{number:g}"
