"""Parameters that must be positive, or in an interval, but leave it as a site moves over its line.

Such a density is 0, or not defined, on one side of an edge. A parameter surely does so as one of

| function of the sites | its values |
|---|---|
| polynomial of odd degree; reciprocal, cube root, sinh and asinh of one | have no bounds |
| logarithm, square root, power by a fraction of a function without bounds | are NaN in part |

Nothing is known of a sum of two polynomials of equal degree above 1, whose leading terms may
cancel, nor of a function with kinks, as `abs`, `maximum` and `where`.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import jax

from ppl.core.model_run import SiteAction, apply_at_site
from ppl.harvest.interpreter import Operands
from ppl.harvest.plants import PathDict
from ppl.harvest.program import Harvester, Program
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path
from ppl.marginal.degree import CONSTANT, Degree
from ppl.marginal.edge_reach import Reach, Value, find_reach
from ppl.primitives.site_kinds import RANDOM


@dataclasses.dataclass(frozen=True)
class _Parameters(SiteAction):
    """Action that plants values and records bounded parameters of the distributions at sites."""

    wanted: frozenset[Path] = frozenset()
    tags: ClassVar = (RANDOM,)
    at_once: ClassVar[bool] = True

    def reads(self, site: Site, planted: bool) -> tuple[bool, bool, bool]:
        """The value, if nothing is planted, and the distribution."""
        return not planted, False, site.path in self.wanted

    def at(self, site: Site, operands: Operands, plant: Any) -> tuple[Sequence[Any], Any]:
        """The planted value, and the parameters by name."""
        values = operands.values if plant is None else plant
        if site.path not in self.wanted:
            return values, None
        return values, apply_at_site(site, operands, values, lambda _, d: _bounded(d))


def _bounded(d: Any) -> dict[str, Any]:
    """The parameters of a distribution that may not be any real number, by name.

    Those of a distribution within it, as a component of a mixture, have the names of both.
    """
    if isinstance(d, tuple | list):
        parts = [(i, _bounded(x).items()) for i, x in enumerate(d)]
        return {f"{i}.{name}": x for i, each in parts for name, x in each}
    if not dataclasses.is_dataclass(d):
        return {}
    found: dict[str, Any] = {}
    for field in dataclasses.fields(d):
        value = getattr(d, field.name)
        constraint = field.metadata.get("constraint")
        if constraint is None:
            found |= {f"{field.name}.{name}": x for name, x in _bounded(value).items()}
        elif constraint.event_ndims == 0 and not constraint.is_unrestricted:
            found |= {field.name: value} if isinstance(value, jax.Array) else {}
    return found


def find_edges(
    jaxpr: Any,
    plants: Mapping[Path, Sequence[Any]],
    scored: Collection[Path],
    sites: Collection[Path],
) -> dict[Path, tuple[str, str]]:
    """For each score with such a parameter, its name and how it depends on the sites, in words.

    Args:
        jaxpr: The program, without constants.
        plants: The abstract values of all random sites.
        scored: The sites whose parameters are looked at.
        sites: The sites that may be any number.
    """
    inputs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in jaxpr.invars]
    shapes = {
        path: [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in each]
        for path, each in plants.items()
    }
    names = [None] * len(inputs) + [path for path, each in shapes.items() for _ in each]

    where: list[tuple[Path, str]] = []

    def parameters(inputs: Any, plants: Any) -> list[Any]:
        program = Program(jaxpr, list(inputs), [], lambda leaves: leaves)
        found = Harvester(program, _Parameters(frozenset(scored))).run(plants, live_outs=False)[1]
        where.extend((path, name) for path, each in found.items() for name in each)
        return [found[path][name] for path, name in where]

    traced = jax.make_jaxpr(parameters)(inputs, PathDict(shapes))
    is_site = [name in sites for name in names]
    operands = [
        Value(Degree(1, frozenset([0])), 1) if is_one else Value(CONSTANT, 0) for is_one in is_site
    ]
    found = zip(where, find_reach(traced, operands), strict=True)
    return {path: (name, words) for (path, name), x in found if (words := _explain(x))}


def _explain(value: Value) -> str:
    """Words for the dependence of a parameter that leaves its bounds; "" for all others."""
    match value.reach:
        case Reach.UNBOUNDED:
            return "has no lower and no upper bound as a function of"
        case Reach.UNDEFINED:
            return "is not a number for some values of"
        case 1:
            return "is linear in"
        case int(degree) if degree % 2:
            return f"is a polynomial of degree {degree} in"
    return ""
