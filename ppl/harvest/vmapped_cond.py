"""Vmapped cond: a cond that sows, for all elements of a `vmap` that maps its predicate.

JAX would run all branches for all elements and select, and nothing would then tell which sows take
place. So such a cond is batched to an equation that holds the program of one element, in which the
cond still stands. JAX evaluates it as it would the cond, by `vmap`; `rules/vmapped_cond` harvests
it. The body reads operands that all elements share, and then a row of each other operand.
"""

import dataclasses
import weakref
from collections.abc import Callable, Sequence
from itertools import compress
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex
from jax.extend.core import primitives

from ppl.harvest import jax_core, jax_tables, jaxprs
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.loop_marks import enter_vmap
from ppl.harvest.sowing import sites_of, sow_p


def map_elements(fn: Callable[..., Any], num_consts: int, size: int) -> Callable[..., Any]:
    """`vmap` of a function of operands; all elements share the first operands."""

    def mapped(*args: Any) -> Any:
        consts = args[:num_consts]
        rows = list(args[num_consts:])
        return jax.vmap(lambda rows: fn(*consts, *rows), axis_size=size)(rows)

    return mapped


def _impl(*args: Any, body: Jaxpr, num_consts: int, length: int, is_plain: bool) -> list[Any]:
    plain = body if is_plain else _leave_to_jax(body)
    return map_elements(lambda *x: jax_core.evaluate(plain, x), num_consts, length)(*args)


_plain: weakref.WeakKeyDictionary[Any, Jaxpr] = weakref.WeakKeyDictionary()


def _leave_to_jax(jaxpr: Jaxpr) -> Jaxpr:
    """Jaxpr whose conds are batched as JAX does, to be evaluated and not harvested."""

    def leave(eqn: jex.JaxprEqn) -> jex.JaxprEqn:
        params = jaxprs.map_jaxprs(eqn.params, _leave_to_jax)
        if eqn.primitive is vmapped_cond_p:
            params["is_plain"] = True
        if eqn.primitive is sow_p:
            params["site"] = dataclasses.replace(eqn.params["site"], selected=True)
        return eqn.replace(params=params)

    if jaxpr not in _plain:
        _plain[jaxpr] = jaxprs.map_equations(jaxpr, leave)
    return _plain[jaxpr]


def _abstract_eval(*args: Any, body: Jaxpr, length: int, **_: Any) -> list[Any]:
    return [jax_core.batched_aval(v.aval, length, args) for v in jaxprs.raw(body)[0].outvars]


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, body: Jaxpr, num_consts: int, **params: Any
) -> tuple[list[Any], list[Any]]:
    """Results, and tangents by a linear program of each element, which sows nothing."""
    moving = [not jax_core.is_zero_tangent(t) for t in tangents]
    outvars = jaxprs.raw(body)[0].outvars
    moved = [jnp.issubdtype(v.aval.dtype, jnp.inexact) for v in outvars]
    linear, push = _linearize(body, moving, moved)
    found = vmapped_cond_p.bind(*primals, body=linear, num_consts=num_consts, **params)
    outs = found[: len(outvars)]
    leaves = found[len(outvars) :]
    num_shared = sum(moving[:num_consts])
    pushed = iter(
        vmapped_cond_p.bind(
            *compress(tangents, moving), *leaves, body=push, num_consts=num_shared, **params
        )
    )
    pairs = zip(outs, moved, strict=True)
    return outs, [next(pushed) if is_moved else jax_core.zero_tangent(x) for x, is_moved in pairs]


def _linearize(body: Jaxpr, moving: Sequence[bool], moved: Sequence[bool]) -> tuple[Jaxpr, Jaxpr]:
    """Program that also gives residuals, and the program of tangents and residuals."""
    trees: list[Any] = []

    def linearize(*args: Any) -> tuple[list[Any], list[Any]]:
        def call(*given: Any) -> tuple[list[Any], list[Any]]:
            outs = jax_core.evaluate(body, _merge(args, moving, given))
            return list(compress(outs, moved)), outs

        _, push, outs = jax.linearize(call, *compress(args, moving), has_aux=True)
        leaves, tree = jax.tree.flatten(push)
        trees.append(tree)
        return outs, leaves

    def push(*args: Any) -> list[Any]:
        num = sum(moving)
        return jax.tree.unflatten(trees[0], args[num:])(*args[:num])

    inputs = jaxprs.inputs(body)
    linear = jax.make_jaxpr(linearize)(*inputs)
    residuals = jaxprs.outputs(linear)[len(moved) :]
    return linear, jax.make_jaxpr(push)(*compress(inputs, moving), *residuals)


