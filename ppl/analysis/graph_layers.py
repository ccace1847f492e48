"""Layers of a drawn graph: the rank of each node, and the order within each rank.

Sugiyama's method with plates. Each node has a rank, and each direct edge goes to a later one. An
edge over several ranks has a bend in each of them. A plate has a border on either side in each rank
from its first to its last; all that lies between the borders belongs to the plate.
"""

import collections
import dataclasses
import graphlib
import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy

Edge = tuple[str, str]
Plates = tuple[Hashable, ...]

_NUM_SWEEPS = 12
_MAX_SWAP_PASSES = 6
_TOLERANCE = 1e-9
_MAX_ROW = 8  # nodes in a rank, if some may go to another one
_MAX_ROWS = 3  # that a crowded rank becomes
_MAX_NODES = 300  # and the most edges and bends, of a graph whose order is searched for
_MAX_SEGMENTS = 400
_BORDER_COST = 3  # of a crossing with the border of a plate, in crossings of edges
_LENGTH_COST = 0.02  # of an edge that goes one place sideways, in crossings
_WIDTHS = {"node": 1.0, "bend": 0.3, "left": 0.3, "right": 0.3}  # places within a rank


@dataclasses.dataclass(frozen=True)
class Vertex:
    """A place in a rank: of a node, of a bend of an edge, or of a border of a plate."""

    kind: str
    rank: int
    plates: Plates
    label: Any = None


@dataclasses.dataclass(frozen=True)
class Layers:
    """A graph in layers.

    Attributes:
        vertices: All nodes, bends and borders.
        chains: For each direct edge, the numbers of its vertices from parent to child.
        spans: The first and the last rank of each plate.
        order: For each rank, the numbers of its vertices from left to right.
        is_large: Whether the graph is too large for a search: no edge has bends, and vertices are
            in program order.
    """

    vertices: Sequence[Vertex]
    chains: Mapping[Edge, Sequence[int]]
    spans: Mapping[Hashable, tuple[int, int]]
    order: Sequence[Sequence[int]]
    is_large: bool = False


def find_layers(
    plates: Mapping[str, Plates], edges: Sequence[Edge], loose: Sequence[Edge]
) -> Layers:
    """Ranks and order of the nodes of a graph.

    Args:
        plates: The plates around each node, outermost first.
        edges: The edges (parent, child) that go downward; they form no circle.
        loose: Edges that do not constrain the ranks; their ends are kept near to each other.
    """
    is_large = len(plates) > _MAX_NODES or len(edges) + len(loose) > _MAX_SEGMENTS
    found = _longest_paths(plates, edges) if is_large else _find_ranks(plates, edges)
    ranks = _spread(found, edges)
    num_segments = sum(ranks[b] - ranks[a] for a, b in edges)
    is_large = is_large or num_segments > _MAX_SEGMENTS
    spans = _find_spans(plates, ranks)
    vertices = [Vertex("node", ranks[name], plates[name], name) for name in plates]
    numbers = {name: i for i, name in enumerate(plates)}
    chains = {}
    for a, b in edges:
        chain = [numbers[a]]
        for rank in range(ranks[a] + 1, ranks[a] if is_large else ranks[b]):
            chain.append(len(vertices))
            vertices.append(Vertex("bend", rank, _plates_of_bend(plates, spans, a, b, rank)))
        chains[a, b] = [*chain, numbers[b]]
    ordering = _Ordering(vertices, spans, [] if is_large else list(chains.values()))
    ordering.ties = [(numbers[a], numbers[b]) for a, b in loose if a != b]
    order = ordering.first() if is_large else ordering.best()
    return Layers(ordering.vertices, chains, spans, order, is_large)


def _find_ranks(plates: Mapping[str, Plates], edges: Sequence[Edge]) -> dict[str, int]:
    """The ranks with the least sum of the heights of edges and plates (a linear program)."""
    names = [*plates]
    inside = {plate: [n for n in names if plate in plates[n]] for n in names for plate in plates[n]}
    column = {name: i for i, name in enumerate(names)}
    first = {plate: len(names) + 2 * i for i, plate in enumerate(inside)}
    rows = [(column[a], column[b], 1) for a, b in edges]
    for plate, members in inside.items():
        rows += [(first[plate], column[n], 0) for n in members]
        rows += [(column[n], first[plate] + 1, 0) for n in members]
    if not rows:
        return dict.fromkeys(names, 0)
    above = np.zeros((len(rows), len(names) + 2 * len(inside)))
    for row, (low, high, _) in zip(above, rows, strict=True):
        row[low] += 1
        row[high] -= 1
    cost = -above[: len(edges)].sum(0) + 1e-3
    for at in first.values():
        cost[at] -= 0.2
        cost[at + 1] += 0.2
    found = scipy.optimize.linprog(cost, above, -np.array([least for *_, least in rows]))
    if found.x is None:
        return _longest_paths(plates, edges)
    return {name: round(found.x[i]) for name, i in column.items()}


