"""The documentation of the distributions: complete, and what the code says."""

import inspect

import pytest
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
from tests.distributions import pages
from tests.distributions.cases import CASES
from tests.distributions.stub import COMMAND

STALE = f"a page is stale: run `{COMMAND}`"

# What is no family, or an older name of one that is listed.
NO_FAMILIES = {
    "AutoCompositeTensorDistribution",
    "Distribution",
    "JointDistribution",
    "RegisterKL",
    "ReparameterizationType",
}


def test_every_distribution_of_tfp_is_listed():
    classes = vars(tfp.distributions).items()
    names = {name for name, value in classes if inspect.isclass(value)} - NO_FAMILIES
    assert {row["name"] for row in pages.peers() if row["tool"] == "TFP"} == names


def test_what_is_left_out_has_a_reason_and_what_is_not_exists():
    assert {row["tool"] for row in pages.peers()} == set(pages.TOOLS)
    for row in pages.peers():
        assert bool(row["ours"]) or bool(row["note"]), row
        assert not row["ours"] or hasattr(dist, row["ours"]), row


def test_every_public_distribution_has_its_signature_and_a_page():
    classes = {name for name in dist.__all__ if inspect.isclass(getattr(dist, name))}
    unlike = ((classes - {"Distribution"}) | {"iid"}) ^ set(pages.NAMES)
    assert not unlike, f"{unlike}: the first case in tests/distributions/cases has the signature"
    assert {path.stem for path in pages.FOLDER.glob("*.md")} == {"README", *pages.NAMES}, STALE


def test_a_signature_stands_once():
    families = [case.family for case in CASES if case.signature is not None]
    assert len(families) == len(set(families))


@pytest.mark.promotion(rank="allow", dtype="standard")
@pytest.mark.parametrize("name", pages.NAMES)
def test_a_page_is_what_the_code_says(name):
    assert (pages.FOLDER / f"{name}.md").read_text() == pages.page(name), STALE
    if pages.cases(name) and pages.picturable(name):
        assert (pages.FOLDER / f"{name}.svg").is_file(), STALE


def test_the_table_is_what_the_code_says():
    assert (pages.FOLDER / "README.md").read_text() == pages.index(), STALE
