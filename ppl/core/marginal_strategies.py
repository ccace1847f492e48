"""Strategies of marginalize: how sites are taken out of a program."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ppl.core.gaussian_integral import GaussianIntegral, find_equal_inputs
from ppl.core.states import find_states
from ppl.core.summation import Summation
from ppl.harvest._program import Program
from ppl.harvest._survey import Path


@dataclasses.dataclass(frozen=True)
class Enumerate:
    """Strategy of `marginalize`: the states of a discrete site are summed over.

    Attributes:
        most: The largest number of states that one table may have, 65,536 by default; a larger sum
            is an error.
    """

    most: int = 2**16

    def __post_init__(self) -> None:
        """Check the limit."""
        _check_limit("Enumerate", self.most)


@dataclasses.dataclass(frozen=True)
class Gaussian:
    """Strategy of `marginalize`: sites that are jointly normal given all others are integrated out.

    Attributes:
        most: The largest number of elements that are coupled as a whole, whose precision matrix is
            dense, 4,096 by default; more are an error.
    """

    most: int = 2**12

    def __post_init__(self) -> None:
        """Check the limit."""
        _check_limit("Gaussian", self.most)


Strategy = Enumerate | Gaussian


def _check_limit(where: str, most: Any) -> None:
    is_count = isinstance(most, int | np.integer) and not isinstance(most, bool)
    if not (is_count and most >= 1):
        raise ValueError(f"{where}: most must be an integer of at least 1, got {most!r}.")


def take_out(
    program: Program,
    sites: Sequence[Path],
    strategies: Collection[Strategy],
    scored: tuple[Path, ...],
) -> Summation | GaussianIntegral:
    """The sum or the integral over some sites, all of which have strategies of one kind."""
    most = max((strategy.most for strategy in strategies), default=1)
    if any(isinstance(strategy, Gaussian) for strategy in strategies):
        equal = find_equal_inputs(program.inputs)
        integral = GaussianIntegral(program.jaxpr, tuple(sites), most, scored, equal)
        integral.check()
        return integral
    return Summation(program.jaxpr, find_states(program.jaxpr, sites), most, scored)
