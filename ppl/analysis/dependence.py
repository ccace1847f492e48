"""Dependence between the sites of a program, read off its jaxpr; nothing is evaluated.

Each jaxpr is read once, whatever it is called with: its summary speaks of its inputs by position.
"""

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend import core as jex

from ppl.analysis.misplaced_sites import check_no_site
from ppl.common import distribution_protocol
from ppl.common.lift import lift
from ppl.harvest import _jax, _jaxprs
from ppl.harvest._jaxprs import Jaxpr
from ppl.harvest._sow import Site, sow_p
from ppl.harvest._survey import Path, struct_of
from ppl.harvest._wiring import Branches, Call, Scan, Shards, While
from ppl.harvest.rules import wiring_of
from ppl.primitives.site_kinds import LATENT, RANDOM, TAGS, kind_of


@dataclasses.dataclass(frozen=True)
class Earlier:
    """A site in a scan, as of a step before the present one."""

    path: Path


Sources = frozenset[int | Path | Earlier]  # Inputs of the jaxpr by position, and sites.


@dataclasses.dataclass(frozen=True)
class Flow:
    """Sources of a variable, other than through a site.

    Attributes:
        sources: All of it.
        copy_of: The leaf of a site, as (path, index), or the input of which it is a mere copy.
    """

    sources: Sources = frozenset()
    copy_of: Hashable = None


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of what a site depends on, and which `vmap` axes of the site, innermost first, map it.

    What no axis maps is the same for all elements.
    """

    sources: Sources
    mapped: tuple[bool, ...]


@dataclasses.dataclass(frozen=True)
class Loop:
    """A "scan" of some steps, or the "shards" of a shard_map; `equation` tells it from others."""

    kind: str
    size: int
    equation: int


@dataclasses.dataclass(frozen=True)
class Sown:
    """A site in a jaxpr, with the loops around it, innermost first."""

    site: Site
    families: tuple[str, ...]
    parts: tuple[Part, ...]
    loops: tuple[Loop, ...] = ()

    @property
    def parents(self) -> frozenset[Path]:
        """The sites that it depends on, in a loop those of the same step."""
        return frozenset(s for part in self.parts for s in part.sources if isinstance(s, tuple))

    @property
    def earlier(self) -> frozenset[Path]:
        """The sites of which it depends on the value in a step before."""
        sources = (s for part in self.parts for s in part.sources)
        return frozenset(s.path for s in sources if isinstance(s, Earlier))


@dataclasses.dataclass(frozen=True)
class Summary:
    """Sources of the results of a jaxpr, and the sites in it, in program order."""

    outs: tuple[Flow, ...]
    sites: Mapping[Path, Sown] = dataclasses.field(default_factory=dict)

    def at(self, operands: Sequence[Flow]) -> "Summary":
        """Summary of a call with these operands."""

        def sources(of: Sources) -> Sources:
            flows = [operands[s].sources if isinstance(s, int) else {s} for s in of]
            return frozenset().union(*flows)

        def flow(of: Flow) -> Flow:
            copy_of = of.copy_of
            copy_of = operands[copy_of].copy_of if isinstance(copy_of, int) else copy_of
            return Flow(sources(of.sources), copy_of)

        def sown(of: Sown) -> Sown:
            parts = [dataclasses.replace(part, sources=sources(part.sources)) for part in of.parts]
            return dataclasses.replace(of, parts=tuple(parts))

        sites = {path: sown(found) for path, found in self.sites.items()}
        return Summary(tuple(map(flow, self.outs)), sites)

    def within(self, loop: Loop) -> "Summary":
        """Summary as seen from outside of a loop."""
        sites = {
            path: dataclasses.replace(found, loops=(*found.loops, loop))
            for path, found in self.sites.items()
        }
        return Summary(self.outs, sites)


class MutableArrayError(NotImplementedError):
    """A program that writes to a mutable array."""


class Dependence:
    """Summaries of jaxprs, each of which is read once."""

    def __init__(self) -> None:
        self._memo: dict[int, tuple[Any, Summary]] = {}

    def __call__(self, jaxpr: Jaxpr) -> Summary:
        """The summary of a jaxpr."""
        if id(jaxpr) not in self._memo:
            self._memo[id(jaxpr)] = jaxpr, self._read(jaxpr)
        return self._memo[id(jaxpr)][1]

    def _read(self, jaxpr: Jaxpr) -> Summary:
        inner, _ = _jaxprs.raw(jaxpr)
        flows = {v: Flow(frozenset([i]), i) for i, v in enumerate(inner.invars)}
        sites: dict[Path, Sown] = {}

        def read(atoms: Sequence[Any]) -> list[Flow]:
            """Literals and constants depend on nothing."""
            return [Flow() if isinstance(v, jex.Literal) else flows.get(v, Flow()) for v in atoms]

        for eqn in inner.eqns:
            found = self._equation(eqn, read(eqn.invars))
            flows.update(zip(eqn.outvars, found.outs, strict=True))
            sites.update(found.sites)
        return Summary(tuple(read(inner.outvars)), sites)

    def _equation(self, eqn: jex.JaxprEqn, operands: list[Flow]) -> Summary:
        if any(_jax.is_ref(v.aval) for v in eqn.invars):
            raise MutableArrayError(
                "graph: the model writes to a mutable array (jax.new_ref), through which no "
                "dependence is followed. Carry the value through the loop, or return it."
            )
        if eqn.primitive is sow_p:
            return _sow(eqn, operands)
        if eqn.primitive is lax.convert_element_type_p:
            return _convert(eqn, operands)
        if _jax.passes_on(eqn):
            return Summary(tuple(operands[: len(eqn.outvars)]))
        match wiring_of(eqn):
            case Call(body, indices):
                return self(body).at([operands[i] for i in indices])
            case Branches(bodies):
                return _branches([self(body).at(operands[1:]) for body in bodies], operands[0])
            case Scan() as scan:
                return _scan(self(scan.body), scan, operands, id(eqn))
            case While() as loop:
                check_no_site(eqn, TAGS)
                return _while(self(loop.condition), self(loop.body), loop, operands)
            case Shards() as shards:
                return _shards(self(shards.body).at(operands), shards, id(eqn))
        check_no_site(eqn, TAGS)
        return Summary((Flow(_union(operands)),) * len(eqn.outvars))


def _union(flows: Sequence[Flow]) -> Sources:
    return frozenset().union(*(flow.sources for flow in flows))


def _sow(eqn: jex.JaxprEqn, operands: list[Flow]) -> Summary:
    site = eqn.params["site"]
    values, _, extras, _ = site.split(operands)
    if site.tag not in TAGS:
        return Summary(values)
    parts = [
        Part(extra.sources, tuple(axis.mapped[i] for axis in site.axes))
        for i, extra in enumerate(extras)
    ]
    if kind_of(site) != LATENT:  # Of a draw, the distribution counts; of the others, the value.
        parts.append(Part(_union(values), (True,) * len(site.axes)))
    outs = (Flow(frozenset([site.path]), (site.path, i)) for i in range(site.num_values))
    return Summary(tuple(outs), {site.path: Sown(site, _families(eqn), tuple(parts))})


def _families(eqn: jex.JaxprEqn) -> tuple[str, ...]:
    site = eqn.params["site"]
    if site.tag != RANDOM:
        return ()
    found = []

    def look(*leaves: Any) -> tuple[()]:
        found.append(distribution_protocol.name_of(jax.tree.unflatten(site.extra_tree, leaves)))
        return ()

    extras = [struct_of(v.aval) for v in site.split(eqn.invars)[2]]
    jax.eval_shape(lift(look, site.axes), *extras)
    return tuple(found)


def _convert(eqn: jex.JaxprEqn, operands: list[Flow]) -> Summary:
    """A copy, where the dtype stays; that weak types become strong is no other value."""
    is_copy = _jax.dtype_of(eqn.invars[0]) == _jax.dtype_of(eqn.outvars[0])
    return Summary((operands[0] if is_copy else Flow(operands[0].sources),))


def _shards(body: Summary, shards: Shards, equation: int) -> Summary:
    """Results are no copies: specs that differ put the same shards together otherwise."""
    summary = body.within(Loop("shards", math.prod(shards.axes.values()), equation))
    outs = tuple(Flow(flow.sources) for flow in summary.outs)
    return dataclasses.replace(summary, outs=outs)


def _branches(branches: list[Summary], index: Flow) -> Summary:
    """Results depend on the predicate, unless all branches give the very same value."""
    outs = []
    for flows in zip(*(branch.outs for branch in branches), strict=True):
        copies = {flow.copy_of for flow in flows}
        same = len(copies) == 1 and None not in copies
        outs.append(flows[0] if same else Flow(_union([index, *flows])))
    sites = {}
    for path, first in branches[0].sites.items():
        found = [branch.sites[path] for branch in branches]
        predicate = Part(index.sources, (False,) * len(first.site.axes))
        parts = [part for sown in found for part in sown.parts]
        families = dict.fromkeys(name for sown in found for name in sown.families)
        sites[path] = dataclasses.replace(
            first, parts=(*parts, predicate), families=tuple(families)
        )
    return Summary(tuple(outs), sites)


def _scan(body: Summary, scan: Scan, operands: list[Flow], equation: int) -> Summary:
    """Dependence goes from step to step, until what the carry depends on repeats itself."""
    length, num_carry = scan.length, scan.num_carry
    consts, carry, xs = scan.split(operands)
    carry, steps = [Flow(flow.sources) for flow in carry], []
    while carry not in steps and len(steps) < length:
        steps.append(carry)
        outs = body.at([*consts, *carry, *xs]).outs[:num_carry]
        carry = [Flow(_of_step_before(flow.sources, body)) for flow in outs]
        if len(steps) > 4 * num_carry:  # It turns in a long circle: so all that it was before, too.
            carry = _joined([carry, steps[-1]])
    if len(steps) < length:
        start = steps.index(carry)
        carry = steps[start + (length - start) % (len(steps) - start)]
    over_all = _joined(steps) if steps else [Flow()] * num_carry
    inside = body.at([*consts, *over_all, *xs])
    outs = [Flow(_of_any_step(flow.sources)) for flow in (*carry, *inside.outs[num_carry:])]
    return Summary(tuple(outs), inside.within(Loop("scan", length, equation)).sites)


def _of_step_before(sources: Sources, body: Summary) -> Sources:
    return frozenset(Earlier(s) if isinstance(s, tuple) and s in body.sites else s for s in sources)


def _of_any_step(sources: Sources) -> Sources:
    return frozenset(s.path if isinstance(s, Earlier) else s for s in sources)


def _joined(rows: Sequence[Sequence[Flow]]) -> list[Flow]:
    return [Flow(_union(flows)) for flows in zip(*rows, strict=True)]


def _while(test: Summary, body: Summary, loop: While, operands: list[Flow]) -> Summary:
    """There may be any number of steps, and how many depends on the condition."""
    test_consts, body_consts, start = loop.split(operands)
    before, carry = None, [Flow(flow.sources) for flow in start]
    while carry != before:
        before, carry = carry, _joined([carry, body.at([*body_consts, *carry]).outs])
    (goes_on,) = test.at([*test_consts, *carry]).outs
    return Summary(
        tuple(
            first if out.copy_of == loop.num_body_consts + i else Flow(_union([last, goes_on]))
            for i, (first, out, last) in enumerate(zip(start, body.outs, carry, strict=True))
        )
    )
