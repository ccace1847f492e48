"""Base of the rules for calls; a call stays a call, with the operands and results needed."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from jax.extend import core as jex

from ppl.harvest import wirings
from ppl.harvest.construct import Construct
from ppl.harvest.interpreter import Interpreter, Reaped
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.liveness import Liveness, Mask
from ppl.harvest.plants import Plants
from ppl.harvest.survey import Sites, Survey


class CallRule(Construct):
    """Rule of a call, which has the sites and the liveness of its body."""

    body: ClassVar[str] = "jaxpr"  # Name of the parameter that holds the body.
    is_transparent: ClassVar[bool] = False

    def wiring(self, eqn: jex.JaxprEqn) -> wirings.Wiring:
        """Body and all operands."""
        operands = range(len(eqn.invars))
        return wirings.Call(eqn.params[self.body], operands, self.is_transparent)

    def find(self, eqn: jex.JaxprEqn, survey: Survey) -> Sites:
        """Sites of the body."""
        return survey(eqn.params[self.body])

    def live_operands(self, eqn: jex.JaxprEqn, live_outs: Mask, liveness: Liveness) -> Mask:
        """Operands that the body reads for the needed results and all records."""
        return liveness.inputs(eqn.params[self.body], live_outs)


def call_again(
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
    jaxpr: Jaxpr,
    args: Sequence[Any],
    plants: Plants,
    live_outs: Mask,
    on: Interpreter,
) -> tuple[list[Any], list[Reaped]]:
    """Results and records of the body, run inside of `wrap`; only needed operands enter it."""
    live_args = on.liveness.inputs(jaxpr, live_outs)

    def call(planted: Any, *live: Any) -> tuple[list[Any], list[Reaped]]:
        outs, reaps = on.run(jaxpr, scatter_items(live, live_args), planted, live_outs)
        return select_items(outs, live_outs), reaps

    results, reaps = wrap(call)(plants.take(on.survey(jaxpr)), *select_items(args, live_args))
    return scatter_items(results, live_outs), reaps


def select_items(items: Sequence[Any], mask: Mask) -> list[Any]:
    """Items that a mask keeps."""
    return [item for item, keep in zip(items, mask, strict=True) if keep]


def scatter_items(items: Sequence[Any], mask: Mask) -> list[Any]:
    """Items put back in their places by a mask, with None elsewhere."""
    rest = iter(items)
    return [next(rest) if keep else None for keep in mask]
