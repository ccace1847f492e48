"""The guides: their code runs, and prints what stands below it."""

import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.\d+")

# A reader's settings are JAX's own.
pytestmark = [pytest.mark.slow, pytest.mark.promotion(rank="allow", dtype="standard")]


@pytest.mark.parametrize(
    ("name", "num_outputs"), [("models", 3), ("inference", 3), ("extending", 4)]
)
def test_a_guide_runs(capsys, name, num_outputs):
    """Numbers apart, which other versions of JAX may draw differently."""
    namespace, num_printed = {}, 0
    for code, printed in BLOCK.findall((DOCS / f"{name}.md").read_text()):
        exec(code, namespace)
        out = capsys.readouterr().out
        if printed:
            num_printed += 1
            assert NUMBER.sub("#", out) == NUMBER.sub("#", printed)
    assert num_printed == num_outputs
