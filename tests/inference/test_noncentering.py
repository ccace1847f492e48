"""Whether a summary recommends other coordinates: only where the rule would change a site."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference import NUTS, MCMCResult
from inference.drivers import nan_search
from inference.drivers.noncentering import _is_slow, noncentering_of_chains, noncentering_of_guide
from inference.results.guide_result import describe_tail
from inference.results.run_facts import RunFacts
from tests.inference.test_mcmc_result import DRAWS, KNOWN, STATS
from tests.inference.test_own_kernels import POSTERIOR, RandomWalk
from tests.inference.test_summary_words import (
    DIVERGENT,
    QUICK,
    REPARAM,
    SLOW_ENERGY,
    UNDO,
    WALK,
    result,
)

Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)


def schools(key, sigma):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    theta = ppl.sample(key, dist.Normal(jnp.full(8, mu), tau), name="theta")
    ppl.sample(key, dist.Normal(theta, sigma), name="y")


CENTERED = ppl.condition(schools, {"y": Y})
NONCENTERED = ppl.reparam(CENTERED, {"theta": ppl.NonCentered()})


def within(key):
    ppl.nest(ppl.reparam(pair, {"x": ppl.NonCentered()}), scope="part")(key)


def pair(key):
    scale = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="scale")
    ppl.sample(key, dist.Normal(0.0, scale), name="x")


def partly(key):
    ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="y")


PARTLY = ppl.condition(partly, {"y": ppl.impute(np.array([1.0, np.nan]))})
DENSITY = ppl.from_density(lambda x: -0.5 * x["a"] ** 2, {"a": 0.0})


@pytest.mark.parametrize(
    ("model", "args", "expected"),
    [
        (CENTERED, (SIGMA,), "possible"),
        (NONCENTERED, (SIGMA,), "done"),
        (ppl.reparam(CENTERED, {"theta": ppl.NonCentered()}), (SIGMA,), "done"),
        (within, (), "done"),
        (pair, (), "possible"),
        (PARTLY, (), "impossible"),
        (DENSITY, (), "impossible"),
    ],
    ids=["centered", "by the rule", "by name", "in a scope", "pair", "partly observed", "density"],
)
def test_what_the_rule_would_change_is_found(model, args, expected):
    target = ppl.unconstrain(model, *args)
    for stats in (DIVERGENT, SLOW_ENERGY):
        assert noncentering_of_chains(target, DRAWS, STATS | stats) == expected


def test_the_rule_is_applied_in_one_trace_and_only_where_needed():
    num_traces = 0

    def model(key):
        nonlocal num_traces
        num_traces += 1
        pair(key)

    target = ppl.unconstrain(model)
    before = num_traces
    for stats in (STATS, {}, {"is_divergent": np.zeros((4, 10), bool)}):
        assert noncentering_of_chains(target, QUICK, stats) is None
    assert num_traces == before
    assert noncentering_of_chains(target, QUICK, DIVERGENT) == "possible"
    assert num_traces == before + 1


def test_low_ess_asks_for_the_rule():
    target, slow = ppl.unconstrain(pair), {"x": np.stack([QUICK["x"][..., 0], WALK], 2)}
    assert noncentering_of_chains(target, slow, STATS) == "possible"
    settings = KNOWN | {"noncentering": "possible"}
    found = " ".join(result(settings, draws=slow).summary().problems)
    assert "Raise num_draws, or reparameterize hierarchical sites, as by ppl.reparam" in found
    settings = KNOWN | {"noncentering": "impossible"}
    assert "eparam" not in " ".join(result(settings, draws=slow).summary().problems)
    settings = KNOWN | {"noncentering": "possible", "kernel": "Gibbs"}
    found = " ".join(result(settings, draws=slow).summary().problems)
    assert "let NUTS() move them together" in found
    assert "eparam" not in found  # full conditionals are of the model's own coordinates


def test_guides_recommend_the_rule_where_it_changes_sites():
    targets = [ppl.unconstrain(model, *args) for model, args in ((pair, ()), (PARTLY, ()))]
    assert [noncentering_of_guide(x, 1.5, 1000) for x in targets] == ["possible", "impossible"]
    assert noncentering_of_guide(targets[0], 0.2, 1000) is None
    words = {
        x: next(describe_tail(1.5, 1000, noncentering=x)) for x in (None, "impossible", "done")
    }
    assert "as by ppl.reparam(model, ppl.auto_reparam), or use mcmc." in words[None]
    assert "eparam" not in words["impossible"]
    assert words["done"].endswith(UNDO)


def test_many_chains_are_not_listed():
    """Of 20 chains, each in a place of its own."""
    shift = np.where(np.arange(20) < 9, 0.05, 0.9)[:, None] * np.ones((20, 100))
    stats = {"acceptance_rate": shift, "is_divergent": np.zeros((20, 100), bool)}
    draws = {"x": np.random.default_rng(0).normal(size=(20, 100))}
    summary = MCMCResult(draws, stats, np.ones((20, 1)), RunFacts(**KNOWN)).summary()
    assert "chains 0, 1, 2, ... (9 of 20) hardly moved" in " ".join(summary.problems)


def test_a_fault_in_a_search_for_advice_is_told(monkeypatch):
    """It costs no draws."""
    errors = []

    def fails(*args, **kwargs):
        raise errors[-1]

    target = ppl.unconstrain(pair)
    monkeypatch.setattr(ppl, "coordinates", fails)
    monkeypatch.setattr(nan_search, "latent_draws", fails)
    for errors[:] in ([ValueError("draws")], [NotImplementedError("rule")]):
        assert noncentering_of_chains(target, QUICK, DIVERGENT) is None
        assert nan_search.find_nan(target, QUICK, DIVERGENT) is None
    errors[:] = [AttributeError("lost")]
    for search in (noncentering_of_chains, nan_search.find_nan):
        with pytest.warns(RuntimeWarning, match="AttributeError: lost.*draws are not affected"):
            assert search(target, QUICK, DIVERGENT) is None


def divergences(model, sigma, **settings):
    """Settings and the warning of a run in which transitions diverged."""
    run = inference.mcmc(jax.random.key(2), model, sigma, num_warmup=200, num_draws=400, **settings)
    assert run.stats["is_divergent"].any()
    (warning,) = [text for text in run.summary().problems if "diverged" in text]
    return run.facts, warning


def test_centered_schools_are_to_be_reparameterized():
    """With few data per group: standard errors ten times as large as they were."""
    facts, warning = divergences(CENTERED, 10 * SIGMA, learn_centering=False)
    assert facts == RunFacts(
        num_warmup=200,
        target_acceptance_rate=0.8,
        init="uniform",
        num_coordinates=10,
        noncentering="possible",
        num_chains=4,
    )
    assert f"{REPARAM}, raise target_acceptance_rate to 0.95, take" in warning
    assert "reparameterized already" not in warning


def test_reparameterized_schools_are_not_to_be_again():
    """With many data per group, for which the centered form is better."""
    facts, warning = divergences(NONCENTERED, SIGMA / 100, init="prior")
    assert (facts.noncentering, facts.init) == ("done", "prior")
    assert "ppl.auto_reparam" not in warning
    assert warning.endswith(UNDO)


@pytest.mark.parametrize(
    ("kernel", "num_warmup"),
    [(RandomWalk(), 20), (NUTS(step_size=0.5), 0)],
    ids=["own", "as it is"],
)
def test_a_run_without_adaptation_has_no_target(kernel, num_warmup):
    init = {"mu": 0.0}
    run = inference.mcmc(
        jax.random.key(0), POSTERIOR, kernel=kernel, num_warmup=num_warmup, num_draws=5, init=init
    )
    assert run.facts == RunFacts(
        num_warmup=num_warmup,
        num_coordinates=2,
        noncentering="impossible",  # ESS of five draws is low
        num_chains=4,
    )
    assert (run.inverse_mass_matrix is None) == isinstance(kernel, RandomWalk)


def test_many_chains_need_enough_draws_all_together():
    draws = {"x": np.random.default_rng(0).normal(size=(64, 20))}
    assert not _is_slow(draws)
    assert _is_slow({"x": draws["x"][:8]})
    assert _is_slow({"x": np.repeat(draws["x"][:, :4], 5, 1)})
