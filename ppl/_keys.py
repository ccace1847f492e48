"""The audit of keys: sites that would share all their randomness have no density as they stand."""

from collections.abc import Collection

from ppl._draw import Draw
from ppl._symbolic import Place, Symbolic
from ppl._terms import Term
from ppl.harvest._program import Program
from ppl.harvest._sow import Site, describe
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


def check_keys(
    model: str, program: Program, survey: Survey, among: Collection[Path] | None = None
) -> None:
    """Check that each site has randomness of its own, in every iteration, element and shard.

    Args:
        model: How errors name it.
        program: The traced model.
        survey: That of its sites.
        among: Only what one of these sites shares is an error; None for all of them.

    Raises:
        ValueError: If two draws have one name and one key.
    """
    if among is None or among:
        Keys(model, program, survey, among).check()


class Keys:
    """The draws of a program by what they are drawn with: the name and the key."""

    def __init__(
        self, model: str, program: Program, survey: Survey, among: Collection[Path] | None
    ):
        self._model = model
        self._among = among
        self._draws: dict[tuple[str, Term], list[tuple[Path, Place]]] = {}
        self._program = Symbolic(program, survey, self._visit)

    def check(self) -> None:
        """Raise an error if two draws share their randomness."""
        self._program.run()

    def _visit(self, site: Site, draw: Draw, key: Term, place: Place) -> None:
        elements = [(place, key)]
        for axis in reversed(draw.axes):
            elements = [
                (at, self._program.terms.element(key, i) if axis.mapped[0] else key)
                for place, key in elements
                for i, at in enumerate(place.steps_of("vmap", axis.size))
            ]
        for place, key in elements:
            self._add(site.path, place, (draw.name, key))

    def _add(self, path: Path, place: Place, drawn_with: tuple[str, Term]) -> None:
        draws = self._draws.setdefault(drawn_with, [])
        for other, there in draws:
            matters = self._among is None or path in self._among or other in self._among
            if matters and not place.excludes(there):
                raise ValueError(f"{self._model}: {_complaint(other, there, path, place)}")
        draws.append((path, place))


def _complaint(first: Path, there: Place, second: Path, here: Place) -> str:
    if first != second:
        return (
            f"sites {describe(first)} and {describe(second)} would have the same draw, as they "
            "have one name and one key, so its density would be wrong. Split the key, and call "
            "each submodel with its own: a, b = jax.random.split(key); "
            'ppl.nest(f, scope="a")(a); ppl.nest(f, scope="b")(b).'
        )
    pairs = zip(there.steps, here.steps, strict=False)
    loop = next(a[0] for a, b in pairs if a != b)
    where, remedy = _LOOPS[loop]
    return (
        f"site {describe(first)} would have the same draw in {where}, so its density would be "
        f"wrong. {remedy}"
    )
