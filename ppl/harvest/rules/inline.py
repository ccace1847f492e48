"""Rule of calls that JAX makes by itself, to evaluate a jaxpr where it stands."""

from collections.abc import Sequence
from typing import Any, ClassVar

from jax.extend import core as jex

from ppl.harvest.construct import Threading, register
from ppl.harvest.interpreter import Opened, Results
from ppl.harvest.rules.call import CallRule


class InlineRule(CallRule):
    """Inline call: the body replaces the call, as when JAX lowers it."""

    body: ClassVar[str] = "call_jaxpr"
    is_transparent: ClassVar[bool] = True

    def run(self, opened: Opened) -> Results:
        """Results and records of the body."""
        eqn, args, plants, live_outs, on = opened
        jaxpr = eqn.params["call_jaxpr"]
        return on.run(jaxpr, args, plants.take(on.survey(jaxpr)), live_outs)

    def thread(
        self, eqn: jex.JaxprEqn, args: list[Any], state: Any, on: Threading
    ) -> tuple[Sequence[Any], Any]:
        """Results of the body, and the state after it."""
        return on.run(eqn.params["call_jaxpr"], args, state)


register(InlineRule("closed_call"), InlineRule("eval_jaxpr"))
