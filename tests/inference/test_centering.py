"""Coordinates that warm-up learns: the right weights, draws of the posterior, runs that go on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import lax, random

import distributions as dist
import ppl
from inference import (
    HMC,
    NUTS,
    WALNUTS,
    ChEES,
    MCMCResult,
    Until,
    mcmc,
    mcmc_each,
    resume,
    sampler,
)
from inference.drivers import centering, run_chains
from inference.warmup.centering_weights import best_weights
from ppl.transforms.reparam_strategies import Frame
from tests.inference.test_own_kernels import RandomWalk

KEY = random.key(3)
Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)


def schools(key, sigma):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    theta = ppl.sample(key, dist.Normal(jnp.full(8, mu), tau), name="theta")
    ppl.sample(key, dist.Normal(theta, sigma), name="y")


OWN = ppl.condition(schools, {"y": Y})
SCHOOLS = ppl.reparam(OWN, ppl.auto_reparam)


def walk(key):
    """A walk of four steps with data of errors 0.01 and 100 in turn."""
    scale = ppl.sample(key, dist.LogNormal(0.0, 0.5), name="scale")

    def step(x, inputs):
        key, error = inputs
        keys = random.split(key)
        x = ppl.sample(keys[0], dist.Normal(x, scale), name="x")
        ppl.sample(keys[1], dist.Normal(x, error), name="y")
        return x, x

    errors = jnp.array([0.01, 100.0, 0.01, 100.0])
    lax.scan(step, 0.0, (random.split(key, 4), errors))


def same(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.parametrize(("error", "least", "most"), [(0.03, 0.9, 1.0), (30.0, 0.0, 0.1)])
@pytest.mark.parametrize("now", [0.0, 0.4, 1.0])
def test_weights_by_exact_draws(error, least, most, now):
    """Of x ~ Normal(loc, scale) with data of a standard error, at coordinates of any weight."""
    rng = np.random.default_rng(0)
    scale = np.exp(0.7 * rng.normal(size=(2000, 1)))
    loc = 2 * rng.normal(size=(2000, 3))
    precision = 1 / scale**2 + 1 / error**2
    x = rng.normal((loc / scale**2 + 1.0 / error**2) / precision, precision**-0.5)
    slope = (loc - x) / scale**2 + (1.0 - x) / error**2  # by x, whose weight is 1
    found = best_weights(
        Frame((x - loc) / scale, loc, scale),
        slope * scale ** (1 - now),
        np.full(3, now),
        np.arange(2000) > 10,
    )
    assert ((found >= least) & (found <= most)).all()


def test_weights_stay_where_nothing_is_finite():
    frame = Frame(np.full((5, 1), np.inf), np.zeros((5, 1)), np.ones((5, 1)))
    assert best_weights(frame, np.ones((5, 1)), np.array([0.3]), np.ones(5, bool)) == 0.3


@pytest.mark.parametrize(("factor", "least", "most"), [(1.0, 0.0, 0.3), (0.001, 0.9, 1.0)])
def test_schools_are_sampled_in_the_better_form(factor, least, most):
    """Non-centered with these data, centered with standard errors of a thousandth."""
    run = mcmc(KEY, SCHOOLS, factor * SIGMA)
    assert run.centering["theta"].shape == (4, 8)
    assert least <= run.centering["theta"].mean() <= most
    assert (run.centering["theta"] == run.centering["theta"][:1]).all()
    assert run.summary().rhat.max() < 1.02
    assert run.stats["is_divergent"].mean() < 0.005


@pytest.mark.parametrize("kernel", [NUTS(), HMC(num_steps=8), WALNUTS()], ids=lambda x: type(x))
def test_centering_is_learned_without_a_word(kernel):
    """As with the strategy: the same draws and weights, bit by bit."""
    numbers = {"num_warmup": 120, "num_draws": 30, "num_chains": 2, "kernel": kernel}
    run = mcmc(KEY, OWN, SIGMA, **numbers)
    assert run.centering["theta"].max() < 1.0
    same(run, mcmc(KEY, SCHOOLS, SIGMA, **numbers))


@pytest.mark.parametrize(
    "settings",
    [
        {"learn_centering": False},
        {"num_warmup": 99},
        {"kernel": NUTS(inverse_mass_matrix=np.ones(10, np.float32))},
        {"kernel": ChEES(), "num_chains": 8},
        {"kernel": RandomWalk(scale=0.1)},
    ],
    ids=["told", "short", "own-matrix", "ensemble", "no-gradient"],
)
def test_coordinates_of_the_model_stay(settings):
    run = mcmc(KEY, OWN, SIGMA, **{"num_warmup": 100, "num_draws": 10, "num_chains": 2} | settings)
    assert run.centering == {}
    target = ppl.unconstrain(OWN, SIGMA)
    last = jax.tree.map(lambda x: x[1, -1], run.draws)
    density = target.log_density(target.unconstrain(last))
    np.testing.assert_allclose(density, run.stats["log_density"][1, -1], rtol=1e-4)


def test_many_sites_of_a_loop_keep_their_coordinates():
    def model(key, num):
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        for i in range(num):
            ppl.sample(key, dist.Normal(0.0, scale), name=f"x{i}")

    learned = [centering.learnable(ppl.unconstrain(model, num), 100).centering for num in (10, 11)]
    assert list(map(len, learned)) == [10, 0]


def test_flag_of_learned_centering_is_one():
    with pytest.raises(TypeError, match="learn_centering must be True or False, got 'theta'"):
        mcmc(KEY, OWN, SIGMA, learn_centering="theta")


def test_models_that_cannot_be_looked_at_keep_their_coordinates(monkeypatch):
    def fail(_):
        raise RuntimeError("no way")

    monkeypatch.setattr(type(ppl.unconstrain(OWN, SIGMA)), "with_learned_centering", fail)
    with pytest.warns(RuntimeWarning, match="no way.*in the coordinates of the model"):
        run = mcmc(KEY, OWN, SIGMA, num_warmup=100, num_draws=10, num_chains=2)
    assert run.centering == {}


def test_elements_have_weights_of_their_own():
    data = {"y": np.array([0.3, 9.0, 1.4, -9.0], np.float32)}
    run = mcmc(KEY, ppl.reparam(ppl.condition(walk, data), {"x": ppl.LearnedCentering()}))
    weights = run.centering["x"][0]
    assert weights[0] > 0.8
    assert weights[[1, 3]].max() < 0.3


@pytest.mark.parametrize("seed", [0, 1])
def test_prior_is_sampled_right(seed):
    """A funnel, and elements with very good data: against exact distribution functions.

    Each of the four tests fails with probability 0.001.
    """

    def model(key):
        v = ppl.sample(key, dist.Normal(0.0, 2.0), name="v")
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), jnp.exp(v / 2)), name="x")
        ppl.sample(key, dist.Gamma(2.0, jnp.exp(v)), name="g")
        ppl.deterministic(x / jnp.exp(v / 2), name="z")

    run = mcmc(random.key(seed), ppl.reparam(model, ppl.auto_reparam), num_draws=2000)
    assert run.centering.keys() == {"x", "g"}
    v, x, g = (np.asarray(run.draws[name][:, ::10]).reshape(800, -1) for name in "vxg")
    scaled = x / np.exp(v / 2)
    assert st.kstest(v[:, 0], st.norm(0, 2).cdf).pvalue > 0.001
    assert st.kstest(scaled[:, 0], st.norm.cdf).pvalue > 0.001
    assert st.kstest((g * np.exp(v))[:, 0], st.gamma(2.0).cdf).pvalue > 0.001


def test_each_chain_of_a_program_learns_for_itself():
    """Under jit and vmap, and in a pool; a data set's weights are those of its own data."""

    def posterior(key, y, sigma):
        data = ppl.condition(schools, {"y": y})
        return ppl.reparam(data, {"theta": ppl.LearnedCentering()})(key, sigma)

    sigmas = np.array([[0.001], [1.0]], np.float32) * SIGMA
    numbers = {"num_warmup": 400, "num_draws": 50, "num_chains": 2}
    program = jax.jit(jax.vmap(sampler(posterior, **numbers), in_axes=(None, None, 0)))
    pool = mcmc_each(KEY, posterior, Y, sigmas, in_axes=(None, 0), **numbers)
    for fits in (program(KEY, Y, sigmas), pool):
        weights = np.asarray(fits.centering["theta"])
        assert weights.shape == (2, 2, 8)
        assert weights[0].min() > 0.9
        assert weights[1].mean() < 0.3
        assert np.isfinite(fits.draws["theta"]).all()
        np.testing.assert_allclose(
            np.asarray(fits.draws["theta"][0]).mean((0, 1)), Y, atol=0.001 * SIGMA.max()
        )
    same(pool[0].centering["theta"], pool.centering["theta"][0])
    short = jax.eval_shape(sampler(SCHOOLS, num_warmup=20, num_draws=5), KEY, SIGMA)
    assert short.centering == {}


