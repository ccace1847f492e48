"""graph: the dependence graph of a model, whose nodes are its sites."""

import dataclasses
import pathlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import jax

from ppl.analysis.dependence import find_ancestors
from ppl.analysis.graph_svg import DrawnSite, svg
from ppl.analysis.graphviz import dot
from ppl.analysis.plates import Plate, find_plates, plate_label
from ppl.analysis.summed_sites import GraphSite, find_with_summed
from ppl.common.analysis_call import AnalysisCall
from ppl.common.file_suffix import check_suffix
from ppl.common.text_table import html_table, table
from ppl.core.model_pytree import Model, name_of
from ppl.core.model_run import ModelRun, trace_model
from ppl.harvest.names import suggest_names
from ppl.harvest.survey import Path, join_scopes
from ppl.transforms.label import Dimension, labels_of, show_labeled
from ppl.transforms.trace import Inspect

Edge = tuple[str, str]

_MAX_SITES_SHOWN = 200  # and the most edges, of a picture that a notebook shows without being asked
_MAX_EDGES_SHOWN = 1000


@dataclasses.dataclass(frozen=True)
class Node:
    """A site of a model.

    Attributes:
        kind: "latent", "observed", "deterministic", "factor", or "summed" for a site that
            `marginalize` has taken out.
        family: The name of its distribution, or the names of its distributions in the branches of a
            `cond`; '' for a deterministic site or a factor.
        value: The shape and dtype of its value, a `jax.ShapeDtypeStruct` or a pytree of such
            structs, with the axes of its plates in front.
        plates: The plates around it, outermost first.
        labels: For each axis of the value None, or the name of the dimension with the names of its
            entries; see :func:`ppl.label`.
    """

    kind: str
    family: str
    value: Any
    plates: tuple[Plate, ...]
    labels: tuple[Dimension | None, ...] = ()

    @property
    def shape(self) -> Any:
        """The shape of the value, or of each of its leaves."""
        return jax.tree.map(lambda leaf: leaf.shape, self.value)

    @property
    def dtype(self) -> Any:
        """The dtype of the value, or of each of its leaves."""
        return jax.tree.map(lambda leaf: leaf.dtype, self.value)


