"""Values of a program as terms: two values with one term are equal, whatever the inputs are."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from jax.extend import core as jex

from ppl.harvest import _jax

Term = int


class Terms:
    """Numbers expressions, so that equal ones have equal numbers.

    An expression is a primitive with its parameters and the terms of its operands. Two values with
    different terms may still be equal.
    """

    def __init__(self) -> None:
        self._numbers: dict[Hashable, Term] = {}
        self._made_by: dict[Term, tuple[jex.JaxprEqn, Sequence[Any]]] = {}

    def of(self, *expression: Hashable) -> Term:
        """The number of an expression."""
        return self._numbers.setdefault(expression, len(self._numbers))

    def fresh(self) -> Term:
        """A value that is known to be equal to no other."""
        return self.of("fresh", len(self._numbers))

    def literal(self, literal: jex.Literal) -> Term:
        """A number that stands in the program."""
        return self.of("literal", literal.aval.dtype, np.asarray(literal.val).tobytes())

    def results(
        self, eqn: jex.JaxprEqn, operands: Sequence[Any], *context: Hashable
    ) -> Sequence[Any]:
        """The results of an equation, which may depend on a `context` beside its operands."""
        if _jax.is_varying_cast(eqn):
            return operands
        if eqn.primitive.name == "unstack" and eqn.params["axis"] == 0:
            return [self.element(operands[0], i) for i in range(len(eqn.outvars))]
        if eqn.primitive.name == "squeeze" and eqn.params["dimensions"] == (0,):
            return [self.element(operands[0], 0)]
        result = self._result(eqn, operands, context)
        if len(eqn.outvars) > 1:
            return [self.of("result", result, i) for i in range(len(eqn.outvars))]
        self._made_by.setdefault(result, (eqn, operands))
        return [result]

    def _result(self, eqn: jex.JaxprEqn, operands: Sequence[Any], context: Hashable) -> Term:
        if eqn.effects:
            return self.fresh()
        try:
            params = frozenset(eqn.params.items())
        except TypeError:  # One of them has no hash.
            return self.fresh()
        return self.of(eqn.primitive, params, tuple(operands), context)

    def element(self, array: Any, i: int) -> Term:
        """The `i`-th element of an array along its first axis."""
        while array in self._made_by:
            eqn, operands = self._made_by[array]
            operand, element = _source(eqn, i)
            if operand is None:
                i = element
                break
            array, i = operands[operand], element
            if i is None:
                return array
        return self.of("element", array, i)


def _source(eqn: jex.JaxprEqn, i: int) -> tuple[int | None, Any]:
    """The operand of an equation, and the element of it, that its `i`-th element is.

    The element is None if it is all of the operand. The operand is None if none is known; then the
    first number stands for all elements that are equal to this one.
    """
    params, shapes = eqn.params, [v.aval.shape for v in eqn.invars]
    match eqn.primitive.name:
        case "stack" if params["axis"] == 0:
            return i, None
        case "concatenate" if params["dimension"] == 0:
            for operand, (size, *_) in enumerate(shapes):
                if i < size:
                    return operand, i
                i -= size
        case "tile" if set(params["reps"][1:]) <= {1}:
            return 0, i % shapes[0][0]
        case "rev" if params["dimensions"] == (0,):
            return 0, shapes[0][0] - 1 - i
        case "slice" if (start := _start(params, shapes[0])) is not None:
            return 0, start + i
        case "broadcast_in_dim" if 0 not in params["broadcast_dimensions"]:
            return (0, None) if shapes[0] == params["shape"][1:] else (None, 0)
        case "broadcast_in_dim" if shapes[0] == (1, *params["shape"][1:]):
            return 0, 0
    return None, i


def _start(params: dict[str, Any], shape: tuple[int, ...]) -> int | None:
    """Where a slice starts that takes consecutive elements along the first axis, and only that."""
    starts, limits, strides = (params[k] for k in ("start_indices", "limit_indices", "strides"))
    whole = not any(starts[1:]) and tuple(limits[1:]) == shape[1:]
    return starts[0] if whole and set(strides or ()) <= {1} else None
