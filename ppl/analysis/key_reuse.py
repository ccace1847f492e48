"""Audit of keys: two draws of one site with one key share all their randomness.

The density takes the draws for independent, so it would be wrong.
"""

from typing import NamedTuple

from ppl.analysis.symbolic_evaluation import Occurrence, Symbolic
from ppl.analysis.terms import Term
from ppl.harvest.program import Program
from ppl.harvest.sowing import Site
from ppl.harvest.survey import Path, Survey, describe

_LOOPS = {
    "scan": (
        "several iterations of a scan, as its key does not change from one to the next",
        "Split the key, and scan over the keys: lax.scan(body, init, jax.random.split(key, n)). In "
        "a fori_loop, use jax.random.fold_in(key, i).",
    ),
    "vmap": (
        "several elements of a vmap, as its key is the same for them",
        "Split the key, and map over the keys too: jax.vmap(f)(jax.random.split(key, n), x).",
    ),
    "shard_map": (
        "several shards of a shard_map, as its key is the same in them",
        "Split the key, and pass jax.random.split(key, n) with the in_spec P(axis), or use "
        "jax.random.fold_in(key, lax.axis_index(axis)).",
    ),
}


class Conflict(NamedTuple):
    """One site with equal draws in several iterations of a loop.

    Two sites always have different draws: their names and scopes are folded into their keys.

    Attributes:
        path: The path of the site.
        loop: "scan", "vmap" or "shard_map".
    """

    path: Path
    loop: str

    def complaint(self) -> str:
        """Error message with a remedy."""
        where, remedy = _LOOPS[self.loop]
        return (
            f"site {describe(self.path)} would have the same draw in {where}, so its density "
            f"would be wrong. {remedy}"
        )


def check_keys(model: str, program: Program, survey: Survey) -> None:
    """Check that each site has randomness of its own, in every iteration, element and shard.

    Args:
        model: The name of the model in errors.
        program: The traced model.
        survey: The survey of its sites.

    Raises:
        ValueError: If two draws of a site have one key.
    """
    for conflict in Keys(program, survey).conflicts():
        raise ValueError(f"{model}: {conflict.complaint()}")


class Keys:
    """Draws of a program, indexed by site and key."""

    def __init__(self, program: Program, survey: Survey):
        self._draws: dict[tuple[Path, Term], list[Occurrence]] = {}
        self._found: dict[Conflict, None] = {}
        self._program = Symbolic(program, survey, self._visit)

    def conflicts(self) -> list[Conflict]:
        """The sites whose draws share their randomness, in program order."""
        self._program.run()
        return list(self._found)

    def _visit(self, site: Site, key: Term, place: Occurrence) -> None:
        elements = [(place, key)]
        for axis in reversed(site.axes):
            elements = [
                (at, self._program.terms.element(key, i) if axis.maps_key else key)
                for place, key in elements
                for i, at in enumerate(place.steps_of("vmap", axis.size))
            ]
        for place, key in elements:
            self._add(site.path, key, place)

    def _add(self, path: Path, key: Term, place: Occurrence) -> None:
        draws = self._draws.setdefault((path, key), [])
        for there in draws:
            if not place.excludes(there):
                self._found[Conflict(path, _find_shared_loop(there, place))] = None
        draws.append(place)


def _find_shared_loop(there: Occurrence, here: Occurrence) -> str:
    """The outermost loop that has two occurrences in different iterations."""
    pairs = zip(there.steps, here.steps, strict=False)
    return next(a[0] for a, b in pairs if a != b)
