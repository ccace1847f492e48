"""Tables of rules of JAX, in which harvest changes the rules of some constructs.

The tables are public, but for one; their entries for the constructs of JAX are not documented.
All were tried on JAX 0.10.2 and 0.12.0.1.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jex
from jax.interpreters import ad, batching
from jax.interpreters import partial_eval as pe

from ppl.harvest import jax_core
from ppl.harvest.jaxprs import Jaxpr, jaxprs_in, raw


def rewrite_before_batching(
    primitive: jex.Primitive, rewrite: Callable[[dict, Sequence], dict]
) -> None:
    """Apply `rewrite(params, dims)` to each equation with sows before `vmap` batches it.

    After batching nothing tells a `vmap` of a loop from a loop of a `vmap`, or the branches of a
    cond from the program around it. Equations without a sow are not changed.
    """
    table = batching.fancy_primitive_batchers
    batch_as_before = table[primitive]

    def batch(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
        if _sows(params):
            params = rewrite(params, dims)
        return batch_as_before(axis_data, args, dims, **params)

    table[primitive] = batch


def replace_batching(primitive: jex.Primitive, batch: Callable[..., Any]) -> None:
    """Let `batch(size, args, dims, **params)` batch each equation with sows.

    `batch` returns None to leave an equation to JAX, which also batches all equations in a `vmap`
    with `spmd_axis_name`, or over an axis of a mesh with explicit axes.
    """
    table = batching.fancy_primitive_batchers
    batch_as_before = table[primitive]

    def replaced(axis_data: Any, args: Any, dims: Any, **params: Any) -> Any:
        is_plain = axis_data.spmd_name is None and axis_data.explicit_mesh_axis is None
        found = batch(axis_data.size, args, dims, **params) if is_plain and _sows(params) else None
        return batch_as_before(axis_data, args, dims, **params) if found is None else found

    table[primitive] = replaced


def rewrite_before_tangents(primitive: jex.Primitive, rewrite: Callable[[dict], dict]) -> None:
    """Apply `rewrite(params)` to each equation with sows, but only for its tangents.

    The jvp rule of `custom_linear_solve` uses the parameters for the primal and for the tangent, so
    the primal is solved for again here; XLA merges the work that the two solves share.
    """
    jvp_as_before = ad.primitive_jvps[primitive]

    def jvp(primals: Any, tangents: Any, **params: Any) -> Any:
        outs, outs_dot = jvp_as_before(primals, tangents, **rewrite(params))
        if _sows(params):
            outs = primitive.bind(*primals, **params)
        return outs, outs_dot

    ad.primitive_jvps[primitive] = jvp


Rewrite = Callable[[dict[str, Any]], tuple[dict[str, Any], np.ndarray]]


def rewrite_before_split(primitive: jex.Primitive, rewrite: Rewrite) -> None:
    """Apply `rewrite(params)` to each equation with sows before JAX splits it for a derivative.

    The rewritten equation has one more operand, the last, which `rewrite` also returns. JAX splits
    equations by three tables: one for `jax.linearize` and all of reverse mode, which has no public
    name but stands beside `linearize`, and two for partial evaluation.
    """
    by_linearize = vars(sys.modules[ad.linearize.__module__])["primitive_linearizations"]
    for table, before in (
        (by_linearize, _before_linearize),
        (pe.custom_partial_eval_rules, _before_partial_evaluation),
        (pe.partial_eval_jaxpr_custom_rules, _before_partial_evaluation_by_policy),
    ):
        table[primitive] = before(table[primitive], rewrite)


def _before_linearize(rule: Callable[..., Any], rewrite: Rewrite) -> Callable[..., Any]:
    def linearize(is_vjp: bool, moving: Any, *primals: Any, **params: Any) -> Any:
        if not _sows(params):
            return rule(is_vjp, moving, *primals, **params)
        params, operand = rewrite(params)
        *results, tangents_of = rule(is_vjp, [*moving, False], *primals, operand, **params)
        return *results, lambda *args: tangents_of(*args, None)

    return linearize


def _before_partial_evaluation(rule: Callable[..., Any], rewrite: Rewrite) -> Callable[..., Any]:
    def split(trace: Any, *tracers: Any, **params: Any) -> Any:
        if _sows(params):
            params, operand = rewrite(params)
            tracers = (*tracers, trace.new_const(operand))
        return rule(trace, *tracers, **params)

    return split


def _before_partial_evaluation_by_policy(
    rule: Callable[..., Any], rewrite: Rewrite
) -> Callable[..., Any]:
    def split(policy: Any, unknown: Any, given: Any, eqn: jex.JaxprEqn) -> Any:
        if jax_core.has_sow(eqn):
            params, operand = rewrite(eqn.params)
            literal = jex.Literal(operand, jax.typeof(operand))
            eqn = eqn.replace(params=params, invars=[*eqn.invars, literal])
            unknown = [*unknown, False]
            given = [*given, True]
        return rule(policy, unknown, given, eqn)

    return split


def keep_whole(primitive: jex.Primitive) -> None:
    """Let a checkpoint save the results of a loop with sows, if all its operands are known.

    JAX would recompute the results but not the sows, and it cannot separate the two in a `while`.
    """
    table = pe.partial_eval_jaxpr_custom_rules
    split_as_before = table[primitive]

    def split(policy: Any, unknown: Any, given: Any, eqn: jex.JaxprEqn) -> Any:
        if any(unknown) or not jax_core.has_sow(eqn):
            return split_as_before(policy, unknown, given, eqn)
        nothing = [False] * len(eqn.outvars)
        return eqn, None, nothing, nothing, []

    table[primitive] = split


def _sows(params: dict[str, Any]) -> bool:
    return any(jax_core.has_sow(jaxpr) for value in params.values() for jaxpr in jaxprs_in(value))


def add_scanned_input(params: dict[str, Any], body: Jaxpr) -> dict[str, Any]:
    """Parameters of a scan for a body with one more scanned input, the last."""
    if "ft_in" not in params:
        return params | {"jaxpr": body}
    num_consts, num_carry, num_xs = (len(t) for t in params["ft_in"].unpack())
    return params | {"jaxpr": body, "ft_in": _scan_inputs(num_consts, num_carry, num_xs + 1)}


@functools.cache
def _scan_inputs(num_consts: int, num_carry: int, num_xs: int) -> Any:
    """Parameter `ft_in` of a scan with so many inputs; its class has no public name."""

    def scan(consts: list[Any], carry: list[Any], xs: list[Any]) -> Any:
        def total():
            return sum(consts, jnp.zeros(()))

        return lax.scan(lambda carry, _: ([c + 1.0 for c in carry], total()), carry, xs)

    numbers = [[0.0] * num_consts, [0.0] * num_carry, [np.zeros(1)] * num_xs]
    eqns = raw(jax.make_jaxpr(scan)(*numbers))[0].eqns
    return next(eqn.params["ft_in"] for eqn in eqns if eqn.primitive.name == "scan")
