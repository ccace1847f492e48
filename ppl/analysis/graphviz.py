"""Dependence graphs in DOT, the language of Graphviz."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ppl.analysis.plates import Plate, plate_label
from ppl.primitives.site_kinds import DETERMINISTIC, FACTOR, LATENT, OBSERVED, SUMMED

_STYLES = {
    LATENT: {},
    SUMMED: {"style": "dashed"},
    OBSERVED: {"style": "filled", "fillcolor": "lightgrey"},
    DETERMINISTIC: {"peripheries": "2"},
    FACTOR: {"shape": "square", "style": "filled", "fillcolor": "black", "width": "0.15"},
}
_LATER = {"style": "dashed", "constraint": "false"}


def dot(
    nodes: Mapping[str, Any],
    direct: Sequence[tuple[str, str]],
    carried: Sequence[tuple[str, str]],
) -> str:
    """DOT source of a dependence graph.

    Args:
        nodes: The sites by name, each with a `kind`, a `family` and `plates`.
        direct: The edges (parent, child) within one step.
        carried: The edges (parent, child) to a later step of a scan.
    """
    lines = ["digraph {", "  node [shape=circle];"]
    lines += _level(nodes, (), list(nodes))
    for edges, style in ((direct, {}), (carried, _LATER)):
        for a, b in edges:
            undirected = {"dir": "none"} if nodes[b].kind == FACTOR else {}
            lines.append(f"  {_quote(a)} -> {_quote(b)}{_attributes(style | undirected)};")
    return "\n".join([*lines, "}"]) + "\n"


def _level(
    nodes: Mapping[str, Any], around: tuple[Plate, ...], names: Sequence[str]
) -> Iterator[str]:
    """DOT lines of the nodes directly in a plate, then of the plates inside of it."""
    indent = "  " * (len(around) + 1)
    depth = len(around)
    inside: dict[Plate, list[str]] = {}
    for name in names:
        plates = nodes[name].plates
        if len(plates) > depth:
            inside.setdefault(plates[depth], []).append(name)
        else:
            yield f"{indent}{_quote(name)}{_attributes(_node_attributes(name, nodes[name]))};"
    for plate, names_in_it in inside.items():
        yield f"{indent}subgraph cluster_{plate.number} {{"
        yield f"{indent}  label={_quote(plate_label(plate))}; labelloc=b; labeljust=r;"
        yield from _level(nodes, (*around, plate), names_in_it)
        yield f"{indent}}}"


def _node_attributes(name: str, node: Any) -> dict[str, str]:
    if node.kind == FACTOR:
        return {"label": '""', "xlabel": _quote(name)} | _STYLES[FACTOR]
    label = f"{name}\n~ {node.family}" if node.family else name
    return {"label": _quote(label)} | _STYLES[node.kind]


def _attributes(attributes: Mapping[str, str]) -> str:
    if not attributes:
        return ""
    return f" [{', '.join(f'{key}={value}' for key, value in attributes.items())}]"


def _quote(text: str) -> str:
    """A quoted DOT string; backslashes are doubled, as labels take them for escapes."""
    for char, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\r", ""), ("\n", "\\n")):
        text = text.replace(char, escaped)
    return f'"{text}"'
