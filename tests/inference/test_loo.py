"""PSIS-LOO: against closed forms, ArviZ and exact fits; units, weights, words."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import distributions as dist
import inference
import ppl
from inference.common.pointwise import log_likelihoods
from inference.comparison.units import Units
from inference.results.elpd import make_estimate
from inference.results.mcmc_result import MCMCResult
from inference.results.psis_loo import efficiency_of, psis_loo
from inference.runtime.compiled_program import compile_program
from ppl.transforms.likelihood import Likelihood

SIZE, NOISE, PRIOR = 30, 1.5, 10.0
rng = np.random.default_rng(0)
X = np.column_stack([np.ones(SIZE), rng.normal(size=SIZE)])
Y = X @ [1.0, -2.0] + NOISE * rng.normal(size=SIZE)


def regression(key, x):
    beta = ppl.sample(key, dist.Normal(jnp.zeros(2), PRIOR), name="beta")
    return ppl.sample(key, dist.Normal(x @ beta, NOISE), name="y")


def posterior_of(y=Y):
    return ppl.condition(regression, {"y": jnp.asarray(y)})


def exact_draws(num=4000, x=X, y=Y):
    """Independent draws of the conjugate posterior, four chains."""
    precision = x.T @ x / NOISE**2 + np.eye(2) / PRIOR**2
    mean = np.linalg.solve(precision, x.T @ y / NOISE**2)
    factor = np.linalg.cholesky(np.linalg.inv(precision))
    z = np.random.default_rng(1).normal(size=(4, num // 4, 2))
    return mean + z @ factor.T


def as_result(draws):
    return MCMCResult({"beta": draws}, {}, None)


def exact_loo(x=X, y=Y):
    """Log predictive density of each observation without it, by the hat matrix."""
    precision = x.T @ x / NOISE**2 + np.eye(2) / PRIOR**2
    hat = x @ np.linalg.solve(precision, x.T) / NOISE**2
    leverage = np.diag(hat)
    residual = (y - hat @ y) / (1 - leverage)
    return scipy.stats.norm.logpdf(residual, 0, NOISE / np.sqrt(1 - leverage))


def test_an_outcome_observed_in_part_says_what_to_do():
    missing = np.arange(SIZE) == 3
    imputed = ppl.condition(regression, {"y": ppl.impute(jnp.asarray(Y), missing)})
    result = MCMCResult({"beta": exact_draws(40), "y": np.zeros((4, 10, SIZE))}, {}, None)
    for given in ({}, {"site": "y"}):
        with pytest.raises(ValueError, match=r"use ppl\.ignore in"):
            inference.loo(result, imputed, jnp.asarray(X), **given)


def test_any_number_of_draws_compiles_once():
    model = posterior_of()
    likelihood = Likelihood.of(model, (jnp.asarray(X),), {})
    draws = exact_draws(600)
    whole = log_likelihoods(likelihood, {"beta": draws})["y"]
    compiled = compile_program.cache_info().misses
    some = log_likelihoods(likelihood, {"beta": draws[:3, :41]})["y"]
    assert compile_program.cache_info().misses == compiled
    np.testing.assert_array_equal(some, whole[:3, :41])
    exact = scipy.stats.norm.logpdf(Y, draws @ X.T, NOISE)
    np.testing.assert_allclose(whole, exact, rtol=2e-5)


def test_hat_matrix_is_exact():
    i = 3
    x, y = np.delete(X, i, 0), np.delete(Y, i)
    precision = x.T @ x / NOISE**2 + np.eye(2) / PRIOR**2
    mean = np.linalg.solve(precision, x.T @ y / NOISE**2)
    variance = NOISE**2 + X[i] @ np.linalg.solve(precision, X[i])
    expected = scipy.stats.norm.logpdf(Y[i], X[i] @ mean, np.sqrt(variance))
    np.testing.assert_allclose(exact_loo()[i], expected, rtol=1e-10)


def test_chains_that_disagree_are_said():
    """Unless only labels switch: the log likelihood is the same for both signs of the first."""
    draws = exact_draws()
    apart = draws + np.array([0.0, 0.0, 0.0, 2.0])[:, None, None]
    estimate = inference.loo(as_result(apart), posterior_of(), jnp.asarray(X))
    (problem,) = (x for x in estimate.problems if "R-hat" in x)
    assert "of 30 observations, most for y[" in problem
    assert "the draws are doubtful" in problem
    assert "No problem" not in str(estimate)
    mirrored = draws * np.array([[1.0, 1.0], [1.0, 1.0], [-1.0, 1.0], [-1.0, 1.0]])[:, None, :]

    def model(key, x):
        beta = ppl.sample(key, dist.Normal(jnp.zeros(2), PRIOR), name="beta")
        beta = jnp.stack([jnp.abs(beta[0]), beta[1]])
        ppl.sample(key, dist.Normal(x @ beta, NOISE), name="y")

    switched = ppl.condition(model, {"y": jnp.asarray(Y)})
    estimate = inference.loo(as_result(mirrored), switched, jnp.asarray(X))
    assert not any("R-hat" in x for x in estimate.problems)


@pytest.fixture(scope="module")
def estimate():
    return inference.loo(as_result(exact_draws(40_000)), posterior_of(), jnp.asarray(X))


def test_loo_of_a_conjugate_regression(estimate):
    terms = exact_loo()
    assert np.all(estimate.pareto_k < 0.7)
    # The error of each term is that of a mean of 40000 draws with weights of small variance.
    np.testing.assert_allclose(estimate.pointwise, terms, atol=0.02)
    assert abs(estimate.elpd - terms.sum()) < 0.05
    np.testing.assert_allclose(estimate.se, np.sqrt(SIZE * np.var(estimate.pointwise, ddof=1)))
    with_all = exact_lpd()
    assert abs(estimate.p - (with_all - terms.sum())) < 0.05
    # Draws that are not weighted as if an observation were left out are far off.
    assert with_all - terms.sum() > 1


def exact_lpd():
    precision = X.T @ X / NOISE**2 + np.eye(2) / PRIOR**2
    mean = np.linalg.solve(precision, X.T @ Y / NOISE**2)
    variance = NOISE**2 + np.sum(X * np.linalg.solve(precision, X.T).T, 1)
    return scipy.stats.norm.logpdf(Y, X @ mean, np.sqrt(variance)).sum()


def arviz_loo(log_likelihood, reff):
    arviz = pytest.importorskip("arviz")
    groups = {
        "posterior": {"a": np.random.default_rng(0).normal(size=log_likelihood.shape[:2])},
        "log_likelihood": {"y": log_likelihood},
    }
    if int(arviz.__version__.split(".")[0]) >= 1:
        found = arviz.loo(arviz.from_dict(groups), pointwise=True, reff=reff)
        return found.elpd, found.se, found.p, found.elpd_i, found.pareto_k
    found = arviz.loo(arviz.from_dict(**groups), pointwise=True, reff=reff)
    se = found.se / np.sqrt(1 - 1 / log_likelihood.shape[-1])  # before 1.0 it divided by n
    return found.elpd_loo, se, found.p_loo, found.loo_i, found.pareto_k


# Tails of 100 and 150 draws: ArviZ 1 rounds their number down, and the paper up.
@pytest.mark.parametrize("reff", [0.9, 0.4])
@pytest.mark.filterwarnings("ignore")
def test_loo_agrees_with_arviz(reff):
    scales = np.linspace(0.05, 1.2, 12)
    log_likelihood = scales * np.random.default_rng(2).normal(size=(4, 250, 12)) - 2.0
    elpd, se, p, terms, k = arviz_loo(log_likelihood, reff)
    found = psis_loo(log_likelihood, relative_efficiency=reff)
    np.testing.assert_allclose(found.elpd, terms, rtol=1e-6)
    np.testing.assert_allclose(found.pareto_k, k, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found.elpd.sum(), elpd, rtol=1e-6)
    estimate = make_estimate(found.elpd, tuple("abcdefghijkl"), "")
    np.testing.assert_allclose(estimate.se, se, rtol=1e-6)
    np.testing.assert_allclose((found.lpd - found.elpd).sum(), p, rtol=1e-6)


def test_relative_efficiency_of_draws_in_pairs():
    draws = np.random.default_rng(3).normal(size=(4, 500, 2))
    twice = np.repeat(draws, 4, axis=1)
    np.testing.assert_allclose(efficiency_of(draws), 1, atol=0.2)
    np.testing.assert_allclose(efficiency_of(twice), 0.25, atol=0.05)


@pytest.fixture(scope="module")
def outlier():
    """A regression with one observation far off, its result and its estimate by PSIS."""
    y = Y.copy()
    y[5] += 4.0
    x = X.copy()
    x[5, 1] = 2.5
    result = as_result(exact_draws(2000, x, y))
    posterior = posterior_of(y)
    return x, y, result, posterior, inference.loo(result, posterior, jnp.asarray(x))


def test_words_on_an_unreliable_term(outlier):
    estimate = outlier[-1]
    assert estimate.pareto_k[5] > 0.7
    assert np.flatnonzero(estimate.is_bad).tolist() == [5]
    assert "1 of 30 Pareto k above 0.7" in estimate.problems[0]
    assert "y[5]" in str(estimate)
    assert "refit=0.69" in estimate._repr_html_()  # the bound for 2000 draws


def test_refit_makes_the_term_exact(outlier):
    x, y, result, posterior, by_psis = outlier
    found = inference.loo(result, posterior, jnp.asarray(x), refit=0.7, num_draws=1000)
    assert found.is_exact.tolist() == [i == 5 for i in range(SIZE)]
    exact = exact_loo(x, y)[5]
    assert abs(found.pointwise[5] - exact) < 0.5 < abs(by_psis.pointwise[5] - exact)
    others = np.arange(SIZE) != 5
    np.testing.assert_array_equal(found.pointwise[others], by_psis.pointwise[others])
    assert not found.problems
    assert "1 exact" in str(found)


@pytest.mark.slow
def test_all_refits_agree_with_the_hat_matrix():
    result = as_result(exact_draws(2000))
    found = inference.loo(
        result, posterior_of(), jnp.asarray(X), refit=-np.inf, num_draws=2000, num_warmup=400
    )
    assert found.is_exact.all()
    np.testing.assert_allclose(found.pointwise, exact_loo(), atol=0.03)


def test_weights_of_draws_count(estimate):
    """Draws of another normal distribution with importance weights give the same estimate."""
    num = 40_000
    draws = 1.3 * (z := exact_draws(num)) - 0.3 * z.mean((0, 1))
    precision = X.T @ X / NOISE**2 + np.eye(2) / PRIOR**2
    mean = np.linalg.solve(precision, X.T @ Y / NOISE**2)
    center = 1.3 * mean - 0.3 * z.mean((0, 1))
    quadratic = lambda x: -0.5 * np.einsum("...i,ij,...j", x, precision, x)  # noqa: E731
    log_weights = (quadratic(draws - mean) - quadratic((draws - center) / 1.3)).reshape(1, -1)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    flat = {"beta": draws.reshape(1, num, 2)}
    result = inference.ImportanceResult(flat, log_weights, weights, 0.0, 0.0, 100.0, 0.1)
    found = inference.loo(result, posterior_of(), jnp.asarray(X))
    np.testing.assert_allclose(found.pointwise, estimate.pointwise, atol=0.04)
    unweighted = inference.loo(as_result(draws), posterior_of(), jnp.asarray(X))
    assert np.abs(unweighted.pointwise - estimate.pointwise).max() > 0.1


def test_units_of_several_sites_and_missing_data():
    """Of a model with a deterministic site, too."""

    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ppl.deterministic(2 * mu, name="twice")
        ppl.sample(key, dist.Normal(mu * jnp.ones((3, 2)), 1.0), name="a")
        ppl.sample(key, dist.Normal(mu * jnp.ones(3), 1.0), name="b")

    a = jnp.arange(6.0).reshape(3, 2).at[1, 0].set(jnp.nan)
    posterior = ppl.condition(model, {"a": ppl.ignore(a), "b": jnp.arange(3.0)})
    draws = {"mu": np.random.default_rng(4).normal(size=(2, 100))}
    result = MCMCResult(draws | {"twice": 2 * draws["mu"]}, {}, None)
    whole = inference.loo(result, posterior)
    assert len(whole.names) == 8
    assert "a[1,0]" not in whole.names
    one = inference.loo(result, posterior, site="b")
    np.testing.assert_allclose(one.pointwise, whole.pointwise[-3:])
    rows = inference.loo(result, posterior, unit="row")
    assert rows.names == ("row[0]", "row[1]", "row[2]")
    log_probs = log_likelihoods(Likelihood.of(posterior, (), {}), draws)
    by_row = log_probs["a"].sum(-1) + log_probs["b"]
    np.testing.assert_allclose(rows.pointwise, psis_loo(by_row).elpd, rtol=1e-5)


def test_counts_leave_out_the_units():
    missing = {"a": np.array([[False, True], [False, False]]), "b": np.zeros(2, bool)}
    shapes = (("a", (2, 2)), ("b", (2,)))
    units = Units.of(shapes, missing, "a")
    assert units.names == ("a[0,0]", "a[1,0]", "a[1,1]")
    counts = units.counts(np.array([1]))
    assert counts["a"].tolist() == [[True, True], [False, True]]
    assert counts["b"].all()


def test_mistakes():
    result, x = as_result(exact_draws(40)), jnp.asarray(X)
    with pytest.raises(TypeError, match="comes first"):
        inference.loo(posterior_of(), result, x)
    with pytest.raises(ValueError, match="no observed site 'z'"):
        inference.loo(result, posterior_of(), x, site="z")
    with pytest.raises(ValueError, match="no observed site"):
        inference.loo(result, regression, x)
    with pytest.raises(ValueError, match="unit must be one of"):
        inference.loo(result, posterior_of(), x, unit="column")
    with pytest.raises(TypeError, match="refit must be a number"):
        inference.loo(result, posterior_of(), x, refit=True)

    def joint(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ppl.sample(key, dist.iid(dist.Normal(mu, 1.0), 5), name="y")

    one = MCMCResult({"mu": np.zeros((1, 30))}, {}, None)
    with pytest.raises(ValueError, match="two observations at least"):
        inference.loo(one, ppl.condition(joint, {"y": jnp.zeros(5)}))


def test_the_bound_that_is_advised_refits_the_term():
    # Of 1000 draws, a Pareto k of 0.68 is too large, and refit=0.7 would leave the term.
    k = np.array([0.1, 0.68])
    found = make_estimate(-np.ones(2), ("y[0]", "y[1]"), "", pareto_k=k, largest_k=0.6667)
    assert "refit=0.66)" in found.problems[0]


def test_few_draws_are_named():
    estimate = inference.loo(as_result(exact_draws(16)), posterior_of(), jnp.asarray(X))
    assert "too few draws" in estimate.problems[0]


def test_draws_that_were_not_kept_are_named():
    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ppl.sample(key, dist.Normal(mu, 1.0), name="y")

    posterior = ppl.condition(model, {"y": 1.0})
    result = MCMCResult({"other": np.zeros((1, 30))}, {}, None)
    with pytest.raises(ValueError, match=r"no draws of 'mu'.*without keep"):
        inference.loo(result, posterior)


def test_data_that_are_all_ignored_are_told_as_missing():
    with pytest.raises(ValueError, match=r"at least, got 0\. 3 entries are missing"):
        Units.of([("y", (3,))], {"y": np.ones(3, bool)})