@dataclasses.dataclass(frozen=True)
class Graph:
    """Dependence graph of a model; it prints as a table, a site in each line.

    Attributes:
        nodes: The sites by name, "scope.name" within a scope, in program order.
        direct: The edges (parent, child) outside of scans, and within one step of a scan.
        carried: The edges (parent, child) from one step of a scan to a later one; both ends may be
            the same site.
    """

    nodes: Mapping[str, Node]
    direct: tuple[Edge, ...]
    carried: tuple[Edge, ...] = ()

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All edges (parent, child), sorted by child, then by parent, in program order."""
        order = {name: i for i, name in enumerate(self.nodes)}
        found = {*self.direct, *self.carried}
        return tuple(sorted(found, key=lambda edge: (order[edge[1]], order[edge[0]])))

    def parents(self, name: str) -> tuple[str, ...]:
        """The sites with an edge to a site: its direct dependences."""
        self._check(name)
        return tuple(a for a, b in self.edges if b == name)

    def children(self, name: str) -> tuple[str, ...]:
        """The sites with an edge from a site: its direct dependents."""
        self._check(name)
        return tuple(b for a, b in self.edges if a == name)

    def ancestors(self, name: str) -> tuple[str, ...]:
        """The sites with a path of edges to a site, maybe from its own earlier steps in a scan."""
        self._check(name)
        edges = self.edges
        found = find_ancestors({x: [a for a, b in edges if b == x] for x in self.nodes}, [name])
        return tuple(site for site in self.nodes if site in found)

    def _check(self, name: str) -> None:
        if name not in self.nodes:
            raise ValueError(
                f"graph: there is no site {name!r}. "
                f"{suggest_names([(name,) for name in self.nodes], what='sites')}"
            )

    def __str__(self) -> str:
        """A table with a line for each site: name, kind, family, value, plates and parents."""
        return table(self._rows())

    __repr__ = __str__

    def _rows(self) -> list[tuple[str, ...]]:
        parents: dict[str, list[str]] = {name: [] for name in self.nodes}
        for a, b in self.direct:
            parents[b].append(a)
        for a, b in self.carried:
            parents[b].append(f"previous {a}")
        return [_row(name, node, parents[name]) for name, node in self.nodes.items()]

    def to_dot(self) -> str:
        """The graph in DOT, the language of Graphviz.

        | part | drawn as |
        |---|---|
        | latent site | a circle |
        | summed site | a dashed circle |
        | observed site | a shaded circle |
        | deterministic site | a circle with a double line |
        | factor | a black square |
        | plate | a frame with its size |
        | edge to a later step of a scan | a dashed arrow |
        """
        return dot(self.nodes, self.direct, self.carried)

    def to_svg(self, path: str | pathlib.Path | None = None) -> str:
        """The graph as SVG text, also written to a file if a path is given.

        Nodes look as in :meth:`to_dot`, with the shapes of their values in small letters. The
        picture needs no other program. Its background is white. Edges of a large graph may cross
        other nodes: they are straight or arcs.

        Raises:
            OSError: If the file cannot be written.
            ValueError: If `path` is the name of another kind of file, as ``"model.png"``.
        """
        if path is not None:
            check_suffix("to_svg", path, "SVG", ("svg",), ", or draw `to_dot()` by Graphviz")
        rows = zip(self.nodes.items(), self._rows(), strict=True)
        drawn = {name: _drawn(name, node, row) for (name, node), row in rows}
        text = svg(drawn, _plate_labels(self.nodes.values()), self.direct, self.carried)
        if path is not None:
            try:
                pathlib.Path(path).write_text(text, encoding="utf-8")
            except OSError as error:
                raise OSError(
                    error.errno, f"to_svg: {str(path)!r} cannot be written: {error.strerror}"
                ) from error
        return text

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """The text, a table, and the picture above it unless it is too large, for notebooks."""
        head = ("site", "kind", "family", "value", "plates", "parents")
        rows = [(*cells, parents.removeprefix("<- ")) for *cells, parents in self._rows()]
        page = html_table([head, *rows])
        num_edges = len(self.direct) + len(self.carried)
        if len(self.nodes) > _MAX_SITES_SHOWN or num_edges > _MAX_EDGES_SHOWN:
            return {"text/plain": str(self), "text/html": page}
        picture = self.to_svg()
        return {"text/plain": str(self), "text/html": picture + page, "image/svg+xml": picture}


def graph(model: Model) -> Callable[..., Graph]:
    """The dependence graph of a model: `(*args, **kwargs) -> Graph`.

    There is an edge from a site a to a site b if the distribution of b depends on the value of a
    directly, not only through other sites. A deterministic site or a factor b has an edge from a if
    its value depends on a directly. So the density is the product of the factors and of
    p(b | parents of b) over the random sites.

    The graph is read off the program of the model; nothing is evaluated. Dependence is followed
    through jit, `vmap`, loops, branches and all other constructs of JAX. Sites in a branch, and the
    results of a branch, depend on the predicate. No edge is missing, but some may be superfluous:
    `0 * a` counts as depending on a, and each element of an array counts as depending on everything
    that the array was computed from.

    | site | in the graph |
    |---|---|
    | observed | keeps its parents; its children are the sites that use its data |
    | fixed by `intervene` | deterministic; its only parent is the predicate of a `cond` around it |
    | hidden by `block` | no node: its children depend on its parents |
    | taken out by `marginalize` | summed; all edges are as in the model before `marginalize` |

    A program keeps only the size of a `vmap` axis, and its `axis_name` if it has one. Two sites
    share a plate if they have an axis of the same size and name at the same place. They do not
    share it if each element of one site depends on all elements of the other. So axes that have
    equal sizes by chance make one plate. If two plates cross, one of them is drawn twice: inside of
    the other plate and beside it.

    Args:
        model: A function of a random key.

    Returns:
        A function of the arguments of the model without its key, which may be
        `jax.ShapeDtypeStruct`.

    Raises:
        ValueError: When called, if two sites have one name.
        NotImplementedError: When called, if the model uses a mutable array.

    Example:
        >>> import jax, ppl, distributions as dist
        >>> def model(key, n):
        ...     level = ppl.sample(key, dist.Normal(0.0, 1.0), name="level")
        ...     def step(x, key):
        ...         x = ppl.sample(key, dist.Normal(x, 1.0), name="x")
        ...         return x, ppl.sample(key, dist.Normal(x + level, 0.1), name="y")
        ...     return jax.lax.scan(step, 0.0, jax.random.split(key, n))
        >>> print(ppl.graph(model)(5))
        level  latent  Normal  float32[]
        x      latent  Normal  float32[5]  scan 5  <- previous x
        y      latent  Normal  float32[5]  scan 5  <- level, x

    References:
        Koller and Friedman, *Probabilistic Graphical Models* (2009): deterministic variables
        (section 5.2), networks over time (section 6.2.2), plates (section 6.4.1).
    """

    def drawn(*args: Any, **kwargs: Any) -> Graph:
        program = trace_model(model, None, args, kwargs)
        ModelRun(model, program, Inspect())  # checks the sites
        sites = find_with_summed(program.jaxpr)
        sown = {path: site.sown for path, site in sites.items()}
        names = {path: join_scopes(path) for path in sown}
        plates = find_plates(sown)
        nodes = {names[path]: _node(site, plates[path]) for path, site in sites.items()}
        direct = _edges(names, {path: site.parents for path, site in sown.items()})
        return Graph(nodes, direct, _edges(names, {p: site.earlier for p, site in sown.items()}))

    return AnalysisCall(drawn, "graph", name_of(model))


def _edges(names: Mapping[Path, str], parents: Mapping[Path, Collection[Path]]) -> tuple[Edge, ...]:
    order = {path: i for i, path in enumerate(names)}
    return tuple(
        (names[parent], names[path])
        for path in names
        for parent in sorted(parents[path], key=order.__getitem__)
    )


def _node(site: GraphSite, plates: tuple[Plate, ...]) -> Node:
    value = jax.tree.unflatten(site.found.site.tree, site.found.collapse().avals)
    labels = next(iter(labels_of({(): site.found}).values()), ())
    return Node(site.kind, " | ".join(site.sown.families), value, plates, labels)


def _show(node: Node) -> str:
    """Dtype and shape of the value, as ``float32[3]`` or ``float32[team: 3]``."""
    return show_labeled(jax.tree.leaves(node.value), node.labels)


def _row(name: str, node: Node, parents: Collection[str]) -> tuple[str, ...]:
    return (
        name,
        node.kind,
        node.family,
        _show(node),
        ", ".join(map(str, node.plates)),
        f"<- {', '.join(parents)}" if parents else "",
    )


def _drawn(name: str, node: Node, row: Collection[str]) -> DrawnSite:
    family = f"~ {node.family}" if node.family else ""
    title = "  ".join(cell for cell in row if cell)
    return DrawnSite(node.kind, (name, family, _show(node)), title, node.plates)


def _plate_labels(nodes: Iterable[Node]) -> dict[Plate, str]:
    """The text of each plate, with the name of a dimension if its labeled sites agree on one."""
    dimensions: dict[Plate, set[str]] = {}
    for node in nodes:
        for axis, plate in enumerate(node.plates):
            found = dimensions.setdefault(plate, set())
            found |= {dim[0] for dim in node.labels[axis : axis + 1] if dim is not None}
    return {
        plate: plate_label(plate, *(found if len(found) == 1 else ()))
        for plate, found in dimensions.items()
    }
