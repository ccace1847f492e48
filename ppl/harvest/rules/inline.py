"""The rule for calls that JAX makes by itself, to evaluate a jaxpr where it stands."""

from collections.abc import Sequence
from typing import Any

from ppl.harvest._interpreter import Interpreter, Reaped
from ppl.harvest._liveness import Mask
from ppl.harvest._plants import Plants
from ppl.harvest.rules._call import Call


class Inline(Call):
    """The body takes the place of the call, as it does when JAX lowers it."""

    body = "call_jaxpr"

    def run(
        self,
        eqn: Any,
        args: list[Any],
        plants: Plants,
        live_outs: Mask,
        on: Interpreter,
    ) -> tuple[Sequence[Any], list[Reaped]]:
        """The body, with its plants and records."""
        jaxpr = eqn.params["call_jaxpr"]
        return on.run(jaxpr, args, plants.take(on.survey(jaxpr)), live_outs)
