"""Rule of `jax.lax.scan`, and so of `fori_loop` with static bounds and of `lax.map`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from jax import lax
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs, leaf_values, wirings
from ppl.harvest.construct import Construct, Threading, register
from ppl.harvest.interpreter import Interpreter, Opened, Results
from ppl.harvest.liveness import Liveness, Mask
from ppl.harvest.plants import move_axis, unstack
from ppl.harvest.rules.loop_carry import LastValues, RunningSum
from ppl.harvest.rules.parallel_scan import Steps, rank_states
from ppl.harvest.rules.planted_liveness import find_needed_states
from ppl.harvest.survey import Sites, SowError, Survey, explain_made


class ScanRule(Construct):
    """Scan: appended values become scanned inputs and outputs; clobbered values are carried."""

    def wiring(self, eqn: jex.JaxprEqn) -> wirings.Scan:
        """Wiring of the body, with constants, carry and rows."""
        length = eqn.params["length"]
        reverse = eqn.params["reverse"]
        return wirings.Scan(eqn.params["jaxpr"], *jax_core.scan_sizes(eqn), length, reverse)

    def find(self, eqn: jex.JaxprEqn, survey: Survey) -> Sites:
        """Sites of the body, with the axis of the loop."""
        sites = survey(eqn.params["jaxpr"])
        for path, found in sites.items():
            if found.site.mode == "strict":
                raise SowError(
                    path,
                    explain_made(found.site, "scan")
                    or "Cannot use strict mode inside `scan`, where it is sown in every iteration. "
                    "Sow it with mode='append' to stack the values, or mode='clobber' for the "
                    "last.",
                )
        return {path: found.out_of_loop(eqn.params["length"]) for path, found in sites.items()}

    def live_operands(self, eqn: jex.JaxprEqn, live_outs: Mask, liveness: Liveness) -> Mask:
        """Mask of the operands that needed results and all records depend on, in any iteration.

        A state that no iteration reads is needed only if there are no iterations.
        """
        return _live(self.wiring(eqn), live_outs, liveness)[1]

    def run(self, opened: Opened) -> Results:
        """Results and records of a scan of the body."""
        # Operands of the body.
        eqn, args, plants, live_outs, on = opened
        wiring = self.wiring(eqn)
        body = wiring.body
        num_carry = wiring.num_carry
        consts, carry, xs = wiring.split(args)
        live_body, _ = _live(wiring, live_outs, on.liveness)
        carry = _fill_unread(wiring, carry, live_body)
        sites = on.survey(body)
        # Plants: one of a clobbered name serves all steps, all others have a row for each step.
        taken = plants.take(on.survey.survey_equation(eqn))
        fixed = {p: plant for p, plant in taken.items() if sites[p].clobbers}
        sliced = [p for p in taken if p not in fixed]
        rows = [move_axis(taken[p][0], sites[p].loop_axis, 0) for p in sliced]
        if wiring.length:
            same = {p: row for p, row in zip(sliced, rows, strict=True) if on.action.is_constant(p)}
            first = jax.tree.map(lambda row: row[0], same)
            fixed |= {p: unstack(row, sites[p]) for p, row in first.items()}
            rows = [row for p, row in zip(sliced, rows, strict=True) if p not in same]
            sliced = [p for p in sliced if p not in same]
        kept = LastValues(on, sites, taken)
        added = RunningSum(on)

        def run_body(carry: Any, inputs: Any) -> Any:
            xs, rows = inputs
            slices = {p: unstack(row, sites[p]) for p, row in zip(sliced, rows, strict=True)}
            outs, reaps = on.run(body, [*consts, *carry, *xs], fixed | slices, live_body)
            return outs[:num_carry], (outs[num_carry:], on.condense(reaps))

        # Sums of records: all steps at once if plants give the carries, else parts of steps.
        if on.action.adds and _may_part(eqn, (args, rows), on, sites):
            run_body = steps = Steps(run_body, carry, (xs, rows))
            options = jax_core.scan_options(eqn)
            found = None
            if rank_states(find_needed_states(wiring, on, live_body, taken)) is not None:
                found = steps.at_once(carry, (xs, rows), reverse=options["reverse"])
            if found := found or steps.run_in_parts(carry, (xs, rows), options):
                carry, (ys, reaps) = found
                return [*carry, *ys], on.condense(reaps)

        # Stacked records, all steps at once.
        if not on.action.adds and _may_part(eqn, (args, rows), on, sites):
            steps = Steps(lambda c, x: _gather(run_body(c, x), on, sites), carry, (xs, rows))
            if found := steps.at_once(carry, (xs, rows), reverse=eqn.params["reverse"]):
                carry, (ys, appended) = found
                return [*carry, *ys], _from_loop_axis(appended, on, sites)

        # One step after the other.
        def step(state: Any, inputs: Any) -> Any:
            carry, last, total = state
            carry, (ys, reaps) = run_body(carry, inputs)
            total, reaps = added.update(total, reaps)
            reaped = on.gather(reaps, sites)
            appended = [r for p, r in reaped.items() if not sites[p].clobbers]
            return (carry, kept.update(last, reaped), total), (ys, appended)

        init = (carry, kept.start(certain=True), added.start())
        state, (ys, appended) = lax.scan(step, init, (xs, rows), **jax_core.scan_options(eqn))
        carry, last, total = state
        appended = _from_loop_axis(appended, on, sites)
        appended += added.finish(total) + kept.finish(last, empty=wiring.length == 0)
        return [*carry, *ys], appended

    def thread(
        self, eqn: jex.JaxprEqn, args: list[Any], state: Any, on: Threading
    ) -> tuple[Sequence[Any], Any]:
        """Results of a loop that also carries the state, and the state after it."""
        wiring = self.wiring(eqn)
        consts, carry, xs = wiring.split(args)

        def step(loop: Any, row: Any) -> Any:
            carry, state = loop
            outs, state = on.run(wiring.body, [*consts, *carry, *row], state)
            return (outs[: wiring.num_carry], state), outs[wiring.num_carry :]

        (carry, state), ys = lax.scan(step, (carry, state), xs, **jax_core.scan_options(eqn))
        return [*carry, *ys], state


register(ScanRule("scan"))


def _may_part(eqn: jex.JaxprEqn, args: Any, on: Interpreter, sites: Sites) -> bool:
    """Whether the steps may be evaluated other than one after another."""
    clobbers = any(found.clobbers for found in sites.values())
    leaves = jax.tree.leaves(args)
    varies = any(
        jax_core.varying_axes(jax.typeof(x)) for x in leaves
    )  # in a shard_map, step by step
    return on.action.at_once and not clobbers and not varies and bool(eqn.params["length"])


def _gather(results: Any, on: Interpreter, sites: Sites) -> Any:
    """Results of a step, with one record for each site."""
    carry, (ys, reaps) = results
    return carry, (ys, list(on.gather(reaps, sites).values()))


def _from_loop_axis(reaps: list[Any], on: Interpreter, sites: Sites) -> list[Any]:
    """Stacked records, with the axis of the loop moved from the front to its place."""
    return [
        dataclasses.replace(r, record=on.from_loop_axis(r.record, sites[r.site.path]))
        for r in reaps
    ]


def _live(scan: wirings.Scan, live_outs: Mask, liveness: Liveness) -> tuple[Mask, Mask]:
    """Needed results and needed inputs of the body: a fixpoint over the carry."""
    carry = live_outs[: scan.num_carry]
    ys = live_outs[scan.num_carry :]
    while True:
        consts, read, xs = scan.split(liveness.inputs(scan.body, (*carry, *ys)))
        wider = tuple(a or b for a, b in zip(carry, read, strict=True))
        if wider == carry:
            return (*carry, *ys), (*consts, *(read if scan.length else carry), *xs)
        carry = wider


def _fill_unread(scan: wirings.Scan, carry: Sequence[Any], live_body: Mask) -> list[Any]:
    """The first states, with zeros for states that every iteration gives and no iteration reads."""
    avals = [v.aval for v in jaxprs.raw(scan.body)[0].invars][scan.num_consts :]
    rows = zip(carry, avals[: scan.num_carry], live_body[: scan.num_carry], strict=True)
    return [leaf_values.zeros_like(a) if x is None and live else x for x, a, live in rows]
