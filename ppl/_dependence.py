"""Which site of a program depends on which, read off its jaxpr; nothing is evaluated.

Each jaxpr is read once, whatever it is called with: its summary speaks of its inputs by position.
"""

import dataclasses
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
from jax.extend import core as jex

from ppl import distribution
from ppl._kinds import LATENT, RANDOM, TAGS, kind_of
from ppl._lift import lift
from ppl.harvest import _jax, _jaxprs
from ppl.harvest._sow import Site
from ppl.harvest._survey import Path, struct_of


@dataclasses.dataclass(frozen=True)
class Earlier:
    """A site in a scan, as of a step before the present one."""

    path: Path


Sources = frozenset[int | Path | Earlier]  # Inputs of the jaxpr by position, and sites.


@dataclasses.dataclass(frozen=True)
class Flow:
    """What a variable depends on, other than through a site.

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
    """What the results of a jaxpr depend on, and the sites in it, in program order."""

    outs: tuple[Flow, ...]
    sites: Mapping[Path, Sown] = dataclasses.field(default_factory=dict)

    def at(self, operands: Sequence[Flow]) -> "Summary":
        """The same for a call with these operands."""

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
        """The same as seen from outside of a loop."""
        sites = {
            path: dataclasses.replace(found, loops=(*found.loops, loop))
            for path, found in self.sites.items()
        }
        return Summary(self.outs, sites)


class Dependence:
    """Summaries of jaxprs, each of which is read once."""

    def __init__(self) -> None:
        self._memo: dict[int, tuple[Any, Summary]] = {}

    def __call__(self, jaxpr: Any) -> Summary:
        """The summary of a jaxpr."""
        if id(jaxpr) not in self._memo:
            self._memo[id(jaxpr)] = jaxpr, self._read(jaxpr)
        return self._memo[id(jaxpr)][1]

    def _read(self, jaxpr: Any) -> Summary:
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

    def _equation(self, eqn: Any, operands: list[Flow]) -> Summary:
        if any(_jax.is_ref(v.aval) for v in eqn.invars):
            raise NotImplementedError(
                "graph: the model writes to a mutable array (jax.new_ref), through which no "
                "dependence is followed. Carry the value through the loop, or return it."
            )
        if rule := _RULES.get(eqn.primitive.name):
            return rule(self, eqn, operands)
        return Summary((Flow(_union(operands)),) * len(eqn.outvars))


def _union(flows: Sequence[Flow]) -> Sources:
    return frozenset().union(*(flow.sources for flow in flows))


def _sow(on: Dependence, eqn: Any, operands: list[Flow]) -> Summary:
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


def _families(eqn: Any) -> tuple[str, ...]:
    site = eqn.params["site"]
    if site.tag != RANDOM:
        return ()
    found = []

    def look(*leaves: Any) -> tuple[()]:
        found.append(distribution.name_of(jax.tree.unflatten(site.extra_tree, leaves)))
        return ()

    extras = [struct_of(v.aval) for v in site.split(eqn.invars)[2]]
    jax.eval_shape(lift(look, site.axes), *extras)
    return tuple(found)


def _copy(on: Dependence, eqn: Any, operands: list[Flow]) -> Summary:
    return Summary(tuple(operands[: len(eqn.outvars)]))


def _convert(on: Dependence, eqn: Any, operands: list[Flow]) -> Summary:
    """A copy, where the dtype stays; that weak types become strong is no other value."""
    is_copy = eqn.invars[0].aval.dtype == eqn.outvars[0].aval.dtype
    return Summary((operands[0] if is_copy else Flow(operands[0].sources),))


def _jaxpr(on: Dependence, eqn: Any, operands: list[Flow]) -> Summary:
    return on(eqn.params["jaxpr"]).at(operands)


def _call_jaxpr(on: Dependence, eqn: Any, operands: list[Flow]) -> Summary:
    return on(eqn.params["call_jaxpr"]).at(operands)


def _custom(on: Dependence, eqn: Any, operands: list[Flow]) -> Summary:
    if _jax.is_opaque(eqn) and not _jax.has_sow(eqn):
        return Summary((Flow(_union(operands)),) * len(eqn.outvars))
    body, indices = _jax.custom_body(eqn)
    return on(body).at([operands[i] for i in indices])


def _shard_map(on: Dependence, eqn: Any, operands: list[Flow]) -> Summary:
    """What comes out is no copy: specs that differ put the same shards together otherwise."""
    loop = Loop("shards", math.prod(_jax.shards(eqn).values()), id(eqn))
    summary = on(eqn.params["jaxpr"]).at(operands).within(loop)
    outs = tuple(Flow(flow.sources) for flow in summary.outs)
    return dataclasses.replace(summary, outs=outs)


def _cond(on: Dependence, eqn: Any, operands: list[Flow]) -> Summary:
    """What comes out depends on the predicate, unless all branches give the very same value."""
    index, *operands = operands
    branches = [on(branch).at(operands) for branch in eqn.params["branches"]]
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


def _scan(on: Dependence, eqn: Any, operands: list[Flow]) -> Summary:
    """Dependence goes from step to step, until what the carry depends on repeats itself."""
    body, length = on(eqn.params["jaxpr"]), eqn.params["length"]
    num_consts, num_carry = _jax.scan_sizes(eqn)
    consts, carry, xs = _split(operands, num_consts, num_carry)
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
    return Summary(tuple(outs), inside.within(Loop("scan", length, id(eqn))).sites)


def _of_step_before(sources: Sources, body: Summary) -> Sources:
    return frozenset(Earlier(s) if isinstance(s, tuple) and s in body.sites else s for s in sources)


def _of_any_step(sources: Sources) -> Sources:
    return frozenset(s.path if isinstance(s, Earlier) else s for s in sources)


def _joined(rows: Sequence[Sequence[Flow]]) -> list[Flow]:
    return [Flow(_union(flows)) for flows in zip(*rows, strict=True)]


def _while(on: Dependence, eqn: Any, operands: list[Flow]) -> Summary:
    """There may be any number of steps, and how many depends on the condition."""
    test, body = on(eqn.params["cond_jaxpr"]), on(eqn.params["body_jaxpr"])
    num_test, num_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    test_consts, body_consts, start = _split(operands, num_test, num_body)
    before, carry = None, [Flow(flow.sources) for flow in start]
    while carry != before:
        before, carry = carry, _joined([carry, body.at([*body_consts, *carry]).outs])
    (goes_on,) = test.at([*test_consts, *carry]).outs
    return Summary(
        tuple(
            first if out.copy_of == num_body + i else Flow(_union([last, goes_on]))
            for i, (first, out, last) in enumerate(zip(start, body.outs, carry, strict=True))
        )
    )


def _split(items: Sequence[Flow], first: int, second: int) -> tuple[Any, Any, Any]:
    return items[:first], items[first : first + second], items[first + second :]


_RULES: Mapping[str, Callable[[Dependence, Any, list[Flow]], Summary]] = {
    "sow": _sow,
    "tie": _copy,
    "copy": _copy,
    "pvary": _copy,
    "convert_element_type": _convert,
    "device_put": _copy,
    "optimization_barrier": _copy,
    "jit": _jaxpr,
    "remat2": _jaxpr,
    "closed_call": _call_jaxpr,
    "eval_jaxpr": _call_jaxpr,
    "custom_jvp_call": _custom,
    "custom_vjp_call": _custom,
    "custom_linear_solve": _custom,
    "call_hi_primitive": _custom,
    "shard_map": _shard_map,
    "cond": _cond,
    "scan": _scan,
    "while": _while,
}
