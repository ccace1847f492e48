"""The table of joints: each transformation, alone and in pairs, beside each consumer.

A cell is right by the oracle of its row, or refused in words that are written down.
"""

import re

import pytest

from tests.joints.cells import COLUMNS, OF_PAIRS, QUICK, conditional
from tests.joints.page import PAGE, write
from tests.joints.refusals import refusal
from tests.joints.rows import AT_CONSUMERS, AUTO, AUTO_IN_PART, PAIRS, SINGLES

pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")


def marks(row, column):
    is_quick = row in SINGLES and not row.has(AUTO, AUTO_IN_PART)
    if is_quick and column in QUICK and column is not conditional:
        return []
    return [pytest.mark.slow]


CELLS = [
    pytest.param(row, column, id=f"{row.name} - {column.__name__}", marks=marks(row, column))
    for rows, columns in ((SINGLES, COLUMNS), (PAIRS, QUICK), (AT_CONSUMERS, OF_PAIRS))
    for row in rows
    for column in columns
]


@pytest.mark.parametrize(("row", "column"), CELLS)
def test_a_cell_is_right_or_refused(row, column):
    words = refusal(row, column.__name__)
    if words is None:
        column(row)
        return
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=re.escape(words)):
        column(row)


def test_the_page_is_up_to_date():
    """`python -m tests.joints` writes it."""
    assert PAGE.read_text() == write()
