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
from ppl.harvest._survey import MisplacedError, Sites, SowError, Survey
from ppl.harvest.rules._loop import Kept


class While:
    """Clobbered values are carried; how many there are is not known, so none can be stacked."""

    def find(self, eqn: Any, survey: Survey) -> Sites:
        """What the bodies sow, as seen from outside."""
        sites = _sites(eqn, survey)
        for found in sites.values():
            if not found.clobbers:
                raise MisplacedError(
                    found.site,
                    "while",
                    "Must use clobber or cond_clobber mode inside of a `while_loop`, whose "
                    "number of "
                    f"iterations is not known; got mode {found.site.mode!r}. Use lax.scan or a "
                    "fori_loop with static bounds to have every value.",
                )
        # The condition is evaluated once at least, the body perhaps never.
        certain = survey(eqn.params["cond_jaxpr"])
        return {
            path: dataclasses.replace(
                found, depth=found.depth + 1, certain=path in certain and certain[path].certain
            )
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
        fixed = plants.take(on.survey.of_equation(eqn))
        kept = Kept(on, _sites(eqn, on.survey), fixed)
        is_batched = _pred_shape(cond) != ()
        if is_batched:
            _check_none_stays(body, on)

        def goes_on(carry: list[Any]) -> tuple[Any, Any]:
            (pred,), reaps = on.run(cond, [*cond_consts, *carry], fixed, [True])
            return pred, on.gather(reaps, on.survey(cond))

        def step(carry: list[Any], last: Any, active: Any) -> tuple[Any, Any]:
            new, reaps = on.run(body, [*body_consts, *carry], fixed, live_carry)
            if is_batched:
                new = jax.tree.map(lambda n, o: _select(active, n, o), new, carry)
            return new, kept.update(last, on.gather(reaps, on.survey(body)), active)

        loop = _loop_that_sows_in_its_condition if on.survey(cond) else _loop
        carry, last = loop(goes_on, step, carry, kept, is_batched)
        return carry, kept.finish(last)


def _sites(eqn: Any, survey: Survey) -> Sites:
    """What one iteration sows: the body, and then the condition."""
    sites = dict(survey(eqn.params["body_jaxpr"]))
    for path, found in survey(eqn.params["cond_jaxpr"]).items():
        sites[path] = survey.join(path, sites[path], found) if path in sites else found
    return sites


def _loop(goes_on: Any, step: Any, carry: Any, kept: Kept, is_batched: bool) -> Any:
    """The loop as JAX has it. With a predicate for each element, it runs until all have ended."""

    def iterate(state: Any) -> Any:
        carry, last = state
        return step(carry, last, goes_on(carry)[0] if is_batched else jnp.asarray(True))

    state = (carry, kept.start(certain=False))
    return lax.while_loop(lambda state: jnp.any(goes_on(state[0])[0]), iterate, state)


def _loop_that_sows_in_its_condition(
    goes_on: Any, step: Any, carry: Any, kept: Kept, is_batched: bool
) -> Any:
    """The condition moves into the body, behind the iteration before, to be recorded there."""

    def iterate(state: Any) -> Any:
        carry, last, active = state
        carry, last = step(carry, last, active)
        pred, sown = goes_on(carry)
        return carry, kept.update(last, sown, active), active & pred

    active, sown = goes_on(carry)
    state = (carry, kept.update(kept.start(certain=False), sown), active)
    return lax.while_loop(lambda state: jnp.any(state[2]), iterate, state)[:2]


def _check_none_stays(body: Any, on: Interpreter) -> None:
    """Which iterations count for which element is not known to a sow that stays in the new loop."""
    for path in on.survey.staying(body):
        raise SowError(
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
