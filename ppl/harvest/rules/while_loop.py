"""The rule for `jax.lax.while_loop`, and so for `fori_loop` with bounds that are not static."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ppl.harvest._interpreter import Interpreter, Reaped
from ppl.harvest._liveness import Liveness, Mask
from ppl.harvest._plants import Plants
from ppl.harvest._survey import Sites, Survey, error
from ppl.harvest.rules._loop import Kept


class While:
    """Clobbered values are carried; how many there are is not known, so none can be stacked."""

    def find(self, eqn: Any, survey: Survey) -> Sites:
        """What the bodies sow, as seen from outside."""
        for path in survey(eqn.params["cond_jaxpr"]):
            raise error(
                path,
                "it stands in the condition of a while loop, where harvest cannot reach it. Sow "
                "the "
                "value in the body of the loop.",
            )
        sites = survey(eqn.params["body_jaxpr"])
        for path, found in sites.items():
            if not found.clobbers:
                raise error(
                    path,
                    "Must use clobber or cond_clobber mode inside of a `while_loop`, whose "
                    "number of "
                    f"iterations is not known; got mode {found.site.mode!r}. Use lax.scan or a "
                    "fori_loop with static bounds to have every value.",
                )
        return {
            path: dataclasses.replace(found, depth=found.depth + 1, certain=False)
            for path, found in sites.items()
        }

    def live_operands(self, eqn: Any, live_outs: Mask, liveness: Liveness) -> Mask:
        """The operands that the needed results and all records depend on."""
        return _live(eqn, live_outs, liveness)[1]

    def run(
        self,
        eqn: Any,
        args: list[Any],
        plants: Plants,
        live_outs: Mask,
        on: Interpreter,
    ) -> tuple[Sequence[Any], list[Reaped]]:
        """The same construct around the bodies, with their plants and records."""
        cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
        cond_consts, body_consts, carry = _split(args, eqn)
        live_carry, _ = _live(eqn, live_outs, on.liveness)
        sites = on.survey(body)
        fixed = plants.take(on.survey.of_equation(eqn))
        kept = Kept(on, sites, fixed)

        def goes_on(carry: list[Any]) -> jax.Array:
            return on.run(cond, [*cond_consts, *carry], {}, [True])[0][0]

        def step(state: Any) -> Any:
            carry, last = state
            active = goes_on(carry) if is_batched else jnp.asarray(True)
            new, reaps = on.run(body, [*body_consts, *carry], fixed, live_carry)
            if is_batched:
                new = jax.tree.map(lambda n, o: _select(active, n, o), new, carry)
            return new, kept.update(last, on.gather(reaps, sites), active)

        is_batched = _pred_shape(cond) != ()
        if is_batched:
            _check_none_stays(body, on)
        state = (carry, kept.start(certain=False))
        carry, last = lax.while_loop(lambda s: jnp.any(goes_on(s[0])), step, state)
        return carry, kept.finish(last)


def _check_none_stays(body: Any, on: Interpreter) -> None:
    """Which iterations count for which element is not known to a sow that stays in the new loop."""
    for path in on.survey.staying(body):
        raise error(
            path,
            "it would stay in a while loop whose predicate a vmap maps, where it cannot be told "
            "which iterations count. Harvest inside of the vmap, as vmap(reap(f)).",
        )


def _pred_shape(cond: Any) -> tuple[int, ...]:
    """`vmap` of a loop whose predicate it maps leaves a predicate for each element."""
    return cond.out_avals[0].shape


def _select(pred: jax.Array, on_true: jax.Array, on_false: jax.Array) -> jax.Array:
    return jnp.where(
        jnp.expand_dims(pred, tuple(range(pred.ndim, on_true.ndim))), on_true, on_false
    )


def _live(eqn: Any, live_outs: Mask, liveness: Liveness) -> tuple[Mask, Mask]:
    """Which carried values and which operands are needed: a fixpoint over the carry."""
    in_cond = liveness.inputs(eqn.params["cond_jaxpr"], (True,))
    num_cond, num_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    carry = tuple(a or b for a, b in zip(live_outs, in_cond[num_cond:], strict=True))
    while True:
        in_body = liveness.inputs(eqn.params["body_jaxpr"], carry)
        wider = tuple(a or b for a, b in zip(carry, in_body[num_body:], strict=True))
        if wider == carry:
            return carry, (*in_cond[:num_cond], *in_body[:num_body], *carry)
        carry = wider


def _split(items: Sequence[Any], eqn: Any) -> tuple[Any, Any, Any]:
    first, second = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    return items[:first], items[first : first + second], items[first + second :]