def _transpose(
    cotangents: Sequence[Any], *operands: Any, body: Jaxpr, num_consts: int, **params: Any
) -> list[Any]:
    """Cotangents of the linear operands, by transposing the program of each element.

    Cotangents of operands that all elements share are summed over the elements.
    """
    linear = [jax_core.is_linear_operand(x) for x in operands]
    known = [not is_linear for is_linear in linear]
    inputs = jaxprs.inputs(body)
    unknown = list(compress(inputs, linear))

    def transpose(*args: Any) -> tuple[Any, ...]:
        given = args[: sum(known)]
        cts = args[sum(known) :]

        def call(*xs: Any) -> list[Any]:
            return jax_core.evaluate(body, _merge(_merge(operands, known, given), linear, xs))

        return jax.linear_transpose(call, *unknown)(list(cts))

    back = jax.make_jaxpr(transpose)(*compress(inputs, known), *jaxprs.outputs(body))
    given = [*compress(operands, known), *map(jax_core.instantiate_zeros, cotangents)]
    num_shared = sum(known[:num_consts])
    found = iter(vmapped_cond_p.bind(*given, body=back, num_consts=num_shared, **params))
    cts = [next(found) if is_linear else None for is_linear in linear]
    return [ct if ct is None or i >= num_consts else ct.sum(0) for i, ct in enumerate(cts)]


def _merge(items: Sequence[Any], mask: Sequence[bool], new: Sequence[Any]) -> list[Any]:
    """Items with new ones where a mask holds."""
    rest = iter(new)
    return [next(rest) if replace else item for item, replace in zip(items, mask, strict=True)]


def _batch(
    size: int, args: Sequence[Any], dims: Sequence[Any], *, body: Jaxpr, **params: Any
) -> tuple[list[Any], list[int]]:
    def call(*args):
        run = _impl if params["is_plain"] else vmapped_cond_p.bind
        return run(*args, body=body, **params)

    if params["is_plain"]:
        outs = jax.vmap(call, dims, axis_size=size)(*args)
        return outs, [0] * len(outs)
    inputs = jaxprs.inputs(body)
    num_consts = params["num_consts"]
    rows = [jax_core.batched_aval(aval, params["length"]) for aval in inputs[num_consts:]]
    return _bind(call, [*inputs[:num_consts], *rows], size, args, dims)


vmapped_cond_p = jax_core.make_primitive(
    "vmap_of_cond",
    impl=_impl,
    abstract_eval=_abstract_eval,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    effect=lambda body, **_: {jax_core.SowEffect()} if jax_core.has_sow(body) else set(),
    batch_by_size=True,
)


def _batch_cond(
    size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any
) -> tuple[list[Any], list[int]] | None:
    """Vmapped cond of a cond with sows; None for a cond that JAX is to batch."""
    branches = params["branches"]
    is_selected = any(site.selected for branch in branches for site in sites_of(branch))
    if dims[0] is None or is_selected or not all(map(jax_core.only_sows, branches)):
        return None
    index = jax.ShapeDtypeStruct((), args[0].dtype)

    def call(*args):
        return primitives.cond_p.bind(*args, **params)

    return _bind(call, [index, *jaxprs.inputs(branches[0])], size, args, dims)


def _bind(
    call: Callable[..., Any],
    inputs: Sequence[Any],
    size: int,
    args: Sequence[Any],
    dims: Sequence[Any],
) -> tuple[list[Any], list[int]]:
    """Results for all elements; `call` is the function of one, and has these abstract `inputs`."""
    order = sorted(range(len(args)), key=lambda i: dims[i] is not None)
    place = {i: at for at, i in enumerate(order)}
    body = jax.make_jaxpr(lambda *xs: call(*(xs[place[i]] for i in range(len(xs)))))(
        *(inputs[i] for i in order)
    )
    operands = [
        args[i] if dims[i] is None else jax_core.batched_in_front(args[i], dims[i], size)
        for i in order
    ]
    num_consts = sum(dim is None for dim in dims)
    outs = vmapped_cond_p.bind(
        *operands, body=enter_vmap(body), num_consts=num_consts, length=size, is_plain=False
    )
    return outs, [0] * len(outs)


jax_tables.replace_batching(primitives.cond_p, _batch_cond)
