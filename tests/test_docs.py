"""The documents: code runs and prints what stands below it; paths exist, and pictures are true."""

import pathlib
import re

import pytest

from tests.test_packages import PACKAGES, imports_of, modules

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+\.\d+")
PATH = re.compile(r"`([\w./-]+/[\w./-]*|[\w-]+\.py)`")
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")
ARROW = re.compile(r"(\w+) --> (\w+)")

# A reader's settings are JAX's own.
pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")


@pytest.mark.parametrize(
    ("name", "num_outputs"),
    [
        pytest.param("models", 5, marks=pytest.mark.slow),
        pytest.param("inference", 4, marks=pytest.mark.slow),
        pytest.param("extending", 5, marks=pytest.mark.slow),
        ("architecture", 2),
    ],
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


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_paths_exist(name):
    paths = PATH.findall((ROOT / name).read_text())
    assert len(paths) > 10
    assert not [path for path in paths if not (ROOT / path).exists()]


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_links_lead_somewhere(name):
    text = (ROOT / name).read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in headings}
    for path, anchor in LINK.findall(text):
        if path:
            assert "://" in path or ((ROOT / name).parent / path).exists(), path
        else:
            assert anchor in anchors


def direct_arrows(package: str) -> set[tuple[str, str]]:
    """Imports between the folders of a package, without those that follow from a longer way."""
    below: dict[str, set[str]] = {}
    for path in modules(package):
        folder, *inside = path.relative_to(ROOT / package).parts
        if inside:
            inner = (name.split(".") for name in imports_of(path))
            found = {x[1] for x in inner if x[0] == package and len(x) > 1} - {folder}
            below.setdefault(folder, set()).update(found)
    below = {folder: found & below.keys() for folder, found in below.items()}

    def reached(folder: str) -> set[str]:
        return below[folder].union(*map(reached, below[folder]))

    return {
        (folder, lower)
        for folder, found in below.items()
        for lower in found
        if not any(lower in reached(other) for other in found)
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_pictures_show_the_imports(package):
    text = (DOCS / "architecture.md").read_text()
    section = text.split(f"### `{package}`\n")[1]
    picture = section.split("```mermaid\n")[1].split("```")[0]
    assert set(ARROW.findall(picture)) == direct_arrows(package)
    for folder in {name for arrow in ARROW.findall(picture) for name in arrow}:
        assert f"`{package}/{folder}/`" in section
