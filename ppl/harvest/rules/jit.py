"""The rule for `jax.jit`."""

from collections.abc import Sequence
from typing import Any

import jax

from ppl.harvest import _jax
from ppl.harvest._interpreter import Interpreter, Reaped
from ppl.harvest._liveness import Liveness, Mask
from ppl.harvest._plants import Plants
from ppl.harvest._survey import Sites, Survey


class Jit:
    """The call stays a call, with its name and shardings; plants and reaps pass through it."""

    def find(self, eqn: Any, survey: Survey) -> Sites:
        """What the bodies sow, as seen from outside."""
        return survey(eqn.params["jaxpr"])

    def live_operands(self, eqn: Any, live_outs: Mask, liveness: Liveness) -> Mask:
        """The operands that the needed results and all records depend on."""
        return liveness.inputs(eqn.params["jaxpr"], live_outs)

    def run(
        self,
        eqn: Any,
        args: list[Any],
        plants: Plants,
        live_outs: Mask,
        on: Interpreter,
    ) -> tuple[Sequence[Any], list[Reaped]]:
        """The same construct around the bodies, with their plants and records."""
        jaxpr = eqn.params["jaxpr"]
        live_args = on.liveness.inputs(jaxpr, live_outs)

        def call(live: list[Any], planted: Any) -> tuple[list[Any], list[Reaped]]:
            rest = iter(live)
            full = [next(rest) if is_live else None for is_live in live_args]
            outs, reaps = on.run(jaxpr, full, planted, live_outs)
            return _only(outs, live_outs), reaps

        call.__name__ = eqn.params["name"]
        ins, outs = _jax.jit_shardings(eqn)
        shardings: dict[str, Any] = {}
        if any(s is not None for s in ins):
            shardings["in_shardings"] = (_only(ins, live_args), None)
        if any(s is not None for s in outs):
            shardings["out_shardings"] = (_only(outs, live_outs), None)
        call = jax.jit(call, **_jax.jit_options(eqn), **shardings)
        results, reaps = call(_only(args, live_args), plants.take(on.survey(jaxpr)))
        rest = iter(results)
        return [next(rest) if is_live else None for is_live in live_outs], reaps


def _only(items: Sequence[Any], mask: Mask) -> list[Any]:
    return [item for item, keep in zip(items, mask, strict=True) if keep]
