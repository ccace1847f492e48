"""Dependence between the sites of a program, read off its jaxpr; nothing is evaluated.

Each jaxpr is read once, whatever its operands: its summary names its inputs by position.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import jax
from jax import lax
from jax.extend import core as jex

from ppl.analysis.misplaced_sites import check_no_site
from ppl.common import distribution_protocol
from ppl.common.lift import lift
from ppl.harvest import jax_core, jaxprs
from ppl.harvest.array_primitives import passes_on
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.rules import wiring_of
from ppl.harvest.sowing import Site, sow_p
from ppl.harvest.survey import Path, struct_of
from ppl.harvest.wirings import Branches, Call, Scan, Shards, While
from ppl.primitives.site_kinds import LATENT, RANDOM, TAGS, kind_of

T = TypeVar("T", bound=Hashable)


@dataclasses.dataclass(frozen=True)
class Earlier:
    """A site in an earlier step of a scan."""

    path: Path


@dataclasses.dataclass(frozen=True)
class Captured:
    """A value that is not known, captured from outside of the program."""


Sources = frozenset[int | Path | Earlier | Captured]  # inputs are given by position


@dataclasses.dataclass(frozen=True)
class DataFlow:
    """Sources of a variable, traced back to the nearest sites.

    Attributes:
        sources: The inputs and sites that the variable depends on.
        copy_of: The leaf of a site (path, index), or the input, that the variable merely copies;
            None if it is computed.
    """

    sources: Sources = frozenset()
    copy_of: Hashable = None


@dataclasses.dataclass(frozen=True)
class Part:
    """One dependence of a site: a leaf of its distribution, its value, or a predicate.

    Attributes:
        sources: The inputs and sites that it depends on.
        mapped: Whether each `vmap` axis of the site, innermost first, maps it. If none does, it is
            equal for all elements.
        is_added: Whether a transformation has added it to the distribution, as a factor of `scale`.
    """

    sources: Sources
    mapped: tuple[bool, ...]
    is_added: bool = False


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop around a site.

    Attributes:
        kind: "scan", "shards" (of a `shard_map`), or "vmap" for an axis.
        size: The number of steps, shards or elements.
        equation: The `id` of the equation, to tell loops apart.
        name: The name of a `vmap` axis, if it has one.
    """

    kind: str
    size: int
    equation: int
    name: str | None = None


@dataclasses.dataclass(frozen=True)
class SownSite:
    """A site in a jaxpr, with its dependences.

    Attributes:
        site: The site.
        families: The names of its distributions: several in a cond, none if it is not random.
        parts: Its dependences.
        loops: The loops around it, innermost first.
    """

    site: Site
    families: tuple[str, ...]
    parts: tuple[Part, ...]
    loops: tuple[Loop, ...] = ()

    @property
    def parents(self) -> frozenset[Path]:
        """The sites that it depends on; in a loop, only within one step."""
        return frozenset(s for part in self.parts for s in part.sources if isinstance(s, tuple))

    @property
    def earlier(self) -> frozenset[Path]:
        """The sites that it depends on through an earlier step of a scan."""
        sources = (s for part in self.parts for s in part.sources)
        return frozenset(s.path for s in sources if isinstance(s, Earlier))


@dataclasses.dataclass(frozen=True)
class DependenceSummary:
    """Sources of the results of a jaxpr, and the sites in it, in program order."""

    outs: tuple[DataFlow, ...]
    sites: Mapping[Path, SownSite] = dataclasses.field(default_factory=dict)

    def at(self, operands: Sequence[DataFlow]) -> "DependenceSummary":
        """Summary of a call: sources that are inputs give way to the sources of operands."""

        def sources(of: Sources) -> Sources:
            flows = [operands[s].sources if isinstance(s, int) else {s} for s in of]
            return frozenset().union(*flows)

        def flow(of: DataFlow) -> DataFlow:
            copy_of = of.copy_of
            copy_of = operands[copy_of].copy_of if isinstance(copy_of, int) else copy_of
            return DataFlow(sources(of.sources), copy_of)

        def sown(of: SownSite) -> SownSite:
            parts = [dataclasses.replace(part, sources=sources(part.sources)) for part in of.parts]
            return dataclasses.replace(of, parts=tuple(parts))

        sites = {path: sown(found) for path, found in self.sites.items()}
        return DependenceSummary(tuple(map(flow, self.outs)), sites)

    def enclose_in_loop(self, loop: Loop) -> "DependenceSummary":
        """Summary seen from outside of a loop, which is added to the loops of each site."""
        sites = {
            path: dataclasses.replace(found, loops=(*found.loops, loop))
            for path, found in self.sites.items()
        }
        return DependenceSummary(self.outs, sites)


class MutableArrayError(NotImplementedError):
    """Error for a program that writes to a mutable array."""


