"""Results that go on with more draws: their bits, what files keep, and what is refused."""

import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from inference import HMC, MEADS, NUTS, MCMCResult, Until, mcmc, resume
from inference.chains import chain_threads, sampling
from inference.chains.recorder import Recorder
from inference.monitoring.monitor import RunMonitor
from tests.inference.regression import Y, design, posterior
from tests.inference.test_checkpoints import scoped_posterior
from tests.inference.test_own_kernels import RandomWalk

KEY = jax.random.key(2)
SETTINGS = {"num_warmup": 90, "num_draws": 300, "num_chains": 2}
KERNELS = {
    "nuts": {},
    "pooled": {"num_chains": 32},
    "own": {"kernel": RandomWalk(scale=0.1)},
    "ensemble": {"kernel": MEADS(), "num_chains": 64},
}


def same(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.fixture(scope="module")
def result():
    return mcmc(KEY, posterior(), design(), **SETTINGS)


@pytest.mark.quick_rows("nuts", "own")
@pytest.mark.parametrize("name", KERNELS)
def test_more_draws_of_a_result_are_those_of_one_run(tmp_path, name):
    """Also of one that went on already, and of one from a file; a result itself never changes."""
    settings = SETTINGS | KERNELS[name]
    few = mcmc(KEY, posterior(), design(), **settings | {"num_draws": 50})
    kernel = settings.get("kernel", NUTS())
    more = few
    for number in (120, 90, 300):
        more = resume(more, posterior(), design(), num_draws=number, kernel=kernel)
        assert more.draws["w"].shape[1] == number
    few.save(tmp_path / "few.npz")
    loaded = MCMCResult.load(tmp_path / "few.npz")
    again = resume(loaded, posterior(), design(), num_draws=300, kernel=kernel)
    whole = mcmc(KEY, posterior(), design(), **settings)
    for found in (more, again):
        same(found, whole)
        assert found.facts == whole.facts
    same(few.draws["w"], whole.draws["w"][:, :50])


def test_an_interrupted_result_goes_on_to_its_end(monkeypatch, tmp_path):
    """Chains are at different draws then; those that some have made already are in files, too."""
    long = SETTINGS | {"num_draws": 5000, "num_chains": 4}

    def tell(_, run):
        if run.num_done >= 700:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        for module in (chain_threads, sampling):
            patched.setattr(module, "CALL_SECONDS", 1e-3)
        patched.setattr(RunMonitor, "tell", tell)
        with pytest.warns(RuntimeWarning, match="interrupted"):
            part = mcmc(KEY, posterior(), design(), **long)
    part.save(tmp_path / "part.npz")
    whole = mcmc(KEY, posterior(), design(), **long)
    for begun in (part, MCMCResult.load(tmp_path / "part.npz"), pickle.loads(pickle.dumps(part))):
        same(resume(begun, posterior(), design()), whole)


def test_sites_that_are_kept_stay_so():
    settings = SETTINGS | {"num_draws": 200}
    few = mcmc(KEY, scoped_posterior(), design(), keep=["odds"], **SETTINGS | {"num_draws": 20})
    more = resume(few, scoped_posterior(), design(), num_draws=200)
    same(more, mcmc(KEY, scoped_posterior(), design(), keep=["odds"], **settings))


def test_a_result_of_a_rule_needs_another_end():
    few = mcmc(KEY, posterior(), design(), until=Until(ess=50), **SETTINGS)
    number = few.draws["w"].shape[1]
    with pytest.raises(ValueError, match="which is not kept: give it again, or num_draws="):
        resume(few, posterior(), design())
    more = resume(few, posterior(), design(), num_draws=number + 10)
    np.testing.assert_array_equal(more.draws["w"][:, :number], few.draws["w"])
    assert resume(few, posterior(), design(), until=Until(ess=10)).draws["w"].shape[1] == number


def other_prior(key, design):
    w = ppl.sample(key, dist.Normal(jnp.zeros(3), 3.0), name="w")
    return ppl.sample(key, dist.Normal(design @ w, 1.0), name="y")


OTHERS = {
    "data": ({"model": posterior(Y + 0.1)}, "are not those of the run: at the last draw"),
    "argument": ({"args": (1.01 * design(),)}, "are not those of the run: at the last draw"),
    "prior": (
        {"model": ppl.condition(other_prior, {"y": jnp.asarray(Y, jnp.float32)})},
        "are not those of the run: at the last draw",
    ),
    "sites": ({"model": scoped_posterior()}, r"the run has the sites w float32\[3\], the call"),
    "kernel": ({"kernel": HMC()}, "kernel: the run has NUTS"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_result_of_another_run_is_refused(result, name):
    given, match = OTHERS[name]
    given = {"model": posterior(), "args": (design(),), **given}
    model, args = given.pop("model"), given.pop("args")
    with pytest.raises(ValueError, match=match):
        resume(result, model, *args, num_draws=400, **given)


def test_a_result_without_its_chains_says_so(result, tmp_path):
    thinned = jax.tree.map(lambda x: x[:, ::2], result)
    on_disk = mcmc(KEY, posterior(), design(), checkpoint=tmp_path, **SETTINGS)
    for found in (thinned, on_disk, dataclasses.replace(result, chains=None)):
        with pytest.raises(ValueError, match=r"its chains. Those of a run with checkpoint= are"):
            resume(found, posterior(), design(), num_draws=400)
    cut = dataclasses.replace(result, draws={"w": result.draws["w"][:, :100]})
    with pytest.raises(ValueError, match=r"has \[100, 300\] draws of each chain, and its run 300"):
        resume(cut, posterior(), design(), num_draws=400)
    with pytest.raises(TypeError, match="resume has no argument 'draws'"):
        resume(result, posterior(), design(), draws=400)


def test_draws_that_some_chains_have_more_are_kept():
    recorder = Recorder()
    recorder.open(({"x": np.zeros(())}, {}), 2, 10)
    recorder.reserve(10)
    values = np.arange(20.0).reshape(2, 10)
    recorder.put(0, ({"x": values}, {}), np.array([[0, 4, 0, 4], [0, 7, 0, 7]]))
    assert recorder.read_further(4) is None  # without a state
    recorder.record(dict)
    np.testing.assert_array_equal(recorder.read_further(4)[0]["x"][1], values[1, 4:7])
    going_on = Recorder(None, {}, recorder.read(7))
    going_on.open(({"x": np.zeros(())}, {}), 2, 10)
    np.testing.assert_array_equal(going_on.read_further(4)[0]["x"][1], values[1, 4:7])
