"""Which states of a loop are needed for what comes after them, once the sown values are given."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jax.extend import core as jex

from ppl.harvest import _jax, _jaxprs
from ppl.harvest._interpreter import Action, Interpreter, Operands
from ppl.harvest._liveness import Liveness, Mask
from ppl.harvest._sow import Site, sow_p
from ppl.harvest._survey import Path


@dataclasses.dataclass(frozen=True)
class _Given(Action):
    """Sites whose values do not depend on the program."""

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


class _Scan:
    """A loop that takes a step does not need a start that its steps do not read."""

    def __init__(self, rule: Any):
        self._rule = rule
        self.find = rule.find

    def live_operands(self, eqn: Any, live_outs: Mask, liveness: Liveness) -> Mask:
        """The operands that the needed results depend on."""
        num_consts, num_carry = _jax.scan_sizes(eqn)
        operands = self._rule.live_operands(eqn, live_outs, liveness)
        if not eqn.params["length"]:
            return operands
        carry = operands[num_consts : num_consts + num_carry]
        return liveness.inputs(eqn.params["jaxpr"], (*carry, *live_outs[num_carry:]))


class _Cond:
    """Where all branches give one value, it does not matter which of them is taken."""

    def __init__(self, rule: Any, names: Collection[Path]):
        self._rule = rule
        self._names = names
        self.find = rule.find

    def live_operands(self, eqn: Any, live_outs: Mask, liveness: Liveness) -> Mask:
        """The operands that the needed results depend on."""
        _, *operands = self._rule.live_operands(eqn, live_outs, liveness)
        branches = [self._sources(branch) for branch in eqn.params["branches"]]
        columns = zip(live_outs, *branches, strict=True)
        return (any(live and not _agree(found) for live, *found in columns), *operands)

    def _sources(self, branch: Any) -> list[Any]:
        """For each result of a branch, the given value or the operand that it is, if it is one."""
        inner, _ = _jaxprs.raw(branch)
        sources: dict[Any, Any] = {v: i for i, v in enumerate(inner.invars)}
        for eqn in inner.eqns:
            if eqn.primitive is sow_p:
                path, num_values = eqn.params["site"].path, eqn.params["site"].num_values
                for i, (v, x) in enumerate(zip(eqn.outvars, eqn.invars[:num_values], strict=True)):
                    sources[v] = (path, i) if path in self._names else _source(sources, x)
        return [_source(sources, v) for v in inner.outvars]


def _source(sources: Mapping[Any, Any], atom: Any) -> Any:
    return None if isinstance(atom, jex.Literal) else sources.get(atom)


def _agree(sources: Sequence[Any]) -> bool:
    return sources[0] is not None and len(set(sources)) == 1


def needs(
    eqn: Any, on: Interpreter, live_body: Mask, planted: Collection[Path]
) -> dict[int, list[int]]:
    """Of each needed state of a scan, which states before it is made of."""
    names = frozenset(planted)
    rules = {"scan": _Scan(on.rules["scan"]), "cond": _Cond(on.rules["cond"], names)}
    liveness = on.under(_Given(on.action, names), planted, {**on.rules, **rules}).liveness
    num_consts, num_carry = _jax.scan_sizes(eqn)
    found = {}
    for i in range(num_carry):
        if live_body[i]:
            only = tuple(j == i for j in range(len(live_body)))
            read = liveness.inputs(eqn.params["jaxpr"], only)[num_consts : num_consts + num_carry]
            found[i] = [j for j, is_read in enumerate(read) if is_read]
    return found
