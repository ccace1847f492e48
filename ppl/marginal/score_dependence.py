"""Score dependence: which elements of summed sites each element of a score depends on."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core as jex

from ppl.analysis.terms import Terms
from ppl.common import distribution_protocol
from ppl.common.lift import lift
from ppl.core.joint_scores import Lookup, Spread
from ppl.harvest import jax_core, jaxprs
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.leaf_values import nodes
from ppl.harvest.rules import wiring_of
from ppl.harvest.sowing import Site, sow_p
from ppl.harvest.survey import Path, struct_of
from ppl.harvest.wirings import Branches, Call, Scan
from ppl.marginal.abstract_values import AbstractValue, columns_of
from ppl.marginal.axis_rules import apply_rule
from ppl.marginal.element_dependence import (
    Aligned,
    Source,
    Step,
    Uses,
    after,
    enter_rows,
    join,
    leave,
    map_uses,
    shift,
    stack,
    widen,
)
from ppl.primitives.site_kinds import FACTOR, RANDOM

_MAX_SETTLING = 6  # uses of a carry of n parts must repeat after n and this many steps


@dataclasses.dataclass(frozen=True)
class ScoreDependence:
    """The dependence of a score on summed sites.

    Axes of the score are in this order: axes in the body, then loops, innermost first.

    Attributes:
        site: The site.
        shape: The shape of the score, and of the value of a summed site.
        loops: The loops around the site, innermost first.
        uses: The elements of summed sites that an element of the score depends on. For the score of
            a summed site, the scored element itself is left out.
        num_body_axes: The number of axes within all loops.
    """

    site: Site
    shape: tuple[int, ...]
    uses: Uses
    loops: tuple[int, ...] = ()

    @property
    def layout(self) -> list[int]:
        """For each axis of the recorded score, its axis in `shape`."""
        num_inner = len(self.shape) - len(self.loops)
        order = list(range(num_inner))
        for depth in range(len(self.loops)):
            order.insert(self.site.num_axes_outside(depth + 1), num_inner + depth)
        return order

    def spread(self, num_parts: int, axes: Sequence[int | Lookup | None]) -> Spread:
        """The entries of the recorded score, spread over groups along some axes."""
        order = self.layout
        num_body = len(self.shape) - len(self.loops)
        parts = sorted(order.index(axis) for axis in range(num_body - num_parts, num_body))
        return Spread(tuple(self.shape[i] for i in order), tuple(parts), tuple(axes))

    def leave_loop(self, loop: int, length: int) -> "ScoreDependence":
        """The dependence seen from outside of a loop."""
        uses = map_uses(self.uses, lambda use: leave(use, loop, len(self.shape)))
        return ScoreDependence(self.site, (*self.shape, length), uses, (*self.loops, loop))

    def join(self, uses: Uses) -> "ScoreDependence":
        """The dependence on further elements as well."""
        return dataclasses.replace(self, uses=join(self.uses, uses))


Dependences = dict[Path, ScoreDependence]


class DependenceReader:
    """Reader of the dependences of all scores in a program.

    Args:
        summed: Paths of the sites that are summed out.
        scored: Paths of the sites whose scores are read, including summed sites.
        planted: Values of sites, by path, from which indices may be computed.
        bounds_summed: Whether supports of summed sites are checked, too.
        traced: The functions of sites that are traced so far, which readers of one program share.

    Attributes:
        causes: By path of a summed site, the reason why a score depends on many of its elements.
        bounded: Sites whose support depends on a summed site. With `bounds_summed`, also summed
            sites whose support depends on their own values in earlier steps of a loop.
    """

    def __init__(
        self,
        summed: Collection[Path],
        scored: Collection[Path],
        planted: Mapping[Path, Sequence[Any]],
        *,
        bounds_summed: bool = False,
        traced: dict[Any, Any] | None = None,
    ):
        self._summed = summed
        self._scored = scored
        self._planted = planted
        self._bounds_summed = bounds_summed
        self._terms = Terms({})
        self._loops: dict[int, int] = {}
        self._traced: dict[Any, Any] = {} if traced is None else traced
        self.causes: dict[Path, str] = {}
        self.bounded: set[Path] = set()
        self.num_parts: dict[Path, int] = {}

    def read(
        self, jaxpr: Jaxpr, inputs: Sequence[Any], names: Sequence[int] | None = None
    ) -> Dependences:
        """The dependences of a program.

        Args:
            jaxpr: The program.
            inputs: Its inputs, which may be abstract (None).
            names: A number for each input; equal inputs have equal numbers.
        """
        inner, _ = jaxprs.raw(jaxpr)
        names = range(len(inputs)) if names is None else names
        values = [
            AbstractValue(_shape(v), {}, self._terms.of("input", name), lambda x=x: x)
            for v, x, name in zip(inner.invars, inputs, names, strict=True)
        ]
        dependences: Dependences = {}
        self._walk(jaxpr, values, dependences)
        return dependences

    def _walk(
        self, jaxpr: Jaxpr, args: Sequence[AbstractValue], dependences: Dependences
    ) -> list[AbstractValue]:
        inner, consts = jaxprs.raw(jaxpr)
        constants = [
            AbstractValue(np.shape(c), {}, self._terms.of("constant", id(c)), lambda c=c: c)
            for c in consts
        ]
        env = dict(zip([*inner.constvars, *inner.invars], [*constants, *args], strict=True))

        def look_up(atom: Any) -> AbstractValue:
            if isinstance(atom, jex.Literal):
                term = self._terms.literal(atom)
                return AbstractValue(np.shape(atom.val), {}, term, lambda: atom.val)
            return env[atom]

        for eqn in inner.eqns:
            outs = self._equation(eqn, list(map(look_up, eqn.invars)), dependences)
            env.update(zip(eqn.outvars, outs, strict=True))
        return list(map(look_up, inner.outvars))

    def _equation(
        self, eqn: jex.JaxprEqn, operands: list[AbstractValue], dependences: Dependences
    ) -> list[AbstractValue]:
        if eqn.primitive is sow_p:
            return self._sow(eqn, operands, dependences)
        match wiring_of(eqn):
            case Call(body, indices):
                return self._walk(body, [operands[i] for i in indices], dependences)
            case Branches(bodies):
                return self._cond(eqn, bodies, operands, dependences)
            case Scan() as scan if jax_core.has_sow(eqn) or any(x.uses for x in operands):
                return self._scan(eqn, scan, operands, dependences)
        return self._results(eqn, operands, apply_rule(eqn, operands))

    def _results(
        self, eqn: jex.JaxprEqn, operands: list[AbstractValue], uses: Sequence[Uses]
    ) -> list[AbstractValue]:
        if any(uses) or jax_core.has_sow(eqn):
            return [self._fresh(v, each) for v, each in zip(eqn.outvars, uses, strict=True)]
        terms = self._terms.results(eqn, [x.term for x in operands])
        if any(x.read is None for x in operands):
            return [
                AbstractValue(_shape(v), {}, term)
                for v, term in zip(eqn.outvars, terms, strict=True)
            ]

        @functools.cache
        def evaluate() -> list[Any]:
            return jax_core.bind(eqn, [x.read() for x in operands])  # pyright: ignore

        columns = columns_of(eqn, operands)
        return [
            AbstractValue(_shape(v), {}, term, lambda i=i: evaluate()[i], columns)
            for i, (v, term) in enumerate(zip(eqn.outvars, terms, strict=True))
        ]

    def _fresh(self, v: Any, uses: Uses, read: Callable[[], Any] | None = None) -> AbstractValue:
        return AbstractValue(_shape(v), uses, self._terms.fresh(), read)

    def _sow(
        self, eqn: jex.JaxprEqn, operands: list[AbstractValue], dependences: Dependences
    ) -> list[AbstractValue]:
        site = eqn.params["site"]
        values, _, extras, _ = site.split(operands)
        path = site.path
        if site.tag == FACTOR and path in self._scored:
            dependences[path] = ScoreDependence(site, values[0].shape, values[0].uses)
        if site.tag != RANDOM:
            return list(values)
        if path in self._scored:
            shape, uses = self._score(eqn, site, extras)
            dependences[path] = ScoreDependence(site, shape, uses)
            self.num_parts[path] = self._count_parts(eqn, len(shape))
            in_support = distribution_protocol.in_support
            is_looked_at = self._bounds_summed or path not in self._summed
            if is_looked_at and self._depends(in_support, eqn, extras):
                self.bounded.add(path)
        if path not in self._summed:
            leaves = self._planted.get(path)
            reads = [
                value.read if leaves is None else (lambda x=leaves[i]: x)
                for i, value in enumerate(values)
            ]
            if self._loops_entered:
                reads = [None] * len(values)
            return [self._fresh(v, {}, read) for v, read in zip(eqn.outvars, reads, strict=True)]
        (value,) = values
        own = (*(Aligned(i) for i in range(len(value.shape))), *map(Step, self._loops_entered))
        return [self._fresh(eqn.outvars[0], {Source(path): own})]

    def _score(
        self, eqn: jex.JaxprEqn, site: Site, extras: Sequence[AbstractValue]
    ) -> tuple[tuple[int, ...], Uses]:
        """The shape of the log probability at a site, and its dependence through parameters."""
        values = site.split(eqn.invars)[0]
        jaxpr, known = self._trace(distribution_protocol.log_prob_by_part, eqn)
        given = [self._fresh(v, {}) for v in values]
        given += [x for x, skip in zip(extras, known, strict=True) if not skip]
        outs = self._walk(jaxpr, given, {})
        return outs[0].shape, join(*(out.uses for out in outs))

    def _count_parts(self, eqn: jex.JaxprEqn, num_axes: int) -> int:
        """The number of axes of a score that run over independent parts of one event."""
        site = eqn.params["site"]
        families = {kind.__name__ for kind, _ in nodes(site.extra_tree)}
        if families.isdisjoint(distribution_protocol.FAMILIES_OF_PARTS):
            return 0
        jaxpr, _ = self._trace(distribution_protocol.log_prob, eqn)
        return num_axes - len(jaxpr.out_avals[0].shape)

    def _depends(
        self, fn: Callable[[Any, Any], Any], eqn: jex.JaxprEqn, extras: Sequence[AbstractValue]
    ) -> bool:
        """Whether `fn(distribution, value)` at a site depends on a summed site by parameters."""
        if not any(x.uses for x in extras):
            return False
        values = eqn.params["site"].split(eqn.invars)[0]
        jaxpr, known = self._trace(fn, eqn)
        given = [self._fresh(v, {}) for v in values]
        given += [x for x, skip in zip(extras, known, strict=True) if not skip]
        return any(out.uses for out in self._walk(jaxpr, given, {}))

    def _trace(self, fn: Callable[[Any, Any], Any], eqn: jex.JaxprEqn) -> tuple[Any, list[bool]]:
        """A program for `fn(distribution, value)` at a site, as `_trace_at_site` gives it."""
        site = eqn.params["site"]
        name = id(eqn), fn
        if name not in self._traced:
            values, _, atoms, _ = site.split(eqn.invars)
            # The equation is kept, so that no other one gets its `id`.
            self._traced[name] = eqn, _trace_at_site(fn, site, values, atoms)
        return self._traced[name][1]

    @property
    def _loops_entered(self) -> tuple[int, ...]:
        """The loops around the present equation, innermost first."""
        return tuple(reversed(self._loops))

    def _cond(
        self,
        eqn: jex.JaxprEqn,
        bodies: Sequence[Jaxpr],
        operands: list[AbstractValue],
        dependences: Dependences,
    ) -> list[AbstractValue]:
        index, *inputs = operands
        branches = []
        for body in bodies:
            found: Dependences = {}
            branches.append(self._walk(body, inputs, found))
            for path, dependence in found.items():
                before = dependences.get(path)
                dependences[path] = dependence.join({} if before is None else before.uses).join(
                    index.uses
                )
        uses = [
            join(index.uses, *(out.uses for out in outs)) for outs in zip(*branches, strict=True)
        ]
        return self._results(eqn, operands, uses)

    def _scan(
        self, eqn: jex.JaxprEqn, scan: Scan, operands: list[AbstractValue], dependences: Dependences
    ) -> list[AbstractValue]:
        loop = id(eqn)
        num_carry = scan.num_carry
        consts, carry, xs = scan.split(operands)
        fixed = [*consts, *(self._row(x, loop) for x in xs)]
        self._loops[loop] = scan.length
        steps = self._find_states(scan, loop, fixed, list(carry))
        del self._loops[loop]
        for path in steps[-1][1]:
            later = steps[-1][1][path]
            first = [found[path] for _, found in steps[:-1]]
            start = functools.partial(Source, start=loop, is_last=scan.reverse)
            extra = [_mark_start(s.uses, later.uses, start, len(steps) == 2) for s in first]
            dependence = later.join(join(*extra)).leave_loop(loop, scan.length)
            before = dependences.get(path)
            dependences[path] = dependence if before is None else dependence.join(before.uses)
        ended = steps[min(len(steps), max(scan.length, 1)) - 1][0]
        last = 0 if scan.reverse else scan.length - 1
        out = [map_uses(x.uses, lambda u: after(u, loop, last)) for x in ended[:num_carry]]
        ys = [join(*(s[0][i].uses for s in steps)) for i in range(num_carry, len(ended))]
        out += [map_uses(uses, lambda u: stack(u, loop)) for uses in ys]
        return self._results(eqn, operands, out)

    def _find_states(
        self, scan: Scan, loop: int, fixed: list[AbstractValue], carry: list[AbstractValue]
    ) -> list[tuple[list[AbstractValue], Dependences]]:
        """Results of the first steps, until the dependences of the carry repeat."""
        consts = fixed[: scan.num_consts]
        rows = fixed[scan.num_consts :]
        sign = -1 if scan.reverse else 1
        uses: list[Uses] = [x.uses for x in carry]
        states = []
        steps = []
        while uses not in states[-1:]:
            states.append(uses)
            given = [
                AbstractValue(x.shape, u, self._terms.fresh())
                for x, u in zip(carry, uses, strict=True)
            ]
            found: Dependences = {}
            steps.append((self._walk(scan.body, [*consts, *given, *rows], found), found))
            new: list[Uses] = [
                map_uses(x.uses, lambda u: shift(u, loop, sign))
                for x in steps[-1][0][: scan.num_carry]
            ]
            if len(steps) > len(carry) + _MAX_SETTLING:  # The carry looks back ever further.
                self._note_growth(carry, uses, new)
                pairs = zip(new, uses, strict=True)
                new = [join(map_uses(u, lambda u: widen(u, loop)), v) for u, v in pairs]
            uses = new
        return steps

    def _note_growth(self, carry: list[AbstractValue], old: list[Uses], new: list[Uses]) -> None:
        for i, (value, a, b) in enumerate(zip(carry, old, new, strict=True)):
            for source in b:
                if a.get(source) != b[source]:
                    shape = "x".join(map(str, value.shape)) or "scalar"
                    self.causes.setdefault(
                        source.path,
                        f"part {i} of the carry of a scan ({shape}) depends on all earlier steps",
                    )

    def _row(self, x: AbstractValue, loop: int) -> AbstractValue:
        """A row of an array, as a step of a loop reads it."""
        uses = map_uses(x.uses, lambda use: enter_rows(use, loop))
        return AbstractValue(x.shape[1:], uses, self._terms.fresh())


def _shape(v: Any) -> tuple[int, ...]:
    return tuple(getattr(v.aval, "shape", ()))


def _trace_at_site(
    fn: Callable[[Any, Any], Any], site: Site, values: Sequence[Any], atoms: Sequence[Any]
) -> tuple[Any, list[bool]]:
    """A program for `fn(distribution, value)` at a site; its inputs are values and parameters.

    Returns:
        The program, and for each parameter whether it is known and thus no input.
    """
    known = [isinstance(v, jex.Literal) for v in atoms]

    def score(values: Any, rest: Any) -> Any:
        rest = iter(rest)
        leaves = [v.val if k else next(rest) for v, k in zip(atoms, known, strict=True)]

        def of_leaves(values: Any, *extras: Any) -> Any:
            d = jax.tree.unflatten(site.extra_tree, extras)
            return fn(d, jax.tree.unflatten(site.tree, values))

        return lift(of_leaves, site.axes, 1)(values, *leaves)

    avals = [struct_of(v.aval) for v in values]
    unknown = [struct_of(v.aval) for v, k in zip(atoms, known, strict=True) if not k]
    return jax.make_jaxpr(score)(tuple(avals), tuple(unknown)), known


def _mark_start(uses: Uses, later: Uses, start: Callable[[Path], Source], is_first: bool) -> Uses:
    """Dependences of a step; in the first step, sources that no later step has get a `start`."""

    def is_new(source):
        return source not in later and source.start is None and is_first

    return {start(s.path) if is_new(s) else s: each for s, each in uses.items()}


def bounds_itself(jaxpr: Jaxpr, path: Path, unknown: Collection[Path]) -> bool:
    """Whether the support of a site in a loop depends on earlier values of itself or later sites.

    Args:
        jaxpr: The program.
        path: The site.
        unknown: The site and later random sites, if the site depends on itself; else empty.
    """
    reader = DependenceReader(unknown, [path], {}, bounds_summed=True)
    if unknown:
        reader.read(jaxpr, [None] * len(jaxprs.raw(jaxpr)[0].invars))
    return path in reader.bounded
