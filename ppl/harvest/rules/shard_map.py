"""Rule of `jax.shard_map`, and so of `jax.pmap`."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.extend import core as jex
from jax.sharding import PartitionSpec

from ppl.harvest import jax_core, wirings
from ppl.harvest.construct import register
from ppl.harvest.interpreter import Interpreter, Opened, Reaped, Results
from ppl.harvest.plants import PathDict, move_axis, unstack
from ppl.harvest.rules.call import CallRule, scatter_items, select_items
from ppl.harvest.survey import Found, Path, Sites, Survey


class ShardMapRule(CallRule):
    """Shard map: each shard sows for itself; reaps and plants have an axis over the shards."""

    is_parallel: ClassVar[bool] = False

    def wiring(self, eqn: jex.JaxprEqn) -> wirings.Shards:
        """Wiring of the body, with mesh and specs."""
        in_specs, _ = jax_core.shard_specs(eqn)
        return wirings.Shards(
            eqn.params["jaxpr"], eqn.params["mesh"], jax_core.shards(eqn), in_specs
        )

    def find(self, eqn: jex.JaxprEqn, survey: Survey) -> Sites:
        """Sites of the body, with an axis over the shards."""
        sites = survey(eqn.params["jaxpr"])
        axes = jax_core.shards(eqn)
        tracked = eqn.params["check_vma"]
        return {path: f.out_of_shards(axes, tracked=tracked) for path, f in sites.items()}

    def run(self, opened: Opened) -> Results:
        """Results and records of a shard_map of the body."""
        eqn, args, plants, live_outs, on = opened
        jaxpr = eqn.params["jaxpr"]
        shards = jax_core.shards(eqn)
        live_args = on.liveness.inputs(jaxpr, live_outs)
        sites = on.survey(jaxpr)
        taken = {p: rows for p, (rows,) in plants.take(on.survey.survey_equation(eqn)).items()}
        rows, row_specs = _rows(taken, sites, eqn)

        def body(live: list[Any], rows: Any) -> Any:
            here = jax.tree.map(lambda x: x[0], rows)
            here = {path: unstack(row, sites[path]) for path, row in here.items()}
            outs, reaps = on.run(jaxpr, scatter_items(live, live_args), here, live_outs)
            records = list(on.gather(_sum_over_shards(reaps, shards, eqn, on), sites).values())
            return select_items(outs, live_outs), jax.tree.map(
                lambda x: jnp.expand_dims(x, 0), records
            )

        in_specs, out_specs = jax_core.shard_specs(eqn)
        reap_specs = PartitionSpec() if on.action.adds else PartitionSpec(tuple(shards))
        mapped = jax.shard_map(
            body,
            in_specs=(select_items(in_specs, live_args), row_specs),
            out_specs=(select_items(out_specs, live_outs), reap_specs),
            **jax_core.shard_options(eqn),
        )
        outs, reaps = mapped(select_items(args, live_args), rows)
        reaps = [self._outside(reaped, sites, on) for reaped in reaps]
        return scatter_items(outs, live_outs), reaps

    def _outside(self, reaped: Reaped, sites: Sites, on: Interpreter) -> Reaped:
        """Record with the axis over the shards moved from the front to its place."""
        if on.action.adds:
            return jax.tree.map(lambda x: x[0], reaped)
        return move_axis(reaped, 0, sites[reaped.site.path].loop_axis)


register(ShardMapRule("shard_map"))


def _sum_over_shards(
    reaps: list[Reaped], shards: Mapping[Any, int], eqn: jex.JaxprEqn, on: Interpreter
) -> list[Reaped]:
    """Records summed over the shards that they vary over, for an action that `adds`."""
    if not on.action.adds:
        return reaps

    def total(record: jax.Array) -> jax.Array:
        varying = jax_core.varying_axes(jax.typeof(record)) if eqn.params["check_vma"] else shards
        axes = tuple(axis for axis in shards if axis in varying)
        return jax.lax.psum(record, axes) if axes else record

    return on.condense([jax.tree.map(total, reaped) for reaped in reaps])


def _rows(taken: Mapping[Path, Any], sites: Sites, eqn: jex.JaxprEqn) -> tuple[PathDict, PathDict]:
    """Plants with the axis over the shards in front, and their specs."""
    pairs = {path: _split(plant, sites[path], eqn) for path, plant in taken.items()}
    rows = {path: tuple(row for row, _ in leaves) for path, leaves in pairs.items()}
    specs = {path: tuple(spec for _, spec in leaves) for path, leaves in pairs.items()}
    return PathDict(rows), PathDict(specs)


def _split(plant: Any, found: Found, eqn: jex.JaxprEqn) -> list[tuple[Any, PartitionSpec]]:
    """Rows and spec of each leaf: a row for each shard; one row for shards that share a value.

    Shards are known to share a value only if JAX tracks the mesh axes over which values vary.
    """
    shards = jax_core.shards(eqn)
    tracked = eqn.params["check_vma"]
    leaves = jax.tree.leaves(move_axis(plant, found.loop_axis, 0))
    pairs = []
    # A plant may have several parts for each leaf of the value, such as data and a mask.
    num_parts = len(leaves) // max(1, len(found.varying))
    for leaf, varying in zip(leaves, found.varying * num_parts, strict=True):
        axes = [axis for axis in shards if axis in varying or not tracked]
        first = tuple(slice(None) if axis in axes else 0 for axis in shards)
        by_axis = leaf.reshape(*shards.values(), *leaf.shape[1:])[first]
        row = by_axis.reshape(math.prod(shards[axis] for axis in axes), *leaf.shape[1:])
        spec = PartitionSpec(tuple(axes))
        pairs.append((jax_core.reshard_operand(row, eqn, spec), spec))
    return pairs
