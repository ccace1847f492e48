"""The notebooks in examples: their cells run from top to bottom, and nothing of a run is kept."""

import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")


def cells(path):
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_outputs_are_stripped(path):
    assert cells(path)
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells(path))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of ArviZ and matplotlib
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(monkeypatch, tmp_path, path):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for cell in cells(path):
        exec("".join(cell["source"]), namespace)
    plt.close("all")
    assert {file.suffix for file in tmp_path.iterdir()} >= {".npz", ".svg"}
