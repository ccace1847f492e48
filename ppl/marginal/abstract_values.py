"""Values of a program that an analysis follows without evaluating it."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jax.extend import core as jex

from ppl.analysis.terms import Term
from ppl.marginal.element_dependence import Uses


@dataclasses.dataclass(frozen=True)
class AbstractValue:
    """A value of a program.

    Attributes:
        shape: Its shape.
        uses: The elements of sites that it depends on.
        term: Its number, equal for values that are known to be equal.
        read: Evaluates it; None inside of a loop, where it differs from step to step.
        columns: The terms of its columns, if it was concatenated from them along the last axis.
    """

    shape: tuple[int, ...]
    uses: Uses
    term: Term
    read: Callable[[], Any] | None = None
    columns: tuple[Term, ...] | None = None


def columns_of(eqn: jex.JaxprEqn, operands: Sequence[AbstractValue]) -> tuple[Term, ...] | None:
    """The terms of columns that an equation joins along the last axis; None for any other."""
    is_joined = eqn.primitive.name == "concatenate" and all(x.shape[-1] == 1 for x in operands)
    is_last = is_joined and eqn.params["dimension"] == len(operands[0].shape) - 1
    return tuple(x.term for x in operands) if is_last else None
