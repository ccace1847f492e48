"""Rule of `jax.jit`."""

from collections.abc import Sequence
from typing import Any, ClassVar

import jax
from jax.extend import core as jex

from ppl.harvest import jax_core
from ppl.harvest.construct import Threading, register
from ppl.harvest.interpreter import Opened, Results
from ppl.harvest.rules.call import CallRule, call_again, select_items


class JitRule(CallRule):
    """Jit: the call stays a call, with its name and shardings; plants and reaps pass through it."""

    is_transparent: ClassVar[bool] = True

    def run(self, opened: Opened) -> Results:
        """Results and records of a jit of the body."""
        eqn, args, plants, live_outs, on = opened
        jaxpr = eqn.params["jaxpr"]
        ins, outs = jax_core.jit_shardings(eqn)
        live_args = on.liveness.inputs(jaxpr, live_outs)
        options = jax_core.jit_options(eqn)
        if any(s is not None for s in ins):
            options["in_shardings"] = (None, *select_items(ins, live_args))
        if any(s is not None for s in outs):
            options["out_shardings"] = (select_items(outs, live_outs), None)
        if not on.holds_arrays:  # A reaped or planted array must not be donated.
            donated = select_items(jax_core.jit_donated(eqn), live_args)
            options["donate_argnums"] = tuple(i for i, gone in enumerate(donated, 1) if gone)

        def wrap(call: Any) -> Any:
            # One function for all calls of a jaxpr: the cache of jit then traces it once.
            call = on.functions.setdefault((id(jaxpr), eqn.params["name"], live_outs), call)
            call.__name__ = eqn.params["name"]
            return jax.jit(call, **options)

        return call_again(wrap, jaxpr, args, plants, live_outs, on)

    def thread(
        self, eqn: jex.JaxprEqn, args: list[Any], state: Any, on: Threading
    ) -> tuple[Sequence[Any], Any]:
        """Results of a jit of the body, through which the state passes, and the state after it."""

        def call(args: list[Any], state: Any) -> tuple[list[Any], Any]:
            return on.run(eqn.params["jaxpr"], args, state)

        call.__name__ = eqn.params["name"]
        return jax.jit(call, **jax_core.jit_options(eqn))(args, state)


register(JitRule("jit"))
