"""nested_laplace: posteriors and evidence by quadrature, and models that it refuses."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st
from jax.random import key

import distributions as dist
import ppl
from examples.catalogue.bugs import CLASSICS
from inference import NestedLaplaceResult, ProgressReport, mcmc, nested_laplace
from inference.drivers.nested_laplace import _is_noisy, _without_lost
from inference.models.latent_field import find_latent_field
from inference.optimization.quadratic_search import find_peak
from inference.optimization.spread_points import spread

Y = np.array([28.0, 8.0, -3.0, 7.0])
SUCCESSES = np.array([0, 3, 1, 3, 0, 2, 3, 0, 1, 3, 3, 0])  # of three trials


def schools(key):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfNormal(5.0), name="tau")
    theta = ppl.sample(key, dist.Normal(mu * jnp.ones(4), tau), name="theta")
    ppl.sample(key, dist.Normal(theta, 10.0), name="y")


def trials(key, num=3):
    tau = ppl.sample(key, dist.HalfNormal(2.0), name="tau")
    mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
    effect = ppl.sample(key, dist.Normal(mu * jnp.ones(12), tau), name="effect")
    ppl.sample(key, dist.Binomial(num, logits=effect), name="y")


def grouped():
    return ppl.condition(trials, {"y": jnp.asarray(SUCCESSES)})


def moments_of_trials():
    """Log evidence, and means of tau, mu and the first effect, on a grid of all three."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    log_weights = np.log(weights) - np.log(weights.sum())
    tau = np.linspace(0.02, 9, 180)[:, None, None]
    mu = np.linspace(-7, 7, 141)[:, None]
    effect = mu + tau * nodes
    terms: Any = [st.binom.logpmf(k, 3, sp.expit(effect)) for k in range(4)]
    scores: Any = [sp.logsumexp(x + log_weights, axis=-1) for x in terms]
    prior = np.log(2) + st.norm.logpdf(tau[..., 0], 0, 2) + st.norm.logpdf(mu.T, 0, 2)
    log_density = prior + sum(scores[k] for k in SUCCESSES)
    weight = np.exp(log_density)
    area = (tau[1, 0, 0] - tau[0, 0, 0]) * (mu[1, 0] - mu[0, 0])
    first = np.sum(np.exp(terms[0] + log_weights - scores[0][..., None]) * effect, axis=-1)
    means = [np.sum(weight * x) / weight.sum() for x in (tau[..., 0], mu.T, first)]
    return np.log(weight.sum() * area), *means


def mean(result, name):
    return np.tensordot(result.weights[0], result.draws[name][0], 1)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_points_integrate_skewed_densities(size):
    def log_density(x):
        return np.sum(0.7 * x - np.exp(x), axis=1)  # logarithms of Gamma(0.7, 1)

    peak = find_peak(log_density, np.full(size, -3.0))
    points = spread(log_density, peak, 1024, np.linspace(0.1, 0.8, size))
    assert peak.has_converged
    total = sp.logsumexp(points.log_weights) - np.log(1024)
    # The standard error of independent points is at most 0.02; these are spread evenly.
    assert abs(total - size * sp.gammaln(0.7)) < 0.03
    assert np.all(np.abs(points.weights @ points.points - sp.digamma(0.7)) < 0.1)


def test_a_peak_far_off_and_narrow_is_found():
    matrix: Any = np.array([[4.0, 1.9], [1.9, 1.0]]) * 1e-4

    def log_density(x):
        return np.atleast_1d(st.multivariate_normal.logpdf(x, [30.0, -8.0], matrix))

    peak = find_peak(log_density, np.zeros(2))
    np.testing.assert_allclose(peak.loc, [30.0, -8.0], atol=0.02)
    np.testing.assert_allclose(peak.factor @ peak.factor.T, matrix, rtol=0.3)


