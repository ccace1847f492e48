"""Values that surely have no bounds, or are NaN in part, as inputs of a program take all numbers.

An abstract interpreter finds what is sure of all elements of each value; of most it knows nothing.
"""

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.rules import wiring_of
from ppl.harvest.wirings import Call, Scan
from ppl.marginal.degree import CONSTANT, Degree, degrees_of_equation


class Reach(enum.Enum):
    """Knowledge of a value that is not a polynomial."""

    UNBOUNDED = "both arbitrarily large and arbitrarily small"
    UNDEFINED = "NaN for some numbers"


class Value(NamedTuple):
    """Knowledge of a value.

    Attributes:
        degree: An upper bound of its degree.
        reach: Its exact degree, if it is a polynomial of one; or what is known besides; None if
            nothing is.
    """

    degree: Degree
    reach: int | Reach | None


def find_reach(jaxpr: Jaxpr, operands: Sequence[Value]) -> list[Value]:
    """Knowledge of the results of a program.

    A value of degree 1 counts as linear, whatever its coefficients are.

    Args:
        jaxpr: The program.
        operands: What is known of its inputs.
    """
    inner, _ = jaxprs.raw(jaxpr)
    values: dict[Any, Value] = dict(zip(inner.invars, operands, strict=True))
    nothing = Value(CONSTANT, 0)

    def look_up(atom: Any) -> Value:
        return nothing if isinstance(atom, jex.Literal) else values.get(atom, nothing)

    for eqn in inner.eqns:
        values.update(
            zip(eqn.outvars, _of_equation(eqn, list(map(look_up, eqn.invars))), strict=True)
        )
    return list(map(look_up, inner.outvars))


def _of_equation(eqn: jex.JaxprEqn, operands: list[Value]) -> list[Value]:
    degrees = degrees_of_equation(eqn, [x.degree for x in operands])
    rule = _RULES.get(eqn.primitive.name)
    match wiring_of(eqn):
        case Call(body, indices):
            reach = [x.reach for x in find_reach(body, [operands[i] for i in indices])]
        case Scan() as scan:
            carry = [_of_degree(x, None) for x in degrees[: scan.num_carry]]
            consts, _, rows = scan.split(operands)
            steps = find_reach(scan.body, [*consts, *carry, *rows])
            reach = [*(x.reach for x in carry), *(x.reach for x in steps[scan.num_carry :])]
        case _:
            known = rule(eqn, [x.reach for x in operands]) if rule else None
            reach = [known] * len(degrees)
    return [_of_degree(*pair) for pair in zip(degrees, reach, strict=True)]


def _of_degree(degree: Degree, reach: int | Reach | None) -> Value:
    return Value(degree, int(degree.degree) if degree.degree < 2 else reach)


Known = int | Reach | None


def _is_endless(x: Known) -> bool:
    """Whether a value has neither a lower nor an upper bound."""
    return x is Reach.UNBOUNDED or (isinstance(x, int) and x % 2 == 1)


def _same(eqn: jex.JaxprEqn, operands: Sequence[Known]) -> Known:
    return operands[0] if all(x == 0 for x in operands[1:]) else None


def _convert(eqn: jex.JaxprEqn, operands: Sequence[Known]) -> Known:
    is_real = jnp.issubdtype(jax_core.dtype_of(eqn.outvars[0]), jnp.floating)
    return operands[0] if is_real else None


def _add(_: jex.JaxprEqn, operands: Sequence[Known]) -> Known:
    """Sum: the larger degree of two polynomials is the degree."""
    a, b = operands
    if Reach.UNDEFINED in operands:
        return Reach.UNDEFINED
    if isinstance(a, int) and isinstance(b, int):
        return None if a == b else max(a, b)
    return Reach.UNBOUNDED if set(operands) == {Reach.UNBOUNDED, 0} else None


def _multiply(_: jex.JaxprEqn, operands: Sequence[Known]) -> Known:
    a, b = operands
    if Reach.UNDEFINED in operands:
        return Reach.UNDEFINED
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return Reach.UNBOUNDED if set(operands) == {Reach.UNBOUNDED, 0} else None


def _divide(_: jex.JaxprEqn, operands: Sequence[Known]) -> Known:
    a, b = operands
    if Reach.UNDEFINED in operands:
        return Reach.UNDEFINED
    if a == 0 and _is_endless(b):
        return Reach.UNBOUNDED
    return a if b == 0 else None


def _power(eqn: jex.JaxprEqn, operands: Sequence[Known]) -> Known:
    """Power by a number that is known."""
    base = operands[0]
    power: Any = eqn.params.get("y", 2)
    if eqn.primitive.name == "pow":
        exponent = eqn.invars[1]
        if not isinstance(exponent, jex.Literal) or jnp.ndim(exponent.val):
            return None
        power = exponent.val
    if base is Reach.UNDEFINED:
        return base if power else 0
    if power != int(power):
        return Reach.UNDEFINED if _is_endless(base) else None
    if isinstance(base, int) and power > 0:
        return base * int(power)
    return Reach.UNBOUNDED if _is_endless(base) and power % 2 else None


def _increasing(_: jex.JaxprEqn, operands: Sequence[Known]) -> Known:
    """Odd function without bounds."""
    return Reach.UNBOUNDED if _is_endless(operands[0]) else _carry(_, operands)


def _of_positive(_: jex.JaxprEqn, operands: Sequence[Known]) -> Known:
    """Function of numbers above a bound."""
    return Reach.UNDEFINED if _is_endless(operands[0]) else _carry(_, operands)


def _carry(_: jex.JaxprEqn, operands: Sequence[Known]) -> Known:
    """Function that is NaN where its operand is."""
    return Reach.UNDEFINED if operands[0] is Reach.UNDEFINED else None


_SHAPES = ("neg", "copy", "reshape", "broadcast_in_dim", "squeeze", "transpose", "rev", "slice")
_RULES: dict[str, Callable[[jex.JaxprEqn, Sequence[Known]], Known]] = {
    **dict.fromkeys([*_SHAPES, "expand_dims", "gather", "dynamic_slice"], _same),
    **dict.fromkeys(["add", "sub", "add_any"], _add),
    **dict.fromkeys(["integer_pow", "square", "pow"], _power),
    **dict.fromkeys(["sinh", "asinh", "cbrt"], _increasing),
    **dict.fromkeys(["log", "log1p", "sqrt", "rsqrt"], _of_positive),
    **dict.fromkeys(["exp", "exp2", "expm1", "logistic", "tanh"], _carry),
    "convert_element_type": _convert,
    "mul": _multiply,
    "div": _divide,
}
