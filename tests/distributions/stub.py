"""The stub of `distributions`, with one line for every family in the chapters' folders."""

import ast
import csv
import json
import pathlib
import re
import textwrap

PACKAGE = pathlib.Path(__file__).parents[2] / "distributions"
STUB = PACKAGE / "__init__.pyi"
PEER_NAMES = PACKAGE / "common" / "peer_names.py"
PEERS = PACKAGE.parent / "docs" / "distributions" / "peers.csv"
CHAPTERS = ("continuous", "discrete", "multivariate")
COMMAND = "python -m tests.distributions"
MAX_WIDTH = 100  # characters; longer lines are wrapped as ruff wraps them


def families() -> list[tuple[str, str]]:
    """Modules and names of all public classes in the chapters, found without an import."""
    return [
        (f"distributions.{chapter}.{path.stem}", node.name)
        for chapter in CHAPTERS
        for path in (PACKAGE / chapter).glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def others() -> list[tuple[str, str]]:
    """Modules and names of the public names elsewhere, which stand in the stub by hand."""
    entries = re.findall(r"from (\S+) import \(?\s*(\w+) as", STUB.read_text())
    folders = tuple(f"distributions.{chapter}." for chapter in CHAPTERS)
    return [entry for entry in entries if not entry[0].startswith(folders)]


def line(module: str, name: str) -> str:
    """The import of one name."""
    one = f"from {module} import {name} as {name}"
    wrapped = f"from {module} import (\n    {name} as {name},\n)"
    return one if len(one) <= MAX_WIDTH else wrapped


def text() -> str:
    """The whole stub."""
    lines = [line(*entry) + "\n" for entry in sorted(others() + families())]
    return "".join([*lines, "\n__version__: str\n"])


def write() -> None:
    """Writes the stub, and the names of other libraries."""
    STUB.write_text(text())
    PEER_NAMES.write_text(peer_names())


def peer_names() -> str:
    """The module of the names of other libraries, by the table of these."""
    with PEERS.open() as file:
        rows = [row for row in csv.DictReader(file) if plain(row["name"]) != plain(row["ours"])]
    names: dict[str, set[str]] = {}
    for row in rows:
        names.setdefault(row["ours"] or row["note"], set()).add(row["name"])
    lines = [entry(here, " ".join(sorted(names[here]))) for here in sorted(names)]
    head, tail = PEER_NAMES.read_text().split("_TABLE = {\n")
    return f"{head}_TABLE = {{\n{''.join(lines)}}}\n{tail.partition('}' + chr(10))[2]}"


def entry(here: str, names: str) -> str:
    """The line of what is written here with its names elsewhere, or the lines of many names."""
    one = f"    {json.dumps(here)}: {json.dumps(names)},\n"
    if len(one) <= MAX_WIDTH + 1:
        return one
    *first, last = textwrap.wrap(names, MAX_WIDTH - 12)
    texts = [*(f"{x} " for x in first), last]
    parts = "".join(f"        {json.dumps(x)}\n" for x in texts)
    return f"    {json.dumps(here)}: (\n{parts}    ),\n"


def plain(name: str) -> str:
    """A name without case and underscores."""
    return name.replace("_", "").lower()
