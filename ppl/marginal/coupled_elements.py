"""Layout of sites in blocks, found from the dependences of all scores.

An axis of sites is a plate if no score couples its elements. It is the time of a chain if scores
couple each element only with near elements. The sites that have all plates and the time are inner.
Sites whose elements are their parents, or parents of these, have layouts above; all other sites
make the border.
"""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ppl.harvest.survey import Path
from ppl.marginal.block_layout import BlockLayout, RecordedAxes
from ppl.marginal.element_dependence import ALL, Aligned, Indexed, Source, Use
from ppl.marginal.nested_plates import Axis, Level, Plate, Reads, find_levels
from ppl.marginal.score_dependence import ScoreDependence
from ppl.marginal.tree_layout import TreeLayout

Key = tuple[Any, ...]  # the index of an element along an axis, as an element of a score reads it


def find_layout(
    dependences: Mapping[Path, ScoreDependence],
    sites: Collection[Path],
    shapes: Mapping[Path, tuple[int, ...]],
) -> BlockLayout:
    """The layout of an integral over some sites: plates, the steps of a chain, parents, a border.

    Args:
        dependences: The dependences of the sites, and of all scores that depend on them.
        sites: The sites.
        shapes: The shapes of their values.
    """
    uses = [
        _uses_of(dependence, path, path in sites, shapes)
        for path, dependence in dependences.items()
    ]
    reads = [[(axis, *_key(use)) for axis, use in each] for each in uses]
    axes = [(path, i) for path in sites for i in range(len(shapes[path]))]
    classes = _Axes(axes, reads, lambda axis: _length(axis, dependences, shapes))
    # The largest number of elements that some classes of axes span.
    best = None
    size = 1
    for path in sites:
        mine = classes.of_site(path, len(shapes[path]))
        recorded = _recorded_axes(dependences[path], len(shapes[path]))
        mine = dict(sorted(mine.items(), key=lambda item: recorded.index(item[1])))
        count = math.prod(classes.length(c) for c in mine)
        if count > size:
            best = mine
            size = count
    if best is None:
        return BlockLayout({}, {path: shapes[path] for path in sites})
    # One class of axes is coupled along itself: the time of a chain. All others are plates.
    time = next((c for c in best if classes.reach(c)), None)
    plates = [c for c in best if c != time]
    group_axes = {
        path: _axes_of_score(dependences[path], read, plates)
        for path, read in zip(dependences, reads, strict=True)
    }
    # Sites with all of these axes are inner, others lead to the chain, are parents, or the border.
    leading, at_end = _find_leading(dependences, reads, sites, plates, time, classes, shapes)
    levels = _nest(uses, [p for p in sites if p not in leading], plates, time, classes, shapes)
    if leading and len(levels) > 1:
        leading = {}
        levels = _nest(uses, sites, plates, time, classes, shapes)
    nested = [
        _record_axes(level, None if level.links else time, classes, dependences, shapes)
        for level in levels
    ]
    border = {p: shapes[p] for p in sites if not any(p in x for x in (*nested, leading))}
    step_axes = None
    is_reversed = False
    if time is not None and classes.reach(time) == 1:
        step_axes, is_reversed = _axes_of_steps(dependences, reads, time, classes.length(time))
        if leading and at_end != is_reversed:
            step_axes = None
    are_apart = (
        plates
        and not border
        and len(levels) == 1
        and all(x is not None for x in group_axes.values())
    )
    are_aligned = are_apart and all(
        isinstance(i, int) for x in group_axes.values() for i in x or ()
    )
    sizes = [tuple(map(classes.length, level.plates)) for level in levels]
    options: dict[str, Any] = {
        "num_steps": 1 if time is None else classes.length(time),
        "reach": 0 if time is None else classes.reach(time),
        "score_axes": group_axes if are_aligned else None,
        "step_axes": step_axes,
        "is_reversed": is_reversed,
        "group_axes": group_axes if are_apart else None,
    }
    if len(levels) == 1:
        options |= {"leading": leading, "leads_at_end": at_end}
        return BlockLayout(nested[0], border, sizes[0], **options)
    above = BlockLayout(nested[-1], border, sizes[-1])
    for i in reversed(range(1, len(levels) - 1)):
        above = TreeLayout(nested[i], {}, sizes[i], above=above, links=levels[i + 1].links)
    return TreeLayout(nested[0], {}, sizes[0], **options, above=above, links=levels[1].links)


