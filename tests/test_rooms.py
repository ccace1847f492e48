"""`make test ROOM=...`: tests belong to a room by what they call, not by what they import."""

import pytest

from tests.rooms import ROOT, files_of_tests, modules_on_way, rooms


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("ppl.marginalize", "ppl.marginal.marginalize"),
        ("ppl.marginal.newton.minimize.x", "ppl.marginal.newton"),
        ("distributions.Normal.cdf", "distributions.continuous.normal"),
        ("inference.mcmc", "inference.drivers.mcmc"),
    ],
)
def test_a_public_name_leads_to_its_file(name, module):
    assert [*modules_on_way(name)] == [module]


@pytest.mark.parametrize(
    ("room", "inside", "outside"),
    [
        ("doors", "language/test_from_numpyro.py", "harvest/test_reap.py"),
        ("marginal", "language/test_gaussian.py", "harvest/test_reap.py"),
        ("comparison", "inference/test_loo.py", "inference/test_svi.py"),
        ("distributions/divergence", "distributions/test_functions.py", "language/test_density.py"),
        # Nothing but other files of harvest imports the rules of the constructs.
        ("ppl/harvest/rules", "harvest/test_laws.py", "distributions/test_counts.py"),
        # The tests import the fuzz, which calls the sampler.
        ("hamiltonian", "inference/test_mcmc.py", "distributions/test_counts.py"),
    ],
)
def test_a_room_has_the_tests_of_what_imports_it(room, inside, outside):
    found = {path.relative_to(ROOT / "tests").as_posix() for path in files_of_tests(room)}
    assert inside in found
    assert outside not in found


def test_a_name_that_two_folders_have_is_written_out():
    assert "common" not in rooms()
    assert rooms()["ppl/common"] == "ppl.common"
    assert rooms()["marginal"] == "ppl.marginal"
