"""Mutants that a machine makes: each changes one place, by a kind, and leaves messages alone."""

import ast

import pytest

from tests.machine_mutants import changes, choose, in_context, nearest_tests, num_code_lines
from tests.mutation import ROOT


@pytest.mark.parametrize(
    ("source", "mutated"),
    [
        ("a + b", ["a - b"]),
        ("-(a)", ["(a)"]),
        ("a < b", ["a >= b"]),
        ("a is None", ["a is not None"]),
        ("a and b and c", ["a or b and c"]),
        ("f(a, axis=-1)", ["f(a, axis=0)"]),
        ("a[0]", ["a[-1]"]),
        ("a[1:]", ["a[0:]"]),
        ("é[0] + b", ["é[-1] + b", "é[0] - b"]),
        ("a[0.5]; f(axis=None); a[True]; a < b < c; a * b", []),
        ("raise ValueError(a + b)", []),
        ("f'{a + b}'", []),
        ("(a  # + this\n + b)", []),
    ],
)
def test_each_kind_of_change(source, mutated):
    made = []
    for _, start, end, new in changes(source):
        text = source.encode()
        made.append((text[:start] + new.encode() + text[end:]).decode())
    assert made == mutated


def test_a_change_has_the_lines_around_that_make_it_unique():
    source = "x = 1\ny = a + b\nz = 2\ny = a + b\n"
    old, new = in_context(source, changes(source)[1])
    assert (old, new) == ("z = 2\ny = a + b", "z = 2\ny = a - b")


def test_a_file_has_the_same_mutants_in_each_run_of_all_kinds():
    source = "a[0]\n" * 20 + "a + b\n" + "f(a, axis=0)\n" * 20
    chosen = choose(source, "name")
    assert chosen == choose(source, "name")
    assert len({kind for kind, *_ in chosen}) == len(chosen) == 2


@pytest.mark.parametrize("file", ["ppl/marginal/summation.py", "inference/chains/chain_run.py"])
def test_all_changes_of_a_file_parse(file):
    source = (ROOT / file).read_text(encoding="utf-8")
    for change in changes(source):
        old, new = in_context(source, change)
        assert source.count(old) == 1
        mutated = ast.dump(ast.parse(source.replace(old, new)))
        assert mutated != ast.dump(ast.parse(source))


def test_lines_of_code_are_neither_comments_nor_docstrings():
    source = (
        '"""A page\nof words."""\n\n# a comment\ndef f(\n    a,\n):\n    """B."""\n    return a\n'
    )
    assert num_code_lines(source) == 4


@pytest.mark.parametrize(
    ("module", "test"),
    [
        ("inference.initialization.density_noise", "tests/inference/test_density_noise.py"),
        ("inference.results.optimize_result", "tests/inference/test_optimize.py"),
        ("ppl.marginal.triangular_factors", "tests/test_triangular_factors.py"),
    ],
)
def test_the_nearest_tests_have_the_name_of_the_file_or_its_user(module, test):
    assert test in nearest_tests(module)