def _longest_paths(names: Iterable[str], edges: Sequence[Edge]) -> dict[str, int]:
    """The ranks where each node is as high as its parents admit."""
    parents: dict[str, list[str]] = {name: [] for name in names}
    for a, b in edges:
        parents[b].append(a)
    ranks: dict[str, int] = {}
    for name in graphlib.TopologicalSorter(parents).static_order():
        ranks[name] = max((ranks[parent] + 1 for parent in parents[name]), default=0)
    return {name: ranks[name] for name in parents}


def _spread(ranks: Mapping[str, int], edges: Sequence[Edge]) -> dict[str, int]:
    """Ranks where nodes without parents leave crowded ranks, by turns, for the ones above."""
    spread = dict(ranks)
    sources = spread.keys() - {b for _, b in edges}
    rank = max(spread.values())
    while rank >= min(spread.values()):
        row = [name for name in spread if spread[name] == rank]
        num_rows = min(-(-len(row) // _MAX_ROW), _MAX_ROWS)
        for i, name in enumerate(name for name in row if name in sources):
            spread[name] -= i % num_rows if num_rows else 0
        rank -= 1
    first = min(spread.values())
    return {name: at - first for name, at in spread.items()}


def _find_spans(
    plates: Mapping[str, Plates], ranks: Mapping[str, int]
) -> dict[Hashable, tuple[int, int]]:
    spans: dict[Hashable, tuple[int, int]] = {}
    for name, around in plates.items():
        rank = ranks[name]
        for plate in around:
            low, high = spans.get(plate, (rank, rank))
            spans[plate] = (min(low, rank), max(high, rank))
    return spans


def _plates_of_bend(
    plates: Mapping[str, Plates],
    spans: Mapping[Hashable, tuple[int, int]],
    a: str,
    b: str,
    rank: int,
) -> Plates:
    """Plates of a bend: an edge leaves plates at their lowest rank, and enters at the highest."""
    candidates = [plates[a], plates[b]]
    within = [
        tuple(plate for plate in around if spans[plate][0] <= rank <= spans[plate][1])
        for around in candidates
    ]
    return max(within, key=len)


class _Ordering:
    """Search for the order of the vertices in each rank with the fewest crossings.

    Vertices and plates have a key; in each rank what is directly in a plate is sorted by it. A
    plate has one key for all ranks. So two plates never change sides.
    """

    def __init__(
        self,
        vertices: Sequence[Vertex],
        spans: Mapping[Hashable, tuple[int, int]],
        chains: Sequence[Sequence[int]],
    ):
        self.vertices = list(vertices)
        self.spans = spans
        self.ties: list[tuple[int, int]] = []
        self.keys: dict[Hashable, float] = {i: float(i) for i in range(len(vertices))}
        self.inside: dict[Hashable, list[int]] = collections.defaultdict(list)
        self.members: dict[tuple[int, Hashable], list[Hashable]] = collections.defaultdict(list)
        self.sides: dict[tuple[int, Hashable], tuple[int, int]] = {}
        self.num_ranks = 1 + max((v.rank for v in vertices), default=0)
        segments = [(a, b, 1.0) for chain in chains for a, b in itertools.pairwise(chain)]
        parents: dict[Hashable, Plates] = {}
        for i, vertex in enumerate(vertices):
            self.members[vertex.rank, vertex.plates[-1] if vertex.plates else None].append(i)
            for depth, plate in enumerate(vertex.plates):
                self.inside[plate].append(i)
                parents[plate] = vertex.plates[:depth]
        for plate, around in parents.items():
            low, high = spans[plate]
            for rank in range(low, high + 1):
                self.members[rank, around[-1] if around else None].append(plate)
                sides = (len(self.vertices), len(self.vertices) + 1)
                self.sides[rank, plate] = sides
                inner = (*around, plate)
                self.vertices += [Vertex(side, rank, inner, plate) for side in ("left", "right")]
                if rank > low:
                    before = self.sides[rank - 1, plate]
                    segments += [(a, b, _BORDER_COST) for a, b in zip(before, sides, strict=True)]
        by_rank: list[list[Any]] = [[] for _ in range(self.num_ranks)]
        for segment in segments:
            by_rank[self.vertices[segment[0]].rank].append(segment)
        self.gaps = {rank: _Gap(found) for rank, found in enumerate(by_rank) if found}
        self.costs = dict.fromkeys(self.gaps, 0.0)
        self.places = np.zeros(len(self.vertices))
        self.neighbors = [collections.defaultdict(list), collections.defaultdict(list)]
        for a, b, weight in segments:
            if weight == 1:
                self.neighbors[0][b].append(a)
                self.neighbors[1][a].append(b)

    def first(self) -> list[list[int]]:
        """The order of the program."""
        self._set_plate_keys()
        return self._arrange()

    def best(self) -> list[list[int]]:
        """The order with the least cost, from several starts."""
        self._set_plate_keys()
        tried = []
        for downward_first in (True, False):
            start = dict(self.keys)
            tried.append(self._sweep(downward_first))
            self.keys = start
        _, self.keys = min(tried, key=lambda pair: pair[0])
        self._swap()
        return self._arrange()

    def _arrange(self) -> list[list[int]]:
        return [[*self._within(rank, None)] for rank in range(self.num_ranks)]

    def _within(self, rank: int, plate: Hashable) -> Iterator[int]:
        for item in sorted(self.members[rank, plate], key=self.keys.__getitem__):
            if isinstance(item, int):
                yield item
            else:
                left, right = self.sides[rank, item]
                yield left
                yield from self._within(rank, item)
                yield right

    def _update(self, ranks: Iterable[int] | None = None) -> float:
        """Places the vertices of some ranks, or of all, by their keys; returns the cost.

        The place of a vertex is its middle; each rank is centered at zero.
        """
        changed = range(self.num_ranks) if ranks is None else ranks
        for rank in changed:
            row = [*self._within(rank, None)]
            widths = np.array([_WIDTHS[self.vertices[i].kind] for i in row])
            self.places[row] = np.cumsum(widths) - widths / 2 - widths.sum() / 2
        for gap in {at for rank in changed for at in (rank - 1, rank)} & self.gaps.keys():
            self.costs[gap] = self.gaps[gap].cost(self.places)
        ties = sum(abs(self.places[a] - self.places[b]) for a, b in self.ties)
        return sum(self.costs.values()) + _LENGTH_COST * float(ties)

    def _set_plate_keys(self) -> None:
        for plate, members in self.inside.items():
            self.keys[plate] = float(np.mean([self.keys[i] for i in members]))

    def _sweep(self, downward_first: bool) -> tuple[float, dict[Hashable, float]]:
        """Barycenter sweeps: each vertex goes to the mean of its neighbors above, then below."""
        best = (self._update(), dict(self.keys))
        for turn in range(_NUM_SWEEPS):
            upward = (turn + (not downward_first)) % 2
            for rank in sorted(range(self.num_ranks), reverse=bool(upward)):
                movable = [i for i in self._within(rank, None) if i in self.neighbors[upward]]
                for i in movable:
                    self.keys[i] = float(np.mean(self.places[self.neighbors[upward][i]]))
                free = sorted(self.places[movable])
                for place, i in zip(free, sorted(movable, key=self.keys.__getitem__), strict=True):
                    self.places[i] = place
            self._set_plate_keys()
            cost = self._update()
            if cost < best[0] - _TOLERANCE:
                best = (cost, dict(self.keys))
            self.keys |= dict(enumerate(self.places.tolist()))
        return best

    def _swap(self) -> None:
        """Swaps of neighbors in a rank, as long as one makes the order better."""
        cost = self._update()
        for _ in range(_MAX_SWAP_PASSES):
            start = cost
            for (rank, _), items in self.members.items():
                for at in range(len(items) - 1):
                    items.sort(key=self.keys.__getitem__)
                    cost = self._try_swap(items[at], items[at + 1], rank, cost)
            if cost == start:
                return

    def _try_swap(self, a: Hashable, b: Hashable, rank: int, cost: float) -> float:
        """Swaps two neighbors if that is better; returns the cost then."""
        ranks: Iterable[int] = (rank,)
        if a in self.spans and b in self.spans:
            ends = (*self.spans[a], *self.spans[b])
            ranks = range(min(ends), max(ends) + 1)
        keys = {a: self.keys[a], b: self.keys[b]}
        places = self.places.copy()
        costs = dict(self.costs)
        self.keys |= self._swapped(a, b)
        after = self._update(ranks)
        if after < cost - _TOLERANCE:
            return after
        self.keys |= keys
        self.places = places
        self.costs = costs
        return cost

    def _swapped(self, a: Hashable, b: Hashable) -> dict[Hashable, float]:
        """Keys that put a behind b; a node moves past a plate, which has nodes in other ranks."""
        low, high = self.keys[a], self.keys[b]
        if isinstance(a, int) == isinstance(b, int):
            return {a: high + _TOLERANCE * (low == high), b: low}
        return {a: high + _TOLERANCE} if isinstance(a, int) else {b: low - _TOLERANCE}


class _Gap:
    """The edges and borders from one rank to the next one."""

    def __init__(self, segments: Sequence[tuple[int, int, float]]):
        self.tops = np.array([a for a, _, _ in segments])
        self.ends = np.array([b for _, b, _ in segments])
        self.weights = np.array([weight for *_, weight in segments])

    def cost(self, places: np.ndarray) -> float:
        """Crossings, and the way that the edges go sideways."""
        top = places[self.tops]
        end = places[self.ends]
        crossed = (top[:, None] < top) & (end[:, None] > end)
        crossings = self.weights @ crossed @ self.weights
        return float(crossings + _LENGTH_COST * (self.weights == 1) @ np.abs(top - end))
