"""Plates nested in plates: each element of a plate has one parent in another.

A score that reads elements of several levels must read a child and its parent, whatever the numbers
in the index are. So the same index has to lead from the child to the parent in all scores.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ppl.harvest.survey import Path
from ppl.marginal.element_dependence import Aligned, Indexed, Place, Use, compose, spread

Axis = tuple[Path, int]  # an axis of a site: in the body, then the loops, innermost first
Plate = frozenset[Axis]  # axes with corresponding elements
Link = int | Indexed  # the plate of the child that is the plate of the parent, or an index over it
Reads = Sequence[tuple[Axis, Use]]  # for each axis of a site, the use by a score


@dataclasses.dataclass(frozen=True)
class Level:
    """Sites whose axes are the same plates.

    Attributes:
        sites: Their paths.
        plates: The plates.
        links: For each plate, the link from the level below, over plates of that level.
    """

    sites: tuple[Path, ...]
    plates: tuple[Plate, ...]
    links: tuple[Link, ...] = ()


def find_levels(
    first: Level, others: Sequence[Level], scores: Sequence[Reads], length: Callable[[Plate], int]
) -> list[Level]:
    """The first level, and levels each of which has the parents of the level before.

    Args:
        first: The level of the elements that have no children.
        others: Further levels without links, the one with most elements first.
        scores: For each score, its reads.
        length: The length of a plate.
    """
    levels = [first]
    for other in others:
        links = [_find_link(levels, plate, other, scores, length) for plate in other.plates]
        found = dataclasses.replace(other, links=tuple(x for x in links if x is not None))
        if None not in links and all(_is_nested(levels, found, score) for score in scores):
            levels.append(found)
    return levels


def _find_link(
    levels: Sequence[Level],
    plate: Plate,
    parent: Level,
    scores: Sequence[Reads],
    length: Callable[[Plate], int],
) -> Link | None:
    """The link from the last level to a plate of its parent, from the scores that read both."""
    child = levels[-1]
    if plate in child.plates:
        return child.plates.index(plate)
    both = [score for score in scores if _reads(score, parent)]
    pairs = [(_uses_of_last(levels, score), *_uses(score, [plate])) for score in both]
    direct = [_direct_link(uses, use) for uses, use in pairs]
    lengths = list(map(length, child.plates))
    composed = [_composed_link(uses, use, lengths) for uses, use in pairs]
    found = next((x for x in (*direct, *composed) if x is not None), None)
    if found is None or any(direct):
        return found
    parts = [x for x in composed if x == found]

    def read() -> Any:
        """The parents that any of the scores tells; all others are 0."""
        return functools.reduce(jnp.maximum, (x.read() for x in parts if x is not None))

    return dataclasses.replace(found, read=read)


def _direct_link(uses: Sequence[Use | None], use: Use | None) -> Indexed | None:
    """The index of the parent in a score whose axes are plates of the child."""
    if not isinstance(use, Indexed):
        return None
    wanted = [Aligned(axis) for axis in use.axes]
    if not all(x in uses for x in wanted):
        return None
    return dataclasses.replace(use, axes=tuple(map(uses.index, wanted)))


def _composed_link(
    uses: Sequence[Use | None], use: Use | None, lengths: Sequence[int]
) -> Indexed | None:
    """The index of the parent in a score that reads children by an index, too.

    It is told for the children that are read; for others it is 0.
    """
    match use:
        case Indexed(over, ("composed", term, *parts)):
            pass
        case _:
            return None
    wanted = [_as_use([over[i] for i in order], inner) for order, inner in parts]  # pyright: ignore
    if not all(x in uses for x in wanted):
        return None
    plates = tuple(uses.index(x) for x in wanted)

    def read() -> Any:
        each = [uses[p] for p in plates]
        arrays = [_array(x, lengths[p]) for x, p in zip(each, plates, strict=True)]
        axes = [x.axes if isinstance(x, Indexed) else (x.axis,) for x in each]  # pyright: ignore
        children = [spread(a, x, over) for a, x in zip(arrays, axes, strict=True)]
        found = jnp.zeros([lengths[p] for p in plates], jnp.int32)
        return found.at[tuple(children)].set(jnp.asarray(use.read()), mode="clip")

    return Indexed(plates, term, read)


def _as_use(axes: Sequence[Any], term: Any) -> Use:
    return Aligned(axes[0]) if term is None else Indexed(tuple(axes), term, lambda: None)


def _array(use: Any, length: int) -> Any:
    return jnp.asarray(use.read()) if isinstance(use, Indexed) else np.arange(length)


def _is_nested(levels: Sequence[Level], top: Level, score: Reads) -> bool:
    """Whether a score that reads the top level and lower ones reads ancestors of elements."""
    if not _reads(score, top) or not any(_reads(score, level) for level in levels):
        return True
    uses = _uses_of_last(levels, score)
    return [_follow(link, uses) for link in top.links] == _uses(score, top.plates)


def _uses_of_last(levels: Sequence[Level], score: Reads) -> list[Use | None]:
    """The uses of the plates of the last level by a score, as the lowest level that it reads tells.

    Empty if it reads no level.
    """
    read = [i for i, level in enumerate(levels) if _reads(score, level)]
    if not read:
        return []
    uses = _uses(score, levels[read[0]].plates)
    for level in levels[read[0] + 1 :]:
        uses = [_follow(link, uses) for link in level.links]
    return uses


def _follow(link: Link, uses: Sequence[Use | None]) -> Use | None:
    """The use of a plate of parents, given the uses of the plates of children."""
    if isinstance(link, int):
        return uses[link]
    return compose(link, [_place(uses[i]) for i in link.axes])


def _place(use: Use | None) -> Place:
    match use:
        case Aligned(axis, lags):
            return axis if lags == {0} else None
        case Indexed():
            return use
    return None


def _reads(score: Reads, level: Level) -> bool:
    return any(path in level.sites for (path, _), _ in score)


def _uses(score: Reads, plates: Sequence[Plate]) -> list[Use | None]:
    return [next((use for axis, use in score if axis in plate), None) for plate in plates]
