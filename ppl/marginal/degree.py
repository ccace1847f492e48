"""Polynomial degree of the results of a program in some of its inputs, read off its jaxpr.

The degree is an upper bound: an abstract interpreter computes the degree of each value from the
degrees of its operands.

| primitive | degree |
|---|---|
| sums, reshapes, slices and other linear maps | largest degree of an operand |
| products, `dot_general`, products of sparse arrays | sum of the degrees of the operands |
| products of a polynomial with a literal 0 | 0, as values are finite |
| quotients, triangular solves | degree of the numerator, if the denominator is constant |
| powers by an integer | the power times the degree of the base |
| `select_n`, gathers, conditions | largest degree of a branch, if the index is constant |
| tests for NaN and infinity | 0, as values are finite |
| loops | degree of the carry that no longer changes from step to step |
| all others | infinity, unless all operands are constant |
"""

import dataclasses
import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from ppl.harvest import jax_core, jaxprs
from ppl.harvest.array_primitives import array_primitive, passes_on
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.rules import wiring_of
from ppl.harvest.wirings import Branches, Call, Scan, Shards, While


@dataclasses.dataclass(frozen=True)
class Degree:
    """The degree of a value.

    Attributes:
        degree: An upper bound; infinity if the value may not be a polynomial.
        variables: The names of the inputs that the value depends on.
        cause: The first operation that gave a degree above 2, and the names of its inputs.
    """

    degree: float = 0
    variables: frozenset[Hashable] = frozenset()
    cause: tuple[str, frozenset[Hashable]] | None = dataclasses.field(default=None, compare=False)


CONSTANT = Degree()

_COMPARISONS = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])


def find_degrees(jaxpr: Jaxpr, operands: Sequence[Degree]) -> list[Degree]:
    """The degrees of the results of a program.

    Args:
        jaxpr: The program.
        operands: The degrees of its inputs.
    """
    inner, _ = jaxprs.raw(jaxpr)
    degrees: dict[Any, Degree] = dict(zip(inner.invars, operands, strict=True))

    def look_up(atom: Any) -> Degree:
        return CONSTANT if isinstance(atom, jex.Literal) else degrees.get(atom, CONSTANT)

    for eqn in inner.eqns:
        found = degrees_of_equation(eqn, list(map(look_up, eqn.invars)))
        degrees.update(zip(eqn.outvars, found, strict=True))
    return list(map(look_up, inner.outvars))


def degrees_of_equation(eqn: jex.JaxprEqn, operands: list[Degree]) -> list[Degree]:
    """The degrees of the results of an equation."""
    if all(x.degree == 0 for x in operands):
        return [CONSTANT] * len(eqn.outvars)
    if passes_on(eqn):
        return operands[: len(eqn.outvars)]
    match wiring_of(eqn):
        case Call(body, indices):
            return find_degrees(body, [operands[i] for i in indices])
        case Branches(bodies):
            return _of_branches(eqn, bodies, operands)
        case Scan() as scan:
            return _of_scan(eqn, scan, operands)
        case While() as loop:
            return _of_while(eqn, loop, operands)
        case Shards(body=body):
            return find_degrees(body, operands)
    rule = _RULES.get(eqn.primitive.name, _of_array)
    degree = rule(eqn, operands)
    return [_make(eqn, degree, operands)] * len(eqn.outvars)


def _make(eqn: jex.JaxprEqn, degree: float, operands: Sequence[Degree]) -> Degree:
    """The degree of a result, with its cause if it is the first above 2."""
    if degree == 0:
        return CONSTANT
    variables = frozenset().union(*(x.variables for x in operands))
    cause = next((x.cause for x in operands if x.cause is not None), None)
    if degree > 2 and cause is None:
        cause = eqn.primitive.name, variables
    return Degree(degree, variables, cause)


def _largest(operands: Sequence[Degree]) -> float:
    return max((x.degree for x in operands), default=0)


def _of_array(eqn: jex.JaxprEqn, operands: Sequence[Degree]) -> float:
    record = array_primitive(eqn)
    if record.is_multilinear:
        total = sum(x.degree for x in operands)
        is_zero = any(isinstance(v, jex.Literal) and np.all(v.val == 0) for v in eqn.invars)
        return 0 if is_zero and total < math.inf else total
    if record.linear is None:
        return math.inf
    linear, others = record.split(operands)
    return math.inf if _largest(others) else _largest(linear)


