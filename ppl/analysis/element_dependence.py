"""Dependence of elements on elements, as an array of a program follows the axes of a site.

For each value of a program and each site of interest, a `Use` for each axis of the site tells
which elements along that axis an element of the value may depend on.
"""

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

ALL = "all"


@dataclasses.dataclass(frozen=True)
class Aligned:
    """Index along an axis of the value, less one of the lags."""

    axis: int
    lags: frozenset[int] = frozenset([0])


@dataclasses.dataclass(frozen=True)
class Step:
    """Index of the present step of a scan, less one of the lags."""

    loop: int
    lags: frozenset[int] = frozenset([0])


@dataclasses.dataclass(frozen=True)
class Indexed:
    """Index read from an array of integers with these axes of the value; `read` gives the array."""

    axes: tuple[int, ...]
    term: Hashable
    read: Callable[[], Any] = dataclasses.field(compare=False)


Use = Aligned | Step | Indexed | str


@dataclasses.dataclass(frozen=True)
class Source:
    """A site that a value depends on; with a `start`, only in the first step of that loop."""

    path: tuple[Hashable, ...]
    start: int | None = None


Uses = Mapping[Source, tuple[Use, ...]]


def join(*several: Uses) -> dict[Source, tuple[Use, ...]]:
    """The dependences of a value made element by element from others of the same shape."""
    joined: dict[Source, tuple[Use, ...]] = {}
    for uses in several:
        for source, new in uses.items():
            old = joined.get(source, new)
            joined[source] = tuple(map(_join_axis, old, new))
    return joined


def _join_axis(a: Use, b: Use) -> Use:
    if a == b:
        return a
    for kind, place in ((Aligned, "axis"), (Step, "loop")):
        if isinstance(a, kind) and isinstance(b, kind) and getattr(a, place) == getattr(b, place):
            return dataclasses.replace(a, lags=a.lags | b.lags)  # pyright: ignore
    return ALL


def map_uses(uses: Uses, fn: Callable[[Use], Use]) -> dict[Source, tuple[Use, ...]]:
    """Dependences with `fn` applied to the use of each axis."""
    return {source: tuple(map(fn, each)) for source, each in uses.items()}


def move_axes(uses: Uses, places: Sequence[int | None]) -> dict[Source, tuple[Use, ...]]:
    """Dependences of a value whose axis i has become axis `places[i]`; None if it is mixed."""
    return index_along(uses, {}, places)


def mix(uses: Uses) -> dict[Source, tuple[Use, ...]]:
    """Dependences of a value each of whose elements may depend on all elements."""
    return map_uses(uses, lambda use: use if isinstance(use, Step) else ALL)


def index_along(
    uses: Uses, indices: Mapping[int, Indexed], places: Sequence[int | None]
) -> dict[Source, tuple[Use, ...]]:
    """Dependences of a value made by index arrays along some axes; others move to `places`."""

    def along(use: Use) -> Use:
        match use:
            case Aligned(axis, lags):
                if axis in indices and lags == frozenset([0]):
                    return indices[axis]
                place = places[axis]
                return ALL if place is None else Aligned(place, lags)
            case Indexed(axes):
                moved = [places[axis] for axis in axes]
                return ALL if None in moved else dataclasses.replace(use, axes=tuple(moved))  # pyright: ignore
        return use

    return map_uses(uses, along)


def shift(use: Use, loop: int, sign: int) -> Use:
    """The use of a carry, as the next step of a loop has it."""
    if isinstance(use, Step) and use.loop == loop:
        return Step(loop, frozenset(lag + sign for lag in use.lags))
    return use


def widen(use: Use, loop: int) -> Use:
    """The use with all steps of a loop in place of some."""
    return ALL if isinstance(use, Step) and use.loop == loop else use


def after(use: Use, loop: int, last: int) -> Use:
    """The use of a carry after the last step of a loop."""
    if isinstance(use, Step) and use.loop == loop:
        if len(use.lags) > 1:
            return ALL
        (lag,) = use.lags
        at = max(last - lag, 0)
        return Indexed((), ("at", at), lambda: np.asarray(at))
    return use


def stack(use: Use, loop: int) -> Use:
    """The use of an output of each step, stacked along a new axis in front."""
    match use:
        case Step(here, lags):
            return Aligned(0, lags) if here == loop else use
        case Aligned(axis, lags):
            return Aligned(axis + 1, lags)
        case Indexed(axes):
            return dataclasses.replace(use, axes=tuple(axis + 1 for axis in axes))  # pyright: ignore
    return use