def test_coordinates_without_a_finite_density_are_not_taken(monkeypatch):
    look = centering._look_at

    def look_at(target, values):
        frames, slopes, is_finite = look(target, values)
        return frames, slopes, is_finite & (target.centering["theta",] == 1.0).all()

    monkeypatch.setattr(centering, "_look_at", look_at)
    run = mcmc(KEY, OWN, SIGMA, num_warmup=100, num_draws=10, num_chains=2)
    assert run.centering["theta"].min() == 1.0


SETTINGS = {"num_warmup": 200, "num_draws": 120, "num_chains": 2}


@pytest.mark.parametrize("model", [OWN, SCHOOLS], ids=["default", "strategy"])
def test_runs_with_learned_coordinates_go_on(model, tmp_path):
    """From a result, a file and a folder; their draws have the bits of one longer run."""
    whole = mcmc(KEY, model, SIGMA, **SETTINGS)
    few = mcmc(KEY, model, SIGMA, **SETTINGS | {"num_draws": 50})
    few.save(tmp_path / "few.npz")
    loaded = MCMCResult.load(tmp_path / "few.npz")
    same(loaded, few)
    mcmc(KEY, model, SIGMA, **SETTINGS | {"num_draws": 50}, checkpoint=tmp_path / "run")
    for begun in (few, loaded, tmp_path / "run"):
        more = resume(begun, model, SIGMA, num_draws=120)
        same(more, whole)
        assert more.facts == whole.facts
    again = mcmc(KEY, model, SIGMA, **SETTINGS, checkpoint=tmp_path / "run")
    same(again, whole)
    other = ppl.condition(schools, {"y": Y + 50})
    with pytest.raises(ValueError, match="not those of the run"):
        resume(few, other, SIGMA, num_draws=120)
    few.to_arviz(model, SIGMA)


