"""Dependence of elements on elements, as an array of a program follows the axes of a site.

For each value of a program and each site of interest, a `Use` for each axis of the site tells
which elements along that axis an element of the value may depend on.
"""

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

ALL = "all"


@dataclasses.dataclass(frozen=True)
class Aligned:
    """Index along an axis of the value, minus any of the lags."""

    axis: int
    lags: frozenset[int] = frozenset([0])


@dataclasses.dataclass(frozen=True)
class Step:
    """Index of the present step of a scan, minus any of the lags."""

    loop: int
    lags: frozenset[int] = frozenset([0])


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Array of known integers that index an axis of a site.

    Attributes:
        size: The length of the axis of the site.
        shape: The shape of the array.
        content: The bytes of the array, 32-bit integers.
    """

    size: int
    shape: tuple[int, ...]
    content: bytes


@dataclasses.dataclass(frozen=True)
class Indexed:
    """Index read from an array of integers over axes of the value, or steps of loops.

    Attributes:
        axes: The axes, as numbers and as `Step` of a loop.
        term: A key, equal for equal arrays; `Numbers` if the array is known.
        read: Gives the array.
    """

    axes: tuple[Any, ...]
    term: Hashable
    read: Callable[[], Any] = dataclasses.field(compare=False)


Use = Aligned | Step | Indexed | str
Place = int | Step | Indexed | None  # where an axis goes, or the index by which it is read


@dataclasses.dataclass(frozen=True)
class Source:
    """A site that a value depends on; with a `start`, only in the first step of loop `start`.

    `is_last` tells whether the loop runs backward, so that its first step has the last row.
    """

    path: tuple[Hashable, ...]
    start: int | None = None
    is_last: bool = False


Uses = Mapping[Source, tuple[Use, ...]]


def join(*several: Uses) -> dict[Source, tuple[Use, ...]]:
    """The dependences of a value made element by element from several values of its shape."""
    joined: dict[Source, tuple[Use, ...]] = {}
    for uses in several:
        for source, new in uses.items():
            old = joined.get(source, new)
            joined[source] = tuple(map(join_axis, old, new))
    return joined


def join_axis(a: Use, b: Use) -> Use:
    """The use of an axis by a value computed from two values, which use the axis as `a` and `b`."""
    if a == b:
        return a
    for kind, place in ((Aligned, "axis"), (Step, "loop")):
        if isinstance(a, kind) and isinstance(b, kind) and getattr(a, place) == getattr(b, place):
            return dataclasses.replace(a, lags=a.lags | b.lags)  # pyright: ignore
    return ALL


def map_uses(uses: Uses, fn: Callable[[Use], Use]) -> dict[Source, tuple[Use, ...]]:
    """Dependences with `fn` applied to the use of each axis."""
    return {source: tuple(map(fn, each)) for source, each in uses.items()}


def mix(uses: Uses) -> dict[Source, tuple[Use, ...]]:
    """Dependences of a value whose every element may depend on all elements of its operand."""

    def all_of(use: Use) -> Use:
        is_same = isinstance(use, Indexed) and all(isinstance(axis, Step) for axis in use.axes)
        return use if is_same or isinstance(use, Step) else ALL

    return map_uses(uses, all_of)


def move_axes(uses: Uses, places: Sequence[Place]) -> dict[Source, tuple[Use, ...]]:
    """Dependences of a value whose axis i has become axis `places[i]`, or is read at an index.

    The place is None where elements along the axis are mixed.
    """

    def move(use: Use) -> Use:
        match use:
            case Aligned(axis, lags):
                place = places[axis]
                if isinstance(place, int):
                    return Aligned(place, lags)
                return ALL if place is None or lags != {0} else place
            case Indexed(axes):
                return compose(use, [x if isinstance(x, Step) else places[x] for x in axes])
        return use

    return map_uses(uses, move)


def compose(use: Indexed, places: Sequence[Place]) -> Use:
    """An index after its own axes have moved to `places`, or have been indexed themselves."""
    if any(place is None for place in places):
        return ALL
    if not any(isinstance(place, Indexed) for place in places):
        return dataclasses.replace(use, axes=tuple(places))  # pyright: ignore
    array = use.read

    def along(i: int, place: Any) -> Any:
        """The index along axis `i`: the array that reads the axis, or all of the axis in order."""
        return place.read() if isinstance(place, Indexed) else np.arange(array().shape[i])

    each = [x.axes if isinstance(x, Indexed) else (x,) for x in places]
    over = unite_axes(*each)  # pyright: ignore

    def read() -> Any:
        inner = [spread(along(i, x), each[i], over) for i, x in enumerate(places)]
        return (np if are_known else jnp).asarray(array())[tuple(inner)]

    terms = [x.term if isinstance(x, Indexed) else None for x in places]
    are_known = all(isinstance(x, Numbers | None) for x in (use.term, *terms))
    if are_known:
        return find_use(read(), use.term.size, over)  # pyright: ignore
    order = [tuple(map(over.index, axes)) for axes in each]
    return Indexed(over, ("composed", use.term, *zip(order, terms, strict=True)), read)


def unite_axes(*several: Sequence[int | Step]) -> tuple[int | Step, ...]:
    """All axes of several arrays, with axes of the value before steps of loops."""

    def place(axis):
        return (1, axis.loop) if isinstance(axis, Step) else (0, axis)

    return tuple(sorted({axis for axes in several for axis in axes}, key=place))


def spread(array: Any, axes: Sequence[Any], over: Sequence[Any]) -> Any:
    """An array with an axis for each of `over`, of size 1 for an axis that it does not have."""
    order = sorted(range(len(axes)), key=lambda i: over.index(axes[i]))
    sizes = dict(zip(axes, array.shape, strict=True))
    return array.transpose(order).reshape([sizes.get(axis, 1) for axis in over])


def find_use(found: np.ndarray, size: int, over: Sequence[int | Step]) -> Use:
    """The use of an axis of a site by a value with known indices.

    Args:
        found: The index that each element of the value reads; any index fits where it is -1.
        size: The number of elements along the axis of the site.
        over: The axes of `found`.
    """
    if not found.size:
        return ALL
    for i in range(found.ndim):
        first = found[(slice(None),) * i + (slice(1),)]
        if found.strides[i]:
            first = found.max(i, keepdims=True)
        if not found.strides[i] or np.all((found == first) | (found < 0)):
            found = first
    axes = tuple(axis for axis, n in zip(over, found.shape, strict=True) if n > 1)
    found = found.squeeze()
    if found.shape == (size,) and np.all((found == np.arange(size)) | (found < 0)):
        return axes[0] if isinstance(axes[0], Step) else Aligned(axes[0])
    found = np.maximum(found, 0).astype(np.int32)
    return Indexed(axes, Numbers(size, found.shape, found.tobytes()), lambda: found)


def shift(use: Use, loop: int, sign: int) -> Use:
    """The use of a carry, as seen from the next step of a loop."""
    if isinstance(use, Step) and use.loop == loop:
        return Step(loop, frozenset(lag + sign for lag in use.lags))
    return widen(use, loop)


def widen(use: Use, loop: int) -> Use:
    """The use, widened to all steps of a loop if it depends on the step."""
    is_step = isinstance(use, Step) and use.loop == loop
    return ALL if is_step or (isinstance(use, Indexed) and Step(loop) in use.axes) else use


def after(use: Use, loop: int, last: int) -> Use:
    """The use of a carry after the last step of a loop."""
    match use:
        case Step(here, lags) if here == loop:
            if len(lags) > 1:
                return ALL
            (lag,) = lags
            at = max(last - lag, 0)
            return Indexed((), ("at", at), lambda: np.asarray(at))
        case Indexed(axes) if Step(loop) in axes:
            at_last = find_use(np.asarray(last), last + 1, ())
            places: list[Place] = [at_last if x == Step(loop) else x for x in axes]  # pyright: ignore
            return compose(use, places)
    return use


def enter_rows(use: Use, loop: int) -> Use:
    """The use by one row of an array, as a step of a loop reads the row."""
    match use:
        case Aligned(axis, lags):
            return Aligned(axis - 1, lags) if axis else Step(loop, lags)
        case Indexed(axes):
            return _rename(use, axes, lambda i: i - 1 if i else Step(loop))
    return use


def stack(use: Use, loop: int) -> Use:
    """The use of an output of each step, stacked along a new axis in front."""
    match use:
        case Step(here, lags):
            return Aligned(0, lags) if here == loop else use
        case Aligned(axis, lags):
            return Aligned(axis + 1, lags)
        case Indexed(axes):
            moved = _rename(use, axes, lambda i: i + 1)
            return _rename(moved, [0 if x == Step(loop) else x for x in moved.axes])
    return use


def leave(use: Use, loop: int, axis: int) -> Use:
    """The use by a score after a loop has become the axis `axis` of the score."""
    match use:
        case Step(here, lags) if here == loop:
            return Aligned(axis, lags)
        case Indexed(axes):
            return _rename(use, [axis if x == Step(loop) else x for x in axes])
    return use


def _rename(
    use: Indexed,
    axes: Sequence[int | Step],
    place: Callable[[int], int | Step] = lambda i: i,
) -> Indexed:
    """An index with other axes; `place` renames axes of the value."""
    renamed = tuple(place(x) if isinstance(x, int) else x for x in axes)
    return dataclasses.replace(use, axes=renamed)
