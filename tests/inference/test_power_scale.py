"""Power scaling: against the closed form of a normal model, and diagnoses."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import distributions as dist
import inference
import ppl
from inference.comparison.power_scaling import cjs_distance, power_scaling
from inference.results.mcmc_result import MCMCResult

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
    for name, sensitivity in (("prior", found.prior), ("likelihood", found.likelihood)):
        ends = [posterior(*given, **{name: power}) for power in (1.01, 1 / 1.01)]
        exact = exact_sensitivity((center, spread), *ends)
        np.testing.assert_allclose(sensitivity, exact, rtol=0.03)


def test_distance_of_distribution_functions():
    bins = np.ones((4, 1))
    p, q = np.array([[0.0, 0.0, 1.0, 1.0]]).T, np.array([[0.0, 1.0, 1.0, 1.0]]).T
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