def test_a_normal_field_is_integrated_exactly():
    taus = np.linspace(1e-3, 40, 4001)
    covariance = [25 * np.ones((4, 4)) + (t**2 + 100) * np.eye(4) for t in taus]
    likelihood = np.array([st.multivariate_normal(np.zeros(4), c).pdf(Y) for c in covariance])
    weight = likelihood * 2 * st.norm.pdf(taus, 0, 5)
    evidence = np.trapezoid(weight, taus)
    result = nested_laplace(key(0), ppl.condition(schools, {"y": jnp.asarray(Y)}))
    assert result.integrated == ("mu", "theta")
    assert abs(result.log_evidence - np.log(evidence)) < 0.01
    assert abs(mean(result, "tau") - np.trapezoid(weight * taus, taus) / evidence) < 0.05
    assert result.is_corrected
    assert not result.summary().problems
    assert "one mode of mu" not in result.summary().verdict
    assert "one mode of tau was found" in result.summary().verdict


def test_few_trials_a_group_have_exact_weights():
    # Laplace's approximation alone is off: the proposals of each group mend it.
    log_evidence, tau, mu, first = moments_of_trials()
    result = nested_laplace(key(0), grouped(), num_draws=2000)
    assert result.integrated == ("effect",)  # The level couples all groups, and is left out.
    error = result.log_evidence_standard_error
    assert abs(result.log_evidence - log_evidence) < 4 * error < 0.2
    scale = 4 / np.sqrt(result.ess)
    assert abs(mean(result, "tau") - tau) < 0.8 * scale
    assert abs(mean(result, "mu") - mu) < 0.8 * scale
    assert abs(mean(result, "effect")[0] - first) < 1.5 * scale
    plain = nested_laplace(key(0), grouped(), num_draws=2000, num_proposals=1)
    assert abs(plain.log_evidence - log_evidence) > 0.1  # 0.16 to 0.5 for five keys


def test_weights_that_fail_leave_those_of_the_points():
    result = nested_laplace(key(0), grouped(), num_proposals=1, num_draws=64)
    loose = dataclasses.replace(result, is_corrected=False)
    (problem,) = [x for x in loose.summary().problems if "Laplace's approximation" in x]
    assert "compare with mcmc" in problem
    assert "sites=[...]" in problem
    assert "weights of Laplace's approximation" in loose.summary().about


def test_results_are_saved_and_come_again(tmp_path):
    result = nested_laplace(key(1), grouped(), num_draws=100)
    again = nested_laplace(key(1), grouped(), num_draws=100)
    np.testing.assert_array_equal(result.draws["effect"], again.draws["effect"])
    result.save(tmp_path / "result")
    loaded = NestedLaplaceResult.load(tmp_path / "result")
    np.testing.assert_array_equal(result.weights, loaded.weights)
    assert str(loaded.summary()) == str(result.summary())
    assert loaded.integrated == ("effect",)


def test_the_field_is_found_by_the_program():
    def whitened(key):
        log_tau = ppl.sample(key, dist.Normal(0.0, 1.0), name="log_tau")
        mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
        z = ppl.sample(key, dist.Normal(jnp.zeros(8), 1.0), name="z")
        rate = jnp.exp(mu + jnp.exp(log_tau) * z)
        ppl.sample(key, dist.Poisson(rate), name="y")

    counts = ppl.condition(whitened, {"y": jnp.arange(8)})
    field = find_latent_field(ppl.unconstrain(counts))
    assert (field.paths, field.is_exact) == ((("z",),), False)
    assert field.others == (("log_tau",), ("mu",))

    def chain(key):
        spread = ppl.sample(key, dist.HalfNormal(0.5), name="spread")
        level = ppl.sample(key, dist.Normal(0.0, 3.0), name="level")

        def step(h, key):
            h = ppl.sample(key, dist.Normal(0.9 * h, spread), name="h")
            ppl.sample(key, dist.Normal(0.0, jnp.exp(0.5 * (h + level))), name="y")
            return h, None

        jax.lax.scan(step, 0.0, jax.random.split(key, 20))

    def positive(key):
        b = ppl.sample(key, dist.LogNormal(0.0, 1.0), name="b")
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), b), name="x")
        ppl.sample(key, dist.Normal(x, 1.0), name="y")

    learned = ppl.reparam(ppl.condition(positive, {"y": Y[:3]}), {"b": ppl.LearnedCentering()})
    assert find_latent_field(ppl.unconstrain(learned)).paths == (("x",),)

    # Without the level, the chain is one part as before. So it stays in the field.
    series = ppl.condition(chain, {"y": jnp.linspace(-1.0, 1.0, 20)})
    assert find_latent_field(ppl.unconstrain(series)).paths == (("h",), ("level",))


