"""Docstrings open with the thing that they describe, and make sense without a signature."""

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("ppl", "distributions", "inference")
# Such a docstring describes a thing by a clause instead of calling it by its name.
OPENINGS = ("What", "Which", "Where", "How", "Of", "That", "The same", "It")


def docstrings(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    """The place and text of each docstring of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if documented and (text := ast.get_docstring(node)):
            place = path.relative_to(ROOT).as_posix()
            yield f"{place}:{getattr(node, 'lineno', 1)}", text


def opens_badly(text: str) -> bool:
    return any(text == word or text.startswith((f"{word} ", f"{word},")) for word in OPENINGS)


def test_openings_are_told_apart():
    assert opens_badly("What is drawn.")
    assert opens_badly("The same of a matrix.")
    assert opens_badly("Of what is known, the half.")
    assert not opens_badly("Whether it is known.")
    assert not opens_badly("Iterations of warm-up.")


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_open_with_the_thing(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    found = [(place, text) for path in files for place, text in docstrings(path)]
    bad = [f"{place}: {text.splitlines()[0]}" for place, text in found if opens_badly(text)]
    assert not bad


def summary(folder: pathlib.Path) -> str:
    return ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""


def test_folders_say_what_they_hold():
    folders = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    assert len(folders) > 20
    assert not [folder for folder in folders if len(summary(folder).split()) < 4]


def test_names_of_tests_have_sixty_letters_at_most():
    names = [
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert len(names) > 1000
    assert not [name for name in names if len(name) > 60]


# British spellings; titles of papers keep theirs.
BRITISH = re.compile(
    r"(?i)(?:ptimi|arameteri|ormali|ummari|nitiali|inimi|aximi|enerali|egulari|actori|eriali|erneli)"
    r"s(?:e|ing|ation)|centred\b|\bcentres?\b|centring|neighbour|labelled|behaviour|favour|colour"
    r"|analys(?:ed|ing)\b|\b(?:un|re)?learnt\b|\b(?:mis)?spelt\b|\b(?:burnt|spoilt|towards)\b"
    r"|\b(?:whilst|amongst)\b"
)
TITLES = ("Automatic reparameterisation of",)


def test_spelling_is_american():
    folders = [ROOT / x for x in (*PACKAGES, "tests", "examples", "benchmarks", "docs")]
    files = [
        path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md")
    ]
    files = [path for path in files if path != pathlib.Path(__file__)]
    assert len(files) > 1000
    lines = ((path, line) for path in files for line in path.read_text().splitlines())
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path, line in lines
        if BRITISH.search(line) and not any(title in line for title in TITLES)
    ]
    assert not found