def test_an_interrupt_while_coordinates_are_learned_is_one(monkeypatch):
    def tell(_, run, num_before):
        assert num_before == 0
        raise KeyboardInterrupt

    monkeypatch.setattr(run_chains.RunMonitor, "tell_before", tell)
    with pytest.raises(KeyboardInterrupt):
        mcmc(KEY, SCHOOLS, SIGMA)


def test_progress_counts_all_iterations():
    reports = []
    mcmc(KEY, SCHOOLS, SIGMA, **SETTINGS, progress=reports.append)
    counts = [report.num_done for report in reports]
    assert counts == sorted(counts)
    assert {report.num_iterations for report in reports} == {320}
    assert counts[-1] == 320


def test_a_short_warmup_leaves_the_model_non_centered():
    run = mcmc(KEY, SCHOOLS, SIGMA, num_warmup=50, num_draws=20)
    same(run.centering, {"theta": np.zeros((4, 8), np.float32)})
    other = ppl.reparam(ppl.condition(schools, {"y": Y}), {"theta": ppl.NonCentered()})
    assert mcmc(KEY, other, SIGMA, num_warmup=50, num_draws=20).centering == {}


@pytest.mark.slow_rows("pooled")
@pytest.mark.parametrize(
    "settings",
    [{"num_chains": 40}, {"kernel": ChEES(), "num_chains": 64}],
    ids=["pooled", "ensemble"],
)
def test_many_chains_learn_coordinates_together(settings):
    """Chains that have learned share no starts, so that R-hat is not of superchains."""
    settings = {"num_warmup": 400, "num_draws": 100} | settings
    run = mcmc(KEY, SCHOOLS, 0.001 * SIGMA, **settings)
    assert run.centering["theta"].min() > 0.9
    assert run.facts.num_superchains is None


def test_kernels_without_gradients_learn_no_coordinates():
    run = mcmc(KEY, SCHOOLS, SIGMA, kernel=RandomWalk(scale=0.1), num_warmup=200, num_draws=10)
    assert run.centering["theta"].max() == 0.0


def test_thinned_results_keep_their_weights():
    run = mcmc(KEY, SCHOOLS, SIGMA, **SETTINGS)
    thin = jax.tree.map(lambda x: x[:, 1::2], run)
    same(thin.centering, run.centering)
    thin.to_arviz(SCHOOLS, SIGMA)


def test_noncentering_is_not_advised_against(monkeypatch):
    """A model in learned coordinates is not to be centered by hand."""
    monkeypatch.setattr(centering, "best_weights", lambda frame, slope, weight, _: weight)
    run = mcmc(KEY, SCHOOLS, 10 * SIGMA, kernel=NUTS(), num_warmup=200, until=Until(ess=200))
    assert run.centering["theta"].min() == 1.0
    assert run.facts.noncentering in ("learned", None)
    assert not any("reparameterized already" in problem for problem in run.summary().problems)