def test_draws_of_lost_points_are_finite():
    """A point without a mode has no draw; 0 times NaN is no part of a mean."""
    weighed = {"weights": np.array([[0.3, 0.0, 0.7]]), "log_weights": np.array([[0.0, -np.inf, 1]])}
    draws = {"x": np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]])}
    found = _without_lost(draws, weighed)["x"]
    np.testing.assert_array_equal(found, [[1.0, 2.0], [4.0, 5.0], [4.0, 5.0]])


def test_a_level_that_joins_trees_is_left_out():
    school_of = np.repeat(np.arange(10), 2)

    def model(key):
        spread = ppl.sample(key, dist.HalfNormal(1.0), name="spread")
        level = ppl.sample(key, dist.Normal(0.0, 2.0), name="level")
        school = ppl.sample(key, dist.Normal(jnp.zeros(10), spread), name="school")
        group = ppl.sample(key, dist.Normal(school[school_of], 0.5), name="group")
        ppl.sample(key, dist.Poisson(jnp.exp(level + group)), name="y")

    field = find_latent_field(ppl.unconstrain(ppl.condition(model, {"y": jnp.arange(20)})))
    assert set(field.paths) == {("school",), ("group",)}  # 10 schools, independent of each other


def test_effects_with_a_scale_stay_in_the_field():
    """Without regions, towns are more independent parts; but a region and its scale: a funnel."""

    def model(key):
        scale = ppl.sample(key, dist.HalfNormal(jnp.ones(2)), name="scale")
        region = ppl.sample(key, dist.Normal(0.5 * jnp.ones(3), scale[0]), name="region")
        town = ppl.sample(key, dist.Normal(jnp.repeat(region, 2), scale[1]), name="town")
        ppl.sample(key, dist.Poisson(jnp.exp(jnp.repeat(town, 3))), name="y")

    field = find_latent_field(ppl.unconstrain(ppl.condition(model, {"y": jnp.arange(18)})))
    assert set(field.paths) == {("region",), ("town",)}


def test_a_field_on_a_graph_is_found_and_normal():
    path = np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)

    def areas(key):
        memory = ppl.sample(key, dist.Uniform(0.0, 1.0), name="memory")
        graph = dist.CAR(0.0, correlation=memory, conditional_precision=2.0, adj_matrix=path)
        x = ppl.sample(key, graph, name="x")
        ppl.sample(key, dist.Normal(x, 0.5), name="y")

    y = np.array([0.3, -0.2, 1.0, 0.4, -1.1, 0.2])
    posterior = ppl.condition(areas, {"y": jnp.asarray(y)})
    field = find_latent_field(ppl.unconstrain(posterior))
    assert field.paths == (("x",),)
    assert field.is_exact
    precision = 2 * (np.diag(path.sum(0)) - 0.3 * path)
    covariance = np.linalg.inv(precision) + 0.25 * np.eye(6)
    found = ppl.log_density(ppl.marginalize(posterior, {"x": ppl.Gaussian()}))({"memory": 0.3})
    exact = st.multivariate_normal(np.zeros(6), covariance).logpdf(y)
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_a_second_mode_is_told():
    def loadings(key):
        loading = ppl.sample(key, dist.Normal(0.0, 1.0), name="loading")
        x = ppl.sample(key, dist.Normal(jnp.zeros(20), 1.0), name="x")
        ppl.sample(key, dist.Normal(loading * x, 0.3), name="y")

    data = jnp.asarray(np.random.default_rng(0).normal(size=20), jnp.result_type(float))
    result = nested_laplace(key(0), ppl.condition(loadings, {"y": data}), num_draws=64)
    assert result.integrated == ("x",)
    assert result.is_exact
    assert any("have 2 modes" in x for x in result.summary().problems)