def _of_power(eqn: jex.JaxprEqn, operands: Sequence[Degree]) -> float:
    power = eqn.params.get("y", 2)
    if eqn.primitive.name == "pow":
        exponent = eqn.invars[1]
        power = exponent.val if isinstance(exponent, jex.Literal) else math.inf
        power = int(power) if power in (0, 1, 2) else math.inf
    if power <= 0:
        return 0 if power == 0 else math.inf
    return operands[0].degree * power


def _of_convert(eqn: jex.JaxprEqn, operands: Sequence[Degree]) -> float:
    is_inexact = jnp.issubdtype(jax_core.dtype_of(eqn.outvars[0]), jnp.inexact)
    return operands[0].degree if is_inexact else math.inf


def _of_comparison(eqn: jex.JaxprEqn, operands: Sequence[Degree]) -> float:
    """Degree of a comparison: 0 for a test for NaN (`x == x`) or infinity, else unbounded.

    Such a test has the same result for all finite values.
    """
    a, b = eqn.invars
    is_same = a is b and eqn.primitive.name in ("eq", "ne")
    is_infinite = any(isinstance(v, jex.Literal) and np.all(np.isinf(v.val)) for v in (a, b))
    is_guard = (is_same or is_infinite) and _largest(operands) < math.inf
    return 0 if is_guard else math.inf


def _of_finite(eqn: jex.JaxprEqn, operands: Sequence[Degree]) -> float:
    return 0 if operands[0].degree < math.inf else math.inf


Rule = Callable[[jex.JaxprEqn, Sequence[Degree]], float]
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_COMPARISONS, _of_comparison),
    **dict.fromkeys(["integer_pow", "square", "pow"], _of_power),
    "convert_element_type": _of_convert,
    "is_finite": _of_finite,
}


def _join(eqn: jex.JaxprEqn, *several: Sequence[Degree]) -> list[Degree]:
    """The largest degree at each place of several lists of values."""
    return [_make(eqn, _largest(each), each) for each in zip(*several, strict=True)]


def _spoil(eqn: jex.JaxprEqn, found: Sequence[Degree], index: Degree) -> list[Degree]:
    """Degrees of results chosen by `index`: unbounded, unless the index is a constant."""
    if index.degree == 0:
        return list(found)
    return [_make(eqn, math.inf, [index, x]) for x in found]


def _of_branches(
    eqn: jex.JaxprEqn, bodies: Sequence[Jaxpr], operands: list[Degree]
) -> list[Degree]:
    found = _join(eqn, *(find_degrees(body, operands[1:]) for body in bodies))
    return _spoil(eqn, found, operands[0])


def _of_scan(eqn: jex.JaxprEqn, scan: Scan, operands: list[Degree]) -> list[Degree]:
    consts, carry, rows = scan.split(operands)
    carry, outs = _find_fixed_point(
        eqn, carry, lambda carry: find_degrees(scan.body, [*consts, *carry, *rows])
    )
    return [*carry, *outs[scan.num_carry :]]


def _of_while(eqn: jex.JaxprEqn, loop: While, operands: list[Degree]) -> list[Degree]:
    test_consts, body_consts, start = loop.split(operands)
    carry, _ = _find_fixed_point(
        eqn, start, lambda carry: find_degrees(loop.body, [*body_consts, *carry])
    )
    (goes_on,) = find_degrees(loop.condition, [*test_consts, *carry])
    return _spoil(eqn, carry, goes_on)


def _find_fixed_point(
    eqn: jex.JaxprEqn, carry: Sequence[Degree], step: Callable[[Sequence[Degree]], list[Degree]]
) -> tuple[list[Degree], list[Degree]]:
    """The degrees of a carry after any number of steps, and the results of a step from there.

    A degree that grows from step to step has no bound.
    """
    carry = list(carry)
    while True:
        outs = step(carry)
        new = _join(eqn, carry, outs[: len(carry)])
        if new == carry:
            return carry, outs
        carry = [_make(eqn, math.inf, [x]) if x.degree > 2 else x for x in new]
