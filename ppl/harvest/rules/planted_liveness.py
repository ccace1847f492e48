"""Liveness of the states of a loop, given planted values."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jax.extend import core as jex

from ppl.harvest import jaxprs
from ppl.harvest.construct import CONSTRUCTS, Construct
from ppl.harvest.interpreter import Action, Interpreter, Operands
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.liveness import Liveness, Mask
from ppl.harvest.sowing import Site, sow_p
from ppl.harvest.survey import Path
from ppl.harvest.wirings import Branches, Scan


@dataclasses.dataclass(frozen=True)
class _PlantedSites(Action):
    """Action at planted sites, whose values do not depend on the program."""

    action: Action
    names: frozenset[Path]

    def matches(self, site: Site) -> bool:
        return self.action.matches(site) and site.path in self.names

    def strips(self, site: Site) -> bool:
        return True

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        return False, False, False

    def at(self, site: Site, operands: Operands, plant: Any) -> Any:
        raise AssertionError("This is no action to run.")


class _Rule:
    """Liveness rule of a construct that needs fewer operands where values are planted.

    The index of a cond is not needed if all branches give the same value.
    """

    def __init__(self, rule: Construct, names: Collection[Path]):
        self._rule = rule
        self._names = names
        self.find = rule.find

    def live_operands(self, eqn: jex.JaxprEqn, live_outs: Mask, liveness: Liveness) -> Mask:
        """Mask of the operands that the needed results depend on."""
        operands = self._rule.live_operands(eqn, live_outs, liveness)
        wiring = self._rule.wiring(eqn)
        if not isinstance(wiring, Branches):
            return operands
        sources = [self._sources(body) for body in wiring.bodies]
        columns = zip(live_outs, *sources, strict=True)
        is_index_live = any(live and not _agree(found) for live, *found in columns)
        return (is_index_live, *operands[1:])

    def _sources(self, branch: Jaxpr) -> list[Any]:
        """Source of each result of a branch: a planted value, an operand, or None."""
        inner, _ = jaxprs.raw(branch)
        sources: dict[Any, Any] = {v: i for i, v in enumerate(inner.invars)}
        for eqn in inner.eqns:
            if eqn.primitive is sow_p:
                path = eqn.params["site"].path
                num_values = eqn.params["site"].num_values
                for i, (v, x) in enumerate(zip(eqn.outvars, eqn.invars[:num_values], strict=True)):
                    sources[v] = (path, i) if path in self._names else _source(sources, x)
        return [_source(sources, v) for v in inner.outvars]


def _source(sources: Mapping[Any, Any], atom: Any) -> Any:
    return None if isinstance(atom, jex.Literal) else sources.get(atom)


def _agree(sources: Sequence[Any]) -> bool:
    return sources[0] is not None and len(set(sources)) == 1


def find_needed_states(
    scan: Scan, on: Interpreter, live_body: Mask, planted: Collection[Path]
) -> dict[int, list[int]]:
    """States of the previous step that each needed state of a scan depends on, by position."""
    names = frozenset(planted)
    rules = {name: _Rule(construct, names) for name, construct in CONSTRUCTS.items()}
    liveness = on.under(_PlantedSites(on.action, names), planted, rules).liveness
    found = {}
    for i in range(scan.num_carry):
        if live_body[i]:
            only = tuple(j == i for j in range(len(live_body)))
            _, read, _ = scan.split(liveness.inputs(scan.body, only))
            found[i] = [j for j, is_read in enumerate(read) if is_read]
    return found
