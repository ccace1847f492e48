"""Symbolic evaluation of a program: the key of each random site as a term.

Only the first iterations of each loop are evaluated.
"""

import dataclasses
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from jax.extend import core as jex

from ppl.analysis.element_rules import ELEMENTS
from ppl.analysis.misplaced_sites import check_no_site
from ppl.analysis.terms import Term, Terms
from ppl.harvest import jax_core, jaxprs
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.liveness import Liveness, Mask
from ppl.harvest.program import Program
from ppl.harvest.rules import CONSTRUCTS, wiring_of
from ppl.harvest.sowing import Site, sow_p
from ppl.harvest.survey import Survey
from ppl.harvest.wirings import Branches, Call, Scan, Shards
from ppl.primitives.site_kinds import RANDOM

_MAX_ITERATIONS = 3  # iterations, elements or shards of a loop looked at: two keys may alternate


@dataclasses.dataclass(frozen=True)
class Occurrence:
    """Occurrence of an equation in an evaluation: iterations, elements, shards and branches.

    Attributes:
        steps: Loops around, outermost first, each with the index of its iteration.
        branches: Conditions around, each with the index of its branch.
        shards: Mesh axes, each with the index of its shard.
        is_real: False in a loop body evaluated as a function, in no iteration.
    """

    steps: tuple[tuple[str, int], ...] = ()
    branches: tuple[tuple[Term, int], ...] = ()
    shards: tuple[tuple[Hashable, int], ...] = ()
    is_real: bool = True

    def step(self, loop: str, i: int) -> "Occurrence":
        """The occurrence in the `i`-th iteration of a loop, element of a `vmap` or shard."""
        return dataclasses.replace(self, steps=(*self.steps, (loop, i)))

    def steps_of(self, loop: str, size: int) -> "list[Occurrence]":
        """Occurrences in the first iterations of a loop, three at most.

        If an enclosing loop is past its first iteration, only one iteration is followed. So the
        number of occurrences is proportional to the number of loops, not exponential in it. There
        are no occurrences in a body that is evaluated as a function.
        """
        is_first = all(i == 0 for _, i in self.steps)
        looked_at = _MAX_ITERATIONS if is_first else 1
        return [self.step(loop, i) for i in range(min(size, looked_at if self.is_real else 0))]

    def branch(self, index: Term, i: int) -> "Occurrence":
        """The occurrence in the `i`-th branch of a cond."""
        return dataclasses.replace(self, branches=(*self.branches, (index, i)))

    def shards_of(self, axes: Mapping[Any, int]) -> "list[Occurrence]":
        """The occurrences in the first shards of a shard_map."""
        places: list[Occurrence] = [self]
        for axis, size in axes.items():
            places = [
                dataclasses.replace(at, shards=(*at.shards, (axis, at.steps[-1][1])))
                for place in places
                for at in place.steps_of("shard_map", size)
            ]
        return places

    def excludes(self, other: "Occurrence") -> bool:
        """Whether two occurrences are in different branches of one cond."""
        pairs = itertools.product(self.branches, other.branches)
        return any(a[0] == b[0] and a[1] != b[1] for a, b in pairs)


Visit = Callable[[Site, Term, Occurrence], None]


