"""Terms, by value numbering: two values with one term are equal, whatever the inputs are."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core as jex

from ppl.harvest import jax_core
from ppl.harvest.array_primitives import passes_on

Term = int


class AppliedPrimitive(NamedTuple):
    """An application of a primitive: an equation, or its action on one element of its operands.

    Attributes:
        eqn: The equation.
        params: The parameters of the primitive.
        shapes: The shapes of the operands.
        operands: The terms of the operands.
        context: Everything else that the result depends on, such as the shard.
    """

    eqn: jex.JaxprEqn
    params: Mapping[str, Any]
    shapes: Sequence[tuple[int, ...]]
    operands: Sequence[Any]
    context: Hashable = ()

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return self.eqn.primitive.name


class Terms:
    """Value numbering (hash-consing): equal expressions get equal numbers.

    An expression is a primitive with its parameters and the terms of its operands. Two values with
    different terms may still be equal.

    Args:
        elements: Rules by primitive, `(terms, made, out, i) -> term`: the `i`-th element of the
            result `out` along the first axis, or None if there is no simpler term.
    """

    def __init__(self, elements: "Mapping[str, Element]") -> None:
        self._elements = elements
        self._numbers: dict[Hashable, Term] = {}
        self._made_by: dict[Term, tuple[AppliedPrimitive, int]] = {}

    def of(self, *expression: Hashable) -> Term:
        """The number of an expression."""
        return self._numbers.setdefault(expression, len(self._numbers))

    def fresh(self) -> Term:
        """A new term that differs from all other terms."""
        return self.of("fresh", len(self._numbers))

    def literal(self, literal: jex.Literal) -> Term:
        """The term of a constant in the program, by its dtype, shape and bits."""
        value = np.asarray(literal.val)
        return self.of("literal", jax_core.dtype_of(literal), value.shape, value.tobytes())

    def results(
        self, eqn: jex.JaxprEqn, operands: Sequence[Any], context: Hashable = ()
    ) -> Sequence[Any]:
        """The terms of the results of an equation.

        Applications to equal operands get different terms if their `context` differs.
        """
        shapes = [getattr(v.aval, "shape", ()) for v in eqn.invars]
        return self.make(AppliedPrimitive(eqn, eqn.params, shapes, operands, context))

    def make(self, made: AppliedPrimitive) -> Sequence[Any]:
        """The terms of the results of an application, simplified to a normal form."""
        if passes_on(made.eqn):
            return made.operands[: len(made.eqn.outvars)]
        if (simpler := self._simpler(made)) is not None:
            return simpler
        result = self._number(made)
        outs = [result]
        if len(made.eqn.outvars) != 1:
            outs = [self.of("result", result, i) for i in range(len(made.eqn.outvars))]
        for i, out in enumerate(outs):
            self._made_by.setdefault(out, (made, i))
        return outs

    def _number(self, made: AppliedPrimitive) -> Term:
        if jax_core.acts(made.eqn):
            return self.fresh()
        try:
            params = frozenset(made.params.items())
        except TypeError:  # A parameter has no hash.
            return self.fresh()
        return self.of(made.eqn.primitive, params, tuple(made.operands), made.context)

    def _simpler(self, made: AppliedPrimitive) -> Sequence[Any] | None:
        """The results as the operand or elements of it, if they have such a form; else None."""
        if made.name == "unstack" and made.params["axis"] == 0:
            return [self.element(made.operands[0], i) for i in range(len(made.eqn.outvars))]
        if made.name == "squeeze" and 0 in made.params["dimensions"]:
            element = self.element(made.operands[0], 0)
            rest = tuple(d - 1 for d in made.params["dimensions"] if d)
            return self.make(row(made, [element], dimensions=rest)) if rest else [element]
        if made.name == "random_wrap" and made.operands[0] in self._made_by:
            inner, _ = self._made_by[made.operands[0]]
            if inner.name == "random_unwrap" and jax_core.is_same_kind_of_key(inner.eqn, made.eqn):
                return [inner.operands[0]]
        return None

    def element(self, array: Any, i: int) -> Term:
        """The `i`-th element of an array along its first axis."""
        if array in self._made_by:
            made, out = self._made_by[array]
            rule = self._elements.get(made.name)
            found = None if rule is None else rule(self, made, out, i)
            if found is not None:
                return found
        return self.of("element", array, i)


Element = Callable[[Terms, AppliedPrimitive, int, int], Term | None]


def row(made: AppliedPrimitive, operands: Sequence[Any], **params: Any) -> AppliedPrimitive:
    """An application to `operands`, one element of each previous operand along the first axis."""
    shapes = [shape[1:] for shape in made.shapes]
    return made._replace(params={**made.params, **params}, shapes=shapes, operands=operands)