def many_scales(key):
    log_tau = ppl.sample(key, dist.Normal(jnp.zeros(13), 0.5), name="log_tau")
    x = ppl.sample(key, dist.Normal(jnp.zeros((8, 13)), jnp.exp(log_tau)), name="x")
    ppl.sample(key, dist.Normal(x, 0.5), name="y")


def many_scales_of_trials(key):
    log_tau = ppl.sample(key, dist.Normal(jnp.zeros(13), 0.5), name="log_tau")
    x = ppl.sample(key, dist.Normal(jnp.zeros((8, 13)), jnp.exp(log_tau)), name="x")
    ppl.sample(key, dist.Binomial(4, logits=x), name="y")


def check_scales(result, log_likelihood):
    """Log evidence, means and standard deviations by quadrature; `log_likelihood` of each scale."""
    grid = np.linspace(-3, 3, 1001)
    log_density = st.norm.logpdf(grid[:, None], 0, 0.5) + log_likelihood(np.exp(grid))
    weight = np.exp(log_density)
    total = np.trapezoid(weight, grid, axis=0)
    mean = np.trapezoid(weight * grid[:, None], grid, axis=0) / total
    sd = np.sqrt(np.trapezoid(weight * grid[:, None] ** 2, grid, axis=0) / total - mean**2)
    error = result.log_evidence_standard_error
    assert abs(result.log_evidence - np.sum(np.log(total))) < 4 * error < 0.2
    weights = result.weights[0]
    draws = np.asarray(result.draws["log_tau"][0], float)
    of_draws = weights @ draws
    assert np.all(np.abs(of_draws - mean) / sd < 4 / np.sqrt(result.ess))
    np.testing.assert_allclose(np.sqrt(weights @ (draws - of_draws) ** 2) / sd, 1, atol=0.15)
    return np.sum(np.log(total))


def test_keywords_of_mcmc_may_be_of_the_model():
    def model(key, init):
        log_tau = ppl.sample(key, dist.Normal(jnp.zeros(13), 0.5), name="log_tau")
        x = ppl.sample(key, dist.Normal(jnp.zeros(13), jnp.exp(log_tau)), name="x")
        ppl.sample(key, dist.Normal(x, init), name="y")

    posterior = ppl.condition(model, {"y": jnp.ones(13)})
    news: list[ProgressReport] = []
    result = nested_laplace(
        key(0), posterior, num_chains=1, num_warmup=50, init=0.5, progress=news.append
    )
    assert {x.num_iterations for x in news} == {4}  # stages, of the chains, too
    assert any(x.phase == "chains" and " of 1050 iterations" in x.text for x in news)
    seconds = [x.seconds for x in news]
    assert seconds == sorted(seconds)
    scales = np.exp(0.5 * np.random.default_rng(0).normal(size=100_000))
    one = np.mean(st.norm.pdf(1, 0, np.sqrt(scales**2 + 0.25)))
    assert abs(result.log_evidence - 13 * np.log(one)) < 0.3


