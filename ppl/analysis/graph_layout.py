"""Coordinates of a drawn graph: nodes in layers, and frames of plates around them."""

import dataclasses
import graphlib
import itertools
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import scipy

from ppl.analysis.graph_layers import Edge, Layers, Plates, Vertex, find_layers

Point = tuple[float, float]

NODE_GAP = 22.0
_BEND_GAP = 14.0
_RANK_GAP = 38.0
_FRAME_PAD = 14.0
_FRAME_FOOT = 24.0  # below the last rank of a plate, with room for its label
_STEEPNESS = 0.14  # least height of a gap between ranks, by the way an edge goes sideways
_MAX_RANK_GAP = 110.0
_MIN_COMPACTNESS = 1e-3
_MAX_DISTANCES = 400  # of the exact solution; its time grows with their cube
_NUM_TURNS = 20  # of the approximate one


@dataclasses.dataclass(frozen=True)
class Extent:
    """Room around the center of a node."""

    left: float
    right: float
    up: float
    down: float


@dataclasses.dataclass(frozen=True)
class Layout:
    """Coordinates of all parts of a picture; y goes downward.

    Attributes:
        centers: The center of each node.
        frames: The left, top, right and bottom end of each plate's frame.
        bends: Where each direct edge passes the nodes of other ranks: an x, and the y where their
            rank begins and ends.
        is_large: Whether the graph is too large for a search, so that no edge has bends.
    """

    centers: Mapping[str, Point]
    frames: Mapping[Hashable, tuple[float, float, float, float]]
    bends: Mapping[Edge, Sequence[tuple[float, float, float]]]
    is_large: bool = False


def lay_out(
    extents: Mapping[str, Extent],
    plates: Mapping[str, Plates],
    frame_widths: Mapping[Hashable, float],
    edges: Sequence[Edge],
    loose: Sequence[Edge] = (),
) -> Layout:
    """The layout of a graph: frames hold their nodes and no others, and edges go downward.

    Args:
        extents: The room of each node.
        plates: The plates around each node, outermost first. A plate is always within the same
            other plates, and no number.
        frame_widths: The least width of each plate's frame.
        edges: The edges (parent, child) that go downward; they form no circle.
        loose: Edges that do not constrain the layout; their ends are kept near to each other.
    """
    if not extents:
        return Layout({}, {}, {})
    layers = find_layers(plates, edges, loose)
    x, sides = _find_columns(layers, extents, frame_widths, loose)
    y, bands, heights = _find_rows(layers, extents, x)
    centers = {
        v.label: (x[i], y[v.rank]) for i, v in enumerate(layers.vertices) if v.kind == "node"
    }
    frames = {
        plate: (left, heights[plate][0], right, heights[plate][1])
        for plate, (left, right) in sides.items()
    }
    bends = {
        edge: [(x[i], *bands[layers.vertices[i].rank]) for i in chain[1:-1]]
        for edge, chain in layers.chains.items()
    }
    return Layout(centers, frames, bends, layers.is_large)


def _find_columns(
    layers: Layers,
    extents: Mapping[str, Extent],
    frame_widths: Mapping[Hashable, float],
    loose: Sequence[Edge],
) -> tuple[list[float], dict[Hashable, tuple[float, float]]]:
    """The x of each vertex, and both sides of each plate: the shortest edges in the given order."""
    vertices = layers.vertices
    plates = [*layers.spans]
    column: list[int] = []
    first = {plate: 2 * i for i, plate in enumerate(plates)}
    free = 2 * len(plates)
    for vertex in vertices:
        if vertex.kind in ("left", "right"):
            column.append(first[vertex.label] + (vertex.kind == "right"))
        else:
            column.append(free)
            free += 1
    distances: dict[tuple[int, int], float] = {}
    for plate in plates:
        distances[first[plate], first[plate] + 1] = frame_widths[plate]
    for row in layers.order:
        for i, j in itertools.pairwise(row):
            pair = (column[i], column[j])
            needed = _distance(vertices[i], vertices[j], extents)
            distances[pair] = max(distances.get(pair, 0.0), needed)
    springs = [(i, j, _MIN_COMPACTNESS) for i, j in distances]
    springs += [(first[plate], first[plate] + 1, 0.02) for plate in plates]
    numbers = {v.label: i for i, v in enumerate(vertices) if v.kind == "node"}
    springs += [(column[numbers[a]], column[numbers[b]], 0.2) for a, b in loose if a != b]
    for chain in layers.chains.values():
        weight = 1.0 if len(chain) == 2 else 2.0
        for i, j in itertools.pairwise(chain):
            bends = (vertices[i].kind == "bend") + (vertices[j].kind == "bend")
            springs.append((column[i], column[j], weight * (1 + bends)))
    x = None
    if not layers.is_large and len(distances) <= _MAX_DISTANCES:
        x = _shortest_springs(free, springs, distances)
    if x is None:
        x = _short_springs(free, springs, distances)
    sides = {plate: (float(x[at]), float(x[at + 1])) for plate, at in first.items()}
    return [float(x[at]) for at in column], sides


def _distance(a: Vertex, b: Vertex, extents: Mapping[str, Extent]) -> float:
    """The least distance from a vertex to its neighbor on the right."""
    room = (extents[a.label].right if a.kind == "node" else 0.0) + (
        extents[b.label].left if b.kind == "node" else 0.0
    )
    if a.kind == "left" or b.kind == "right":
        return room + _FRAME_PAD
    return room + (_BEND_GAP if "bend" in (a.kind, b.kind) else NODE_GAP)


