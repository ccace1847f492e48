"""Jaxprs as data: their parts, their inner jaxprs, and copies with changed equations."""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend import core as jex

Jaxpr = jex.Jaxpr | jex.ClosedJaxpr  # one class from JAX 0.12 on


def raw(jaxpr: Jaxpr) -> tuple[Any, list[Any]]:
    """Open jaxpr, which holds the equations, and constants of an open or a closed jaxpr."""
    return getattr(jaxpr, "jaxpr", jaxpr), list(getattr(jaxpr, "consts", ()))


def without_consts(jaxpr: Jaxpr) -> tuple[Any, list[Any]]:
    """Open jaxpr with the constants as its first inputs, and the constants."""
    inner, consts = raw(jaxpr)
    return inner.replace(constvars=[], invars=[*inner.constvars, *inner.invars]), consts


def inputs(jaxpr: Jaxpr) -> list[Any]:
    """Abstract inputs of a jaxpr."""
    return [v.aval for v in raw(jaxpr)[0].invars]


def outputs(jaxpr: Jaxpr) -> list[Any]:
    """Abstract results of a jaxpr."""
    return [v.aval for v in raw(jaxpr)[0].outvars]


def is_jaxpr(value: Any) -> bool:
    """Whether a value is a jaxpr, open or closed."""
    return isinstance(value, jex.Jaxpr | jex.ClosedJaxpr)


def jaxprs_in(value: Any) -> list[Jaxpr]:
    """Jaxprs in one parameter of an equation: the parameter itself, or items of its list."""
    items = value if isinstance(value, tuple | list) else (value,)
    return [item for item in items if is_jaxpr(item)]


def map_equations(jaxpr: Any, fn: Callable[[jex.JaxprEqn], jex.JaxprEqn]) -> Jaxpr:
    """Jaxpr with `fn` applied to each of its own equations."""
    return with_equations(jaxpr, [fn(eqn) for eqn in raw(jaxpr)[0].eqns])


def with_equations(jaxpr: Any, eqns: list[jex.JaxprEqn]) -> Jaxpr:
    """Jaxpr with its own equations replaced by others."""
    inner, _ = raw(jaxpr)
    if inner is not jaxpr:
        return jaxpr.replace(jaxpr=inner.replace(eqns=eqns))
    return jaxpr.replace(eqns=eqns)


def map_jaxprs(params: dict[str, Any], fn: Callable[[Any], Jaxpr]) -> dict[str, Any]:
    """Parameters of an equation with `fn` applied to each jaxpr among them."""

    def mapped(value: Any) -> Any:
        if isinstance(value, tuple) and any(map(is_jaxpr, value)):  # perhaps with None beside them
            return jax.tree.map(mapped, value, is_leaf=lambda item: item is not value)
        return fn(value) if is_jaxpr(value) else value

    return {k: mapped(v) for k, v in params.items()}
