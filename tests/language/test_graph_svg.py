"""Pictures of graphs: where nodes, frames, edges and words are, read from the SVG itself."""

import collections
import dataclasses
import functools
import math
import pathlib
import random
import re
import runpy
import sys
import xml.etree.ElementTree as ET
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from jax.random import split
from matplotlib.font_manager import findfont, get_font

import distributions as dist
import ppl
from ppl.analysis import graph_layers
from ppl.analysis.plates import Plate
from ppl.transforms.graph import Graph, Node

DOCS = pathlib.Path(__file__).parents[2] / "docs"
KINDS = ("latent", "latent", "observed", "deterministic", "factor", "summed")
FONT = get_font(findfont("DejaVu Sans"))  # wider than most


def tag(element):
    return element.tag.partition("}")[2]


def numbers(element, *names):
    return [float(element.get(name)) for name in names]


@dataclasses.dataclass
class Picture:
    """What is drawn: nodes by name, edges by title, and frames."""

    view: tuple[float, ...]
    nodes: dict
    frames: list
    edges: dict

    @classmethod
    def of(cls, svg):
        root = ET.fromstring(svg)
        groups: dict[Any, list] = {"node": [], "plate": [], "edge": []}
        for group in root:
            if tag(group) == "g":
                title, *rest = group
                groups[group.get("class")].append((title.text, rest))
        nodes = {str(title).split("  ")[0]: parts for title, parts in groups["node"]}
        frames = [parts for _, parts in groups["plate"]]
        x, y, width, height = map(float, root.get("viewBox", "").split())
        assert (root.get("role"), bool(root.get("aria-label"))) == ("img", True)
        return cls((x, y, x + width, y + height), nodes, frames, dict(groups["edge"]))

    def box(self, name):
        """The rectangle of a node: its outer ellipse, or its square."""
        shape = self.nodes[name][0]
        if tag(shape) == "rect":
            return rectangle(shape)
        x, y, rx, ry = numbers(shape, "cx", "cy", "rx", "ry")
        return (x - rx, y - ry, x + rx, y + ry)

    def border_distance(self, name, point):
        """How far a point is from a node's border, in the node's radii."""
        left, top, right, bottom = self.box(name)
        away = (
            (2 * point[0] - left - right) / (right - left),
            (2 * point[1] - top - bottom) / (bottom - top),
        )
        is_square = tag(self.nodes[name][0]) == "rect"
        return abs((max(map(abs, away)) if is_square else math.hypot(*away)) - 1)


def rectangle(element):
    x, y, width, height = numbers(element, "x", "y", "width", "height")
    return (x, y, x + width, y + height)


@functools.cache
def advance(char):
    """The width of a character, in the sizes of the font."""
    FONT.set_size(100, 72)
    return FONT.load_char(ord(char)).linearHoriAdvance / 65536 / 100


def text_box(element):
    """The rectangle that a text takes in a real font."""
    x, y = numbers(element, "x", "y")
    size = float(element.get("font-size"))
    width = size * sum(map(advance, element.text))
    start = x - width * {"start": 0, None: 0.5, "end": 1}[element.get("text-anchor")]
    return (start, y - 0.75 * size, start + width, y + 0.2 * size)


def is_inside(inner, outer, slack=0.2):
    return all(a >= b - slack for a, b in zip(inner[:2], outer[:2], strict=True)) and all(
        a <= b + slack for a, b in zip(inner[2:], outer[2:], strict=True)
    )


def is_apart(a, b):
    return a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def is_in_ellipse(box, ellipse):
    cx, cy, rx, ry = numbers(ellipse, "cx", "cy", "rx", "ry")
    corners = [(x, y) for x in box[::2] for y in box[1::2]]
    return all(math.hypot((x - cx) / rx, (y - cy) / ry) <= 1 for x, y in corners)


def is_clear(controls, shape):
    """Whether Bezier curves stay outside of an ellipse; squares are too small to look at."""
    if tag(shape) == "rect":
        return True
    x, y, rx, ry = numbers(shape, "cx", "cy", "rx", "ry")
    t = np.linspace(0.0, 1.0, 50)[:, None]
    for a, b, c, d in (controls[i : i + 4] for i in range(0, len(controls) - 1, 3)):
        points = (1 - t) ** 3 * a + 3 * t * (1 - t) ** 2 * b + 3 * t**2 * (1 - t) * c + t**3 * d
        if (np.hypot(*((points - (x, y)) / (rx, ry)).T) < 1).any():
            return False
    return True


def check(graph):
    """All that a picture promises."""
    check_edges(graph, *check_nodes(graph))


def check_nodes(graph):
    """All that a picture promises but for its edges."""
    picture = Picture.of(graph.to_svg())
    assert [*picture.nodes] == [*graph.nodes]
    boxes = {name: picture.box(name) for name in graph.nodes}
    names = [*boxes]
    for i, a in enumerate(names):
        assert is_inside(boxes[a], picture.view)
        assert all(is_apart(boxes[a], boxes[b]) for b in names[:i])
    check_frames(graph, picture, boxes)
    check_words(graph, picture, boxes)
    return picture, boxes


