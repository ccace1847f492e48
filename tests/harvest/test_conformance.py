"""The conformance table in the documentation is that of the current table of programs."""

import dataclasses
import pathlib
import re

import numpy as np

from . import conformance
from .table import CASES

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "harvest_conformance.md"
LINE = re.compile(r"^\| ([\w-]+) \| (strict|append|clobber|cond_clobber|mixed) \|", re.MULTILINE)


def test_the_table_lists_every_construct_and_mode() -> None:
    """If not: `python -m tests.harvest.conformance --all`, and put what it prints there."""
    assert LINE.findall(DOCUMENT.read_text()) == list(conformance.groups(CASES))


def test_the_table_lists_every_law() -> None:
    assert f"| rows | {' | '.join(conformance.COLUMNS)} |" in DOCUMENT.read_text()
    laws = {law for laws in conformance.COLUMNS.values() for law in laws}
    assert laws == {*conformance.LAWS, conformance.MISFITS}


def test_a_broken_law_is_counted_and_told() -> None:
    """A row with a wrong expectation fails where that expectation is looked at, jitted or not."""
    case = next(case for case in CASES if case.id == "straight/strict")
    wrong = dataclasses.replace(case, id="straight/wrong", reaps={"y": np.float32(5)})
    rows = [conformance.outcome(row, every=True) for row in (case, wrong)]
    assert [row.split(":")[0] for row in conformance.failures(rows)] == [
        f"FAILED straight/wrong, {law}, {how}"
        for how in ("jitted", "not jitted")
        for law in conformance.LAWS
        if law in BY_REAPS
    ]
    assert conformance.cell(["4 other tags"], rows) == "1/1"
    assert conformance.cell(["4 exclusive"], rows) == "2/2"


BY_REAPS = (
    "1 values, 3 planted is not reaped",
    "3 nothing left to harvest",
    "4 other tags",
    "5 jit inside",
    "unrolled",
)
