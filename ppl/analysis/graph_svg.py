"""Dependence graphs as SVG, without other programs."""

import dataclasses
import html
import math
from collections.abc import Mapping, Sequence

import numpy as np

from ppl.analysis.graph_curves import (
    Curve,
    Obstacles,
    Rectangle,
    Shape,
    carried_curve,
    direct_curve,
    loop_room,
    quick_curve,
    sample_curve,
)
from ppl.analysis.graph_layout import Extent, Layout, Point, lay_out
from ppl.analysis.plates import Plate
from ppl.common.text_width import text_width
from ppl.primitives.site_kinds import DETERMINISTIC, FACTOR, LATENT, OBSERVED, SUMMED

_FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
_INK = "#24292f"
_FAINT = "#57606a"
_PAPER = "#ffffff"
_SIZES = (13.0, 11.0, 9.5)  # of a site's name, family and shape
_LEADING = 1.25  # height of a line, in sizes of its font
_FRAME_SIZE = 10.5
_MAX_CHARS = (44, 36, 36)
_MARGIN = 14.0
_SQUARE = 6.0
_DOUBLE = 3.0  # between the lines of a double line
_MIN_RADIUS = 26.0
_ARROW = 8.0
_FRAME_COST = 0.02  # of a point of an edge in a foreign plate, in points in a node
_WORD_COST = 0.05
_STYLES = {
    LATENT: f'fill="{_PAPER}"',
    SUMMED: f'fill="{_PAPER}" stroke-dasharray="5 3"',
    OBSERVED: 'fill="#d0d7de"',
    DETERMINISTIC: f'fill="{_PAPER}"',
    FACTOR: f'fill="{_INK}"',
}


@dataclasses.dataclass(frozen=True)
class DrawnSite:
    """Kind, words and plates of a site in a picture.

    Attributes:
        kind: The kind of the site.
        lines: Its name, its family and the shape of its value; '' for what it has not.
        title: The text that appears where the pointer rests.
        plates: The plates around it, outermost first.
    """

    kind: str
    lines: tuple[str, str, str]
    title: str
    plates: tuple[Plate, ...]


@dataclasses.dataclass(frozen=True)
class _Edge:
    """An edge with its curve, and whether it goes to a later step of a scan."""

    parent: str
    child: str
    curve: Curve
    is_later: bool


@dataclasses.dataclass(frozen=True)
class _Line:
    """A line of text in a node; top and bottom count from the middle of the node."""

    text: str
    size: float
    ink: str
    top: float
    bottom: float

    @property
    def width(self) -> float:
        return text_width(self.text, self.size)


def svg(
    sites: Mapping[str, DrawnSite],
    plate_names: Mapping[Plate, str],
    direct: Sequence[tuple[str, str]],
    carried: Sequence[tuple[str, str]],
) -> str:
    """SVG of a dependence graph.

    Args:
        sites: The sites by name, in program order.
        plate_names: The text in the corner of each plate.
        direct: The edges (parent, child) within one step.
        carried: The edges (parent, child) to a later step of a scan.
    """
    loops = {a for a, b in carried if a == b}
    lines = {name: _lines(site) for name, site in sites.items()}
    radii = {name: _radii(site.kind, lines[name]) for name, site in sites.items()}
    extents = {
        name: _extent(site, lines[name], radii[name], name in loops) for name, site in sites.items()
    }
    labels = {plate: text_width(name, _FRAME_SIZE) for plate, name in plate_names.items()}
    layout = lay_out(
        extents,
        {name: site.plates for name, site in sites.items()},
        {plate: width + 24 for plate, width in labels.items()},
        direct,
        carried,
    )
    shapes = {
        name: Shape(layout.centers[name], radii[name], site.kind == FACTOR)
        for name, site in sites.items()
    }
    words = [_corner(layout.frames[plate], width) for plate, width in labels.items()]
    words += [_factor_name(shapes[n], lines[n]) for n, s in sites.items() if s.kind == FACTOR]
    edges = _curves(sites, shapes, layout, words, direct, carried)
    parts = []
    for plate, name in plate_names.items():
        frame = layout.frames[plate]
        is_right = layout.is_large or _is_right(frame, labels[plate], edges)
        parts.append(_frame(name, frame, is_right))
    parts += [_edge(edge, arrow=sites[edge.child].kind != FACTOR) for edge in edges]
    parts += [_node(site, shapes[name], lines[name]) for name, site in sites.items()]
    ends = _bounds(layout, extents, edges)
    return _document(parts, ends, f"Graph of a model with {len(sites)} sites")


