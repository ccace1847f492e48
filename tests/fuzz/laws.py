"""Table of laws that hold for random programs: each makes its programs, and checks them."""

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

from . import checks, groups, integrals, modes, predictions, sums, transformed
from .case import Case
from .generate import Generator
from .grammar import DISCRETE, NORMAL, Program
from .run import Outcome, run


@dataclasses.dataclass(frozen=True)
class Law:
    """A check with the programs that it is for."""

    of: Callable[[Case], Any]
    linear: bool = False
    share: int = 1  # of the programs
    favored: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def program(self, seed: int) -> Program:
        generator = Generator(seed, linear=self.linear, favored=self.favored, without=self.without)
        return generator.program()

    def run(self, case: Case) -> Outcome:
        """What comes of a case."""
        return run(lambda case: case.is_tame and self.of(case), case)

    def check(self, seed: int) -> tuple[Case, Outcome]:
        """A random case, and what comes of it."""
        case = Case(self.program(seed), seed)
        return case, self.run(case)


# Values at which these operations are not smooth have no mode that Newton's method finds.
NOT_SMOOTH = ("above", "sign", "signs", "max", "sorted", "halved")

# A factor of `scale` multiplies the log of a sum or an integral, not its terms. What is scaled in
# part is no sum of joint densities: "groups" are for that, and compare_marginal scales a model.
LAWS = {
    "density": Law(checks.check_density, share=3),
    "simulate": Law(checks.check_simulate),
    "unconstrain": Law(checks.check_unconstrain, share=2),
    "transformed": Law(transformed.check_transformed, share=3),
    "gaps": Law(transformed.check_gaps, share=2),
    "sums": Law(sums.check_sums, share=6, favored=DISCRETE, without=("scale",)),
    "recovered states": Law(
        sums.check_recovered_states, share=3, favored=DISCRETE, without=("scale",)
    ),
    "integrals": Law(
        integrals.check_integrals, linear=True, share=5, favored=NORMAL, without=("scale",)
    ),
    "recovered numbers": Law(
        integrals.check_recovered_numbers,
        linear=True,
        share=2,
        favored=NORMAL,
        without=("scale",),
    ),
    "groups of states": Law(groups.check_groups_of_states, share=4, favored=(*DISCRETE, "scale")),
    "groups of numbers": Law(
        groups.check_groups_of_numbers, linear=True, share=3, favored=(*NORMAL, "scale")
    ),
    "laplace": Law(modes.check_laplace, share=3, favored=NORMAL, without=("scale", *NOT_SMOOTH)),
    "predictions": Law(predictions.check_predictions, share=2),
}


def law_of(seed: int, among: Sequence[str]) -> str:
    """The law that the program of a seed is checked by."""
    shares = [LAWS[name].share for name in among]
    return random.Random(f"law of {seed}").choices(among, shares)[0]
