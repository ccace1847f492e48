"""Scores as a program of what depends on a vector; what does not is evaluated once, in advance."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.rules import wiring_of
from ppl.harvest.survey import Path
from ppl.harvest.wirings import Call


@dataclasses.dataclass(frozen=True)
class _Slot:
    """A value of the program, by number."""

    number: int


@dataclasses.dataclass(frozen=True)
class _Known:
    """A value that is known in advance, by number."""

    number: int


Operand = Any  # a slot, a known value, or a literal


@dataclasses.dataclass(frozen=True)
class _Step:
    """An equation with its operands, and the slots of its results."""

    eqn: jex.JaxprEqn
    operands: Sequence[Operand]
    results: Sequence[_Slot]


@dataclasses.dataclass(frozen=True, eq=False)
class ScoreProgram:
    """Scores as a function of a vector and of all that they need to know besides.

    Attributes:
        steps: The equations, in order.
        scores: For each score, its value.
        shapes: For each score, its shape.
    """

    steps: Sequence[_Step]
    scores: Mapping[Path, Operand]
    shapes: Mapping[Path, jax.ShapeDtypeStruct]

    def _needed(self, wanted: frozenset[Path]) -> list[_Step]:
        """The steps that some scores need."""
        needed = {self.scores[path] for path in wanted if isinstance(self.scores[path], _Slot)}
        found = []
        for step in reversed(self.steps):
            if needed.intersection(step.results):
                needed.update(x for x in step.operands if isinstance(x, _Slot))
                found.append(step)
        return found[::-1]

    def find_known(self, known: Sequence[Any], path: Path) -> list[Any]:
        """The known values that a score depends on."""
        operands = [x for step in self._needed(frozenset([path])) for x in step.operands]
        numbers = [x.number for x in (*operands, self.scores[path]) if isinstance(x, _Known)]
        return [known[number] for number in dict.fromkeys(numbers)]

    def __call__(
        self, known: Sequence[Any], x: Any, wanted: Collection[Path] | None = None
    ) -> dict[Path, Any]:
        """The scores of a vector, or some of them.

        Args:
            known: The values from `split_scores`.
            x: The vector.
            wanted: The paths of the scores; all by default.
        """
        paths = frozenset(self.scores if wanted is None else wanted)
        values: dict[int, Any] = dict(enumerate(jax.tree.leaves(x)))

        def read(operand: Operand) -> Any:
            match operand:
                case _Slot(number):
                    return values[number]
                case _Known(number):
                    return known[number]
            return operand

        for step in self._needed(paths):
            found = jax_core.bind(step.eqn, list(map(read, step.operands)))
            values.update((slot.number, y) for slot, y in zip(step.results, found, strict=True))
        return {path: read(at) for path, at in self.scores.items() if path in paths}


def split_scores(
    scores: Callable[[Any], Mapping[Path, Any]], x: Any
) -> tuple[ScoreProgram, list[Any]]:
    """Scores as a program, and the values that the program needs to know.

    Args:
        scores: The scores as a function of a vector.
        x: A vector.
    """
    jaxpr, shape = jax.make_jaxpr(scores, return_shape=True)(x)
    splitter = _Splitter(len(jax.tree.leaves(x)))
    results = splitter.split(jaxpr, list(map(_Slot, range(splitter.num_slots))))
    numbers = jax.tree.unflatten(jax.tree.structure(shape), range(len(results)))
    found = {path: splitter.refer(results[i]) for path, i in numbers.items()}
    return ScoreProgram(splitter.steps, found, shape), splitter.known


class _Splitter:
    """Evaluator of equations whose operands are known, and recorder of all others."""

    def __init__(self, num_slots: int):
        self.num_slots = num_slots
        self.steps: list[_Step] = []
        self.known: list[Any] = []
        self._numbers: dict[int, _Known] = {}

    def refer(self, x: Any) -> Operand:
        """An operand of a step: a slot as it is, or a known value by its number."""
        if isinstance(x, _Slot | _Known):
            return x
        if id(x) not in self._numbers:
            self._numbers[id(x)] = _Known(len(self.known))
            self.known.append(x)
        return self._numbers[id(x)]

    def split(self, jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
        """The results of a jaxpr, as slots where they depend on a slot."""
        inner, consts = jaxprs.raw(jaxpr)
        env = dict(zip([*inner.constvars, *inner.invars], [*consts, *args], strict=True))

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, jex.Literal) else env[atom]

        for eqn in inner.eqns:
            operands = list(map(read, eqn.invars))
            wiring = wiring_of(eqn)
            if not any(isinstance(x, _Slot) for x in operands):
                found = jax_core.bind(eqn, operands)
            elif isinstance(wiring, Call) and wiring.is_transparent:
                found = self.split(wiring.body, [operands[i] for i in wiring.operands])
            else:
                found = [_Slot(self.num_slots + i) for i in range(len(eqn.outvars))]
                self.num_slots += len(found)
                atoms = zip(eqn.invars, operands, strict=True)
                refer = [x if isinstance(a, jex.Literal) else self.refer(x) for a, x in atoms]
                self.steps.append(_Step(eqn, refer, found))
            env.update(zip(eqn.outvars, found, strict=True))
        return list(map(read, inner.outvars))
