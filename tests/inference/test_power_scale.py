"""Power scaling: against the closed form of a normal model, and diagnoses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import distributions as dist
import inference
import ppl
from inference.comparison import power_scaling as scaling
from inference.comparison.power_scaling import cjs_distance, power_scaling, sensitivities
from inference.results.mcmc_result import MCMCResult
from inference.results.psis import psis_on_host

NUM = 40_000


def posterior(mean, sd, y, noise, prior=1.0, likelihood=1.0):
    """Mean and standard deviation of a normal mean with powers of prior and likelihood."""
    precision = prior / sd**2 + likelihood * y.size / noise**2
    total = prior * mean / sd**2 + likelihood * y.sum() / noise**2
    return total / precision, precision**-0.5


def exact_sensitivity(before, plus, minus):
    """From distribution functions on a fine grid; powers 1.01 and its inverse."""
    x = np.linspace(before[0] - 10 * before[1], before[0] + 10 * before[1], 200_001)
    bins, cdf = np.diff(x), lambda at: scipy.stats.norm.cdf(x[:-1], *at)
    survival = lambda at: scipy.stats.norm.sf(x[:-1], *at)  # noqa: E731
    # Draws end at about four standard deviations, and the norm of the distance with them.
    kept = np.abs(x[:-1] - before[0]) < 4.1 * before[1]
    total = 0.0
    for after in (plus, minus):
        pairs = [(f(before)[kept], f(after)[kept]) for f in (cdf, survival)]
        total += max(cjs_distance(bins[kept], *pair) for pair in pairs)
    return total / (2 * np.log2(1.01))


@pytest.mark.parametrize("mean", [0.0, 8.0])
def test_sensitivity_of_a_normal_model(mean):
    y = np.linspace(-1.0, 3.0, 9)
    given = mean, 0.8, y, 2.0
    center, spread = posterior(*given)
    draws = scipy.stats.norm.ppf((np.arange(NUM) + 0.5) / NUM, center, spread)
    draws = np.random.default_rng(0).permutation(draws)
    log_prior = scipy.stats.norm.logpdf(draws, mean, 0.8)
    log_likelihood = scipy.stats.norm.logpdf(y[:, None], draws, 2.0).sum(0)
    found = power_scaling({"mu": draws[None]}, {"mu": log_prior[None]}, log_likelihood[None])
    for name, computed in (("prior", found.prior), ("likelihood", found.likelihood)):
        ends = [posterior(*given, **{name: power}) for power in (1.01, 1 / 1.01)]
        exact = exact_sensitivity((center, spread), *ends)
        np.testing.assert_allclose(computed, exact, rtol=0.03)


def test_distance_of_distribution_functions():
    bins = np.ones((1, 4))
    p, q = np.array([[0.0, 0.0, 1.0, 1.0]]), np.array([[0.0, 1.0, 1.0, 1.0]])
    np.testing.assert_allclose(cjs_distance(bins, p, p), 0)
    np.testing.assert_allclose(cjs_distance(bins, p, q), np.sqrt(1 / 5))
    np.testing.assert_allclose(cjs_distance(3 * bins, q, p), np.sqrt(1 / 5))


def model(key, loc, sd):
    mu = ppl.sample(key, dist.Normal(loc, sd), name="mu")
    ppl.sample(key, dist.Normal(0.0, 1.0), name="idle")
    ppl.sample(key, dist.Normal(mu * jnp.ones(25), 1.0), name="y")


Y = np.linspace(-2.0, 2.0, 25)


@pytest.mark.parametrize(
    ("loc", "sd", "diagnosis"),
    [
        (0.0, 10.0, ""),
        (3.0, 0.3, "prior-data conflict"),
        (0.0, 0.01, "strong prior or weak likelihood"),
    ],
)
def test_diagnoses(loc, sd, diagnosis):
    center, spread = posterior(loc, sd, Y, 1.0)
    rng = np.random.default_rng(1)
    draws = {
        "mu": center + spread * rng.normal(size=(4, 1000)),
        "idle": rng.normal(size=(4, 1000)),
    }
    conditioned = ppl.condition(model, {"y": jnp.asarray(Y)})
    found = inference.power_scale(MCMCResult(draws, {}, None), conditioned, loc, sd)
    assert found.names == ("mu", "idle")
    assert found.diagnosis[0] == diagnosis
    # The likelihood says nothing about a variable that it does not know.
    assert found.diagnosis[1] == "strong prior or weak likelihood"
    assert found.by_site["idle"][0] < 0.05
    assert "power" in str(found).lower()
    assert "<table>" in found._repr_html_()


def test_sites_by_name():
    conditioned = ppl.condition(model, {"y": jnp.asarray(Y)})
    draws = {name: np.random.default_rng(2).normal(size=(1, 100)) for name in ("mu", "idle")}
    result = MCMCResult(draws, {}, None)
    found = inference.power_scale(result, conditioned, 0.0, 1.0, prior="mu")
    np.testing.assert_array_equal(found.prior, found.by_site["mu"])
    with pytest.raises(ValueError, match="no latent site 'nu'; it has mu, idle"):
        inference.power_scale(result, conditioned, 0.0, 1.0, prior="nu")


@pytest.mark.parametrize("is_smoothed", [False, True])
def test_a_constant_component_has_no_sensitivity(is_smoothed):
    rng = np.random.default_rng(4)
    draws, log_weights = rng.normal(size=(1000, 2)), 1.5 * rng.exponential(size=1000)
    for weights in (log_weights, np.zeros(1000), np.full(1000, -3.7)):
        if is_smoothed:
            weights = psis_on_host(weights).log_weights
        found, _ = sensitivities(draws, [np.full(1000, 2.7)], weights, is_smoothed)
        np.testing.assert_allclose(found, 0, atol=1e-5)


def test_results_with_weights_scale_smoothed_ones():
    """A prior without influence, of which all results know, whether they have weights or not."""

    def flat(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1e6), name="mu")
        return ppl.sample(key, dist.Normal(mu * jnp.ones(25), 1.0), name="y")

    conditioned = ppl.condition(flat, {"y": jnp.asarray(Y)})
    key = jax.random.key(0)
    guide = inference.laplace(key, conditioned)
    heavy = np.log1p(np.asarray(guide.draws["mu"], np.float64) ** 2) * 20
    uneven = dataclasses.replace(guide, log_weights=heavy)
    weighted = inference.importance(key, conditioned, guide=guide)
    for result in (guide, uneven, weighted):
        found = inference.power_scale(result, conditioned)
        assert found.prior[0] < 1e-3
        assert found.likelihood[0] > 0.05


def test_data_observed_in_part_and_factors_are_likelihood():
    """However the data are given, they say the same of the mean."""
    y = np.append(np.linspace(-2.0, 2.0, 24), np.nan)

    def factored(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ppl.factor(jnp.sum(dist.Normal(mu, 1.0).log_prob(y[:24])), name="y")

    def sampled(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        return ppl.sample(key, dist.Normal(mu * jnp.ones(25), 1.0), name="y")

    rng = np.random.default_rng(5)
    mu = rng.normal(size=(2, 500)) / 5
    filled = np.broadcast_to(y, (2, 500, 25)).copy()
    filled[..., -1] = mu + rng.normal(size=mu.shape)
    cases = (
        (ppl.condition(sampled, {"y": ppl.ignore(y)}), {"mu": mu}),
        (factored, {"mu": mu}),
        (ppl.condition(sampled, {"y": ppl.impute(y)}), {"mu": mu, "y": filled}),
    )
    found = []
    for conditioned, draws in cases:
        result = MCMCResult(draws, {}, None)
        found.append(inference.power_scale(result, conditioned, prior="mu"))
    for other in found[1:]:
        np.testing.assert_allclose(other.prior[0], found[0].prior[0], rtol=1e-3)
        np.testing.assert_allclose(other.likelihood[0], found[0].likelihood[0], rtol=1e-3)
    of_missing = inference.power_scale(MCMCResult(cases[2][1], {}, None), cases[2][0], prior="y")
    assert of_missing.prior[0] < 0.05 < of_missing.likelihood[0]
    with pytest.raises(ValueError, match="no observed site"):
        inference.power_scale(MCMCResult({"mu": mu, "y": filled}, {}, None), sampled)


def test_draws_are_sorted_once_for_all_components(monkeypatch):
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(200, 3))
    components = [rng.normal(size=200) for _ in range(4)]
    alone = [sensitivities(draws, [x], np.zeros(200), False)[0][0] for x in components]
    sorted_rows = []

    def count(row):
        sorted_rows.append(row)
        return np.argsort(row)

    monkeypatch.setattr(scaling, "argsort", count)
    found, _ = sensitivities(draws, components, np.zeros(200), False)
    np.testing.assert_allclose(found, alone, rtol=1e-12)
    assert len(sorted_rows) == 3