def _nest(
    uses: "Sequence[Reads]",
    sites: Collection[Path],
    plates: Sequence[Plate],
    time: Plate | None,
    classes: "_Axes",
    shapes: Mapping[Path, tuple[int, ...]],
) -> list[Level]:
    """The level of the inner sites, and those of their parents."""
    first, *others = _levels(sites, plates, time, classes, shapes)
    return list(find_levels(first, others, uses, classes.length)) if plates else [first]


def _find_leading(
    dependences: Mapping[Path, ScoreDependence],
    reads: "Sequence[Sequence[Read]]",
    sites: Collection[Path],
    plates: Sequence[Plate],
    time: Plate | None,
    classes: "_Axes",
    shapes: Mapping[Path, tuple[int, ...]],
) -> tuple[dict[Path, RecordedAxes], bool]:
    """The sites that lead to a chain, and whether they lead to its last step in program order."""
    if time is None:
        return {}, False
    along = {path: classes.of_site(path, len(shapes[path])) for path in sites}
    num_each = math.prod(map(classes.length, plates))
    num_inner = sum(math.prod(shapes[p]) for p in sites if set(along[p]) == {*plates, time})
    size_of_block = num_inner * classes.reach(time) // (num_each * classes.length(time))
    for at_end in (False, True):
        leading = {
            path: _in_order(dependences[path], shapes[path], [mine[c] for c in plates])
            for path, mine in along.items()
            if set(mine) == set(plates) and _leads(path, dependences, reads, time, at_end)
        }
        if leading:
            size = sum(math.prod(x.shape) for x in leading.values())
            return (leading if size <= num_each * size_of_block else {}), at_end
    return {}, False


def _levels(
    sites: Collection[Path],
    plates: Sequence[Plate],
    time: Plate | None,
    classes: "_Axes",
    shapes: Mapping[Path, tuple[int, ...]],
) -> list[Level]:
    """The sites with all plates and the time, then those with other plates alone, largest first."""
    first = frozenset(plates) if time is None else frozenset([*plates, time])
    found: dict[Any, list[Path]] = {first: []}
    for path in sites:
        mine = frozenset(classes.of_site(path, len(shapes[path])))
        if mine == first or (mine and not any(map(classes.reach, mine))):
            found.setdefault(mine, []).append(path)

    def order(item: Any) -> int:
        return -math.prod(map(classes.length, item[0]))

    levels = [Level(tuple(found.pop(first)), tuple(plates))]
    for _, paths in sorted(found.items(), key=order):
        along = classes.of_site(paths[0], len(shapes[paths[0]]))
        levels.append(Level(tuple(paths), tuple(along)))
    return levels


def _record_axes(
    level: Level,
    time: Plate | None,
    classes: "_Axes",
    dependences: Mapping[Path, ScoreDependence],
    shapes: Mapping[Path, tuple[int, ...]],
) -> dict[Path, RecordedAxes]:
    """The recorded axes of the sites of a level: plates, then time, then all others."""
    found = {}
    for path in level.sites:
        ndim = len(shapes[path])
        mine = classes.of_site(path, ndim)
        recorded = _recorded_axes(dependences[path], ndim)
        wanted = [mine[c] for c in (*level.plates, *([] if time is None else [time]))]
        wanted += [i for i in range(ndim) if i not in wanted]
        found[path] = RecordedAxes(shapes[path], tuple(recorded.index(i) for i in wanted))
    return found


def couples(
    dependences: Mapping[Path, ScoreDependence],
    sites: Collection[Path],
    shapes: Mapping[Path, tuple[int, ...]],
) -> bool:
    """Whether an element of some score may depend on several elements of some sites.

    Args:
        dependences: The dependences of the scores.
        sites: The sites.
        shapes: The shapes of their values.
    """
    for path, dependence in dependences.items():
        reads = [uses for source, uses in dependence.uses.items() if source.path in sites]
        reads += [_own(dependence, shapes[path])] if path in sites else []
        keys = [_key(use) for uses in reads for use in uses]
        if len(reads) > 1 or any(key is None or len(lags) > 1 for key, lags in keys):
            return True
    return False


