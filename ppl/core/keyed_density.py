"""Error messages that say why a density depends on the random key of its model."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ppl.analysis.summed_sites import explain_drawn, find_drawn, summed_programs
from ppl.harvest import jaxprs
from ppl.harvest.interpreter import Action, Operands
from ppl.harvest.program import Harvester, Program
from ppl.harvest.sowing import Site, sow_p
from ppl.harvest.survey import Path, describe
from ppl.primitives.site_kinds import LATENT, Hidden


@dataclasses.dataclass(frozen=True)
class _Known(Action):
    """Another action, with the values of some hidden sites known."""

    action: Action
    hidden: frozenset[Path]

    def matches(self, site: Site) -> bool:
        return self.action.matches(site) or self._knows(site)

    def strips(self, site: Site) -> bool:
        return self.action.strips(site) and not self._knows(site)

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        return (False, False, False) if self._knows(site) else self.action.reads(site, planted)

    def at(self, site: Site, operands: Operands, plant: Any) -> Any:
        raise AssertionError("This is no action to run.")

    def _knows(self, site: Site) -> bool:
        return _is_hidden_latent(site) and site.path in self.hidden


def explain_key(name: str, program: Program, action: Action, plants: Mapping[Path, Any]) -> str:
    """Error message where the records of an action depend on the key of a model.

    Args:
        name: The name of the model.
        program: The traced model.
        action: The action.
        plants: The planted values by path.
    """
    live = Harvester(program, action).live_equations(plants)
    needed = _find_needed(program, action, plants, live)
    if hidden := needed or _find_in_sums(program.jaxpr, action):
        names = ", ".join(map(describe, hidden))
        return (
            f"{name}: its density depends on the value of {names}, latent, which ppl.block hides: "
            "it is drawn, and neither given nor observed. Do not block it; or observe it, by "
            "ppl.condition; or sum or integrate it out, by ppl.marginalize in place of ppl.block."
        )
    if gone := find_drawn(program.jaxpr, live):
        return explain_drawn(name, gone)
    return (
        f"{name}: its density depends on its random key elsewhere than in ppl.sample, so it is no "
        "function of the values of its sites. Draw all randomness with ppl.sample, or pass it as "
        "an argument, such as a key for dropout."
    )


def _find_needed(
    program: Program, action: Action, plants: Mapping[Path, Any], live: Sequence[Any]
) -> tuple[Path, ...]:
    """The hidden latent sites without whose values the density depends on the key."""
    found = tuple(dict.fromkeys(_hidden_latent(live)))

    def reads_key(known: frozenset[Path]) -> bool:
        known_action = _Known(action, known)
        return Harvester(program, known_action).reads(0, {**plants, **dict.fromkeys(known)})

    if not found or reads_key(frozenset(found)):
        return ()
    return tuple(path for path in found if reads_key(frozenset(found) - {path}))


def _find_in_sums(jaxpr: Any, action: Action) -> tuple[Path, ...]:
    """The hidden latent sites that scores depend on which are summed or integrated."""
    found: list[Path] = []
    for scope, summed in summed_programs(jaxpr):
        inner = summed.summation.jaxpr
        scores = Harvester(Program(inner, [], [None] * len(inner.invars), list), action)
        live = scores.live_equations(dict.fromkeys(scores.sites))
        paths = (*_hidden_latent(live), *_find_in_sums(inner, action))
        found += [(*scope, *path) for path in paths]
    return tuple(dict.fromkeys(found))


def _hidden_latent(equations: Sequence[Any]) -> Iterator[Path]:
    for eqn in equations:
        if eqn.primitive is sow_p and _is_hidden_latent(eqn.params["site"]):
            yield eqn.params["site"].path
        for value in eqn.params.values():
            for inner in jaxprs.jaxprs_in(value):
                yield from _hidden_latent(jaxprs.raw(inner)[0].eqns)


def _is_hidden_latent(site: Site) -> bool:
    return site.tag == Hidden.SITE and site.note == LATENT