class Symbolic:
    """Symbolic evaluator of keys; it calls `visit(site, key, occurrence)` at each random site."""

    def __init__(self, program: Program, survey: Survey, visit: Visit):
        self._program = program
        self._visit = visit
        self.terms = Terms(ELEMENTS)
        self._liveness = Liveness(survey, CONSTRUCTS, _reads, jax_core.has_sow, frozenset())

    def run(self) -> None:
        """Visit all sites."""
        inputs = [self.terms.of("input", i) for i in range(len(self._program.inputs))]
        self._walk(
            self._program.jaxpr, inputs, [False] * len(self._program.out_avals), Occurrence()
        )

    def _walk(
        self, jaxpr: Jaxpr, args: Sequence[Any], live_outs: Sequence[bool], place: Occurrence
    ) -> list[Any]:
        """The terms of the results of a jaxpr; None for results and `args` that are not needed."""
        inner, consts = jaxprs.raw(jaxpr)
        given = [*(self.terms.of("constant", id(c)) for c in consts), *args]
        env = dict(zip([*inner.constvars, *inner.invars], given, strict=True))

        def read(atom: Any, needed: bool) -> Any:
            if not needed:
                return None
            return self.terms.literal(atom) if isinstance(atom, jex.Literal) else env[atom]

        equations = self._liveness.equations(jaxpr, live_outs)
        for eqn, needs in zip(inner.eqns, equations, strict=True):
            if needs is not None:
                operands = [read(v, needed) for v, needed in zip(eqn.invars, needs[0], strict=True)]
                outs = self._equation(eqn, operands, needs, place)
                env.update(zip(eqn.outvars, outs, strict=True))
        return [read(v, live) for v, live in zip(inner.outvars, live_outs, strict=True)]

    def _equation(
        self, eqn: jex.JaxprEqn, operands: list[Any], needs: tuple[Mask, Mask], place: Occurrence
    ) -> Sequence[Any]:
        if eqn.primitive is sow_p:
            return self._sow(eqn.params["site"], operands, place)
        match wiring_of(eqn):
            case Call(body, indices):
                return self._walk(body, [operands[i] for i in indices], needs[1], place)
            case Branches(bodies):
                return self._cond(bodies, operands, needs[1], place)
            case Scan() as scan:
                return self._scan(scan, operands, needs, place, jax_core.has_sow(eqn))
            case Shards() as shards:
                if jax_core.has_sow(eqn):
                    self._visit_shards(shards, operands, needs[1], place)
                return self.terms.results(eqn, operands, place.shards)
        check_no_site(eqn, (RANDOM,))
        told = jax_core.find_varied_axes(eqn, [axis for axis, _ in place.shards])
        context = tuple(shard for shard in place.shards if shard[0] in told)
        return self.terms.results(eqn, operands, context)

    def _sow(self, site: Site, operands: list[Any], place: Occurrence) -> Sequence[Term]:
        if place.is_real and site.tag == RANDOM:
            self._visit(site, operands[-1], place)
        return [self.terms.fresh() for _ in range(site.num_values)]

    def _scan(
        self,
        scan: Scan,
        operands: list[Any],
        needs: tuple[Mask, Mask],
        place: Occurrence,
        visits: bool,
    ) -> Sequence[Any]:
        reads, live_outs = needs
        _, live_carry, _ = scan.split(reads)
        live_body = (*live_carry, *live_outs[scan.num_carry :])
        consts, carry, xs = scan.split(operands)
        kind = "vmap" if scan.is_vmap else "scan"
        for i, step in enumerate(place.steps_of(kind, scan.length) if visits else ()):
            row = scan.length - 1 - i if scan.reverse else i
            rows = [None if x is None else self.terms.element(x, row) for x in xs]
            outs = self._walk(scan.body, [*consts, *carry, *rows], live_body, step)
            carry = outs[: scan.num_carry]
        if not any(live_outs):
            return [None] * len(live_outs)
        return self._after_scan(scan, operands, live_body, place)

    def _after_scan(
        self, scan: Scan, operands: list[Any], live_body: Mask, place: Occurrence
    ) -> list[Term]:
        """The terms of a scan's results: each names the operands and the body as a function."""
        num_consts = scan.num_consts
        num_carry = scan.num_carry
        symbols = [self.terms.of("symbol", i) for i in range(len(operands))]
        whole = dataclasses.replace(place, is_real=False)
        outs = self._walk(scan.body, symbols, live_body, whole)
        loop = self.terms.of("scan", scan.length, scan.reverse, tuple(outs), tuple(operands))
        results = [self.terms.of("result", loop, i) for i in range(len(outs))]
        for i in range(num_consts, num_consts + num_carry):
            if outs[i - num_consts] == symbols[i]:  # The body returns it unchanged.
                results[i - num_consts] = operands[i]
        return results

    def _cond(
        self, bodies: Sequence[Jaxpr], operands: list[Any], live_outs: Mask, place: Occurrence
    ) -> list[Any]:
        index, *inputs = operands
        branches = [
            self._walk(body, inputs, live_outs, place.branch(index, i))
            for i, body in enumerate(bodies)
        ]
        return [
            outs[0] if len(set(outs)) == 1 else self.terms.of("cond", index, *outs)
            for outs in zip(*branches, strict=True)
        ]

    def _visit_shards(
        self, shards: Shards, operands: list[Any], live_outs: Mask, place: Occurrence
    ) -> None:
        for shard in place.shards_of(shards.axes):
            pairs = zip(operands, shards.in_specs, strict=True)
            blocks = [self._block(x, spec, shard) for x, spec in pairs]
            self._walk(shards.body, blocks, live_outs, shard)

    def _block(self, array: Any, spec: Any, place: Occurrence) -> Any:
        """The block of an operand in one shard, if the operand is split over axes of the mesh."""
        at = tuple((axis, i) for axis, i in place.shards if axis in jax_core.axes_in(spec))
        return array if array is None or not at else self.terms.of("block", array, spec, at)


def _reads(eqn: jex.JaxprEqn) -> Mask:
    """The operands of a sow that are needed: only the key."""
    num_keys = int(eqn.params["site"].has_key)
    return (*[False] * (len(eqn.invars) - num_keys), *[True] * num_keys)
