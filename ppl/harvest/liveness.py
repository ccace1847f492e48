"""Liveness analysis: an equation that a plant makes dead is never evaluated."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.hidden_sows import hides_sow
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.sowing import sow_p
from ppl.harvest.survey import Path, Survey

Mask = tuple[bool, ...]
Needs = tuple[Mask, Mask]  # Masks of an equation: operands that are read, results that are read.


class LiveRule(Protocol):
    """Liveness rule of an equation with inner programs: from results to operands."""

    def live_operands(self, eqn: jex.JaxprEqn, live_outs: Mask, liveness: "Liveness") -> Mask:
        """Mask of the operands that live results and records depend on."""
        ...


class Liveness:
    """Backward liveness analysis, memoized on the jaxpr and the mask of its needed results.

    | equation                               | needed                      |
    |----------------------------------------|-----------------------------|
    | with a matching sow, or another effect | always                      |
    | sow that is stripped                   | as far as its value is      |
    | any other                              | if one of its results is    |

    An equation with inner programs needs the operands that its needed results depend on. So a call
    that returns keys beside numbers does not need its key if nothing reads the returned keys.

    `reads(eqn)` is the mask of the operands of a matching sow that the transformation reads.
    `opens(eqn)` tells whether an equation is evaluated by its rule. `replaced` are the paths at
    which plants replace sown values.
    """

    def __init__(
        self,
        survey: Survey,
        rules: Mapping[str, LiveRule],
        reads: Callable[[Any], Mask],
        opens: Callable[[Any], bool],
        replaced: frozenset[Path],
    ):
        self._replaced = replaced
        self._opens = opens
        self._survey = survey
        self._rules = rules
        self._reads = reads
        self._memo: dict[tuple[int, Mask], tuple[list[Needs | None], Mask]] = {}

    def equations(self, jaxpr: Jaxpr, live_outs: Sequence[bool]) -> list[Needs | None]:
        """Needs of each equation of a jaxpr; None for a dead one."""
        return self._analyze(jaxpr, tuple(live_outs))[0]

    def inputs(self, jaxpr: Jaxpr, live_outs: Sequence[bool]) -> Mask:
        """Mask of the inputs of a jaxpr that are needed."""
        return self._analyze(jaxpr, tuple(live_outs))[1]

    def replaces(self, jaxpr: Jaxpr) -> bool:
        """Whether a plant replaces a value in a jaxpr."""
        return not self._replaced.isdisjoint(self._survey(jaxpr))

    def _analyze(self, jaxpr: Jaxpr, live_outs: Mask) -> tuple[list[Needs | None], Mask]:
        key = (id(jaxpr), live_outs)
        if key not in self._memo:
            inner, _ = jaxprs.raw(jaxpr)
            live = {
                v
                for v, needed in zip(inner.outvars, live_outs, strict=True)
                if needed and _is_var(v)
            }
            equations: list[Needs | None] = []
            for eqn in reversed(inner.eqns):
                outs = tuple(v in live for v in eqn.outvars)
                equations.append(needs := self._find_live(eqn, outs))
                if needs is not None:
                    live |= {
                        v
                        for v, read in zip(eqn.invars, needs[0], strict=True)
                        if read and _is_var(v)
                    }
            self._memo[key] = equations[::-1], tuple(v in live for v in inner.invars)
        return self._memo[key]

    def _find_live(self, eqn: jex.JaxprEqn, outs: Mask) -> Needs | None:
        if self._opens(eqn):
            if rule := self._rules.get(eqn.primitive.name):
                return rule.live_operands(eqn, outs, self), outs
            if eqn.primitive is sow_p:
                return self._reads(eqn), outs
            return (True,) * len(eqn.invars), outs  # a construct without a rule
        if self._survey.strips(eqn):
            return ((*outs, *(False,) * (len(eqn.invars) - len(outs))), outs) if any(outs) else None
        if jax_core.acts(eqn) or hides_sow(eqn):
            return (True,) * len(eqn.invars), outs
        return (self._find_read(eqn, outs), outs) if any(outs) else None

    def _find_read(self, eqn: jex.JaxprEqn, outs: Mask) -> Mask:
        """Mask of the operands that the needed results of an equation without sows depend on.

        An equation that reads all of its operands is bound as it is; else its rule evaluates it.
        """
        if rule := self._rules.get(eqn.primitive.name):
            return rule.live_operands(eqn, outs, self)
        return (True,) * len(eqn.invars)


def _is_var(atom: Any) -> bool:
    return not isinstance(atom, jex.Literal)
