"""Cumulative operations, kept apart by barriers from the operations before and after them.

XLA mistakes a cumulative sum of a padded array for a broadcast if the padded axis has one element,
with as many zeros on both sides, although the windows at one end do not reach that element. Under
`vmap`, the gradient of the middle element of a cumulative sum is such a sum. A barrier before and
after each cumulative operation hides the padding; its derivative has barriers, too.
"""

import operator
import weakref
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.array_primitives import Kind, array_primitive
from ppl.harvest.jaxprs import Jaxpr

# A barrier as an equation, to be joined to others.
_BARRIER = jax.make_jaxpr(lax.optimization_barrier)(0.0).eqns[0]

# By jaxpr, its copy with barriers; None if it needs none.
_copies: weakref.WeakKeyDictionary[Any, Jaxpr | None] = weakref.WeakKeyDictionary()


def set_apart(jaxpr: Jaxpr) -> Jaxpr:
    """Jaxpr with barriers around the cumulative operations on floats, at any depth."""
    if jaxpr not in _copies:
        inner, _ = jaxprs.raw(jaxpr)
        eqns = [new for eqn in inner.eqns for new in _set_apart_equation(eqn)]
        is_same = all(map(operator.is_, eqns, inner.eqns))
        _copies[jaxpr] = None if is_same else jaxprs.with_equations(jaxpr, eqns)
    return _copies[jaxpr] or jaxpr


def _set_apart_equation(eqn: jex.JaxprEqn) -> list[jex.JaxprEqn]:
    """An equation, between barriers if it is cumulative."""
    if array_primitive(eqn).kind is Kind.CUMULATIVE and jnp.issubdtype(
        jax_core.dtype_of(eqn.invars[0]), jnp.inexact
    ):
        operand, result = (jex.Var(v.aval) for v in (eqn.invars[0], eqn.outvars[0]))
        return [
            _barrier(eqn, eqn.invars, [operand]),
            eqn.replace(invars=[operand], outvars=[result]),
            _barrier(eqn, [result], eqn.outvars),
        ]
    if all(set_apart(inner) is inner for inner in jax_core.subjaxprs(eqn)):
        return [eqn]
    return [eqn.replace(params=jaxprs.map_jaxprs(eqn.params, set_apart))]


def _barrier(eqn: jex.JaxprEqn, before: list[Any], after: list[Any]) -> jex.JaxprEqn:
    return eqn.replace(
        primitive=_BARRIER.primitive, params=_BARRIER.params, invars=before, outvars=after
    )
