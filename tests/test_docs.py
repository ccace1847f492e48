"""The documents: code runs and prints what stands below it; paths exist, and pictures are true."""

import ast
import difflib
import importlib
import inspect
import pathlib
import re

import pytest

from tests import guides
from tests.test_packages import PACKAGES, WITH_FOLDERS, folders_imported

ROOT = pathlib.Path(__file__).parents[1]
DOCS = ROOT / "docs"
DECIMAL = re.compile(r"\d\.\d")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?")
PATH = re.compile(r"`([\w./-]+/[\w./-]*|[\w-]+\.py)`")
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")
ARROW = re.compile(r"(\w+) --> (\w+)")

# A reader's settings are JAX's own.
pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")


# Quick pages; all others are slow.
QUICK = ("architecture.md", "api/", "install.md")
# Blocks of text that no code prints.
DRAWN = {"architecture.md": 1}


def is_quick(name: str) -> bool:
    return name.startswith(QUICK)


def without_numbers(text: str) -> str:
    """The text without numbers and columns in lines with a decimal one: versions of JAX differ."""
    lines = text.splitlines()
    return "\n".join(
        re.sub(r" +", " ", NUMBER.sub("#", line)) if DECIMAL.search(line) else line
        for line in lines
    )


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if is_quick(n) else pytest.mark.slow) for n in guides.pages()]
)
def test_a_page_runs(monkeypatch, tmp_path, name):
    """Numbers apart, which other versions of JAX may draw differently."""
    monkeypatch.chdir(tmp_path)
    text, num_printed = (DOCS / name).read_text(), 0
    for printed, said in guides.run(text):
        if said is not None:
            num_printed += 1
            assert without_numbers(printed) == without_numbers(said)
    assert num_printed == text.count("```text\n") - DRAWN.get(name, 0)
    made = {path.name for path in tmp_path.iterdir()}
    drawn = {picture for picture in guides.PICTURE.findall(text) if f'savefig("{picture}")' in text}
    assert drawn <= made


@pytest.mark.parametrize("name", guides.pages())
def test_pictures_are_there(name):
    for picture in guides.PICTURE.findall((DOCS / name).read_text()):
        assert (DOCS / name).with_name(picture).exists()


def test_all_public_names_are_in_the_pages_of_the_api():
    """A new one needs a line `::: package.name` in a page of `docs/api`."""
    pages = [page.read_text() for page in (DOCS / "api").glob("*.md")]
    listed = {name for page in pages for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE)}
    listed |= {f"distributions.{page.stem}" for page in (DOCS / "distributions").glob("*.md")}
    public = {
        f"{package}.{name}"
        for package in (*PACKAGES, "ppl.harvest")
        for name in importlib.import_module(package).__all__
    }
    of_harvest = {f"ppl.{name}" for name in ("call_and_reap", "plant", "reap", "sow", "sow_cond")}
    assert public - listed == of_harvest


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
    below = folders_imported(package)

    def reached(folder: str) -> set[str]:
        return below[folder].union(*map(reached, below[folder]))

    return {
        (folder, lower)
        for folder, found in below.items()
        for lower in found
        if not any(lower in reached(other) for other in found)
    }


CALL = re.compile(r"`((?:inference|ppl|dist)\.[^`]*\([^`]*\))`")


def unknown_keywords(text: str) -> list[str]:
    """Keywords of calls in a text that functions of the packages do not have."""
    packages = {
        name: importlib.import_module(package)
        for name, package in (("inference", "inference"), ("ppl", "ppl"), ("dist", "distributions"))
    }
    found = []
    for source in CALL.findall(text):
        try:
            parsed = ast.parse(source.replace("...", "rest"), mode="eval")
        except SyntaxError:  # no call alone
            continue
        for call in ast.walk(parsed):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            where, name = ast.unparse(call.func.value), call.func.attr
            if where not in packages or name not in dir(packages[where]):
                continue
            known = inspect.signature(getattr(packages[where], name)).parameters
            has_more = any(p.kind is p.VAR_KEYWORD for p in known.values())
            names = [x.arg for x in call.keywords if x.arg is not None]
            for x in (x for x in names if x not in known):
                # Others may be arguments of the model.
                if not has_more or difflib.get_close_matches(x, known, 1, 0.8):
                    found.append(f"{where}.{name}({x}=)")
    return found


def test_keywords_of_calls_in_texts_exist():
    assert unknown_keywords("`dist.Normal(0.0, scal=1.0)`") == ["dist.Normal(scal=)"]
    assert unknown_keywords("`inference.mcmc(key, m, num_draw=1)`") == ["inference.mcmc(num_draw=)"]
    assert unknown_keywords("`inference.mcmc(key, model, rate=1.0)`") == []
    pages = [ROOT / "README.md", *(x for x in DOCS.rglob("*.md") if x.name != "mistakes.md")]
    found = {page.name: unknown_keywords(page.read_text()) for page in pages}
    assert not {name: x for name, x in found.items() if x}


@pytest.mark.parametrize("package", WITH_FOLDERS)
def test_pictures_show_the_imports(package):
    text = (DOCS / "architecture.md").read_text()
    section = text.split(f"### `{package}`\n")[1]
    picture = section.split("```mermaid\n")[1].split("```")[0]
    assert set(ARROW.findall(picture)) == direct_arrows(package)
    for folder in {name for arrow in ARROW.findall(picture) for name in arrow}:
        assert f"`{package.replace('.', '/')}/{folder}/`" in section