def _in_order(
    dependence: ScoreDependence, shape: tuple[int, ...], first: Sequence[int]
) -> RecordedAxes:
    """The axes of a recorded site in an order that begins with some of them."""
    recorded = _recorded_axes(dependence, len(shape))
    wanted = [*first, *(i for i in range(len(shape)) if i not in first)]
    return RecordedAxes(shape, tuple(recorded.index(i) for i in wanted))


def _leads(
    path: Path,
    dependences: Mapping[Path, ScoreDependence],
    reads: "Sequence[Sequence[Read]]",
    time: frozenset[Axis],
    at_end: bool,
) -> bool:
    """Whether scores couple a site with one step of a chain alone, the first or the last.

    Args:
        path: The site.
        dependences: The dependences of all scores.
        reads: What they read.
        time: The axes along the steps.
        at_end: Whether the step is the last.
    """
    is_read = False
    for (scored, dependence), read in zip(dependences.items(), reads, strict=True):
        of_time = [(key, lags) for axis, key, lags in read if axis in time]
        sources = [source for source in dependence.uses if source.path == path]
        if not of_time or not (sources or scored == path):
            continue
        is_read = True
        axes = {("aligned", _axis_of_loop(dependence, source)) for source in sources}
        is_aligned = axes == {key for key, _ in of_time}
        # The steps that a score reads beside the first are none before it.
        is_first = all(lag == 0 or (lag < 0) == at_end for _, lags in of_time for lag in lags)
        starts = {source.is_last for source in sources}
        if scored == path or not is_aligned or not is_first or starts != {at_end}:
            return False
    return is_read


def _axis_of_loop(dependence: ScoreDependence, source: Source) -> int | None:
    """The axis of a score along the loop whose first step depends on a site."""
    if source.start not in dependence.loops:
        return None
    num_body = len(dependence.shape) - len(dependence.loops)
    return num_body + dependence.loops.index(source.start)


def _axes_of_steps(
    dependences: Mapping[Path, ScoreDependence],
    reads: "Sequence[Sequence[Read]]",
    time: Plate,
    num_steps: int,
) -> tuple[dict[Path, int | None] | None, bool]:
    """The axis of each score along the steps, and whether time runs backward.

    The axis is None if a score is not aligned with the steps, or if it depends on more than a
    step and the step before.
    """
    found: dict[Path, int | None] = {}
    lags: set[int] = set()
    for (path, dependence), read in zip(dependences.items(), reads, strict=True):
        keys = {key for axis, key, _ in read if axis in time}
        lags.update(*(each for axis, _, each in read if axis in time))
        key = keys.pop() if keys else None
        if key is not None and (key[0] != "aligned" or dependence.shape[key[1]] != num_steps):
            return None, False
        found[path] = None if key is None else dependence.layout.index(key[1])
    is_reversed = min(lags) < 0
    return (found if max(lags) - min(lags) == 1 and 0 in lags else None), is_reversed


def _axes_of_score(
    dependence: ScoreDependence, reads: "Sequence[Read]", plates: Sequence[Plate]
) -> tuple[int | Indexed, ...] | None:
    """For each plate, the axis of the recorded score along it, or the index that reads it.

    None if the score does not have all of the plates.
    """
    found: list[int | Indexed] = []
    for plate in plates:
        keys = {key for axis, key, _ in reads if axis in plate}
        key = keys.pop() if len(keys) == 1 else None
        if key is None:
            return None
        if key[0] == "aligned":
            found.append(dependence.layout.index(key[1]))
        else:
            uses = (use for each in dependence.uses.values() for use in each)
            use = next(u for u in uses if isinstance(u, Indexed) and _key(u)[0] == key)
            axes = tuple(dependence.layout.index(i) for i in use.axes)
            found.append(dataclasses.replace(use, axes=axes))
    return tuple(found)


