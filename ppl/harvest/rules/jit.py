"""The rule for `jax.jit`."""

from collections.abc import Sequence
from typing import Any

import jax

from ppl.harvest import _jax
from ppl.harvest._interpreter import Interpreter, Reaped
from ppl.harvest._liveness import Mask
from ppl.harvest._plants import Plants
from ppl.harvest.rules._call import Call, call_again, only


class Jit(Call):
    """The call stays a call, with its name and shardings; plants and reaps pass through it."""

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
        ins, outs = _jax.jit_shardings(eqn)
        live_args = on.liveness.inputs(jaxpr, live_outs)
        options = _jax.jit_options(eqn)
        if any(s is not None for s in ins):
            options["in_shardings"] = (None, *only(ins, live_args))
        if any(s is not None for s in outs):
            options["out_shardings"] = (only(outs, live_outs), None)
        if not on.holds_arrays:  # What is reaped or planted must not be given away.
            donated = only(_jax.jit_donated(eqn), live_args)
            options["donate_argnums"] = tuple(i for i, gone in enumerate(donated, 1) if gone)

        def wrap(call: Any) -> Any:
            # One function for all calls of a jaxpr: the cache of jit then traces it once.
            call = on.functions.setdefault((id(jaxpr), eqn.params["name"], live_outs), call)
            call.__name__ = eqn.params["name"]
            return jax.jit(call, **options)

        return call_again(wrap, jaxpr, args, plants, live_outs, on)
