"""Tangents of `custom_linear_solve`, from which sows are removed.

Tangents are not sown. JAX solves for a tangent with the program that solves for the primal, whose
sows would take place again.
"""

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import primitives

from ppl.harvest import jax_core, jax_tables, jaxprs
from ppl.harvest.interpreter import Action, Interpreter, Operands
from ppl.harvest.jaxprs import Jaxpr
from ppl.harvest.rules import CONSTRUCTS
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Survey


class Strip(Action):
    """Action that removes every sow of a program."""

    def matches(self, site: Site) -> bool:
        """False: no sow is looked at."""
        return False

    def strips(self, site: Site) -> bool:
        """True: every sow is removed."""
        return True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """Never called, as no sow matches."""
        raise AssertionError("no site matches")


def without_sows(jaxpr: Jaxpr) -> Jaxpr:
    """Jaxpr with all sows removed."""
    if not jax_core.has_sow(jaxpr):
        return jaxpr
    action = Strip()
    interpreter = Interpreter(
        action, CONSTRUCTS, (), Survey(action.matches, action.strips, CONSTRUCTS)
    )

    def run(*args: Any) -> list[Any]:
        return interpreter.run(jaxpr, args, {}, [True] * len(jaxpr.out_avals))[0]

    return jax.make_jaxpr(run)(*jaxpr.in_avals)


jax_tables.rewrite_before_tangents(
    primitives.linear_solve_p, lambda params: jaxprs.map_jaxprs(params, without_sows)
)
