"""Rule of `jax.lax.cond` and `jax.lax.switch`."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs, leaf_values, wirings
from ppl.harvest.construct import Construct, Threading, register
from ppl.harvest.interpreter import Opened, Reaped, Results
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.liveness import Liveness, Mask
from ppl.harvest.survey import Found, MisplacedError, Path, Sites, SowError, Survey, show


class CondRule(Construct):
    """Cond: all branches sow the same names with like values; the branch taken is recorded."""

    def wiring(self, eqn: jex.JaxprEqn) -> wirings.Wiring:
        """Wiring of the branches."""
        return wirings.Branches(eqn.params["branches"])

    def find(self, eqn: jex.JaxprEqn, survey: Survey) -> Sites:
        """Sites of the branches, which must agree."""
        branches = [survey(branch) for branch in eqn.params["branches"]]
        for path in {path: None for sites in branches for path in sites}:
            _check_agree(path, [sites.get(path) for sites in branches])
        certain = [all(sites[path].certain for sites in branches) for path in branches[0]]
        sown = [[site for sites in branches for site in sites[path].sites] for path in branches[0]]
        return {
            path: dataclasses.replace(found, certain=sure, branches=tuple(dict.fromkeys(all_sites)))
            for (path, found), sure, all_sites in zip(
                branches[0].items(), certain, sown, strict=True
            )
        }

    def live_operands(self, eqn: jex.JaxprEqn, live_outs: Mask, liveness: Liveness) -> Mask:
        """Mask of the index and the operands that any branch reads."""
        masks = [liveness.inputs(branch, live_outs) for branch in eqn.params["branches"]]
        return (True, *map(any, zip(*masks, strict=True)))

    def run(self, opened: Opened) -> Results:
        """Results and records of a cond of the branches."""
        eqn, args, plants, live_outs, on = opened
        sites = on.survey.survey_equation(eqn)
        sown: list[Any] = []
        recorded: dict[Path, Any] = {}

        def branch(jaxpr: Jaxpr) -> Any:
            def call(operands: list[Any], planted: Any) -> tuple[list[Any], list[Any]]:
                outs, reaps = on.run(jaxpr, operands, planted, live_outs)
                # Branches may sow in different orders and carry different extras.
                reaps = [on.spread(r, sites) for p in sites for r in reaps if r.site.path == p]
                reaps = on.condense(reaps)
                sown[:] = [sites[r.site.path].site for r in reaps]
                for reap in reaps:
                    _check_same_record(reap, recorded)
                records = [(r.record, _definite(r.pred, sites[r.site.path])) for r in reaps]
                return outs, leaf_values.as_varying(records)

            return call

        index, *operands = args
        branches = [branch(jaxpr) for jaxpr in eqn.params["branches"]]
        outs, records = _switch_unclamped(index, branches, operands, plants.take(sites))
        return outs, [Reaped(r, pred, site) for (r, pred), site in zip(records, sown, strict=True)]

    def thread(
        self, eqn: jex.JaxprEqn, args: list[Any], state: Any, on: Threading
    ) -> tuple[Sequence[Any], Any]:
        """Results of the branch taken, and the state after it."""
        index, *operands = args
        branches = [functools.partial(on.run, branch) for branch in eqn.params["branches"]]
        return lax.switch(index, branches, operands, state)


register(CondRule("cond"))


def _check_same_record(reap: Reaped, recorded: dict[Path, Any]) -> None:
    """Check that the records of a name have like shapes and dtypes in all branches."""
    path = reap.site.path
    leaves = jax.tree.leaves(reap.record)
    shapes = [jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)) for x in leaves]
    other = recorded.setdefault(path, shapes)
    if other != shapes:
        raise SowError(
            path,
            f"the branches of a cond disagree in what is made of it: {show(other)} in one, "
            f"{show(shapes)} in another. Give it one map to its values in all of them, as by "
            "distributions of one family, or sow the result of the cond.",
        )


def _definite(pred: Any, found: Found) -> Any:
    """Predicate of a record, an array unless all branches are sure to sow the name.

    None stands for a sure sow. As the branches of a cond must return one type, it becomes an array
    of True if another branch is not sure.
    """
    if pred is None and not found.certain:
        return jnp.ones(found.lead, bool)
    return pred


def _check_agree(path: Path, branches: Sequence[Found | None]) -> None:
    first = branches[0]
    for i, other in enumerate(branches):
        if first is None or other is None:
            missing = i if other is None else 0
            raise MisplacedError(
                next(found.site for found in branches if found),
                "cond",
                f"Missing sow in branch {missing} of a cond (0 is that for False). Every branch "
                "must sow the same names; sow a value in the other branches too, or sow the "
                "result of the cond.",
            )
        for what, a, b in (
            ("mode", first.site.mode, other.site.mode),
            ("structure", first.site.tree, other.site.tree),
            ("values", show(first.avals), show(other.avals)),
            ("number of sows", first.count, other.count),
            ("vmap axes", first.site.batch_shape, other.site.batch_shape),
        ):
            if a != b:
                raise SowError(
                    path,
                    f"the branches of a cond disagree in its {what}: {a} in branch 0, {b} in "
                    "branch "
                    f"{i}. Make them agree, or sow the result of the cond.",
                )


def _switch_unclamped(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`lax.switch` without its clamp, by the index of a cond equation.

    The index is in range. XLA does not see that, and would keep a clamp in each harvested cond.
    """

    def call(*args):
        return lax.switch(args[0], branches, *args[1:])

    jaxpr, out = jax.make_jaxpr(call, return_shape=True)(index, *operands)
    given = jaxprs.raw(jaxpr)[0].invars[0]

    def unclamped(eqn: jex.JaxprEqn) -> jex.JaxprEqn:
        is_cond = eqn.primitive is jex.primitives.cond_p
        return eqn.replace(invars=[given, *eqn.invars[1:]]) if is_cond else eqn

    program = jaxprs.map_equations(jaxpr, unclamped)
    outs = jax_core.evaluate(program, jax.tree.leaves((index, operands)))
    return jax.tree.unflatten(jax.tree.structure(out), outs)
