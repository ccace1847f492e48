"""The README: its code runs, its commands and links exist."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


# A reader's settings are JAX's own.
pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def test_code_runs(capsys):
    namespace = {}
    for block in blocks("python"):
        exec(block, namespace)
    printed = capsys.readouterr().out
    assert all(site in printed for site in ("mu", "tau", "theta[7]"))


def test_commands_are_targets_of_make():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    commands = [line.split() for block in blocks("sh") for line in block.splitlines()]
    assert ["make", "demo"] in commands
    assert ["make", "test"] in commands
    assert {word for make, word in commands if make == "make"} <= targets


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert all((ROOT / link).exists() for link in links if "://" not in link)
