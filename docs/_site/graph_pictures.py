"""Pictures of models on pages: `python docs/_site/graph_pictures.py` draws them anew."""

import ast
import pathlib
import re
from typing import Any

import jax.numpy as jnp

import ppl

DOCS = pathlib.Path(__file__).parents[1]


def main() -> None:
    """Write the pictures."""
    for name, graph in graphs().items():
        graph.to_svg(DOCS / name)


def graphs() -> dict[str, Any]:
    """The graphs by the names of their files, from the models on the pages."""
    eight_schools = ppl.condition(find_model("../README.md", "eight_schools"), {"y": jnp.zeros(8)})
    local_level = find_model("models.md", "local_level")
    return {
        "eight-schools.svg": ppl.graph(eight_schools)(jnp.ones(8)),
        "local-level.svg": ppl.graph(ppl.condition(local_level, {"y": jnp.zeros(7)}))(7),
    }


def find_model(page: str, name: str) -> Any:
    """A function that the code of a page defines; of the other code only imports run."""
    space: dict[str, Any] = {}
    text = (DOCS / page).read_text(encoding="utf-8")
    for code in re.findall(r"^```python\n(.*?)^```", text, re.S | re.M):
        body: list[ast.stmt] = [
            line
            for line in ast.parse(code).body
            if isinstance(line, ast.Import | ast.ImportFrom)
            or (isinstance(line, ast.FunctionDef) and line.name == name)
        ]
        exec(compile(ast.Module(body, []), page, "exec"), space)
    return space[name]


if __name__ == "__main__":
    main()
