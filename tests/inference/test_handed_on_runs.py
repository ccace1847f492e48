"""Chains that go on from those of another run, by other keys: bits, coordinates, refusals."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference import MEADS, NUTS, MCMCResult, mcmc, resume
from tests.inference.regression import design, exact_posterior, posterior
from tests.inference.test_own_kernels import RandomWalk

KEY, OTHER, KEY_OF_MORE = map(jax.random.key, (2, 3, 4))
SETTINGS: dict[str, Any] = {"num_warmup": 90, "num_draws": 1, "num_chains": 2}
KERNELS: dict[str, dict[str, Any]] = {
    "own": {"kernel": RandomWalk(scale=0.1)},
    "ensemble": {"kernel": MEADS(), "num_chains": 64},
}


def same(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.fixture(scope="module")
def warm():
    return mcmc(KEY, posterior(), design(), **{**SETTINGS, "num_warmup": 300})


def go_on(warm: Any, key: Any = OTHER, **given: Any) -> MCMCResult:
    settings: dict[str, Any] = {"num_warmup": 0, "num_draws": 50, "num_chains": 2, **given}
    return mcmc(key, posterior(), design(), init=warm, **settings)


def test_a_chain_keeps_its_step_size_and_its_mass_matrix(warm):
    """It is the chain of a kernel that has them, started at the same place."""
    many = go_on(warm, num_chains=5)
    for i, chain in enumerate((0, 1, 0, 1, 0)):
        np.testing.assert_array_equal(many.inverse_mass_matrix[i], warm.inverse_mass_matrix[chain])
        assert np.all(many.stats["step_size"][i] == warm.stats["step_size"][chain, 0])
    kernel = NUTS(
        step_size=warm.stats["step_size"][0, 0], inverse_mass_matrix=warm.inverse_mass_matrix[0]
    )
    start = {"w": warm.draws["w"][0, -1]}
    alone = go_on(start, kernel=kernel, num_chains=1, mass_matrix="dense")
    first = many.draws["w"][0, :9]  # its factor of the matrix rounds otherwise
    np.testing.assert_allclose(alone.draws["w"][0, :9], first, rtol=1e-3, atol=1e-4)
    assert len(np.unique(many.draws["w"][:, 0, 0])) == 5
    assert many.facts.num_warmup == 300
    assert many.facts.target_acceptance_rate == 0.8


def test_draws_are_right_by_each_key(warm):
    """Each mean is within 4 standard errors: all hold but for one time in a thousand."""
    mean, _ = exact_posterior()
    for seed in range(5):
        result = go_on(warm, jax.random.key(seed + 7), num_draws=400, num_chains=8)
        summary = result.summary()
        assert np.all(np.abs(summary.mean - mean) < 4 * summary.mcse_mean)
        assert np.all(summary.ess_bulk > 800)


def test_a_run_that_was_handed_on_is_a_run(warm, tmp_path):
    """Its start may come from a file; it goes on in memory and in a folder, with the same bits."""
    whole = go_on(warm, num_draws=200)
    warm.save(tmp_path / "warm.npz")
    loaded = MCMCResult.load(tmp_path / "warm.npz")
    same(resume(go_on(loaded), posterior(), design(), num_draws=200), whole)
    go_on(warm, checkpoint=tmp_path / "run")
    same(
        go_on(loaded, num_draws=100, checkpoint=tmp_path / "run").draws["w"],
        whole.draws["w"][:, :100],
    )
    more = resume(tmp_path / "run", posterior(), design(), num_draws=200)
    same(more, whole)
    assert more.facts == whole.facts
    with pytest.raises(ValueError, match="init: the run has"):
        go_on(go_on(warm, KEY_OF_MORE), num_draws=200, checkpoint=tmp_path / "run")


@pytest.mark.quick_rows("own")
@pytest.mark.parametrize("name", KERNELS)
def test_chains_of_other_kernels_are_handed_on(name):
    warm = mcmc(KEY, posterior(), design(), **{**SETTINGS, **KERNELS[name]})
    settings: dict[str, Any] = {**KERNELS[name], "num_draws": 300}
    found = go_on(warm, **settings)
    gone_on = resume(warm, posterior(), design(), num_draws=301, kernel=settings["kernel"]).draws[
        "w"
    ][:, 1:]
    assert np.all(np.any(found.draws["w"] != gone_on, (1, 2)))
    step = np.abs(found.draws["w"][:2, 0] - warm.draws["w"][:2, -1])
    assert np.max(step) < 1.0  # standard deviations of the posterior and more
    again = go_on(warm, **{**settings, "num_draws": 20})
    same(resume(again, posterior(), design(), num_draws=300, kernel=settings["kernel"]), found)


def groups(key):
    tau = ppl.sample(key, dist.HalfNormal(1.0), name="tau")
    theta = ppl.sample(key, dist.Normal(jnp.zeros(4), tau), name="theta")
    return ppl.sample(key, dist.Normal(theta, 1.0), name="y")


def test_coordinates_are_handed_on_too(tmp_path):
    """The log density that NUTS moves by is that of the learned coordinates."""
    model = ppl.condition(groups, {"y": jnp.array([0.1, 0.3, -0.2, 0.5])})
    warm = mcmc(KEY, model, **{**SETTINGS, "num_warmup": 200})
    assert np.any(warm.centering["theta"] < 1)
    settings: dict[str, Any] = {"num_warmup": 0, "num_chains": 3, "init": warm}
    found = mcmc(OTHER, model, num_draws=300, checkpoint=tmp_path, **settings)
    same(found.centering["theta"][0], warm.centering["theta"][0])
    few = mcmc(OTHER, model, num_draws=20, **settings)
    same(resume(few, model, num_draws=300), found)
    same(resume(tmp_path, model), found)
    density = ppl.log_density(model)(jax.tree.map(lambda x: x[0, -1], found.draws))
    log_tau = np.log(found.draws["tau"][0, -1])
    log_det = log_tau + np.sum((1 - found.centering["theta"][0]) * log_tau)
    moved = found.stats["log_density"][0, -1]
    np.testing.assert_allclose(moved, density + log_det, rtol=1e-4, atol=1e-4)


REFUSED = {
    "warm-up": ({"num_warmup": 10}, "give num_warmup=0"),
    "matrix": ({"mass_matrix": "dense"}, "which its chains keep: leave out mass_matrix"),
    "key": ({"key": KEY}, "has used this key, whose random numbers would come again"),
    "legacy key": ({"key": jax.random.PRNGKey(2)}, "has used this key, whose random numbers"),
    "rate": ({"target_acceptance_rate": 0.8}, "keep: leave out target_acceptance_rate"),
    "kernel": ({"kernel": NUTS(max_depth=5)}, "kernel: the run has NUTS"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(warm, name):
    given, match = REFUSED[name]
    with pytest.raises(ValueError, match=match):
        go_on(warm, **given)


def test_a_key_of_any_earlier_run_is_refused(warm, tmp_path):
    """Seeds of all earlier runs go with the chains, also through a file and a resumed run."""
    first = go_on(warm, num_draws=2)
    resume(first, posterior(), design(), num_draws=3).save(tmp_path / "first.npz")
    second = go_on(MCMCResult.load(tmp_path / "first.npz"), KEY_OF_MORE, num_draws=2)
    for key in (KEY, OTHER, jax.random.PRNGKey(3)):
        with pytest.raises(ValueError, match="an earlier run has moved by this key"):
            go_on(second, key)
    with pytest.raises(ValueError, match="has used this key"):
        go_on(second, KEY_OF_MORE)
    assert go_on(second, jax.random.key(5), num_draws=2).draws["w"].shape == (2, 2, 3)


def test_chains_of_other_data_are_refused(warm):
    with pytest.raises(ValueError, match="init: the model, its arguments or its data are not"):
        mcmc(OTHER, posterior(), 2 * design(), init=warm, num_warmup=0)
    thinned = jax.tree.map(lambda x: x, warm)
    with pytest.raises(ValueError, match="the result does not hold its chains"):
        go_on(thinned)
    with pytest.raises(ValueError, match=r"For a warm-up alone give 1: inference\.resume"):
        mcmc(KEY, posterior(), design(), num_draws=0)


@pytest.mark.slow
def test_an_ensemble_keeps_its_number_of_chains():
    kernel = inference.MEADS()
    warm = mcmc(KEY, posterior(), design(), **{**SETTINGS, "kernel": kernel, "num_chains": 64})
    with pytest.raises(ValueError, match="MEADS moves together: give num_chains=64"):
        go_on(warm, kernel=kernel, num_chains=32)
