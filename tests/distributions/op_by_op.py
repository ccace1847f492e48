"""Programs run one operation after the other: for derivatives that take minutes to compile.

XLA compiles a second derivative of an iterated function for half a minute, and of ten numbers it
is run once. An operation alone is compiled once for all programs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal


def run(f: Callable[..., Any], *args: Any) -> Any:
    """`f(*args)`, traced at once and run op by op, its loops in Python."""
    closed, shape = jax.make_jaxpr(f, return_shape=True)(*args)
    leaves = map(jnp.asarray, jax.tree.leaves(args))
    return jax.tree.unflatten(jax.tree.structure(shape), _evaluate(closed, *leaves))


def _evaluate(closed: ClosedJaxpr, *args: Any) -> list[Any]:
    jaxpr = closed.jaxpr
    known = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    known |= dict(zip(jaxpr.invars, args, strict=True))

    def read(v: Any) -> Any:
        return v.val if isinstance(v, Literal) else known[v]

    for e in jaxpr.eqns:
        found = _bind(e, [read(v) for v in e.invars])
        known |= dict(zip(e.outvars, found, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _bind(e: Any, values: list[Any]) -> Sequence[Any]:
    p = e.params
    if e.primitive.name in LOOPS:
        return LOOPS[e.primitive.name](p, values)
    inner = next((p[k] for k in ("jaxpr", "call_jaxpr", "fun_jaxpr") if k in p), None)
    if inner is not None:
        closed = inner if isinstance(inner, ClosedJaxpr) else ClosedJaxpr(inner, ())
        return _evaluate(closed, *values)
    found = e.primitive.bind(*values, **p)
    return found if e.primitive.multiple_results else [found]


def _while(p: Any, values: list[Any]) -> list[Any]:
    of_test, of_body = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    test, body, carry = values[:of_test], values[of_test:of_body], values[of_body:]
    while np.any(goes_on := _evaluate(p["cond_jaxpr"], *test, *carry)[0]):
        new = _evaluate(p["body_jaxpr"], *body, *carry)
        where = [jnp.reshape(goes_on, np.shape(goes_on) + (1,) * _extra(x, goes_on)) for x in new]
        carry = [jnp.where(w, x, y) for w, x, y in zip(where, new, carry, strict=True)]
    return carry


def _extra(x: Any, condition: Any) -> int:
    return np.ndim(x) - np.ndim(condition)


def _scan(p: Any, values: list[Any]) -> list[Any]:
    consts, carry, rows = _parts(p, values)
    num = len(carry)
    steps = range(p["length"])
    out = []
    for i in reversed(steps) if p["reverse"] else steps:
        found = _evaluate(p["jaxpr"], *consts, *carry, *(x[i] for x in rows))
        carry = found[:num]
        out.append(found[num:])
    columns = zip(*(out[::-1] if p["reverse"] else out), strict=True)
    return [*carry, *map(jnp.stack, columns)]


def _parts(p: Any, values: list[Any]) -> list[list[Any]]:
    """What a scan does not change, what it carries and what it runs over."""
    if "ft_in" in p:  # of JAX from 0.11 on
        return [list(part) for part in p["ft_in"].update(values).unpack()]
    start = p["num_consts"]
    end = start + p["num_carry"]
    return [values[:start], values[start:end], values[end:]]


def _cond(p: Any, values: list[Any]) -> list[Any]:
    branches = p["branches"]
    return _evaluate(branches[int(np.clip(values[0], 0, len(branches) - 1))], *values[1:])


LOOPS = {"while": _while, "scan": _scan, "cond": _cond}