def _shortest_springs(
    num: int,
    springs: Sequence[tuple[int, int, float]],
    distances: Mapping[tuple[int, int], float],
) -> np.ndarray | None:
    """The x with the least sum of weight * (x[i] - x[j])**2 where x[j] - x[i] >= distance.

    A least-distance problem, solved by non-negative least squares; None if the solver fails.

    References:
        Lawson and Hanson, *Solving Least Squares Problems* (1995): chapter 23, section 4.
    """
    if not distances:
        return np.zeros(num)
    stiffness = 1e-4 * np.eye(num)
    for i, j, weight in springs:
        stiffness[[i, j], [i, j]] += weight
        stiffness[[i, j], [j, i]] -= weight
    root = np.linalg.cholesky(stiffness)
    order = np.zeros((len(distances), num))
    for row, (i, j) in zip(order, distances, strict=True):
        row[i] -= 1
        row[j] += 1
    least = np.array([*distances.values()])
    unit = least.max()
    system = np.vstack([np.linalg.solve(root, order.T), least / unit])
    target = np.zeros(num + 1)
    target[-1] = 1.0
    try:
        dual, _ = scipy.optimize.nnls(system, target, maxiter=50 * len(distances))
    except RuntimeError:  # too many iterations
        return None
    residual = system @ dual - target
    if not residual[-1] < 0:
        return None
    return np.linalg.solve(root.T, residual[:-1] / -residual[-1]) * unit


def _short_springs(
    num: int,
    springs: Sequence[tuple[int, int, float]],
    distances: Mapping[tuple[int, int], float],
) -> np.ndarray:
    """An x as of `_shortest_springs`, by a bounded number of moves of one coordinate each.

    It starts as far left as the distances admit. A move takes a coordinate to the mean of those at
    the other ends of its springs, or as near to it as the distances admit.
    """
    before: list[list[int]] = [[] for _ in range(num)]
    after: list[list[int]] = [[] for _ in range(num)]
    for i, j in distances:
        before[j].append(i)
        after[i].append(j)
    ends: list[list[int]] = [[] for _ in range(num)]
    weights: list[list[float]] = [[] for _ in range(num)]
    for i, j, weight in springs:
        for a, b in ((i, j), (j, i)):
            ends[a].append(b)
            weights[a].append(weight)
    x = np.zeros(num)
    order = [*graphlib.TopologicalSorter(dict(enumerate(before))).static_order()]
    for j in order:
        x[j] = max((x[i] + distances[i, j] for i in before[j]), default=0.0)
    for _ in range(_NUM_TURNS):
        order.reverse()  # first from the right, where there is room
        for i in order:
            if ends[i]:
                low = max((x[k] + distances[k, i] for k in before[i]), default=-np.inf)
                high = min((x[k] - distances[i, k] for k in after[i]), default=np.inf)
                x[i] = max(low, min(high, np.average(x[ends[i]], weights=weights[i])))
    return x


def _find_rows(
    layers: Layers, extents: Mapping[str, Extent], x: Sequence[float]
) -> tuple[list[float], list[Point], dict[Hashable, tuple[float, float]]]:
    """The y of each rank, where it begins and ends, and the top and the bottom of each plate."""
    num_ranks = len(layers.order)
    up = np.zeros(num_ranks)
    down = np.zeros(num_ranks)
    around: dict[Hashable, Plates] = {}
    for vertex in layers.vertices:
        if vertex.kind == "node":
            up[vertex.rank] = max(up[vertex.rank], extents[vertex.label].up)
            down[vertex.rank] = max(down[vertex.rank], extents[vertex.label].down)
        for depth, plate in enumerate(vertex.plates):
            around[plate] = vertex.plates[:depth]
    heads = dict.fromkeys(layers.spans, _FRAME_PAD)
    feet = dict.fromkeys(layers.spans, _FRAME_FOOT)
    for plate in sorted(around, key=lambda plate: -len(around[plate])):
        for outer in around[plate][-1:]:
            if layers.spans[outer][0] == layers.spans[plate][0]:
                heads[outer] = max(heads[outer], heads[plate] + _FRAME_PAD)
            if layers.spans[outer][1] == layers.spans[plate][1]:
                feet[outer] = max(feet[outer], feet[plate] + _FRAME_FOOT)
    head = np.zeros(num_ranks)
    foot = np.zeros(num_ranks)
    for plate, (low, high) in layers.spans.items():
        head[low] = max(head[low], heads[plate])
        foot[high] = max(foot[high], feet[plate])
    gaps = np.full(num_ranks, _RANK_GAP)
    for chain in layers.chains.values():
        for i, j in itertools.pairwise(chain):
            rank = layers.vertices[j].rank
            wanted = min(_MAX_RANK_GAP, _STEEPNESS * abs(x[i] - x[j]))
            gaps[rank] = max(gaps[rank], wanted)
    y = [float(up[0])]
    for rank in range(1, num_ranks):
        room = down[rank - 1] + foot[rank - 1] + gaps[rank] + head[rank] + up[rank]
        y.append(y[-1] + float(room))
    bands = [
        (float(at - above), float(at + below)) for at, above, below in zip(y, up, down, strict=True)
    ]
    heights = {
        plate: (bands[low][0] - heads[plate], bands[high][1] + feet[plate])
        for plate, (low, high) in layers.spans.items()
    }
    return y, bands, heights
