"""Wirings: how the inner programs of an equation are joined to its operands and results.

| wiring     | inner programs         | inputs of each         | results of the equation   |
|------------|------------------------|------------------------|---------------------------|
| `Call`     | a body                 | some operands          | results of the body       |
| `Branches` | one for each case      | operands but the first | results of the case taken |
| `Scan`     | a body                 | constants, carry, row  | last carry, stacked rows  |
| `While`    | a condition and a body | own constants, carry   | last carry                |
| `Shards`   | a body                 | a block of each        | joined blocks             |

An analysis that treats these five needs no name of a primitive.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ppl.harvest.jaxprs import Jaxpr

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Call:
    """A body that is evaluated once.

    Attributes:
        body: The program.
        operands: Positions, among the operands of the equation, of the inputs of the body.
        is_transparent: Whether the body may stand in the place of the equation, whole or in part.
    """

    body: Jaxpr
    operands: Sequence[int]
    is_transparent: bool = False


@dataclasses.dataclass(frozen=True)
class Branches:
    """Programs with like inputs and results; the first operand says which one is evaluated."""

    bodies: Sequence[Jaxpr]


@dataclasses.dataclass(frozen=True)
class Scan:
    """A body that is evaluated `length` times, from the last row to the first if `reverse`.

    If `is_vmap`, it is a `vmap` instead of a loop: there is no carry, and each row is an element.
    """

    body: Jaxpr
    num_consts: int
    num_carry: int
    length: int
    reverse: bool = False
    is_vmap: bool = False

    def split(self, operands: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
        """Constants, carry and rows."""
        return _split(operands, self.num_consts, self.num_carry)


@dataclasses.dataclass(frozen=True)
class While:
    """A body that is evaluated as long as the condition holds for the carry."""

    condition: Jaxpr
    body: Jaxpr
    num_condition_consts: int
    num_body_consts: int

    def split(self, operands: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
        """Constants of the condition, constants of the body, and the carry."""
        return _split(operands, self.num_condition_consts, self.num_body_consts)


@dataclasses.dataclass(frozen=True)
class Shards:
    """A body that each device of a mesh evaluates with blocks of the operands.

    Attributes:
        body: The program.
        mesh: The mesh.
        axes: Axes of the mesh that operands may be split over, with their sizes.
        in_specs: Spec by which each operand is split.
    """

    body: Jaxpr
    mesh: Any
    axes: Mapping[Any, int]
    in_specs: Sequence[Any]


Wiring = Call | Branches | Scan | While | Shards


def _split(items: Sequence[T], first: int, second: int) -> tuple[Any, Any, Any]:
    return items[:first], items[first : first + second], items[first + second :]
