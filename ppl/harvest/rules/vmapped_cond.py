"""Rule of a vmapped cond: a cond whose predicate `vmap` maps."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
from jax.extend import core as jex

from ppl.harvest import wirings
from ppl.harvest.construct import Construct, Threading, register
from ppl.harvest.interpreter import Opened, Reaped, Results
from ppl.harvest.liveness import Liveness, Mask
from ppl.harvest.loop_marks import leave_vmap
from ppl.harvest.rules.parallel_scan import map_elements
from ppl.harvest.survey import Sites, Survey
from ppl.harvest.vmapped_cond import vmapped_cond_p


class VmappedCondRule(Construct):
    """Vmapped cond: the program of one element is harvested under `vmap`.

    Records and plants have the axis of the elements in front, as under any other `vmap`. The rules
    of a scan with independent steps hold here, too.
    """

    def wiring(self, eqn: jex.JaxprEqn) -> wirings.Scan:
        """Wiring of a scan without carry."""
        params = eqn.params
        return wirings.Scan(params["body"], params["num_consts"], 0, params["length"], is_vmap=True)

    def find(self, eqn: jex.JaxprEqn, survey: Survey) -> Sites:
        """Sites of one element, with the axis of the elements."""
        sites = survey(eqn.params["body"])
        size = eqn.params["length"]
        return {path: found.out_of_vmap(size) for path, found in sites.items()}

    def live_operands(self, eqn: jex.JaxprEqn, live_outs: Mask, liveness: Liveness) -> Mask:
        """Operands that the body reads for the needed results and all records."""
        return liveness.inputs(eqn.params["body"], live_outs)

    def run(self, opened: Opened) -> Results:
        """Results and records of all elements."""
        eqn, args, plants, live_outs, on = opened
        wiring = self.wiring(eqn)
        sites = on.survey.survey_equation(eqn)
        consts, _, rows = wiring.split(args)
        body = leave_vmap(wiring.body)

        def element(inputs: Any) -> tuple[list[Any], list[Reaped]]:
            rows, planted = inputs
            outs, reaps = on.run(body, [*consts, *rows], planted, live_outs)
            return outs, on.condense(reaps)

        outs, reaps = map_elements(element, (rows, plants.take(sites)), wiring.length)
        found = (sites[reaped.site.path].site for reaped in reaps)
        pairs = zip(reaps, found, strict=True)
        return outs, on.condense([dataclasses.replace(r, site=site) for r, site in pairs])

    def thread(
        self, eqn: jex.JaxprEqn, args: list[Any], state: Any, on: Threading
    ) -> tuple[Sequence[Any], Any]:
        """Results of all elements; an error if there is a state to pass from one to the next."""
        if jax.tree.leaves(state):
            return on.refuse(eqn)
        wiring = self.wiring(eqn)
        consts, _, rows = wiring.split(args)
        body = leave_vmap(wiring.body)

        def element(rows):
            return on.run(body, [*consts, *rows], state)[0]

        return jax.vmap(element, axis_size=wiring.length)(rows), state


register(VmappedCondRule(vmapped_cond_p.name))
