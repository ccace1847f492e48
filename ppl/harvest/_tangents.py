"""Tangents of `custom_linear_solve`, from which sows are removed.

Tangents are not sown. JAX solves for a tangent with the program that solves for the primal, whose
sows would take place again.
"""

from collections.abc import Sequence
from typing import Any

import jax
from jax.extend.core import primitives

from ppl.harvest import _jax, _jax_tables, _jaxprs
from ppl.harvest._interpreter import Action, Interpreter, Operands
from ppl.harvest._jaxprs import Jaxpr
from ppl.harvest._sow import Site
from ppl.harvest._survey import Survey
from ppl.harvest.rules import CONSTRUCTS


class Strip(Action):
    """Action that removes every sow of a program."""

    def matches(self, site: Site) -> bool:
        return False

    def strips(self, site: Site) -> bool:
        return True

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        raise AssertionError("no site matches")


def without_sows(jaxpr: Jaxpr) -> Jaxpr:
    """Jaxpr with all sows removed."""
    if not _jax.has_sow(jaxpr):
        return jaxpr
    action = Strip()
    interpreter = Interpreter(
        action, CONSTRUCTS, (), Survey(action.matches, action.strips, CONSTRUCTS)
    )

    def run(*args: Any) -> list[Any]:
        return interpreter.run(jaxpr, args, {}, [True] * len(jaxpr.out_avals))[0]

    return jax.make_jaxpr(run)(*jaxpr.in_avals)


_jax_tables.rewrite_before_tangents(
    primitives.linear_solve_p, lambda params: _jaxprs.map_jaxprs(params, without_sows)
)
