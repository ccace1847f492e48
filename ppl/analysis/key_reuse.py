"""Audit of keys: two draws with one name and one key share all their randomness.

The density takes the draws for independent, so it would be wrong.
"""

from collections.abc import Hashable
from typing import NamedTuple

from ppl.analysis.symbolic_evaluation import Place, Symbolic
from ppl.analysis.terms import Term
from ppl.harvest._program import Program
from ppl.harvest._site_names import describe
from ppl.harvest._sow import Site
from ppl.harvest._survey import Path, Survey

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
    """Two sites with equal draws, or one site in several iterations of a `loop`.

    Attributes:
        first: The path of the first site.
        second: The path of the second site.
        loop: "scan", "vmap" or "shard_map" for one site, else ''.
    """

    first: Path
    second: Path
    loop: str = ""

    def complaint(self) -> str:
        """Error message with a remedy."""
        if self.loop:
            where, remedy = _LOOPS[self.loop]
            return (
                f"site {describe(self.first)} would have the same draw in {where}, so its density "
                f"would be wrong. {remedy}"
            )
        return (
            f"sites {describe(self.first)} and {describe(self.second)} would have the same draw, "
            "as they have one name and one key, so its density would be wrong. Split the key, and "
            "call each submodel with its own: a, b = jax.random.split(key); "
            'ppl.nest(f, scope="a")(a); ppl.nest(f, scope="b")(b).'
        )


def check_keys(model: str, program: Program, survey: Survey) -> None:
    """Check that each site has randomness of its own, in every iteration, element and shard.

    Args:
        model: The name of the model in errors.
        program: The traced model.
        survey: The survey of its sites.

    Raises:
        ValueError: If two draws have one name and one key.
    """
    for conflict in Keys(program, survey).conflicts():
        raise ValueError(f"{model}: {conflict.complaint()}")


class Keys:
    """Random sites of a program, indexed by name and key."""

    def __init__(self, program: Program, survey: Survey):
        self._draws: dict[tuple[Hashable, Term], list[tuple[Path, Place]]] = {}
        self._found: dict[Conflict, None] = {}
        self._program = Symbolic(program, survey, self._visit)

    def conflicts(self) -> list[Conflict]:
        """The sites that share their randomness, in program order."""
        self._program.run()
        return list(self._found)

    def _visit(self, site: Site, key: Term, place: Place) -> None:
        elements = [(place, key)]
        for axis in reversed(site.axes):
            elements = [
                (at, self._program.terms.element(key, i) if axis.maps_key else key)
                for place, key in elements
                for i, at in enumerate(place.steps_of("vmap", axis.size))
            ]
        for place, key in elements:
            self._add(site.path, place, (site.name, key))

    def _add(self, path: Path, place: Place, drawn_with: tuple[Hashable, Term]) -> None:
        draws = self._draws.setdefault(drawn_with, [])
        for other, there in draws:
            if not place.excludes(there):
                loop = _find_shared_loop(there, place) if other == path else ""
                self._found[Conflict(other, path, loop)] = None
        draws.append((path, place))


def _find_shared_loop(there: Place, here: Place) -> str:
    """The outermost loop in which two places are in different iterations."""
    pairs = zip(there.steps, here.steps, strict=False)
    return next(a[0] for a, b in pairs if a != b)