def test_more_than_twelve_numbers_are_sampled_by_nuts(tmp_path):
    y = np.random.default_rng(0).normal(size=(8, 13)) * np.linspace(0.5, 2, 13)
    posterior = ppl.condition(many_scales, {"y": jnp.asarray(y, jnp.result_type(float))})
    result = nested_laplace(key(0), posterior, num_draws=4000, num_warmup=300)

    def log_likelihood(tau):
        scale = np.sqrt(tau[:, None, None] ** 2 + 0.25)
        return np.sum(st.norm.logpdf(y, 0, scale), axis=1)

    check_scales(result, log_likelihood)
    assert (result.integrated, result.is_exact, result.is_corrected) == (("x",), True, True)
    assert result.draws["x"].shape == (1, 4000, 8, 13)
    chains = result.chains
    assert chains is not None
    assert chains.draws["log_tau"].shape == (4, 1000, 13)
    summary = result.summary()
    assert not summary.problems
    assert "log_tau by 4 chains of NUTS" in summary.about
    assert "chains over log_tau: no divergence" in summary.verdict
    result.save(tmp_path / "result")
    assert str(NestedLaplaceResult.load(tmp_path / "result").summary()) == str(summary)
    apart = np.array(chains.draws["log_tau"])
    apart[0] += 1
    chains = dataclasses.replace(chains, draws={"log_tau": apart})
    loose = dataclasses.replace(result, chains=chains, log_evidence_standard_error=0.7)
    problems = loose.summary().problems
    assert problems[0].startswith("NUTS over the sites that were not integrated out: R-hat")
    assert "the standard error 0.7 of the log evidence" in problems[-1]


