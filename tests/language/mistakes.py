"""The mistakes that modelers make, and what errors say: `python -m tests.language.mistakes`."""

import inspect
import re
import textwrap

from .data_mistakes import DATA
from .model_mistakes import MODELS
from .use_mistakes import USES

MISTAKES = [*DATA, *MODELS, *USES]


def page() -> str:
    """The page of the documentation: for each mistake, what is written and what the error says."""
    text = "# What goes wrong, and what the error says\n"
    for row in MISTAKES:
        body = inspect.getsource(row.run).split("def _():\n")[1].rstrip()
        code = textwrap.dedent(body).replace("  # noqa: E731", "")
        code = re.sub(r"(\n    .*\n)\n(?=\S)", r"\1\n\n", code)
        text += f"\n## {row.title}\n\n```python\n{code}\n```\n\n```text\n{row.message()}\n```\n"
    return text


if __name__ == "__main__":
    print(page(), end="")
