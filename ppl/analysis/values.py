"""Values of a program that an analysis follows without evaluating it."""

import dataclasses
from collections.abc import Callable
from typing import Any

from ppl.analysis.element_dependence import Uses
from ppl.analysis.terms import Term


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of a program.

    Attributes:
        shape: Its shape.
        uses: The elements of sites that it depends on.
        term: Its number, equal for values that are known to be equal.
        read: Evaluates it; None inside of a loop, where it differs from step to step.
        columns: The terms of its columns along the last axis, if it was put together of these.
    """

    shape: tuple[int, ...]
    uses: Uses
    term: Term
    read: Callable[[], Any] | None = None
    columns: tuple[Term, ...] | None = None
