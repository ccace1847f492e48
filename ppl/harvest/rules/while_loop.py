"""Rule of `jax.lax.while_loop`, and so of `fori_loop` with bounds that are not static."""

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from ppl.harvest import wirings
from ppl.harvest.construct import Construct, Threading, register
from ppl.harvest.interpreter import Interpreter, Opened, Results
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.liveness import Liveness, Mask
from ppl.harvest.rules.loop_carry import LastValues
from ppl.harvest.survey import MisplacedError, Sites, SowError, Survey


class WhileRule(Construct):
    """While loop: clobbered values are carried; their number is unknown, so none are stacked."""

    is_parallel: ClassVar[bool] = False  # Under `vmap` all wait for the longest one.

    def wiring(self, eqn: jex.JaxprEqn) -> wirings.While:
        """Wiring of condition and body, with their constants and the carry."""
        params = eqn.params
        sizes = params["cond_nconsts"], params["body_nconsts"]
        return wirings.While(params["cond_jaxpr"], params["body_jaxpr"], *sizes)

    def find(self, eqn: jex.JaxprEqn, survey: Survey) -> Sites:
        """Sites of the body and of the condition.

        Raises:
            MisplacedError: If a site is in another mode than `clobber` or `cond_clobber`.
        """
        loop = self.wiring(eqn)
        sites = _sites(loop, survey)
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
        certain = survey(loop.condition)
        return {
            path: dataclasses.replace(
                found, depth=found.depth + 1, certain=path in certain and certain[path].certain
            )
            for path, found in sites.items()
        }

    def live_operands(self, eqn: jex.JaxprEqn, live_outs: Mask, liveness: Liveness) -> Mask:
        """Mask of the operands that needed results, all records and the condition depend on."""
        return _live(self.wiring(eqn), live_outs, liveness)[1]

    def run(self, opened: Opened) -> Results:
        """Results and records of a loop of condition and body."""
        eqn, args, plants, live_outs, on = opened
        wiring = self.wiring(eqn)
        cond = wiring.condition
        body = wiring.body
        cond_consts, body_consts, carry = wiring.split(args)
        live_carry, _ = _live(wiring, live_outs, on.liveness)
        fixed = plants.take(on.survey.survey_equation(eqn))
        kept = LastValues(on, _sites(wiring, on.survey), fixed)
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

    def thread(
        self, eqn: jex.JaxprEqn, args: list[Any], state: Any, on: Threading
    ) -> tuple[Sequence[Any], Any]:
        """Results of a loop that also carries the state, and the state after it.

        The condition may have effects, so it is evaluated with the body and its result carried.
        """
        wiring = self.wiring(eqn)
        cond_consts, body_consts, carry = wiring.split(args)

        def test(carry: Sequence[Any], state: Any, before: Any) -> Any:
            (pred,), state = on.run(wiring.condition, [*cond_consts, *carry], state)
            if pred.ndim:
                on.check_unchanged(eqn, state, before)
            return pred, carry, state

        def step(loop: Any) -> Any:
            pred, carry, before = loop
            new, state = on.run(wiring.body, [*body_consts, *carry], before)
            if pred.ndim:  # Under vmap the loop may go on for some elements only.
                new = [_select(pred, n, o) for n, o in zip(new, carry, strict=True)]
            return test(new, state, before)

        init = test(carry, state, state)
        _, carry, state = lax.while_loop(lambda loop: jnp.any(loop[0]), step, init)
        return carry, state


register(WhileRule("while"))


def _sites(loop: wirings.While, survey: Survey) -> Sites:
    """Sites of one iteration: sites of the body, then sites of the condition."""
    sites = dict(survey(loop.body))
    for path, found in survey(loop.condition).items():
        sites[path] = survey.join(path, sites[path], found) if path in sites else found
    return sites


def _loop(goes_on: Any, step: Any, carry: Any, kept: LastValues, is_batched: bool) -> Any:
    """Loop as JAX has it; with a predicate for each element, it runs until all have ended."""

    def iterate(state: Any) -> Any:
        carry, last = state
        return step(carry, last, goes_on(carry)[0] if is_batched else jnp.asarray(True))

    state = (carry, kept.start(certain=False))
    return lax.while_loop(lambda state: jnp.any(goes_on(state[0])[0]), iterate, state)


def _loop_that_sows_in_its_condition(
    goes_on: Any, step: Any, carry: Any, kept: LastValues, is_batched: bool
) -> Any:
    """Loop whose condition moves to the end of the body, where its sows are recorded."""

    def iterate(state: Any) -> Any:
        carry, last, active = state
        carry, last = step(carry, last, active)
        pred, sown = goes_on(carry)
        return carry, kept.update(last, sown, active), active & pred

    active, sown = goes_on(carry)
    state = (carry, kept.update(kept.start(certain=False), sown), active)
    return lax.while_loop(lambda state: jnp.any(state[2]), iterate, state)[:2]


def _check_none_stays(body: Jaxpr, on: Interpreter) -> None:
    """Refuse sows that stay in a batched loop, where an iteration counts for some elements only."""
    for path in on.survey.staying(body):
        raise SowError(
            path,
            "it would stay in a while loop whose predicate a vmap maps, where it cannot be told "
            "which iterations count. Harvest inside of the vmap, as vmap(reap(f)).",
        )


def _pred_shape(cond: Jaxpr) -> tuple[int, ...]:
    """Shape of a loop's predicate: the batch axes of a `vmap` that maps it, else empty."""
    return cond.out_avals[0].shape  # pyright: ignore[reportAttributeAccessIssue]


def _select(pred: jax.Array, on_true: jax.Array, on_false: jax.Array) -> jax.Array:
    return jnp.where(
        jnp.expand_dims(pred, tuple(range(pred.ndim, on_true.ndim))), on_true, on_false
    )


def _live(loop: wirings.While, live_outs: Mask, liveness: Liveness) -> tuple[Mask, Mask]:
    """Needed carried values and needed operands: a fixpoint over the carry."""
    in_cond = liveness.inputs(loop.condition, (True,))
    num_cond = loop.num_condition_consts
    num_body = loop.num_body_consts
    carry = tuple(a or b for a, b in zip(live_outs, in_cond[num_cond:], strict=True))
    while True:
        in_body = liveness.inputs(loop.body, carry)
        wider = tuple(a or b for a, b in zip(carry, in_body[num_body:], strict=True))
        if wider == carry:
            return carry, (*in_cond[:num_cond], *in_body[:num_body], *carry)
        carry = wider
