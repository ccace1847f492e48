"""Plates of a model's graph: `vmap` axes, loops and shards, each around one or more sites."""

import dataclasses
from collections.abc import Iterator, Mapping

from ppl.analysis.dependence import Loop, SownSite
from ppl.harvest.survey import Path


@dataclasses.dataclass(frozen=True)
class Plate:
    """Copies of a part of a model, drawn as a frame around it.

    Attributes:
        kind: "vmap", "scan" or "shards".
        size: The number of copies.
        number: An identifier, equal in all nodes that share the plate.
        name: The `axis_name` of a `vmap`, if it has one; else None.
    """

    kind: str
    size: int
    number: int
    name: str | None = None

    def __str__(self) -> str:
        """The name, or else the kind, and the size."""
        return f"{self.name or self.kind} {self.size}"


@dataclasses.dataclass(frozen=True)
class _Frame:
    """One level around a site, and the sites that cannot share its plate."""

    loop: Loop
    apart: frozenset[Path] = frozenset()


def find_plates(sites: Mapping[Path, SownSite]) -> dict[Path, tuple[Plate, ...]]:
    """The plates of each site, outermost first.

    A program shows its loops, but keeps only the size of a `vmap` axis, and its name if it has one.
    Axes of one size and name at the same place count as one plate. There is one exception: if a
    site enters only parameters that all elements of another site share, the axes of the two sites
    are two plates.
    """
    found: dict[Path, tuple[Plate, ...]] = {}
    inside: dict[tuple[Plate, ...], dict[Plate, Loop]] = {}
    members: dict[Plate, set[Path]] = {}
    for path, sown in sites.items():
        around: tuple[Plate, ...] = ()
        for frame in _frames(sown):
            beside = inside.setdefault(around, {})
            fits = (p for p, other in beside.items() if other == frame.loop)
            plate = next((p for p in fits if members[p].isdisjoint(frame.apart)), None)
            if plate is None:
                loop = frame.loop
                plate = Plate(loop.kind, loop.size, len(members), loop.name)
                beside[plate], members[plate] = frame.loop, set()
            members[plate].add(path)
            around = (*around, plate)
        found[path] = around
    return found


def _frames(sown: SownSite) -> Iterator[_Frame]:
    """The levels around a site, outermost first."""
    site = sown.site
    axes = list(enumerate(sown.site.axes))
    for depth in range(len(sown.loops), -1, -1):
        while len(site.axes) - len(axes) < site.num_axes_outside(depth):
            index, axis = axes.pop()
            yield _Frame(Loop("vmap", axis.size, 0, axis.name), _find_unmapped_parents(sown, index))
        if depth:
            yield _Frame(sown.loops[depth - 1])


def _find_unmapped_parents(sown: SownSite, axis: int) -> frozenset[Path]:
    """The sites that a site depends on only through parts that an axis does not map."""
    whole = {s for part in sown.parts if not part.mapped[axis] for s in part.sources}
    by_element = {s for part in sown.parts if part.mapped[axis] for s in part.sources}
    return frozenset(s for s in whole - by_element if isinstance(s, tuple))


def plate_label(plate: Plate, dimension: str | None = None) -> str:
    """The text in the corner of a plate: its name, or that of its dimension, and its size."""
    name = plate.name or dimension
    if plate.kind == "scan":
        steps = "step" if plate.size == 1 else "steps"
        return f"{name or 'scan'}, {plate.size} {steps}"
    if plate.kind == "shards":
        return f"{plate.size} shards"
    return f"{name}, {plate.size}" if name else str(plate.size)
