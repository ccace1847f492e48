"""The stub of `distributions` has every family.

Nothing of `distributions` is imported here: a stale stub would hide the new family from the test.
"""

from tests.distributions import stub


def test_the_stub_is_what_the_folders_hold():
    assert stub.STUB.read_text() == stub.text(), f"{stub.STUB} is stale: run `{stub.COMMAND}`"


def test_a_file_holds_one_family_and_bears_its_name():
    for module, name in stub.families():
        assert module.split(".")[-1].replace("_", "") == name.lower()


def test_a_long_line_is_wrapped():
    assert stub.line("distributions.core.row", "Row").count("\n") == 0
    assert stub.line("distributions.multivariate.student", "M" * 40).count("\n") == 2
