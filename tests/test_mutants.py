"""List of mutants and their runner: each change fits, and a run that fails is told."""

import ast
import collections
import re

import pytest

from tests.mutants import MUTANTS
from tests.mutation import PACKAGES, ROOT, Mutant, Verdict, _failed, report, stages

NAMES = [mutant.name for mutant in MUTANTS]
MUTANT = Mutant(name="a", file="b.py", old="+", new="-", breaks="a sign", tests=("tests/c.py",))
OUTPUT = "F\nFAILED tests/c.py::test_d[1 - 2] - assert 1 == 2\n1 failed in 0.1s\n"


def test_there_are_twenty_or_more_of_each_package():
    packages = collections.Counter(mutant.file.split("/")[0] for mutant in MUTANTS)
    assert packages.keys() == set(PACKAGES)
    assert min(packages.values()) >= 20
    assert len(set(NAMES)) == len(NAMES)


def test_mutants_are_spread_over_each_package():
    files = collections.Counter(mutant.file for mutant in MUTANTS)
    assert max(files.values()) <= 2


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_a_mutant_changes_one_place_of_a_program_that_parses(mutant):
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    mutated = ast.parse(mutant.apply(source))
    assert ast.dump(mutated) != ast.dump(ast.parse(source))  # a comment would change nothing


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_the_nearest_tests_are_there(mutant):
    assert mutant.tests
    for path, _, name in (test.partition("::") for test in mutant.tests):
        source = (ROOT / path).read_text(encoding="utf-8")
        assert not name or re.search(rf"^def {re.escape(name.partition('[')[0])}\(", source, re.M)


def test_a_change_that_fits_nowhere_or_twice_is_an_error():
    assert MUTANT.apply("1 + 2") == "1 - 2"
    for source in ("1 * 2", "1 + 2 + 3"):
        with pytest.raises(ValueError, match="a: '\\+' occurs"):
            MUTANT.apply(source)


def test_the_nearest_tests_come_first_and_the_list_is_left_out():
    quick, slow, rest, _ = stages(MUTANT, ("quick", "slow"))
    assert [quick[0], slow[0], rest[0]] == ["quick", "slow", "quick"]
    assert "tests/c.py" in quick[1]
    assert "--ignore=tests/test_mutants.py" in rest[1]


@pytest.mark.parametrize(
    ("code", "output", "expected"),
    [
        (0, "1 passed", ""),
        (5, "1 deselected", ""),
        (1, OUTPUT, "tests/c.py::test_d[1 - 2]"),
        (2, "ERROR tests/c.py - ImportError: no", "tests/c.py"),
        (-11, "", "(pytest ends with -11)"),
    ],
)
def test_the_first_failure_is_told(code, output, expected):
    assert _failed(code, output) == expected


def test_what_pytest_refuses_is_an_error_of_the_list():
    with pytest.raises(ValueError, match="not found"):
        _failed(4, "ERROR: not found: tests/e.py::test_f")


def test_too_few_mutants_noticed_fail(capsys):
    noticed, living = Verdict(MUTANT, "slow", "tests/c.py::test_d", 2.0), Verdict(MUTANT)
    assert str(noticed) == "a: noticed by tests/c.py::test_d in slow after 2 s"
    assert str(living) == "a: LIVES after 0 s"
    assert report([noticed] * 60, "all") == 1
    assert report([Verdict(MUTANT, "quick", "t")] * 54 + [noticed] * 6, "all") == 0
    assert report([Verdict(MUTANT, "quick", "t")] * 59 + [living], "all") == 1
    assert report([Verdict(MUTANT, "quick", "t")] * 54 + [living] * 6, "quick") == 0
    assert "quick suite: 54 of 60; all tests: 60 of 60" in capsys.readouterr().out


@pytest.mark.parametrize("test", ["(hangs)", "(pytest ends with -9)"])
def test_a_run_without_a_failed_test_decides_nothing(test, capsys):
    undecided = Verdict(MUTANT, "quick", test, 2.0)
    assert str(undecided) == f"a: UNDECIDED, {test} in quick after 2 s"
    assert report([undecided], "quick") == report([undecided], "all") == 1
    assert "quick suite: 0 of 1; all tests: 0 of 1; undecided: 1" in capsys.readouterr().out
