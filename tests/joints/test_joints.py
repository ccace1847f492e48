"""The table of joints: each transformation, alone and in pairs, beside each consumer.

A cell is right by the oracle of its row, or refused in words that are written down.
"""

import re

import pytest

from tests.joints.cells import QUICK, columns_of, conditional, gibbs
from tests.joints.page import PAGE, write
from tests.joints.refusals import refusal
from tests.joints.rows import (
    AUTO,
    AUTO_IN_PART,
    CONDITION,
    FROM_PYMC,
    FROM_PYMC_OBS,
    PAIRS,
    SINGLES,
    WEIGH,
    Row,
)

pytestmark = pytest.mark.promotion(rank="allow", dtype="standard")


OF_PYMC = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS"),
]


def marks(row, column):
    """Marks of a cell."""
    return slowness(row, column) + (OF_PYMC if row.has(FROM_PYMC, FROM_PYMC_OBS) else [])


def slowness(row, column):
    """Of pairs, CI meets one quick column and one slow one, each in turn."""
    is_quick = row in SINGLES and not row.has(AUTO, AUTO_IN_PART)
    if is_quick and column in QUICK and column is not conditional:
        return []
    if column is gibbs and row == Row((CONDITION, WEIGH)):  # Exact draws count weights.
        return []
    asked = [x for x in columns_of(row) if (x in QUICK) == (column in QUICK)]
    is_turn = row in PAIRS and column is asked[PAIRS.index(row) % len(asked)]
    is_exhaustive = row in PAIRS and not is_turn
    return [pytest.mark.slow, pytest.mark.exhaustive][: 1 + is_exhaustive]


CELLS = [
    pytest.param(row, column, id=f"{row.name} - {column.__name__}", marks=marks(row, column))
    for row in [*SINGLES, *PAIRS]
    for column in columns_of(row)
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
