"""What the rules for calls share; a call stays a call of what is needed of it."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from ppl.harvest._interpreter import Interpreter, Reaped
from ppl.harvest._liveness import Liveness, Mask
from ppl.harvest._plants import Plants
from ppl.harvest._survey import Sites, Survey


class Call:
    """What every rule for a call says: the body sows, and reads, what the call does."""

    body: ClassVar[str] = "jaxpr"  # The parameter that holds it.

    def find(self, eqn: Any, survey: Survey) -> Sites:
        """What the bodies sow, as seen from outside."""
        return survey(eqn.params[self.body])

    def live_operands(self, eqn: Any, live_outs: Mask, liveness: Liveness) -> Mask:
        """The operands that the needed results and all records depend on."""
        return liveness.inputs(eqn.params[self.body], live_outs)


def call_again(
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
    jaxpr: Any,
    args: Sequence[Any],
    plants: Plants,
    live_outs: Mask,
    on: Interpreter,
) -> tuple[list[Any], list[Reaped]]:
    """The body, run by the interpreter inside of `wrap`; what is not needed does not enter it."""
    live_args = on.liveness.inputs(jaxpr, live_outs)

    def call(planted: Any, *live: Any) -> tuple[list[Any], list[Reaped]]:
        outs, reaps = on.run(jaxpr, spread(live, live_args), planted, live_outs)
        return only(outs, live_outs), reaps

    results, reaps = wrap(call)(plants.take(on.survey(jaxpr)), *only(args, live_args))
    return spread(results, live_outs), reaps


def only(items: Sequence[Any], mask: Mask) -> list[Any]:
    """The items that the mask keeps."""
    return [item for item, keep in zip(items, mask, strict=True) if keep]


def spread(items: Sequence[Any], mask: Mask) -> list[Any]:
    """The items back in their places, None elsewhere."""
    rest = iter(items)
    return [next(rest) if keep else None for keep in mask]