def _recorded_axes(dependence: ScoreDependence, ndim: int) -> list[int]:
    """For each axis of a recorded value, its number among body axes, then loops."""
    num_inner = ndim - len(dependence.loops)
    order = list(range(num_inner))
    for depth in range(len(dependence.loops)):
        order.insert(dependence.site.num_axes_outside(depth + 1), num_inner + depth)
    return order


def _length(
    axis: Axis, dependences: Mapping[Path, ScoreDependence], shapes: Mapping[Path, tuple[int, ...]]
) -> int:
    path, i = axis
    shape = shapes[path]
    return shape[_recorded_axes(dependences[path], len(shape)).index(i)]


Read = tuple[Axis, Key | None, frozenset[int]]  # an axis, its index in a score (None: all), lags


def _uses_of(
    dependence: ScoreDependence, path: Path, is_site: bool, shapes: Mapping[Path, tuple[int, ...]]
) -> Reads:
    """For each axis of a site that a score depends on, its use by the score."""
    found: list[tuple[Axis, Use]] = []
    for source, uses in dependence.uses.items():
        found += [((source.path, i), use) for i, use in enumerate(uses)]
    if is_site:
        found += [((path, i), use) for i, use in enumerate(_own(dependence, shapes[path]))]
    return found


def _own(dependence: ScoreDependence, shape: tuple[int, ...]) -> list[Use]:
    """The use of a site's own value by its score, which reads events as a whole."""
    num_loops = len(dependence.loops)
    num_batch = len(dependence.shape) - num_loops
    num_body = len(shape) - num_loops
    own: list[Use] = [Aligned(i) if i < num_batch else ALL for i in range(num_body)]
    return own + [Aligned(num_batch + i) for i in range(num_loops)]


def _key(use: Use) -> tuple[Key | None, frozenset[int]]:
    match use:
        case Aligned(axis, lags):
            return ("aligned", axis), lags
        case Indexed(axes, term):
            return ("indexed", axes, term), frozenset([0])
    return None, frozenset([0])


class _Axes:
    """Classes of axes with corresponding elements, and how far scores couple these."""

    def __init__(
        self, axes: Sequence[Axis], reads: Sequence[Sequence[Read]], length: Callable[[Axis], int]
    ):
        self._length = length
        self._class = {axis: frozenset([axis]) for axis in axes}
        for score in reads:
            for a, key, _ in score:
                for b, other, _ in score:
                    if key is not None and key == other:
                        self._join(a, b)
        self._reach: dict[Plate, float] = {}
        for each in set(self._class.values()):
            self._reach[each] = max((self._reach_in(score, each) for score in reads), default=0)
        lagged = sorted(
            (c for c, reach in self._reach.items() if 0 < reach < math.inf), key=self._order
        )
        for each in lagged[1:]:  # One chain only: other times are dense.
            self._reach[each] = math.inf

    def _order(self, each: Plate) -> Any:
        return -self.length(each), repr(sorted(each, key=repr))

    def _join(self, a: Axis, b: Axis) -> None:
        united = self._class[a] | self._class[b]
        for axis in united:
            self._class[axis] = united

    def _reach_in(self, score: Sequence[Read], each: Plate) -> float:
        """The largest distance of elements of a class in one score; infinity if all are coupled."""
        mine = [(axis, key, lags) for axis, key, lags in score if axis in each]
        is_same = len({key for _, key, _ in mine}) <= 1 and all(k is not None for _, k, _ in mine)
        lengths = {self._length(axis) for axis in each}
        own_axes = [path for path, _ in each]
        if not is_same or len(lengths) > 1 or len(set(own_axes)) < len(own_axes):
            return math.inf
        lags = frozenset().union(*(lags for _, _, lags in mine))
        return max(lags) - min(lags) if lags else 0

    def length(self, each: Plate) -> int:
        """The length of the axes of a class."""
        return self._length(next(iter(each)))

    def reach(self, each: Plate) -> int:
        """The largest distance, in steps, of elements of a class in any score."""
        return int(self._reach[each])

    def of_site(self, path: Path, ndim: int) -> dict[Plate, int]:
        """The classes among the axes of a site that no score couples as a whole."""
        found = {self._class[path, i]: i for i in range(ndim)}
        return {c: i for c, i in found.items() if self._reach[c] < math.inf and self.length(c) > 1}
