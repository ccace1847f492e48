"""Marks on sows, of the loops and conds around them, made before `vmap` batches these.

After batching nothing tells a `vmap` of a loop from a loop of a `vmap`, or the branches of a cond
from the program around it.
"""

import dataclasses
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from jax.extend import core as jex
from jax.extend.core import primitives

from ppl.harvest import jax_core, jax_tables, jaxprs
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.sowing import Site, sow_p

_rewritten: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()
_LOOPS = ("scan", "while", "vmap_of_cond")


def _mark_loop(params: dict[str, Any], dims: Sequence[Any]) -> dict[str, Any]:
    """Mark the sows in a loop: the next `vmap` axis lies outside of it."""
    return jaxprs.map_jaxprs(params, lambda jaxpr: _mark(jaxpr, 1, False))


def _mark_cond(params: dict[str, Any], dims: Sequence[Any]) -> dict[str, Any]:
    """Mark the sows in a cond as selected, if `vmap` maps the predicate."""
    if dims[0] is None:
        return params
    return jaxprs.map_jaxprs(params, lambda jaxpr: _mark(jaxpr, 0, True))


def _mark(jaxpr: Jaxpr, depth: int, selected: bool) -> Jaxpr:
    """Jaxpr with sows marked with the loops around them; `depth` loops are around the jaxpr."""
    if not jax_core.has_sow(jaxpr):
        return jaxpr

    def mark_equation(eqn: jex.JaxprEqn) -> Any:
        if eqn.primitive is sow_p:
            site = eqn.params["site"]
            missing = (len(site.axes),) * (depth - len(site.loops))
            marks = {"loops": site.loops + missing, "selected": site.selected or selected}
            return eqn.replace(params={"site": dataclasses.replace(site, **marks)})
        inner = depth + (eqn.primitive.name in _LOOPS and depth > 0)
        return eqn.replace(
            params=jaxprs.map_jaxprs(eqn.params, lambda inside: _mark(inside, inner, selected))
        )

    # Memoized, so that a loop batched twice stays one loop for the caches of JAX.
    memo = _rewritten.setdefault(jaxpr, {})
    if (depth, selected) not in memo:
        memo[depth, selected] = jaxprs.map_equations(jaxpr, mark_equation)
    return memo[depth, selected]


def enter_vmap(jaxpr: Jaxpr) -> Jaxpr:
    """Jaxpr whose sows are marked as sows of a vmapped cond around it."""
    return _mark_vmap(jaxpr, 0, Site.into_vmap)


def leave_vmap(jaxpr: Jaxpr) -> Jaxpr:
    """Body of a vmapped cond without the marks of `enter_vmap`, to be batched again."""
    memo = _rewritten.setdefault(jaxpr, {})
    if "leave" not in memo:
        memo["leave"] = _mark_vmap(jaxpr, 0, Site.without_vmap)
    return memo["leave"]


def _mark_vmap(jaxpr: Jaxpr, depth: int, mark: Callable[[Site, int], Site]) -> Jaxpr:
    """Jaxpr with each sow marked by the number of loops around it; `depth` are around the jaxpr."""
    if not jax_core.has_sow(jaxpr):
        return jaxpr

    def mark_equation(eqn: jex.JaxprEqn) -> Any:
        if eqn.primitive is sow_p:
            return eqn.replace(params={"site": mark(eqn.params["site"], depth)})
        inner = depth + (eqn.primitive.name in _LOOPS)
        return eqn.replace(
            params=jaxprs.map_jaxprs(eqn.params, lambda inside: _mark_vmap(inside, inner, mark))
        )

    return jaxprs.map_equations(jaxpr, mark_equation)


for _loop in (primitives.scan_p, primitives.while_p):
    jax_tables.rewrite_before_batching(_loop, _mark_loop)
jax_tables.rewrite_before_batching(primitives.cond_p, _mark_cond)
