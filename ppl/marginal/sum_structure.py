"""Structure of a sum: which axes of sites and scores are one plate, chains, enumerated elements."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from ppl.core.joint_scores import Lookup, Spread
from ppl.harvest.survey import Path
from ppl.marginal.element_dependence import ALL, Aligned, Indexed, Source, Use, join
from ppl.marginal.score_dependence import ScoreDependence
from ppl.marginal.score_tables import Coordinate, ScoreTable


class _Classes:
    """Disjoint sets (union-find)."""

    def __init__(self) -> None:
        self._parent: dict[Any, Any] = {}

    def find(self, x: Any) -> Any:
        """The representative of the set of an element."""
        while (up := self._parent.get(x, x)) != x:
            x = up
        return x

    def join(self, a: Any, b: Any) -> None:
        """Unite two sets."""
        a = self.find(a)
        b = self.find(b)
        if a != b:
            self._parent[max(a, b, key=repr)] = min(a, b, key=repr)


class SumStructure:
    """Structure of a sum, from the dependences of all scores: plates, chains, enumerated axes.

    Axes of sites and of scores belong to one plate if their elements correspond.
    """

    def __init__(
        self,
        dependences: Mapping[Path, ScoreDependence],
        states: Mapping[Path, np.ndarray],
        causes: Mapping[Path, str],
        bounded: frozenset[Path],
        num_parts: Mapping[Path, int],
    ):
        self.states = states
        self.causes = causes
        self.bounded = bounded
        self._num_parts = num_parts
        self.starts = _pair_starts(dependences, states)
        self._join_axes(dependences)
        unrolled = [p for p, chain in self.starts.items() if self._is_unrolled(chain)]
        if unrolled:  # Their starts are enumerated like other elements.
            self.starts = {p: x for p, x in self.starts.items() if p not in unrolled}
            self._join_axes(dependences)

    def _join_axes(self, dependences: Mapping[Path, ScoreDependence]) -> None:
        """Find plates, groups of scores, and plates whose elements are enumerated."""
        self.dependences = {
            path: self._without_starts(dependence) for path, dependence in dependences.items()
        }
        self._classes, self._groups = _Classes(), _Classes()
        for path, dependence in self.dependences.items():
            all_uses = list(dependence.uses.items())
            if path in self.states:
                all_uses.append((Source(path), tuple(map(Aligned, range(len(dependence.shape))))))
            for source, uses in all_uses:
                self._groups.join(("score", path), ("score", source.path))
                for axis, use in enumerate(uses):
                    if isinstance(use, Aligned):
                        self._classes.join(("site", source.path, axis), ("score", path, use.axis))
            self._join_read_alike(dependence)
        self.enumerated = self._find_enumerated()

    def _join_read_alike(self, dependence: ScoreDependence) -> None:
        """Unite axes of several sites that a score reads at the same index."""
        found: dict[Any, list[Any]] = {}
        for source, uses in dependence.uses.items():
            for axis, use in enumerate(uses):
                if isinstance(use, Indexed) and uses.count(use) == 1:
                    size = self.dependences[source.path].shape[axis]
                    found.setdefault((use, size), []).append(("site", source.path, axis))
        for first, *others in found.values():
            for other in others:
                self._classes.join(first, other)

    def _is_unrolled(self, chain: Path) -> bool:
        """Whether the steps of a chain are separate variables, enumerated one by one."""
        return any(
            not _is_plain(use) and self.plate(chain, axis) in self.enumerated
            for dependence in self.dependences.values()
            for axis, use in enumerate(dependence.uses.get(Source(chain), ()))
        )

    def _without_starts(self, dependence: ScoreDependence) -> ScoreDependence:
        """The dependence, with sources that start no chain counted in all steps of their loop."""
        uses: dict[Source, Any] = {}
        for source, each in dependence.uses.items():
            chain = self.starts.get(source.path)
            is_start = chain is not None and Source(chain) in dependence.uses
            kept = source if is_start else Source(source.path)
            uses = join(uses, {kept: each})
        return dataclasses.replace(dependence, uses=uses)

    def _find_enumerated(self) -> set[Any]:
        """Plates whose elements are enumerated one by one, as some score depends on all of them."""
        return {
            self.plate(source.path, axis)
            for dependence in self.dependences.values()
            for source, uses in dependence.uses.items()
            for axis, use in enumerate(uses)
            if use == ALL
        }

    @functools.cached_property
    def chained(self) -> set[Any]:
        """Plates along which elements depend on earlier ones."""
        return {
            self.plate(source.path, axis)
            for dependence in self.dependences.values()
            for source, uses in dependence.uses.items()
            for axis, use in enumerate(uses)
            if isinstance(use, Aligned) and use.lags != {0}
        }

    def plate(self, path: Path, axis: int) -> Any:
        """The plate of an axis of a summed site."""
        return self._classes.find(("site", path, axis))

    def plate_of_score(self, path: Path, axis: int) -> Any:
        """The plate of an axis of a score."""
        return self._classes.find(("score", path, axis))

    def group(self, path: Path) -> Any:
        """A key, equal for scores that depend on one another through summed sites."""
        return self._groups.find(("score", path))

    def touches(self, path: Path) -> bool:
        """Whether a score depends on a summed site."""
        return bool(self.dependences[path].uses) or path in self.states

    def is_start(self, path: Path) -> bool:
        """Whether a site stands for the states of a chain before its first step."""
        return path in self.starts

    def plates_of_group(self, group: Any) -> dict[Any, int]:
        """The plates that all summed sites of a group share, with their sizes.

        The sum is a product of sums along these plates. Their order is the order of the recorded
        axes of a site.
        """
        summed = [p for p in self.states if p in self.dependences and not self.is_start(p)]
        paths = [p for p in summed if self.group(p) == group]
        found: dict[Any, int] = {}
        for number, path in enumerate(paths):
            dependence = self.dependences[path]
            mine = {self.plate(path, axis): dependence.shape[axis] for axis in dependence.layout}
            found = {p: n for p, n in (found if number else mine).items() if p in mine}
        return {p: n for p, n in found.items() if p not in self.enumerated}

    def plates_of_site(self, path: Path) -> tuple[Any, ...]:
        """The plate of each axis of a recorded log probability, without parts of events."""
        dependence = self.dependences[path]
        num_parts = self._num_parts.get(path, 0)
        num_body = len(dependence.shape) - len(dependence.loops)
        parts = range(num_body - num_parts, num_body)
        return tuple(self.plate_of_score(path, i) for i in dependence.layout if i not in parts)

    def lags_of(self, plate: Any) -> set[int]:
        """The lags of scores along a plate."""
        return {
            lag
            for dependence in self.dependences.values()
            for source, uses in dependence.uses.items()
            for axis, use in enumerate(uses)
            if isinstance(use, Aligned) and self.plate(source.path, axis) == plate
            for lag in use.lags
        }

    def spread(self, path: Path, plates: Collection[Any]) -> Spread:
        """The entries of a score, spread over the plates of its group."""
        axes = [self._axis_along(path, plate) for plate in plates]
        return self.dependences[path].spread(self._num_parts.get(path, 0), axes)

    def _axis_along(self, path: Path, plate: Any) -> int | Lookup | None:
        """The axis of a recorded score along a plate, or the index by which it reads the plate."""
        dependence = self.dependences[path]
        mine = [i for i in range(len(dependence.shape)) if self.plate_of_score(path, i) == plate]
        if mine:
            return dependence.layout.index(mine[0]) if len(mine) == 1 else None
        uses = {
            use
            for source, each in dependence.uses.items()
            for axis, use in enumerate(each)
            if self.plate(source.path, axis) == plate
        }
        match tuple(uses):
            case (Indexed(axes) as use,):
                return Lookup.of([dependence.layout.index(i) for i in axes], use.read)
        return None

    def use(self, path: Path, axis: int, use: Use) -> Use:
        """The use of an axis: `ALL` if its elements are enumerated, unless the use is aligned."""
        is_all = self.plate(path, axis) in self.enumerated and not _is_plain(use)
        return ALL if is_all else use

    def table(self, path: Path) -> ScoreTable:
        """The coordinates that a score depends on."""
        found: dict[Coordinate, None] = {}
        time = {}
        starts = {}
        for source, raw in self.dependences[path].uses.items():
            if source.start is not None:
                starts[source.path] = self.starts[source.path]
                continue
            uses = [self.use(source.path, axis, use) for axis, use in enumerate(raw)]
            lags = frozenset([0])
            for use in uses:
                if isinstance(use, Aligned) and use.lags != {0}:
                    time[source.path], lags = use.axis, use.lags
            shape = self.dependences[source.path].shape
            ranges = [
                range(n) if use == ALL else [None] for use, n in zip(uses, shape, strict=True)
            ]
            for lag in range(min(lags), max(lags) + 1):
                for element in itertools.product(*ranges):
                    found[Coordinate(source.path, element, lag)] = None
        return ScoreTable(tuple(found), time, starts)

    def num_configurations(self, path: Path) -> int:
        """The number of configurations that a score is evaluated for; infinite if astronomic."""
        total = 1.0
        for source, raw in self.dependences[path].uses.items():
            shape = self.dependences[source.path].shape
            pairs = zip(raw, shape, strict=True)
            num = math.prod(
                n for axis, (use, n) in enumerate(pairs) if self.use(source.path, axis, use) == ALL
            )
            if source.start is None:
                total *= float(len(self.states[source.path])) ** min(num, 1000)
        return int(total) if total < 2**62 else 2**62


def _is_plain(use: Use) -> bool:
    return isinstance(use, Aligned) and use.lags == {0}


def _is_used_later(dependence: ScoreDependence, path: Path, chain: Path) -> bool:
    """Whether a score depends on a site in all steps of a loop, or together with the chain."""
    uses = dependence.uses
    return Source(path) in uses and (bool(dependence.loops) or Source(chain) in uses)


def _pair_starts(
    dependences: Mapping[Path, ScoreDependence], states: Mapping[Path, np.ndarray]
) -> dict[Path, Path]:
    """For each site before the first step of a chain, the site of the chain that continues it.

    Only the first step of a loop depends on such a start. If several sites make one chain, any site
    with the states of the start may continue it: a score that looks back beyond the first step
    reads the start for all of them.
    """
    lags = {lag for dependence in dependences.values() for lag in _lags(dependence.uses.values())}
    if max(map(abs, lags), default=0) != 1:
        return {}
    pairs: dict[Path, set[Path]] = {}
    for dependence in dependences.values():
        begins = [source.path for source in dependence.uses if source.start is not None]

        def looks_back(uses):
            return not _lags([uses]) <= {0}

        chains = {
            s.path for s, uses in dependence.uses.items() if s.start is None and looks_back(uses)
        }
        for path in begins:
            pairs[path] = pairs.get(path, chains) & chains
    found: dict[Path, Path] = {}
    for path, chains in sorted(pairs.items(), key=lambda pair: len(pair[1])):
        for chain in (c for c in states if c in chains and c not in found.values()):
            is_alike = np.array_equal(states[path], states[chain])
            if is_alike and not any(_is_used_later(x, path, chain) for x in dependences.values()):
                found[path] = chain
                break
    return found


def _lags(several: Iterable[tuple[Use, ...]]) -> set[int]:
    """The lags at which elements of sites are read."""
    return {x for uses in several for use in uses if isinstance(use, Aligned) for x in use.lags}
