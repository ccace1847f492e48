"""Each mistake of the table is an error that names the site, what came and the remedy; the documentation has it."""

# ruff: noqa: E501

import pathlib

import pytest

from .mistakes import MISTAKES, page

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "mistakes.md"
EVERY_ROW = pytest.mark.parametrize("row", MISTAKES, ids=lambda row: row.title)


@pytest.mark.slow_rows("A scale that becomes 0")
@EVERY_ROW
def test_the_error_explains(row):
    message = " ".join(row.message().split())
    assert [name for name in row.names if name not in message] == []


def test_the_documentation_is_up_to_date():
    """If not: `python -m tests.language.mistakes > docs/mistakes.md`."""
    assert DOCUMENT.read_text() == page()


def test_there_are_thirty_of_them():
    assert len({row.title for row in MISTAKES}) == len(MISTAKES) >= 30
