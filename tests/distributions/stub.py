"""The stub of `distributions`, with one line for every family in the chapters' folders."""

import ast
import pathlib
import re

PACKAGE = pathlib.Path(__file__).parents[2] / "distributions"
STUB = PACKAGE / "__init__.pyi"
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
    return "".join(line(*entry) + "\n" for entry in sorted(others() + families()))


def write() -> None:
    """Writes the stub."""
    STUB.write_text(text())