@pytest.mark.slow
def test_sampled_scales_of_binary_data_have_exact_weights():
    rng = np.random.default_rng(0)
    y = rng.binomial(4, sp.expit(rng.normal(size=(8, 13)) * np.linspace(0.5, 2, 13)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    log_weights = np.log(weights / weights.sum())

    def log_likelihood(tau):
        probs = sp.expit(tau[:, None] * nodes)
        terms: Any = [st.binom.logpmf(k, 4, probs) + log_weights for k in range(5)]
        scores: Any = sp.logsumexp(terms, axis=2)
        return np.sum(scores.T[:, y], axis=1)

    posterior = ppl.condition(many_scales_of_trials, {"y": jnp.asarray(y)})
    result = nested_laplace(key(0), posterior, num_warmup=500)
    assert result.is_corrected
    exact = check_scales(result, log_likelihood)
    plain = nested_laplace(key(2), posterior, num_warmup=500, num_proposals=1)
    if plain.is_corrected:  # Pareto k is near its limit, above it for some keys
        assert plain.ess < 0.5 * result.ess
    else:
        assert abs(plain.log_evidence - exact) > 1  # Laplace's approximation, without the weights


def pairs(key, num_groups):
    tau = ppl.sample(key, dist.HalfNormal(2.0), name="tau")
    mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
    effect = ppl.sample(key, dist.Normal(mu * jnp.ones(num_groups), tau), name="effect")
    ppl.sample(key, dist.Binomial(2, logits=effect), name="y")


def moments_of_pairs(y):
    """Log evidence, and means and standard deviations of tau and mu, on a grid."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    tau = np.linspace(0.02, 2, 150)[:, None]
    mu = np.linspace(-0.3, 0.9, 151)
    effect = mu[:, None] + tau[..., None] * nodes
    terms: Any = [np.log(st.binom.pmf(k, 2, sp.expit(effect)) @ weights) for k in range(3)]
    log_density = np.log(2) + st.norm.logpdf(tau, 0, 2) + st.norm.logpdf(mu, 0, 2)
    for k in range(3):
        log_density += np.sum(y == k) * (terms[k] - np.log(weights.sum()))
    weight = np.exp(log_density - log_density.max())
    area = (tau[1, 0] - tau[0, 0]) * (mu[1] - mu[0])
    moments = []
    for x in (tau, mu):
        center = np.sum(weight * x) / weight.sum()
        moments.append((center, np.sqrt(np.sum(weight * (x - center) ** 2) / weight.sum())))
    return log_density.max() + np.log(weight.sum() * area), *moments


def check_pairs(result, exact):
    """Checks means and standard deviations, and gives the standardized error of the evidence."""
    log_evidence, *moments = exact
    for name, (center, sd) in zip(("tau", "mu"), moments, strict=True):
        x = result.draws[name][0]
        found = mean(result, name)
        assert abs(found - center) < 4 * sd / np.sqrt(result.ess)
        assert abs(np.sqrt(result.weights[0] @ (x - found) ** 2) / sd - 1) < 0.15
    return (result.log_evidence - log_evidence) / result.log_evidence_standard_error


def test_noisy_corrections_move_no_points():
    """Points are spread over corrections of many small parts, not over those of one large part."""
    rng = np.random.default_rng(0)

    def is_noisy(sd):
        found = SimpleNamespace(log_weights=sd * rng.normal(size=32))
        at_points: Any = SimpleNamespace(draw=lambda points, first: found)
        peak: Any = SimpleNamespace(loc=np.zeros(2))
        with np.errstate(invalid="ignore"):  # as nested_laplace does
            return _is_noisy(at_points, peak, 100)

    assert [is_noisy(sd) for sd in (0.2, 0.5, 5.0, np.nan)] == [False, False, True, True]


def test_many_small_groups_have_points_where_the_posterior_is():
    # Laplace's approximation is off by two standard deviations of tau: its points are worth 70.
    rng = np.random.default_rng(0)
    y = rng.binomial(2, sp.expit(0.3 + 0.8 * rng.normal(size=1000)))
    posterior = ppl.condition(pairs, {"y": jnp.asarray(y)})
    result = nested_laplace(key(0), posterior, 1000, num_proposals=16)
    assert result.is_corrected
    assert result.ess > 500
    assert abs(check_pairs(result, moments_of_pairs(y))) < 4


@pytest.mark.slow
def test_evidence_of_many_groups_has_an_honest_error():
    rng = np.random.default_rng(0)
    y = rng.binomial(2, sp.expit(0.3 + 0.8 * rng.normal(size=1000)))
    posterior = ppl.condition(pairs, {"y": jnp.asarray(y)})
    exact = moments_of_pairs(y)
    results = [nested_laplace(key(i), posterior, 1000, num_proposals=16) for i in range(20)]
    scores = np.array([check_pairs(x, exact) for x in results])
    assert min(x.ess for x in results) > 250
    assert abs(scores.mean()) < 4 / np.sqrt(20)
    assert 0.1 < scores.std() < 1.6


def test_models_that_do_not_fit_are_refused():
    def scales(key):
        tau = ppl.sample(key, dist.HalfNormal(5.0), name="tau")
        ppl.sample(key, dist.Normal(0.0, tau * jnp.ones(3)), name="y")

    def level(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ppl.sample(key, dist.Poisson(jnp.exp(mu)), name="y")

    with pytest.raises(ValueError, match="no latent site is normal given the others"):
        nested_laplace(key(0), ppl.condition(scales, {"y": jnp.ones(3)}))
    with pytest.raises(ValueError, match=r"all latent sites \(mu\) are normal a priori"):
        nested_laplace(key(0), ppl.condition(level, {"y": 3}))
    with pytest.raises(
        ValueError, match=r"no latent site 'effects'\. Use some of: effect, mu, tau"
    ):
        nested_laplace(key(0), grouped(), sites=["effects"])
    with pytest.raises(ValueError, match=r"\(effect, mu, tau\) are named by sites"):
        nested_laplace(key(0), grouped(), sites=["effect", "mu", "tau"])
    with pytest.raises(ValueError, match="sites names no site"):
        nested_laplace(key(0), grouped(), sites=[])
    with pytest.raises(ValueError, match=r"ppl\.scale multiplies the log density"):
        nested_laplace(key(0), ppl.scale(grouped(), 0.5))
    with pytest.raises(ValueError, match="has taken 'effect' out of the model"):
        nested_laplace(key(0), ppl.marginalize(grouped(), {"effect": ppl.Laplace()}))
    with pytest.raises(TypeError, match="a list of names, as"):
        nested_laplace(key(0), grouped(), sites=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"write \['effect'\]"):
        nested_laplace(key(0), grouped(), sites="effect")
    with pytest.raises(ValueError, match="num_proposals must be"):
        nested_laplace(key(0), grouped(), num_proposals=0)
    with pytest.raises(ValueError, match=r"^max_block must be an integer of at least 1, got 0"):
        nested_laplace(key(0), grouped(), max_block=0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sites": "effect"}, r"write \['effect'\]"),
        ({"sites": []}, "sites names no site"),
        ({"sites": ["x", "x"]}, "sites names 'x' 2 times"),
        ({"num_chains": 0}, "num_chains must be .*, got 0: they sample more than 12 coordinates"),
        ({"num_draws": 8}, "num_draws must be"),
    ],
)
def test_bad_arguments_are_told_before_a_model_runs(arguments, words):
    def model(key):
        raise AssertionError("the model ran")

    with pytest.raises((TypeError, ValueError), match=words):
        nested_laplace(key(0), model, **arguments)


def test_sites_left_out_are_named_with_the_reason():
    def squares(key, size=3):
        s = ppl.sample(key, dist.HalfNormal(1.0), name="s")
        x = ppl.sample(key, dist.Normal(jnp.zeros(size), 1.0 + s), name="x")
        ppl.sample(key, dist.Normal((x - 0.3) ** 2, 0.3), name="y")

    def products(key):
        z = ppl.sample(key, dist.Normal(jnp.zeros(30), 1.0), name="z")
        w = ppl.sample(key, dist.Normal(jnp.zeros(25), 1.0), name="w")
        ppl.sample(key, dist.Normal(jnp.outer(z, w), 1.0), name="y")

    posterior = ppl.condition(squares, {"y": jnp.array([1.0, 2.0, 1.5])})
    why = r"'x' is normal a priori and was left out: .* 'y' is a polynomial of degree 4 in 'x'"
    with pytest.raises(ValueError, match=why + r".* sites=\['x'\]"):
        nested_laplace(key(0), posterior)
    outer = ppl.unconstrain(ppl.condition(products, {"y": jnp.zeros((30, 25))}))
    assert "of degree 4 in 'z', 'w'" in find_latent_field(outer).left_out[("w",)]
    with pytest.raises(ValueError, match="sites names 'x' 2 times"):
        nested_laplace(key(0), posterior, sites=["x", "x"])
    result = nested_laplace(key(0), posterior, sites=["x"], num_draws=32)
    assert result.num_inner_modes == 2
    assert any("x have more modes than one given" in x for x in result.summary().problems)


def test_impossible_data_are_told():
    impossible = ppl.condition(trials, {"y": jnp.full(12, 5)})
    with pytest.raises(ValueError, match="is not finite at any of 64 values of mu, tau"):
        nested_laplace(key(0), impossible)


def test_arguments_that_are_nan_are_named():
    def model(key, x):
        s = ppl.sample(key, dist.HalfNormal(1.0), name="s")
        effect = ppl.sample(key, dist.Normal(jnp.zeros(3), s), name="effect")
        ppl.sample(key, dist.Poisson(jnp.exp(effect + x)), name="y")

    posterior = ppl.condition(model, {"y": jnp.arange(3)})
    site = r"site 'y' has log probability nan at 1 of 3 elements: at \[1\]"
    with pytest.raises(ValueError, match=site + r".* args\[0\] of the model is NaN at 1 of 3"):
        nested_laplace(key(0), posterior, jnp.array([0.0, jnp.nan, 1.0]))


def moments_of_bits(bits, num_points):
    """Means and standard deviations of tau and mu, given one bit of each effect, on a grid."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    tau = np.linspace(0.02, 9, num_points)[:, None]
    mu = np.linspace(-8, 8, num_points)
    success = sp.expit(mu[:, None] + tau[..., None] * nodes) @ weights / weights.sum()
    log_density = st.norm.logpdf(tau, 0, 2) + st.norm.logpdf(mu, 0, 2)
    log_density += bits.sum() * np.log(success) + np.sum(1 - bits) * np.log1p(-success)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    for x in (tau, mu):
        center = np.sum(weight * x)
        yield center, np.sqrt(np.sum(weight * (x - center) ** 2))


def test_wrong_moments_of_binary_data_are_told():
    # Of 40 such models, 1 is off by more, and told. In two, the mode was searched in circles.
    def model(key):
        tau = ppl.sample(key, dist.HalfNormal(2.0), name="tau")
        mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
        effect = ppl.sample(key, dist.Normal(mu * jnp.ones(20), tau), name="effect")
        ppl.sample(key, dist.Bernoulli(logits=effect), name="y")

    rng = np.random.default_rng(0)
    num_told = 0
    for i in range(12):
        tau, mu = abs(rng.normal(0, 2)), rng.normal(0, 2)
        bits = rng.binomial(1, sp.expit(mu + tau * rng.normal(size=20)))
        posterior = ppl.condition(model, {"y": jnp.asarray(bits)})
        result = nested_laplace(key(i), posterior, num_proposals=1)
        problems = result.summary().problems
        num_told += bool(problems)
        for name, (center, sd) in zip(("tau", "mu"), moments_of_bits(bits, 121), strict=True):
            x = result.draws[name][0]
            found = mean(result, name)
            its_sd = np.sqrt(result.weights[0] @ (x - found) ** 2)
            assert problems or max(abs(found - center), abs(its_sd - sd)) < 0.3 * sd
        assert result.num_modes == 1
    assert num_told <= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["seeds", "surgical", "salm", "epil"])
def test_classics_have_their_published_moments(name):
    # The published figures are of Markov chains: JAGS asks for means within 0.15 sd.
    classic = CLASSICS[name]
    posterior = ppl.condition(classic.model, classic.observed)
    result = nested_laplace(key(0), posterior, *classic.args, num_draws=2000)
    summary = result.summary()
    assert not summary.problems
    for site, published in classic.published.items():
        error = 4 / np.sqrt(result.ess)
        assert abs(summary[site].mean - published.mean) < (0.15 + error) * published.sd
        assert abs(summary[site].sd / published.sd - 1) < 0.1 + error


@pytest.mark.slow
def test_crossed_effects_agree_with_nuts():
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, 15, 200), rng.integers(0, 10, 200)
    logits = rng.normal(0, 0.5, 15)[i] + rng.normal(0, 0.8, 10)[j]
    y = rng.random(200) < sp.expit(logits)

    def crossed(key, i, j):
        scale_a = ppl.sample(key, dist.HalfNormal(1.0), name="scale_a")
        scale_b = ppl.sample(key, dist.HalfNormal(1.0), name="scale_b")
        mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
        a = ppl.sample(key, dist.Normal(jnp.zeros(15), scale_a), name="a")
        b = ppl.sample(key, dist.Normal(jnp.zeros(10), scale_b), name="b")
        ppl.sample(key, dist.Bernoulli(logits=mu + a[i] + b[j]), name="y")

    posterior = ppl.condition(crossed, {"y": jnp.asarray(y, int)})
    result = nested_laplace(key(0), posterior, i, j, num_draws=2000)
    chains = mcmc(key(1), posterior, i, j, num_draws=2000)
    ours, theirs = result.summary(), chains.summary()
    assert result.is_corrected
    assert not ours.problems
    for name in theirs.names:
        error = np.hypot(ours[name].sd / np.sqrt(result.ess), theirs[name].mcse_mean)
        assert abs(ours[name].mean - theirs[name].mean) < 4.5 * error  # 28 means: rate 2e-4
