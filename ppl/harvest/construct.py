"""Constructs: one record for each primitive of JAX with inner programs, read by all analyses."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from jax.extend import core as jex

from ppl.harvest import jax_core
from ppl.harvest.interpreter import Opened, Results
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.liveness import Liveness, Mask
from ppl.harvest.survey import Sites, Survey
from ppl.harvest.wirings import Wiring


class Threading(Protocol):
    """Evaluation of a program in order, passing a state from effect to effect."""

    def run(self, jaxpr: Jaxpr, args: Sequence[Any], state: Any) -> tuple[list[Any], Any]:
        """Results of a program, and the state after its last effect."""
        ...

    def check_unchanged(self, eqn: jex.JaxprEqn, new: Any, old: Any) -> None:
        """Raise an error if a state has another structure or type than the previous state."""
        ...

    def refuse(self, eqn: jex.JaxprEqn) -> Any:
        """Raise the error of a construct through which no state passes."""
        ...


@dataclasses.dataclass(frozen=True)
class Construct(abc.ABC):
    """Record of one primitive with inner programs.

    Attributes:
        primitive: Name of the primitive.
        is_parallel: Whether `vmap` may evaluate the primitive for all iterations of a loop at once.
    """

    primitive: str
    is_parallel: ClassVar[bool] = True

    @abc.abstractmethod
    def wiring(self, eqn: jex.JaxprEqn) -> Wiring | None:
        """Wiring of the inner programs; None for an equation that does not show them."""

    @abc.abstractmethod
    def find(self, eqn: jex.JaxprEqn, survey: Survey) -> Sites:
        """Sites of the inner programs, as seen from outside."""

    @abc.abstractmethod
    def live_operands(self, eqn: jex.JaxprEqn, live_outs: Mask, liveness: Liveness) -> Mask:
        """Mask of the operands that the needed results and all records depend on."""

    @abc.abstractmethod
    def run(self, opened: Opened) -> Results:
        """Results and records, from a new construct around the harvested inner programs."""

    def thread(
        self, eqn: jex.JaxprEqn, args: list[Any], state: Any, on: Threading
    ) -> tuple[Sequence[Any], Any]:
        """Results, and the state after all effects in order.

        By default an error: no state passes through the construct.
        """
        return on.refuse(eqn)


CONSTRUCTS: dict[str, Construct] = {}


def register(*constructs: Construct) -> None:
    """Add records to the table."""
    for construct in constructs:
        CONSTRUCTS[construct.primitive] = construct


def construct_of(eqn: jex.JaxprEqn) -> Construct | None:
    """Record of an equation's primitive; None for one without inner programs, or an unknown one."""
    return CONSTRUCTS.get(eqn.primitive.name)


def wiring_of(eqn: jex.JaxprEqn) -> Wiring | None:
    """Wiring of an equation; None where no inner program is known."""
    construct = construct_of(eqn)
    return None if construct is None else construct.wiring(eqn)


def may_be_parallel(eqn: jex.JaxprEqn) -> bool:
    """Whether `vmap` may evaluate an equation for all iterations of a loop at once.

    A primitive with inner programs but without a record needs a batching rule of JAX.
    """
    construct = construct_of(eqn)
    if construct is None:
        return jax_core.can_batch(eqn) or not jax_core.subjaxprs(eqn)
    return construct.is_parallel
