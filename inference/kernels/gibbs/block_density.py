"""Density of a block: the terms of a log density that depend on its values, and no others."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex
from jax.tree_util import Partial

from ppl.harvest import jax_core, jaxprs

_SUMS = ("add", "sub", "neg", "convert_element_type", "copy", "reshape", "squeeze")


def block_density(log_density: Callable[[Any], jax.Array], position: Any) -> Partial:
    """Log density without the terms that do not depend on the position.

    It differs from `log_density` by a number that is the same for all positions. What does not
    depend on the position is evaluated here, once; so a kernel that calls the result many times
    neither evaluates nor differentiates the sites beyond the block's Markov blanket.

    Args:
        log_density: Function of a position that returns a scalar; it may close over traced values.
        position: A position, or its shapes.

    Example:
        >>> others = jnp.ones(1000)
        >>> density = block_density(lambda x: -(x**2) - jnp.sum(others**2), 0.0)
        >>> float(density(3.0))
        -9.0
    """
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x)), position
    )
    traced = jax.make_jaxpr(log_density)(shapes)
    jaxpr, constants = jaxprs.without_consts(traced)
    num_constants = len(constants)
    known: dict[Any, Any] = dict(zip(jaxpr.invars[:num_constants], constants, strict=True))
    varying = set(jaxpr.invars[num_constants:])
    equations = []
    for eqn in jaxpr.eqns:
        depends = any(v in varying for v in eqn.invars if not isinstance(v, jex.Literal))
        if depends or eqn.effects:
            equations.append(eqn)
            varying.update(eqn.outvars)
        else:
            known.update(
                zip(eqn.outvars, jax_core.bind(eqn, _read(known, eqn.invars)), strict=True)
            )
    terms = _terms(jaxpr.outvars[0], equations, varying)
    equations = _needed(equations, terms)
    outside = list(dict.fromkeys(v for v in _inputs(equations, terms) if v in known))
    dtype = jaxpr.outvars[0].aval.dtype
    program = _Program(jaxpr.invars[num_constants:], outside, equations, terms, dtype)
    return Partial(program.run, [known[v] for v in outside])


class _Program:
    """Equations that give the terms of a density from values that are known and a position."""

    def __init__(
        self,
        inputs: Sequence[Any],
        outside: Sequence[Any],
        equations: Sequence[jex.JaxprEqn],
        terms: Sequence[tuple[float, Any]],
        dtype: Any,
    ):
        self._inputs = inputs
        self._outside = outside
        self._equations = equations
        self._terms = terms
        self._dtype = dtype

    def run(self, known: Sequence[Any], position: Any) -> jax.Array:
        """Sum of the terms at a position."""
        leaves = map(jnp.asarray, jax.tree.leaves(position), [v.aval.dtype for v in self._inputs])
        values = dict(zip(self._inputs, leaves, strict=True))
        values.update(zip(self._outside, known, strict=True))
        for eqn in self._equations:
            found = jax_core.bind(eqn, _read(values, eqn.invars))
            values.update(zip(eqn.outvars, found, strict=True))
        terms = [sign * values[v].reshape(()).astype(self._dtype) for sign, v in self._terms]
        return functools.reduce(jnp.add, terms, jnp.zeros((), self._dtype))


def _read(values: dict[Any, Any], variables: Sequence[Any]) -> list[Any]:
    return [v.val if isinstance(v, jex.Literal) else values[v] for v in variables]


def _terms(out: Any, equations: Sequence[jex.JaxprEqn], varying: set[Any]) -> list[Any]:
    """Signs and variables of scalars whose sum is `out`, up to scalars that do not vary."""
    maker = {v: eqn for eqn in equations for v in eqn.outvars}
    found = []
    waiting = [(1.0, out)]
    while waiting:
        sign, v = waiting.pop()
        if isinstance(v, jex.Literal) or v not in varying:
            continue
        eqn = maker.get(v)
        if eqn is None or eqn.primitive.name not in _SUMS or not _are_real_scalars(eqn):
            found.append((sign, v))
            continue
        is_negative = [eqn.primitive.name == "neg", eqn.primitive.name == "sub"]
        signs = [-sign if is_negative[0] else sign, -sign if is_negative[1] else sign]
        waiting.extend(zip(signs, eqn.invars, strict=False))
    return found[::-1]


def _are_real_scalars(eqn: jex.JaxprEqn) -> bool:
    avals: list[Any] = [v.aval for v in (*eqn.invars, *eqn.outvars)]
    return all(np.prod(a.shape) == 1 and jnp.issubdtype(a.dtype, jnp.floating) for a in avals)


def _needed(
    equations: Sequence[jex.JaxprEqn], terms: Sequence[tuple[float, Any]]
) -> list[jex.JaxprEqn]:
    """Equations that terms depend on."""
    live = {v for _, v in terms}
    kept = []
    for eqn in reversed(equations):
        if eqn.effects or live.intersection(eqn.outvars):
            kept.append(eqn)
            live.update(v for v in eqn.invars if not isinstance(v, jex.Literal))
    return kept[::-1]


def _inputs(equations: Sequence[jex.JaxprEqn], terms: Sequence[tuple[float, Any]]) -> list[Any]:
    found = [v for eqn in equations for v in eqn.invars if not isinstance(v, jex.Literal)]
    return [*found, *(v for _, v in terms)]