class Dependence:
    """Reader of jaxprs that caches the summary of each."""

    def __init__(self) -> None:
        self._memo: dict[int, tuple[Any, DependenceSummary]] = {}

    def __call__(self, jaxpr: Jaxpr) -> DependenceSummary:
        """The summary of a jaxpr."""
        if id(jaxpr) not in self._memo:
            self._memo[id(jaxpr)] = jaxpr, self._read(jaxpr)
        return self._memo[id(jaxpr)][1]

    def _read(self, jaxpr: Jaxpr) -> DependenceSummary:
        inner, consts = jaxprs.raw(jaxpr)
        flows = {v: DataFlow(frozenset([i]), i) for i, v in enumerate(inner.invars)}
        known = zip(inner.constvars, consts, strict=False)
        captured = DataFlow(frozenset([Captured()]))
        flows |= {v: captured for v, x in known if jax_core.is_traced(x)}
        sites: dict[Path, SownSite] = {}

        def read(atoms: Sequence[Any]) -> list[DataFlow]:
            """Data flows of atoms; literals and known constants have none."""
            return [
                DataFlow() if isinstance(v, jex.Literal) else flows.get(v, DataFlow())
                for v in atoms
            ]

        for eqn in inner.eqns:
            found = self._equation(eqn, read(eqn.invars))
            flows.update(zip(eqn.outvars, found.outs, strict=True))
            sites.update(found.sites)
        return DependenceSummary(tuple(read(inner.outvars)), sites)

    def _equation(self, eqn: jex.JaxprEqn, operands: list[DataFlow]) -> DependenceSummary:
        if any(jax_core.is_ref(v.aval) for v in eqn.invars):
            raise MutableArrayError(
                "graph: the model writes to a mutable array (jax.new_ref), through which no "
                "dependence is followed. Carry the value through the loop, or return it."
            )
        if eqn.primitive is sow_p:
            return _sow(eqn, operands)
        if eqn.primitive is lax.convert_element_type_p:
            return _convert(eqn, operands)
        if passes_on(eqn):
            return DependenceSummary(tuple(operands[: len(eqn.outvars)]))
        match wiring_of(eqn):
            case Call(body, indices):
                return self(body).at([operands[i] for i in indices])
            case Branches(bodies):
                return _branches([self(body).at(operands[1:]) for body in bodies], operands[0])
            case Scan(is_vmap=True) as elements:
                return _elements(self(elements.body), elements, operands)
            case Scan() as scan:
                return _scan(self(scan.body), scan, operands, id(eqn))
            case While() as loop:
                check_no_site(eqn, TAGS)
                return _while(self(loop.condition), self(loop.body), loop, operands)
            case Shards() as shards:
                return _shards(self(shards.body).at(operands), shards, id(eqn))
        check_no_site(eqn, TAGS)
        return DependenceSummary((DataFlow(_union(operands)),) * len(eqn.outvars))


def find_ancestors(
    parents: Mapping[T, Collection[T]],
    sites: Iterable[T],
    passes: Callable[[T], bool] = lambda _: True,
) -> set[T]:
    """The sites that some of the given sites depend on, directly or through others.

    Args:
        parents: For each site, the sites that it depends on directly.
        sites: The given sites; a given site is in the result only if it depends on itself or
            another given site depends on it.
        passes: Whether a dependence through a site counts.
    """
    found: set[T] = set()
    new = set(sites)
    while new:
        new = {parent for site in new for parent in parents[site]} - found
        found |= new
        new = set(filter(passes, new))
    return found


def _union(flows: Sequence[DataFlow]) -> Sources:
    return frozenset().union(*(flow.sources for flow in flows))


def _sow(eqn: jex.JaxprEqn, operands: list[DataFlow]) -> DependenceSummary:
    site = eqn.params["site"]
    values, _, extras, _ = site.split(operands)
    if site.tag not in TAGS:
        return DependenceSummary(values)
    num_inner = distribution_protocol.num_inner_leaves(site.extra_tree) if extras else 0
    parts = [
        Part(extra.sources, tuple(axis.mapped[i] for axis in site.axes), i >= num_inner)
        for i, extra in enumerate(extras)
    ]
    # A latent site depends on others only by its distribution, any other site also by its value.
    if kind_of(site) != LATENT:
        parts.append(Part(_union(values), (True,) * len(site.axes)))
    outs = (DataFlow(frozenset([site.path]), (site.path, i)) for i in range(site.num_values))
    return DependenceSummary(tuple(outs), {site.path: SownSite(site, _families(eqn), tuple(parts))})


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


def _convert(eqn: jex.JaxprEqn, operands: list[DataFlow]) -> DependenceSummary:
    """Data flow of a cast: a copy if the dtype stays, even if a weak type becomes strong."""
    is_copy = jax_core.dtype_of(eqn.invars[0]) == jax_core.dtype_of(eqn.outvars[0])
    return DependenceSummary((operands[0] if is_copy else DataFlow(operands[0].sources),))


