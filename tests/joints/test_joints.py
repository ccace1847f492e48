"""The table of joints: each transformation, alone and in pairs, beside each consumer.

A cell is right by the oracle of its row, or refused in words that are written down.
"""

import re

import pytest

from tests.joints.cells import COLUMNS, QUICK, SLOW, conditional
from tests.joints.page import PAGE, write
from tests.joints.refusals import refusal
from tests.joints.rows import (
    AT_CONSUMERS,
    AUTO,
    AUTO_IN_PART,
    SINGLES,
    WITH_LAPLACE,
    WITH_MARGINALS,
    WITHOUT_MARGINALS,
)

pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")


def marks(rows, row, column):
    """Of a pair with Laplace, or without a sum, CI meets one of the columns, each in turn."""
    is_quick = rows is SINGLES and not row.has(AUTO, AUTO_IN_PART)
    if is_quick and column in QUICK and column is not conditional:
        return []
    columns = {id(WITH_LAPLACE): SLOW, id(WITHOUT_MARGINALS): QUICK}.get(id(rows))
    is_rare = columns is not None and column is not columns[rows.index(row) % len(columns)]
    return [pytest.mark.slow, pytest.mark.exhaustive][: 1 + is_rare]


TABLES = (
    (SINGLES, COLUMNS),
    (WITHOUT_MARGINALS, QUICK),
    (WITH_MARGINALS, QUICK),
    (AT_CONSUMERS, SLOW),
    (WITH_LAPLACE, SLOW),
)
CELLS = [
    pytest.param(row, column, id=f"{row.name} - {column.__name__}", marks=marks(rows, row, column))
    for rows, columns in TABLES
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
