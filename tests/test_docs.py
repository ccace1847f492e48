"""The guide: its code runs, and prints what stands below it."""

import pathlib
import re

import pytest

GUIDE = (pathlib.Path(__file__).parents[1] / "docs" / "models.md").read_text()
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.\d+")

# A reader's settings are JAX's own.
pytestmark = [pytest.mark.slow, pytest.mark.promotion(rank="allow", dtype="standard")]


def test_the_guide_runs(capsys):
    """Numbers apart, which other versions of JAX may draw differently."""
    namespace, num_printed = {}, 0
    for code, printed in BLOCK.findall(GUIDE):
        exec(code, namespace)
        out = capsys.readouterr().out
        if printed:
            num_printed += 1
            assert NUMBER.sub("#", out) == NUMBER.sub("#", printed)
    assert num_printed == 3