def check_frames(graph, picture, boxes):
    plates = list(dict.fromkeys(p for node in graph.nodes.values() for p in node.plates))
    rectangles = [rectangle(parts[0]) for parts in picture.frames]
    frames = dict(zip(plates, rectangles, strict=True))
    assert len(frames) == len(plates) == len(picture.frames)
    around = {
        p: node.plates[:i] for node in graph.nodes.values() for i, p in enumerate(node.plates)
    }
    for plate, frame in frames.items():
        assert is_inside(frame, picture.view)
        for name, node in graph.nodes.items():
            related = is_inside if plate in node.plates else is_apart
            assert related(boxes[name], frame), (name, plate)
        for other in frames:
            if other in around[plate]:
                assert is_inside(frame, frames[other])
            elif plate != other and plate not in around[other]:
                assert is_apart(frame, frames[other])


def check_words(graph, picture, boxes):
    for _, label in picture.frames:
        assert all(is_apart(text_box(label), box) for box in boxes.values())
    for name, (shape, *rest) in picture.nodes.items():
        texts = [part for part in rest if tag(part) == "text"]
        others = [box for other, box in boxes.items() if other != name]
        for text in texts:
            if graph.nodes[name].kind == "factor":
                assert all(is_apart(text_box(text), box) for box in others)
            else:
                assert is_in_ellipse(text_box(text), shape), text.text


def check_edges(graph, picture, boxes):
    titles = [f"{a} → {b}" for a, b in graph.direct]
    titles += [f"previous {a} → {b}" for a, b in graph.carried]
    assert [*picture.edges] == titles
    for i, (a, b) in enumerate([*graph.direct, *graph.carried]):
        path, *head = picture.edges[titles[i]]
        points = np.array([float(x) for x in re.findall(r"[-\d.]+", path.get("d"))]).reshape(-1, 2)
        assert picture.border_distance(a, points[0]) < 0.05
        assert picture.border_distance(b, points[-1]) < 0.05
        assert bool(path.get("stroke-dasharray")) == (i >= len(graph.direct))
        assert bool(head) == (graph.nodes[b].kind != "factor")
        if i < len(graph.direct):
            others = [name for name in boxes if name not in (a, b)]
            assert all(is_clear(points, picture.nodes[name][0]) for name in others)
            assert points[0, 1] < points[-1, 1]
            assert boxes[a][3] < boxes[b][1]


def random_graph(seed):
    """A graph of up to 30 sites in nested plates; edges follow the program, carried ones do not."""
    rng = random.Random(seed)
    plates: list[tuple[Plate, ...]] = [()]
    for number in range(rng.randrange(6)):
        name = rng.choice([None, "axis"])
        kind = rng.choice(["vmap", "scan", "shards"])
        plates.append((*rng.choice(plates), Plate(kind, rng.randrange(1, 2000), number, name)))
    nodes = {}
    for i in range(rng.randrange(1, 30)):
        kind = rng.choice(KINDS)
        name = "".join(rng.choices("iWx_µ<&\"'>", k=rng.randrange(1, 12))) + str(i)
        around = rng.choice(plates)
        value = jax.ShapeDtypeStruct([plate.size for plate in around], jnp.float32)
        family = rng.choice(["Normal", "MultivariateNormal | StudentT"])
        family = family if kind in ("latent", "observed", "summed") else ""
        nodes[name] = Node(kind, family, value, around)
    names = [*nodes]
    pairs = [(a, b) for i, b in enumerate(names) for a in names[:i] if nodes[a].kind != "factor"]
    direct = [pair for pair in pairs if rng.random() < 2 / len(names)]
    carried = {(rng.choice(names), rng.choice(names)) for _ in range(rng.randrange(4))}
    return Graph(nodes, tuple(direct), tuple(sorted(carried)))


@pytest.mark.quick_rows("3")
@pytest.mark.parametrize("seed", range(16))
def test_pictures_of_random_graphs(seed):
    check(random_graph(seed))


def complete_graph(num):
    value = jax.ShapeDtypeStruct((), float)
    names = [f"x{i}" for i in range(num)]
    pairs = tuple((a, b) for i, b in enumerate(names) for a in names[:i])
    return Graph({name: Node("latent", "Normal", value, ()) for name in names}, pairs)


def test_a_complete_graph_is_drawn_in_bounded_work(monkeypatch):
    """Few calls of functions, and no large system of equations."""
    num_calls = 0

    def count(frame, event, arg):
        nonlocal num_calls
        num_calls += event == "call"
        assert num_calls < 100_000

    def record(system, *args, **kwargs):
        assert system.size < 500_000
        return solve(system, *args, **kwargs)

    solve = scipy.optimize.nnls
    monkeypatch.setattr(scipy.optimize, "nnls", record)
    graph = complete_graph(40)
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        svg = graph.to_svg()
    finally:
        sys.setprofile(before)
    assert svg == graph.to_svg()
    picture, boxes = check_nodes(graph)
    for (a, b), (path, _) in zip(graph.direct, picture.edges.values(), strict=True):
        points = np.array(re.findall(r"[-\d.]+", path.get("d")), float).reshape(-1, 2)
        assert picture.border_distance(a, points[0]) < 0.05
        assert picture.border_distance(b, points[-1]) < 0.05
        assert boxes[a][3] < boxes[b][1]


