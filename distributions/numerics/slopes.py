"""Formulas whose slopes are 0, not NaN, where their values are at an end."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero

from distributions.common.arrays import select


def finite_slopes(formula: Callable[..., Array]) -> Callable[..., Array]:
    """A formula of single numbers, with derivatives of 0 where its value is infinite or NaN.

    Values are infinite or NaN outside of a support and where a density underflows: the chain rule
    would multiply 0 by infinity there. Formulas take longer to trace, and quadratures to run.
    """

    def keep(value: Array, slope: Array) -> Array:
        return select(jnp.abs(value) < jnp.inf, slope, 0)

    return _with_slopes(formula, keep, lambda slope: slope)


def settled_slopes(formula: Callable[..., Array], ends: tuple[float, ...]) -> Any:
    """A formula of single numbers, with finite derivatives where its value is an end.

    There NaN and infinite slopes are 0; and so are those of a slope that is 0, in any mode.
    """

    def settle(value: Array, slope: Array) -> Array:
        is_end = functools.reduce(operator.or_, (value == end for end in ends))
        size = jnp.abs(slope)
        return select(is_end & ~((size > 0) & (size < jnp.inf)), 0, slope)

    return _with_slopes(formula, settle, lambda slope: settled_slopes(slope, (0.0,)))


def _with_slopes(formula: Callable[..., Array], kept: Any, guard: Any) -> Any:
    """A formula with `kept(value, slope)` in place of each slope, a formula that `guard` guards.

    Each argument is differentiated by itself, in forward mode, so that its derivative can be
    selected. In reverse mode a selected 0 is multiplied by derivatives of the slope that may be
    infinite: unless these are selected, too, by the guard.
    """

    def of_numbers(*arguments: Any) -> Array:
        places = [i for i, x in enumerate(arguments) if isinstance(x, Array)]

        @jax.custom_jvp
        def call(*arrays: Array) -> Array:
            changed = dict(zip(places, arrays, strict=True))
            return formula(*(changed.get(i, x) for i, x in enumerate(arguments)))

        def slope_by(i: int, *arrays: Array) -> Array:
            def alone(x: Array) -> Array:
                return call.fun(*arrays[:i], x, *arrays[i + 1 :])

            value, slope = jax.jvp(alone, arrays[i : i + 1], (jnp.ones_like(arrays[i]),))
            return kept(value, slope)

        @functools.partial(call.defjvp, symbolic_zeros=True)
        def _(primals: tuple[Array, ...], tangents: Any) -> tuple[Array, Any]:
            total = 0
            for i, x_dot in enumerate(tangents):
                if not isinstance(x_dot, SymbolicZero):
                    slope = guard(functools.partial(slope_by, i))(*primals)
                    total = total + slope * x_dot
            return call(*primals), total

        return call(*(arguments[i] for i in places))

    return of_numbers