def _lines(site: DrawnSite) -> list[_Line]:
    """The lines of text in a node, one below the other, centered at zero."""
    texts = zip(site.lines, _SIZES, _MAX_CHARS, (_INK, _INK, _FAINT), strict=True)
    shown = [text for text in texts if text[0]]
    bottom = -sum(size for _, size, _, _ in shown) * _LEADING / 2
    lines = []
    for text, size, most, ink in shown:
        clipped = text if len(text) <= most else f"{text[: most - 1]}…"
        top = bottom
        bottom += size * _LEADING
        lines.append(_Line(clipped, size, ink, top, bottom))
    return lines


def _radii(kind: str, lines: Sequence[_Line]) -> Point:
    """Half the axes of an ellipse that holds lines of text."""
    if kind == FACTOR:
        return (_SQUARE, _SQUARE)
    inset = _DOUBLE if kind == DETERMINISTIC else 0.0
    tall = 1.44 * lines[-1].bottom + 3
    wide = max(tall, _MIN_RADIUS)
    for line in lines:
        reach = max(abs(line.top), abs(line.bottom)) / tall
        wide = max(wide, (line.width / 2 + 3) / math.sqrt(1 - reach**2))
    return (wide + inset, tall + inset)


def _extent(site: DrawnSite, lines: Sequence[_Line], radii: Point, loop: bool) -> Extent:
    right = radii[0] + loop_room() * loop
    if site.kind == FACTOR:
        right = radii[0] + 5 + lines[0].width
    return Extent(radii[0], right, radii[1], radii[1])


def _curves(
    sites: Mapping[str, DrawnSite],
    shapes: Mapping[str, Shape],
    layout: Layout,
    words: Sequence[Rectangle],
    direct: Sequence[tuple[str, str]],
    carried: Sequence[tuple[str, str]],
) -> list[_Edge]:
    """The edges with their curves, past other nodes, other plates and words if possible."""
    if layout.is_large:
        return _quick_curves(shapes, direct, carried)
    found = []
    for edges, later in ((direct, False), (carried, True)):
        for a, b in edges:
            nodes = [shape for name, shape in shapes.items() if name not in (a, b)]
            own = {*sites[a].plates, *sites[b].plates}
            frames = [frame for plate, frame in layout.frames.items() if plate not in own]
            costs = [_FRAME_COST] * len(frames) + [_WORD_COST] * len(words)
            obstacles = Obstacles(nodes, [*frames, *words], costs)
            if later:
                curve = carried_curve(shapes[a], shapes[b], obstacles)
            else:
                bends = layout.bends[a, b]
                curve = direct_curve(shapes[a], shapes[b], bends, obstacles)
            found.append(_Edge(a, b, curve, later))
    return found


def _quick_curves(
    shapes: Mapping[str, Shape],
    direct: Sequence[tuple[str, str]],
    carried: Sequence[tuple[str, str]],
) -> list[_Edge]:
    """The edges of a large graph, whose curves do not look at what they cross."""
    heights = sorted({shape.center[1] for shape in shapes.values()})
    ranks = {name: heights.index(shape.center[1]) for name, shape in shapes.items()}
    found = []
    for edges, later in ((direct, False), (carried, True)):
        for a, b in edges:
            num_ranks = 0 if later else ranks[b] - ranks[a]
            found.append(_Edge(a, b, quick_curve(shapes[a], shapes[b], num_ranks), later))
    return found


def _factor_name(shape: Shape, lines: Sequence[_Line]) -> Rectangle:
    """The rectangle of the name beside a factor."""
    x, y = shape.center
    return (x, y - 9, x + _SQUARE + 5 + lines[0].width, y + 9)


def _corner(frame: Rectangle, width: float, right: bool = True) -> Rectangle:
    """The rectangle of the label of a plate, in its lower right or its lower left corner."""
    start, _, end, bottom = frame
    near, far = (end - width - 12, end - 6) if right else (start + 6, start + width + 12)
    return (near, bottom - 20, far, bottom - 3)


def _is_right(frame: Rectangle, width: float, edges: Sequence[_Edge]) -> bool:
    """Whether the label of a plate stays in its lower right corner, free of edges or not."""
    costs = []
    for right in (True, False):
        corner = Obstacles([], [_corner(frame, width, right)], [1.0])
        costs.append(sum(corner.cost(edge.curve) for edge in edges))
    return costs[0] <= costs[1]


