"""Curves of the edges of a drawn graph: from border to border, past other nodes."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

Point = tuple[float, float]
Rectangle = tuple[float, float, float, float]  # left, top, right, bottom
Curve = tuple[Point, ...]  # cubic Bezier curves joined at every third point

_CLEARANCE = 5.0
_BULGES = (28.0, 50.0, 80.0, 120.0, 180.0)
_FLATNESS = 0.2  # how far an arc goes sideways, by its length
_LOOP = 24.0


@dataclasses.dataclass(frozen=True)
class Shape:
    """An ellipse or a square, with half its width and half its height."""

    center: Point
    radii: Point
    square: bool = False

    def border(self, toward: Point) -> Point:
        """The point of the border on the line from the center to another point."""
        x, y = self.center
        dx = toward[0] - x
        dy = toward[1] - y
        parts = (dx / self.radii[0], dy / self.radii[1])
        far = max(map(abs, parts)) if self.square else math.hypot(*parts)
        return self.center if far == 0 else (x + dx / far, y + dy / far)


@dataclasses.dataclass(frozen=True)
class Obstacles:
    """Parts of a picture that edges should not cross.

    Attributes:
        nodes: Ellipses or squares.
        rectangles: Other parts of the picture.
        costs: The cost of a point of an edge in each rectangle; in a node it is 1.
    """

    nodes: Sequence[Shape]
    rectangles: Sequence[Rectangle]
    costs: Sequence[float]

    def cost(self, curve: Curve) -> float:
        """The number of points of a curve that are in obstacles, by their costs."""
        points = sample_curve(curve)[:, None]
        total = 0.0
        if self.nodes:
            centers = np.array([node.center for node in self.nodes])
            radii = np.array([node.radii for node in self.nodes]) + _CLEARANCE
            total += (np.square((points - centers) / radii).sum(-1) < 1).sum()
        if self.rectangles:
            ends = np.array(self.rectangles)
            inside = (points > ends[:, :2]).all(-1) & (points < ends[:, 2:]).all(-1)
            total += inside.sum(0) @ np.array(self.costs)
        return float(total)


def direct_curve(
    start: Shape,
    end: Shape,
    bends: Sequence[tuple[float, float, float]],
    obstacles: Obstacles,
) -> Curve:
    """A straight line if it is free, else a smooth curve through the bends, else a steeper one.

    Args:
        start: The parent.
        end: The child, below the parent.
        bends: For each rank between them a free x, and the y where the rank begins and ends.
        obstacles: All that should not be crossed.
    """
    middles = [(x, (top + bottom) / 2) for x, top, bottom in bends]
    ends = [(x, y) for x, *band in bends for y in band]
    candidates = [_straight(start, end), _through(start, end, middles), _through(start, end, ends)]
    costs = [obstacles.cost(curve) for curve in candidates]
    return candidates[int(np.argmin(costs))]


def carried_curve(start: Shape, end: Shape, obstacles: Obstacles) -> Curve:
    """An arc to either side, as flat as other nodes admit; or a loop from a node to itself."""
    if start == end:
        return _loop(start)
    arcs = [_arc(start, end, side * bulge) for bulge in _BULGES for side in (-1, 1)]
    costs = [0.002 * i + obstacles.cost(arc) for i, arc in enumerate(arcs)]
    return arcs[int(np.argmin(costs))]


def quick_curve(start: Shape, end: Shape, num_ranks: int) -> Curve:
    """A curve that is not compared with others: it may cross other parts of the picture.

    Args:
        start: The parent.
        end: The child.
        num_ranks: How many ranks below the parent it is. Edges to the next rank are straight, and
            others are arcs, so that edges between nodes in one column do not hide each other.
    """
    if start == end:
        return _loop(start)
    if num_ranks == 1:
        return _straight(start, end)
    side = 1 if num_ranks % 2 else -1
    return _arc(start, end, side * _FLATNESS * math.dist(start.center, end.center))


def loop_room() -> float:
    """The room that a loop takes beside its node."""
    return _LOOP


def sample_curve(curve: Curve, num: int = 24) -> np.ndarray:
    """Points along a curve, (number, 2)."""
    t = np.linspace(0.0, 1.0, num)[:, None]
    parts = []
    for at in range(0, len(curve) - 1, 3):
        a, b, c, d = (np.array(point) for point in curve[at : at + 4])
        parts.append((1 - t) ** 3 * a + 3 * t * (1 - t) * ((1 - t) * b + t * c) + t**3 * d)
    return np.concatenate(parts)


def _straight(start: Shape, end: Shape) -> Curve:
    a = start.border(end.center)
    b = end.border(start.center)
    return (a, _between(a, b, 1 / 3), _between(a, b, 2 / 3), b)


def _through(start: Shape, end: Shape, bends: Sequence[Point]) -> Curve:
    """A smooth curve that leaves downward, passes the bends vertically and arrives from above."""
    first = bends[0] if bends else end.center
    last = bends[-1] if bends else start.center
    points = [_side(start, first, 1), *bends, _side(end, last, -1)]
    return tuple(_joined(points))


def _side(shape: Shape, toward: Point, direction: int) -> Point:
    """A point of the lower (1) or upper (-1) border, somewhat nearer to another point."""
    x, y = shape.center
    part = 0.6 * math.tanh((toward[0] - x) / 150)
    height = 1.0 if shape.square else math.sqrt(1 - part**2)
    return (x + part * shape.radii[0], y + direction * height * shape.radii[1])


def _joined(points: Sequence[Point]) -> Iterator[Point]:
    yield points[0]
    for (ax, ay), (bx, by) in itertools.pairwise(points):
        half = (by - ay) / 2
        yield from ((ax, ay + half), (bx, by - half), (bx, by))


def _arc(start: Shape, end: Shape, bulge: float) -> Curve:
    (ax, ay), (bx, by) = start.center, end.center
    length = math.hypot(bx - ax, by - ay)
    nx = -(by - ay) / length * bulge * 4 / 3
    ny = (bx - ax) / length * bulge * 4 / 3
    ends = []
    for t in (0.25, 0.75):
        x, y = _between(start.center, end.center, t)
        ends.append((x + nx, y + ny))
    a = start.border(ends[0])
    b = end.border(ends[1])
    return (a, ends[0], ends[1], b)


def _loop(shape: Shape) -> Curve:
    x, y = shape.center
    a = shape.border((x + shape.radii[0], y - 0.7 * shape.radii[1]))
    b = shape.border((x + shape.radii[0], y + 0.7 * shape.radii[1]))
    reach = x + shape.radii[0] + _LOOP * 1.2
    return (a, (reach, a[1] - 14), (reach, b[1] + 14), b)


def _between(a: Point, b: Point, t: float) -> Point:
    return (a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1]))
