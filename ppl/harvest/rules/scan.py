"""The rule for `jax.lax.scan`, and so for `fori_loop` with static bounds and `lax.map`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from ppl.harvest import _jax
from ppl.harvest._interpreter import Interpreter, Reaped
from ppl.harvest._liveness import Liveness, Mask
from ppl.harvest._plants import Plants, move_axis, unstack
from ppl.harvest._survey import Sites, SowError, Survey
from ppl.harvest.rules._given import needs
from ppl.harvest.rules._loop import Kept, Sum
from ppl.harvest.rules._steps import Steps, by_rank


class Scan:
    """Appended values become scanned inputs and outputs, clobbered ones are carried."""

    def find(self, eqn: Any, survey: Survey) -> Sites:
        """What the bodies sow, as seen from outside."""
        sites = survey(eqn.params["jaxpr"])
        for path, found in sites.items():
            if found.site.mode == "strict":
                raise SowError(
                    path,
                    "Cannot use strict mode inside `scan`, where it is sown in every iteration. "
                    "Sow it with mode='append' to stack the values, or mode='clobber' for the "
                    "last.",
                )
        return {path: found.out_of_loop(eqn.params["length"]) for path, found in sites.items()}

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
        body, length = eqn.params["jaxpr"], eqn.params["length"]
        num_consts, num_carry = _jax.scan_sizes(eqn)
        consts, carry, xs = _split(args, num_consts, num_carry)
        live_body, _ = _live(eqn, live_outs, on.liveness)
        sites = on.survey(body)
        taken = plants.take(on.survey.of_equation(eqn))
        fixed = {p: plant for p, plant in taken.items() if sites[p].clobbers}
        sliced = [p for p in taken if p not in fixed]
        rows = [move_axis(taken[p][0], sites[p].loop_axis, 0) for p in sliced]
        kept, added = Kept(on, sites, taken), Sum(on)

        def run_body(carry: Any, inputs: Any) -> Any:
            xs, rows = inputs
            slices = {p: unstack(row, sites[p]) for p, row in zip(sliced, rows, strict=True)}
            outs, reaps = on.run(body, [*consts, *carry, *xs], fixed | slices, live_body)
            return outs[:num_carry], (outs[num_carry:], on.condense(reaps))

        if _may_part(eqn, (args, rows), on, sites):
            run_body = steps = Steps(run_body, carry, (xs, rows))
            options, found = _jax.scan_options(eqn), None
            if by_rank(needs(eqn, on, live_body, taken)) is not None:
                found = steps.at_once(carry, (xs, rows), reverse=options["reverse"])
            if found := found or steps.parted(carry, (xs, rows), options):
                carry, (ys, reaps) = found
                return [*carry, *ys], on.condense(reaps)

        def step(state: Any, inputs: Any) -> Any:
            carry, last, total = state
            carry, (ys, reaps) = run_body(carry, inputs)
            total, reaps = added.update(total, reaps)
            reaped = on.gather(reaps, sites)
            appended = [r for p, r in reaped.items() if not sites[p].clobbers]
            return (carry, kept.update(last, reaped), total), (ys, appended)

        init = (carry, kept.start(certain=True), added.start())
        state, (ys, appended) = lax.scan(step, init, (xs, rows), **_jax.scan_options(eqn))
        carry, last, total = state
        appended = [
            dataclasses.replace(r, record=on.from_loop_axis(r.record, sites[r.site.path]))
            for r in appended
        ]
        appended += added.finish(total) + kept.finish(last, empty=length == 0)
        return [*carry, *ys], appended


def _may_part(eqn: Any, args: Any, on: Interpreter, sites: Sites) -> bool:
    """Whether the steps may be evaluated in another way than one after the other."""
    clobbers = any(found.clobbers for found in sites.values())
    leaves = jax.tree.leaves(args)
    varies = any(_jax.varying_axes(jax.typeof(x)) for x in leaves)  # In a shard, one by one.
    return on.action.at_once and not clobbers and not varies and bool(eqn.params["length"])


def _live(eqn: Any, live_outs: Mask, liveness: Liveness) -> tuple[Mask, Mask]:
    """Which results and which inputs of the body are needed: a fixpoint over the carry."""
    num_consts, num_carry = _jax.scan_sizes(eqn)
    carry, ys = live_outs[:num_carry], live_outs[num_carry:]
    while True:
        inputs = liveness.inputs(eqn.params["jaxpr"], (*carry, *ys))
        consts, read, xs = _split(inputs, num_consts, num_carry)
        wider = tuple(a or b for a, b in zip(carry, read, strict=True))
        if wider == carry:
            return (*carry, *ys), (*consts, *carry, *xs)
        carry = wider


def _split(items: Sequence[Any], first: int, second: int) -> tuple[Any, Any, Any]:
    return items[:first], items[first : first + second], items[first + second :]
