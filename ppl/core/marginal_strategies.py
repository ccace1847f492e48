"""Strategies of marginalize: how sites are taken out of a program."""

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ppl.core.block_integral import BlockIntegral, find_equal_inputs
from ppl.core.gaussian_integral import GaussianIntegral
from ppl.core.laplace_integral import LaplaceIntegral
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


@dataclasses.dataclass(frozen=True)
class Laplace:
    """Strategy of `marginalize`: real sites are integrated out by Laplace's approximation.

    Attributes:
        tolerance: The mode of the sites given all others is found by Newton's method from 0, where
            the density must not be 0. It ends where the mode is at most so many nats higher.
        max_steps: The largest number of its steps.
        most: The largest number of elements that are coupled as a whole, whose precision matrix is
            dense, 4,096 by default; more are an error.
    """

    tolerance: float = 1e-8
    max_steps: int = 100
    most: int = 2**12

    def __post_init__(self) -> None:
        """Check the numbers."""
        is_number = isinstance(self.tolerance, float | int | np.floating)
        if not (is_number and 0 < self.tolerance <= 1):
            raise ValueError(
                "Laplace: tolerance must be a number of nats above 0 and at most 1, got "
                f"{self.tolerance!r}. The distribution is distributions.Laplace."
            )
        _check_limit("Laplace", self.most)
        _check_limit("Laplace", self.max_steps, "max_steps")


Strategy = Enumerate | Gaussian | Laplace


def _check_limit(where: str, limit: Any, name: str = "most") -> None:
    is_count = isinstance(limit, int | np.integer) and not isinstance(limit, bool)
    if not (is_count and limit >= 1):
        raise ValueError(f"{where}: {name} must be an integer of at least 1, got {limit!r}.")


def take_out(
    program: Program,
    sites: Sequence[Path],
    strategies: Collection[Strategy],
    scored: tuple[Path, ...],
) -> Summation | BlockIntegral:
    """The sum or the integral over some sites, all of which have strategies of one kind."""
    most = max((strategy.most for strategy in strategies), default=1)
    equal = find_equal_inputs(program.inputs)
    laplace = [strategy for strategy in strategies if isinstance(strategy, Laplace)]
    if not laplace and not any(isinstance(strategy, Gaussian) for strategy in strategies):
        return Summation(program.jaxpr, find_states(program, sites), most, scored, equal)
    common = program.jaxpr, tuple(sites), most, scored, equal
    if laplace:
        tolerance = min(strategy.tolerance for strategy in laplace)
        max_steps = max(strategy.max_steps for strategy in laplace)
        integral = LaplaceIntegral(*common, tolerance, max_steps)
    else:
        integral = GaussianIntegral(*common)
    integral.check()
    return integral