def _bounds(layout: Layout, extents: Mapping[str, Extent], edges: Sequence[_Edge]) -> Rectangle:
    """The rectangle around all that is drawn."""
    rectangles = [*layout.frames.values()]
    for name, (x, y) in layout.centers.items():
        room = extents[name]
        rectangles.append((x - room.left, y - room.up, x + room.right, y + room.down))
    for edge in edges:
        points = np.array(edge.curve) if layout.is_large else sample_curve(edge.curve)
        rectangles.append((*points.min(0), *points.max(0)))
    if not rectangles:
        return (0.0, 0.0, 1.0, 1.0)
    ends = np.array(rectangles)
    return (*ends[:, :2].min(0), *ends[:, 2:].max(0))


def _document(parts: Sequence[str], ends: Rectangle, label: str) -> str:
    left, top = (math.floor(end - _MARGIN) for end in ends[:2])
    width = math.ceil(ends[2] + _MARGIN) - left
    height = math.ceil(ends[3] + _MARGIN) - top
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="{left} {top} {width} {height}" role="img" aria-label="{_escape(label)}" '
        f'font-family="{_FONT}" text-anchor="middle" style="max-width:100%">',
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="8" fill="{_PAPER}"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _frame(name: str, ends: Rectangle, right: bool) -> str:
    x0, y0, x1, y1 = ends
    x = x1 - 9 if right else x0 + 9
    return (
        f'<g class="plate"><title>{_escape(name)}</title>'
        f'<rect x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}" rx="8" '
        f'fill="#0b3d6b" fill-opacity="0.035" stroke="#8c959f"/>'
        f'<text x="{x:.1f}" y="{y1 - 8:.1f}" font-size="{_FRAME_SIZE}" '
        f'text-anchor="{"end" if right else "start"}" fill="{_FAINT}">{_escape(name)}</text></g>'
    )


def _edge(edge: _Edge, arrow: bool) -> str:
    tip = edge.curve[-1]
    points = sample_curve(edge.curve[-4:], 33)
    back = next((p for p in points[::-1] if math.dist(p, tip) >= _ARROW), points[0])
    angle = math.atan2(tip[1] - back[1], tip[0] - back[0])
    start, *rest = [f"{x:.1f} {y:.1f}" for x, y in edge.curve]
    dashes = ' stroke-dasharray="5 3"' if edge.is_later else ""
    path = f'<path d="M{start} C{" ".join(rest)}" fill="none" stroke="{_INK}"{dashes}/>'
    words = f"{'previous ' * edge.is_later}{edge.parent} → {edge.child}"
    head = _arrowhead(tip, angle) if arrow else ""
    return f'<g class="edge"><title>{_escape(words)}</title>{path}{head}</g>'


def _arrowhead(tip: Point, angle: float) -> str:
    corners = [tip]
    for side in (-1, 1):
        turn = angle + math.pi + side * 0.38
        corners.append((tip[0] + _ARROW * math.cos(turn), tip[1] + _ARROW * math.sin(turn)))
    return f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)}" fill="{_INK}"/>'


def _node(site: DrawnSite, shape: Shape, lines: Sequence[_Line]) -> str:
    x, y = shape.center
    rx, ry = shape.radii
    style = _STYLES[site.kind]
    parts = [f'<g class="node"><title>{_escape(site.title)}</title>']
    if shape.square:
        parts.append(
            f'<rect x="{x - rx:.1f}" y="{y - ry:.1f}" width="{2 * rx}" height="{2 * ry}" {style}/>'
            f'<text x="{x + rx + 5:.1f}" y="{y + 4.5:.1f}" font-size="{_SIZES[0]}" '
            f'text-anchor="start" fill="{_INK}">{_escape(lines[0].text)}</text>'
        )
        return "".join([*parts, "</g>"])
    insets = (0.0, _DOUBLE) if site.kind == DETERMINISTIC else (0.0,)
    for inset in insets:
        parts.append(
            f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{rx - inset:.1f}" ry="{ry - inset:.1f}" '
            f'{style} stroke="{_INK}"/>'
        )
    for line in lines:
        baseline = y + line.bottom - 0.3 * line.size
        parts.append(
            f'<text x="{x:.1f}" y="{baseline:.1f}" font-size="{line.size:g}" '
            f'fill="{line.ink}">{_escape(line.text)}</text>'
        )
    return "".join([*parts, "</g>"])


def _escape(text: str) -> str:
    """Text for XML, in which most control characters may not stand at all."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text)
    return html.escape(shown)
