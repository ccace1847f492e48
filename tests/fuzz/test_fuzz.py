"""Random programs of fixed seeds obey the laws; a program that breaks one is told and shrunk."""

import jax
import numpy as np
import pytest

import ppl

from . import harvest_laws
from .case import Case
from .checks import check_density, close
from .grammar import Block, Draw, Expr
from .laws import LAWS
from .run import run
from .shrink import shrink

SEEDS = {
    "density": (5003,),
    "simulate": (5002,),
    "unconstrain": (5000,),
    "transformed": (5002, 5009),
    "gaps": (5003, 5011),
    "sums": (5000, 5001, 5002, 5005, 5011, 5021),
    "recovered states": (5009,),
    "integrals": (5002, 5003, 5007, 5009),
    "recovered numbers": (5001, 21485),
    "groups of states": (5001, 5002),
    "groups of numbers": (5002,),
    "laplace": (5001,),
    "predictions": (5001,),
}
MIN_PASSED = 3  # of 20 programs; of the others most have nothing to check


@pytest.mark.parametrize(("name", "seed"), [(n, seed) for n in LAWS for seed in SEEDS[n]])
def test_random_programs_obey_the_laws(name, seed):
    case, outcome = LAWS[name].check(seed)
    assert outcome.verdict == "passed", f"{case.source}\n{outcome.traceback}"


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_more_random_programs_obey_the_laws(name):
    verdicts = []
    for seed in range(6000, 6020):
        case, outcome = LAWS[name].check(seed)
        assert outcome.verdict != "fault", f"{seed}\n{case.source}\n{outcome.traceback}"
        verdicts.append(outcome.verdict)
    assert verdicts.count("passed") >= MIN_PASSED, verdicts


@pytest.mark.parametrize("seed", [4, 19, 32])
def test_random_programs_obey_the_laws_of_harvest(seed):
    harvest_laws.check(seed)


@pytest.mark.slow
def test_more_random_programs_obey_the_laws_of_harvest():
    for seed in range(6000, 6020):
        harvest_laws.check(seed)


CASE = Case((Draw("v1", "normal", (Expr("const", (0.5,)), Expr("scale", (2.0,)))),), 0)


def test_plain_python_scores_a_program():
    assert CASE.source.splitlines()[1] == "    v1 = sample(key, Normal(0.5, 2.0), name='v1')"
    x = CASE.run.values["v1",]
    expected = -0.5 * ((x - 0.5) / 2) ** 2 - np.log(2 * np.sqrt(2 * np.pi))
    np.testing.assert_allclose(CASE.run.log_density(), expected)


def test_outcomes_tell_faults_from_refusals():
    def refused(case):
        return ppl.log_density(case.model)({"v2": 0.0})

    def foreign(case):
        return {}["v1"]

    assert run(check_density, CASE).verdict == "passed"
    assert run(lambda case: False, CASE).verdict == "empty"
    assert run(lambda case: close("x", 1.0, 1.1), CASE).kind == "x: # for #"
    assert run(refused, CASE).verdict == "refused"
    assert run(foreign, CASE).words == "KeyError: 'v1'"
    assert run(lambda case: jax.numpy.ones(3) @ jax.numpy.ones(2), CASE).verdict == "fault"


def test_a_program_that_fails_is_shrunk():
    case = Case(LAWS["density"].program(5001), 0)
    inner = Draw("w", "normal", (Expr("tanh", (Expr("const", (1.0,)),)), Expr("scale", (1.0,))))
    block = Block("b", "jit", (), (*case.program, inner), (Expr("const", (0.1,)),))
    program = (CASE.program[0], block)
    fails = lambda program: any("name='w'" in x for x in Case(program, 0).source.split("\n"))  # noqa: E731
    smallest = shrink(program, fails)
    assert smallest == (Draw("w", "normal", (Expr("const", (0.3,)), Expr("scale", (0.8,)))),)
