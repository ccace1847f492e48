"""Missing entries of the sites that `impute` observes in part, read off a traced model."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from ppl.common.lift import lift
from ppl.common.missing_data import is_imputed, missing_entries
from ppl.harvest import jax_core, jaxprs
from ppl.harvest.construct import Construct
from ppl.harvest.interpreter import Action, Interpreter, Opened, Operands, Reaped, Results
from ppl.harvest.liveness import Liveness, Mask
from ppl.harvest.program import Program
from ppl.harvest.rules import CONSTRUCTS
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, Sites, Survey, describe
from ppl.harvest.wirings import Branches, Call, Scan, Wiring
from ppl.primitives.site_kinds import RANDOM


def find_missing(program: Program, sizes: Mapping[Path, int]) -> dict[Path, jax.Array]:
    """The positions of missing entries in the flat value of each site observed in part.

    Only the masks are evaluated: nothing is drawn, and no loop is compiled.

    Args:
        program: The traced model.
        sizes: The number of missing entries of each site.

    Raises:
        ValueError: If the masks are known and differ between the branches of a cond.
    """
    action = ReadMissing()
    survey = Survey(action.matches, action.strips, _RULES)
    interpreter = _Reader(action, _RULES, (), survey)
    dead = [False] * len(program.out_avals)
    _, reaps = interpreter.run(program.jaxpr, program.inputs, {}, dead)
    found = interpreter.gather(reaps, survey(program.jaxpr))
    return {path: _positions(path, found[path].record, size) for path, size in sizes.items()}


def _positions(path: Path, record: tuple[Any, Any], size: int) -> jax.Array:
    missing, agrees = record
    if jax_core.is_traced(missing):
        return jnp.nonzero(missing.ravel(), size=size, fill_value=missing.size)[0]
    if not np.all(agrees):
        raise ValueError(disagreement(path))
    positions = np.flatnonzero(missing)
    if len(positions) != size:
        raise ValueError(
            f"site {describe(path)}: {len(positions)} of its entries are missing, where the data "
            f"have {size} in all. Give ppl.impute the data of this very site, not part of them."
        )
    return jnp.asarray(positions, jnp.int32)


def disagreement(path: Path) -> str:
    """The words for masks that differ between the branches of a cond."""
    return (
        f"site {describe(path)}: which of its entries are missing differs between the branches "
        "of a cond. Give the same mask to ppl.impute in all of them, and choose among the data."
    )


@dataclasses.dataclass(frozen=True)
class ReadMissing(Action):
    """Action that records masks of missing entries, and whether the branches of conds agree."""

    def matches(self, site: Site) -> bool:
        """Whether the site is observed in part."""
        return site.tag == RANDOM and is_imputed(site)

    def strips(self, site: Site) -> bool:
        """Whether the site has no mask of missing entries."""
        return not self.matches(site)

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """No value, and the mask with all `vmap` axes of the site in front."""
        index = _index_of_mask(site)
        axes = [dataclasses.replace(axis, mapped=axis.mapped[index:][:1]) for axis in site.axes]
        missing = lift(lambda x: x, axes)(operands.extras[index])
        return [0.0] * site.num_values, (missing, np.ones(missing.shape, bool))


def _index_of_mask(site: Site) -> int:
    """The index of the mask among the extra operands of a site."""
    return missing_entries(jax.tree.unflatten(site.extra_tree, range(site.num_extras)))


class _Reader(Interpreter):
    """Interpreter that reads only the mask of a site."""

    def _reads(self, eqn: jex.JaxprEqn) -> Mask:
        site = eqn.params["site"]
        at = site.num_mapped_always + _index_of_mask(site)
        return tuple(i == at for i in range(len(eqn.invars)))


class _Inlined(Construct):
    """Construct evaluated inline: all branches of a cond, or the body of a loop for all steps."""

    def wiring(self, eqn: jex.JaxprEqn) -> Wiring | None:
        """Wiring of the inner programs."""
        return CONSTRUCTS[self.primitive].wiring(eqn)

    def find(self, eqn: jex.JaxprEqn, survey: Survey) -> Sites:
        """Sites of the inner programs."""
        return CONSTRUCTS[self.primitive].find(eqn, survey)

    def live_operands(self, eqn: jex.JaxprEqn, live_outs: Mask, liveness: Liveness) -> Mask:
        """Flags of the operands that masks depend on; they never depend on a branch index."""
        read = CONSTRUCTS[self.primitive].live_operands(eqn, live_outs, liveness)
        is_choice = isinstance(self.wiring(eqn), Branches)
        return (any(live_outs), *read[1:]) if is_choice else read

    def run(self, opened: Opened) -> Results:
        """Records of the inner programs, and the live results."""
        eqn, args, _, live_outs, on = opened
        wiring = self.wiring(eqn)
        if isinstance(wiring, Call):
            return on.run(wiring.body, [args[i] for i in wiring.operands], {}, live_outs)
        if isinstance(wiring, Branches) and not any(live_outs):
            return [None] * len(live_outs), _compare_branches(opened, wiring)
        if isinstance(wiring, Scan) and not any(live_outs) and _is_carry_dead(wiring, args):
            return [None] * len(live_outs), _read_all_steps(wiring, args, on)
        return CONSTRUCTS[self.primitive].run(opened)


_RULES = {name: _Inlined(name) for name in CONSTRUCTS}


def _is_carry_dead(scan: Scan, args: Sequence[Any]) -> bool:
    return all(x is None for x in scan.split(args)[1])


def _compare_branches(opened: Opened, branches: Branches) -> list[Reaped]:
    """Records of the first branch, with flags that say where all branches agree."""
    eqn, args, _, live_outs, on = opened
    sites = on.survey.survey_equation(eqn)

    def read(body: Any) -> list[Reaped]:
        reaps = [on.spread(r, sites) for r in on.run(body, args[1:], {}, live_outs)[1]]
        return [r for path in sites for r in reaps if r.site.path == path]

    def compare(first: Reaped, *others: Reaped) -> Reaped:
        missing, agrees = first.record
        for other in others:
            agrees = agrees & other.record[1] & (missing == other.record[0])
        return dataclasses.replace(first, record=(missing, agrees))

    return [compare(*reaps) for reaps in zip(*map(read, branches.bodies), strict=True)]


def _read_all_steps(scan: Scan, args: Sequence[Any], on: Interpreter) -> list[Reaped]:
    consts, carry, rows = scan.split(args)
    sites = on.survey(scan.body)
    dead = [False] * len(jaxprs.raw(scan.body)[0].outvars)

    def step(_: Any, row: Sequence[Any]) -> list[Reaped]:
        reaps = on.run(scan.body, [*consts, *carry, *row], {}, dead)[1]
        return list(on.gather(reaps, sites).values())

    reaps = jax.vmap(step)(np.arange(scan.length), rows)
    return [
        dataclasses.replace(r, record=on.from_loop_axis(r.record, sites[r.site.path]))
        for r in reaps
    ]