@pytest.mark.quick_rows("3")
@pytest.mark.parametrize("seed", range(6))
def test_large_graphs_keep_nodes_apart_and_in_frames(monkeypatch, seed):
    monkeypatch.setattr(graph_layers, "_MAX_SEGMENTS", 0)
    check_nodes(random_graph(seed))


@pytest.mark.quick_rows("3")
@pytest.mark.parametrize("seed", range(6))
def test_a_picture_does_not_need_its_solvers(monkeypatch, seed):
    def fail(*args, **kwargs):
        raise RuntimeError("Maximum number of iterations reached.")

    def find_nothing(*args, **kwargs):
        return scipy.optimize.OptimizeResult(x=None, status=4)

    monkeypatch.setattr(scipy.optimize, "nnls", fail)
    check(random_graph(seed))
    monkeypatch.setattr(scipy.optimize, "linprog", find_nothing)
    check(random_graph(seed))


def test_notebooks_show_large_graphs_as_a_table():
    bundle = complete_graph(46)._repr_mimebundle_()
    assert bundle.keys() == {"text/plain", "text/html"}
    assert bundle["text/html"].startswith("<table>")
    assert "image/svg+xml" in complete_graph(44)._repr_mimebundle_()


def teams(key):
    sd = ppl.sample(key, dist.HalfNormal(1.0), name="sd")
    attack = jax.vmap(lambda key: ppl.sample(key, dist.Normal(0.0, sd), name="attack"))(
        split(key, 6)
    )
    ppl.sample(key, dist.Poisson(jnp.exp(attack)), name="points")


def test_words_are_names_families_and_labeled_shapes():
    graph = ppl.graph(ppl.label(teams, {"attack": "team"}))()
    check(graph)
    picture = Picture.of(graph.to_svg())
    words = [part.text for part in picture.nodes["attack"] if tag(part) == "text"]
    assert words == ["attack", "~ Normal", "float32[team: 6]"]
    ((frame, label),) = picture.frames
    assert label.text == "team, 6"
    left, _, right, bottom = rectangle(frame)
    assert is_inside(text_box(label), ((left + right) / 2, 0, right, bottom))


def test_few_edges_cross():
    """The order of two rows of a ladder is free of crossings, though the program mixes it up."""
    nodes = {
        name: Node("latent", "Normal", jax.ShapeDtypeStruct((), float), ()) for name in "abcdefgh"
    }
    graph = Graph(nodes, (("a", "h"), ("b", "g"), ("c", "f"), ("d", "e"), ("a", "g"), ("c", "e")))
    picture = Picture.of(graph.to_svg())
    middle = {name: sum(picture.box(name)[::2]) for name in nodes}
    for a, b in graph.direct:
        for c, d in graph.direct:
            assert (middle[a] - middle[c]) * (middle[b] - middle[d]) >= -1e-9


def test_many_parents_of_one_site_take_several_rows():
    value = jax.ShapeDtypeStruct((), float)
    nodes = {f"slope_{i}": Node("latent", "Normal", value, ()) for i in range(13)}
    nodes["y"] = Node("observed", "Normal", value, ())
    graph = Graph(nodes, tuple((name, "y") for name in nodes if name != "y"))
    check(graph)
    picture = Picture.of(graph.to_svg())
    rows = collections.Counter(picture.box(name)[1] for name in nodes)
    assert sorted(rows.values()) == [1, 6, 7]


def test_notebooks_and_files_have_the_picture(tmp_path):
    graph = ppl.graph(teams)()
    svg = graph.to_svg(tmp_path / "teams.svg")
    assert (tmp_path / "teams.svg").read_text(encoding="utf-8") == svg
    bundle = graph._repr_mimebundle_()
    assert (bundle["text/plain"], bundle["image/svg+xml"]) == (str(graph), svg)
    assert bundle["text/html"].startswith(f"{svg}<table>")
    with pytest.raises(FileNotFoundError, match=r"to_svg: '.*no/x.svg' cannot be written: No such"):
        graph.to_svg(tmp_path / "no" / "x.svg")
    with pytest.raises(ValueError, match=r"^to_svg: '.*x.png' .* SVG .* '.*x.svg', or"):
        graph.to_svg(tmp_path / "x.png")
    assert {x.name for x in tmp_path.iterdir()} == {"teams.svg"}


def test_pictures_of_the_docs_are_up_to_date():
    """All but the numbers, which may differ in their last digit from machine to machine."""
    script = runpy.run_path(str(DOCS / "_site" / "graph_pictures.py"))
    for name, graph in script["graphs"]().items():
        drawn = (DOCS / name).read_text(encoding="utf-8")
        assert re.sub(r"-?[\d.]+", "", graph.to_svg()) == re.sub(r"-?[\d.]+", "", drawn), name


def test_a_model_without_sites_has_an_empty_picture():
    assert Picture.of(ppl.graph(lambda key: 0)().to_svg()).nodes == {}