def _shards(body: DependenceSummary, shards: Shards, equation: int) -> DependenceSummary:
    """Summary of a shard_map. No result counts as a copy: specs may reorder the shards."""
    summary = body.enclose_in_loop(Loop("shards", math.prod(shards.axes.values()), equation))
    outs = tuple(DataFlow(flow.sources) for flow in summary.outs)
    return dataclasses.replace(summary, outs=outs)


def _branches(branches: list[DependenceSummary], index: DataFlow) -> DependenceSummary:
    """Summary of a cond: results depend on the predicate, unless all branches copy one value."""
    outs = []
    for flows in zip(*(branch.outs for branch in branches), strict=True):
        copies = {flow.copy_of for flow in flows}
        same = len(copies) == 1 and None not in copies
        outs.append(flows[0] if same else DataFlow(_union([index, *flows])))
    sites = {}
    for path, first in branches[0].sites.items():
        found = [branch.sites[path] for branch in branches]
        predicate = Part(index.sources, (False,) * len(first.site.axes))
        parts = [part for sown in found for part in sown.parts]
        families = dict.fromkeys(name for sown in found for name in sown.families)
        sites[path] = dataclasses.replace(
            first, parts=(*parts, predicate), families=tuple(families)
        )
    return DependenceSummary(tuple(outs), sites)


def _scan(
    body: DependenceSummary, scan: Scan, operands: list[DataFlow], equation: int
) -> DependenceSummary:
    """Summary of a scan: iterates over steps until the sources of the carry repeat."""
    length = scan.length
    num_carry = scan.num_carry
    consts, carry, xs = scan.split(operands)
    carry = [DataFlow(flow.sources) for flow in carry]
    steps = []
    while carry not in steps and len(steps) < length:
        steps.append(carry)
        outs = body.at([*consts, *carry, *xs]).outs[:num_carry]
        carry = [DataFlow(_mark_earlier(flow.sources, body)) for flow in outs]
        if len(steps) > 4 * num_carry:  # A long cycle: join its steps, so that it ends.
            carry = _join_rows([carry, steps[-1]])
    if len(steps) < length:
        start = steps.index(carry)
        carry = steps[start + (length - start) % (len(steps) - start)]
    over_all = _join_rows(steps) if steps else [DataFlow()] * num_carry
    inside = body.at([*consts, *over_all, *xs])
    outs = [DataFlow(_forget_step(flow.sources)) for flow in (*carry, *inside.outs[num_carry:])]
    return DependenceSummary(
        tuple(outs), inside.enclose_in_loop(Loop("scan", length, equation)).sites
    )


def _elements(
    body: DependenceSummary, elements: Scan, operands: list[DataFlow]
) -> DependenceSummary:
    """Summary of all elements of a `vmap`, which adds one axis to each site."""

    def is_mapped(part: Part) -> bool:
        inputs = (s for s in part.sources if not isinstance(s, Captured))
        return any(not isinstance(s, int) or s >= elements.num_consts for s in inputs)

    def outside(sown: SownSite) -> SownSite:
        site = sown.site.out_of_vmap(len(sown.loops), elements.length)
        parts = (dataclasses.replace(p, mapped=(*p.mapped, is_mapped(p))) for p in sown.parts)
        return dataclasses.replace(sown, site=site, parts=tuple(parts))

    sites = {path: outside(sown) for path, sown in body.sites.items()}
    summary = DependenceSummary(body.outs, sites).at(operands)
    outs = tuple(DataFlow(flow.sources) for flow in summary.outs)
    return DependenceSummary(outs, summary.sites)


def _mark_earlier(sources: Sources, body: DependenceSummary) -> Sources:
    return frozenset(Earlier(s) if isinstance(s, tuple) and s in body.sites else s for s in sources)


def _forget_step(sources: Sources) -> Sources:
    return frozenset(s.path if isinstance(s, Earlier) else s for s in sources)


def _join_rows(rows: Sequence[Sequence[DataFlow]]) -> list[DataFlow]:
    return [DataFlow(_union(flows)) for flows in zip(*rows, strict=True)]


def _while(
    test: DependenceSummary, body: DependenceSummary, loop: While, operands: list[DataFlow]
) -> DependenceSummary:
    """Summary of a while loop: a fixed point over any number of steps.

    Results depend on the condition, as it decides the number of steps; a carry that the body passes
    on unchanged does not.
    """
    test_consts, body_consts, start = loop.split(operands)
    before = None
    carry = [DataFlow(flow.sources) for flow in start]
    while carry != before:
        before = carry
        carry = _join_rows([carry, body.at([*body_consts, *carry]).outs])
    (goes_on,) = test.at([*test_consts, *carry]).outs
    return DependenceSummary(
        tuple(
            first if out.copy_of == loop.num_body_consts + i else DataFlow(_union([last, goes_on]))
            for i, (first, out, last) in enumerate(zip(start, body.outs, carry, strict=True))
        )
    )
