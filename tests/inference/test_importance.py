"""importance: evidence and posterior of a conjugate model, from the prior and from guides."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist
import ppl
from inference import FullRank, PointMass, importance, laplace, mcmc, svi
from inference.runtime.compiled_program import compile_program

X = np.array([-1.0, 0.0, 2.0, 3.0])
Y = np.array([0.3, -0.4, 1.5, 1.0])
# Each test compares at most four estimates with their standard errors: failure rate 7e-5.
Z = 4.3


def line(key, x):
    a = ppl.sample(key, dist.Normal(0.0, 1.0), name="a")
    b = ppl.nest(lambda key: ppl.sample(key, dist.Normal(0.0, 1.0), name="b"), scope="slope")(key)
    mean = ppl.deterministic(a + b * x, name="mean")
    ppl.factor(-0.25, name="f")
    return ppl.sample(key, dist.Normal(mean, 1.0), name="y")


def posterior(y=Y):
    return ppl.condition(line, {"y": jnp.asarray(y, jnp.result_type(float))})


def x():
    return jnp.asarray(X, jnp.result_type(float))


def exact():
    """Evidence, means and standard deviations."""
    design = np.stack([np.ones(4), X], 1)
    evidence = st.multivariate_normal(np.zeros(4), np.eye(4) + design @ design.T).logpdf(Y) - 0.25
    covariance = np.linalg.inv(np.eye(2) + design.T @ design)
    return evidence, covariance @ design.T @ Y, np.sqrt(np.diag(covariance))


def check(result):
    evidence, means, sds = exact()
    summary = result.summary()
    assert summary.problems == ()
    error = result.log_evidence_standard_error
    assert abs(result.log_evidence - evidence) < Z * error + 1e-5
    for name, mean, sd in zip(("a", "slope.b"), means, sds, strict=True):
        assert abs(summary[name].mean - mean) < Z * sd / np.sqrt(result.ess)
        assert abs(summary[name].sd / sd - 1) < Z / np.sqrt(result.ess)
        for field, level in (("q5", 0.05), ("q95", 0.95)):
            quantile = st.norm(mean, sd).ppf(level)
            assert abs(getattr(summary[name], field) - quantile) < Z * 3 * sd / np.sqrt(result.ess)


def test_from_the_prior(float_dtype):
    result = importance(jax.random.key(0), posterior(), x())
    check(result)
    assert result.draws["a"].dtype == float_dtype
    shapes = {"a": (1, 10_000), "mean": (1, 10_000, 4), "slope": {"b": (1, 10_000)}}
    assert jax.tree.map(np.shape, result.draws) == shapes
    np.testing.assert_allclose(np.sum(result.weights), 1.0)
    assert result.ess < 9000


def test_from_a_guide():
    fitted = svi(jax.random.key(0), posterior(), x(), guide=FullRank())
    result = importance(jax.random.key(1), posterior(), x(), guide=fitted, num_draws=4000)
    check(result)
    assert result.ess > 3500
    assert result.log_evidence_standard_error < 0.01


@pytest.mark.slow
def test_a_guide_that_is_the_posterior():
    result = importance(
        jax.random.key(0), posterior(), x(), guide=laplace(jax.random.key(1), posterior(), x())
    )
    assert result.pareto_k == -np.inf
    check(result)


@pytest.mark.slow
def test_the_standard_error_is_the_spread_of_estimates():
    results = [importance(jax.random.key(i), posterior(), x(), num_draws=400) for i in range(200)]
    spread = np.std([result.log_evidence for result in results])
    errors = np.mean([result.log_evidence_standard_error for result in results])
    np.testing.assert_allclose(spread, errors, rtol=0.2)


def test_new_data_compile_nothing():
    importance(jax.random.key(0), posterior(), x(), num_draws=100)
    misses = compile_program.cache_info().misses
    importance(jax.random.key(1), posterior(Y + 1), x() + 1, num_draws=100)
    assert compile_program.cache_info().misses == misses


def test_draws_are_taken_by_their_weights():
    result = importance(jax.random.key(0), posterior(), x())
    draws = result.resample(jax.random.key(1), 2000)
    assert draws["mean"].shape == (2000, 4)
    _, means, sds = exact()
    error = sds[0] * np.sqrt(1 / 2000 + 1 / result.ess)
    assert abs(np.mean(draws["a"]) - means[0]) < Z * error
    with pytest.raises(TypeError, match="predict: these draws have importance weights"):
        ppl.predict(line, result)
    chains = mcmc(
        jax.random.key(2),
        posterior(),
        x(),
        init=jax.tree.map(lambda x: x[:4], draws),
        num_warmup=20,
    )
    assert chains.draws["a"].shape == (4, 1000)


def test_a_prior_that_is_far_off_is_said():
    result = importance(jax.random.key(0), posterior(100 * Y), x(), num_draws=1000)
    problems = result.summary().problems
    assert any("Pareto k is" in problem for problem in problems)
    assert any("draws only" in problem for problem in problems)


def test_weights_that_are_all_zero_are_said():
    def model(key):
        width = ppl.sample(key, dist.Uniform(0.0, 1.0), name="width")
        ppl.sample(key, dist.Uniform(0.0, width), name="y")

    result = importance(jax.random.key(0), ppl.condition(model, {"y": 3.0}), num_draws=50)
    assert result.log_evidence == -np.inf
    assert "no finite sum, but -inf" in result.summary().problems[0]
    with pytest.raises(ValueError, match="nothing to draw from: the log weights have no"):
        result.resample(jax.random.key(1), 4)


def test_one_draw_says_nothing_of_the_error_of_the_evidence():
    result = importance(jax.random.key(0), posterior(), x(), num_draws=1)
    assert np.isnan(result.log_evidence_standard_error)


def test_a_result_is_a_pytree_and_prints():
    result = importance(jax.random.key(0), posterior(), x(), num_draws=500)
    assert jax.tree.map(np.shape, result).draws["a"] == (1, 500)
    assert repr(result) == "ImportanceResult(500 draws: a (), mean (4,), slope.b ())"
    assert "500 draws with weights, worth" in str(result.summary())


def coins(key, flips):
    """A fair coin or one of two biased ones, and by its category another rate of heads."""
    kind = ppl.sample(key, dist.Categorical(probs=jnp.array([0.5, 0.3, 0.2])), name="kind")
    extra = ppl.sample(key, dist.Poisson(1.5), name="extra")
    swap = ppl.sample(key, dist.Bernoulli(probs=0.25), name="swap")
    rate = jnp.array([0.5, 0.8, 0.3])[kind]
    rate = ppl.deterministic(jnp.where(swap == 1, 1 - rate, rate), name="rate")
    ppl.sample(key, dist.Binomial(flips + extra, probs=rate), name="heads")


def enumerated(flips, heads):
    """Evidence, and the posterior of each combination of kind, extra and swap."""
    kind, extra, swap = np.meshgrid(np.arange(3), np.arange(40), np.arange(2), indexing="ij")
    rate = np.array([0.5, 0.8, 0.3])[kind]
    rate = np.where(swap == 1, 1 - rate, rate)
    joint = np.array([0.5, 0.3, 0.2])[kind] * st.poisson.pmf(extra, 1.5)
    joint = joint * np.where(swap == 1, 0.25, 0.75) * st.binom.pmf(heads, flips + extra, rate)
    return joint.sum(), joint / joint.sum()


def test_discrete_sites_are_drawn_from_the_prior():
    flips, heads = 6, 5
    evidence, table = enumerated(flips, heads)
    result = importance(jax.random.key(0), ppl.condition(coins, {"heads": heads}), flips)
    error = result.log_evidence_standard_error
    assert abs(result.log_evidence - np.log(evidence)) < Z * error
    assert result.draws["kind"].dtype == result.draws["swap"].dtype == np.int32
    draws, weights = jax.tree.map(np.ravel, result.draws), np.ravel(result.weights)
    for i, name in enumerate(("kind", "extra", "swap")):
        marginal = table.sum(tuple({0, 1, 2} - {i}))
        estimate = np.bincount(draws[name], weights, len(marginal))[: len(marginal)]
        spread = np.sqrt(marginal * (1 - marginal) / result.ess)
        np.testing.assert_array_less(np.abs(estimate - marginal), Z * spread + 1e-4)
    summary = result.summary()
    assert abs(summary["kind"].mean - np.sum(weights * draws["kind"])) < 1e-5
    assert result.resample(jax.random.key(1), 5)["kind"].shape == (5,)


def test_what_has_no_unconstrained_map_is_drawn_from_the_prior():
    def model(key):
        order = ppl.sample(key, dist.PlackettLuce(jnp.array([2.0, 1.0])), name="order")
        ppl.sample(key, dist.Normal(order[0].astype(float), 1.0), name="y")

    result = importance(jax.random.key(0), ppl.condition(model, {"y": 2.0}))
    evidence = 2 / 3 * st.norm.pdf(2.0) + 1 / 3 * st.norm.pdf(1.0)
    error = result.log_evidence_standard_error
    assert abs(result.log_evidence - np.log(evidence)) < Z * error


def test_data_observed_in_part_and_ignored_have_weights():
    data = {"y": ppl.ignore(np.array([0.3, np.nan, 1.5, np.nan]))}
    result = importance(jax.random.key(0), ppl.condition(line, data), x())
    design = np.stack([np.ones(4), X], 1)[[0, 2]]
    law = st.multivariate_normal(np.zeros(2), np.eye(2) + design @ design.T)
    error = result.log_evidence_standard_error
    assert abs(result.log_evidence - law.logpdf([0.3, 1.5]) + 0.25) < Z * error


def counts(key):
    kind = ppl.sample(key, dist.Bernoulli(probs=jnp.full(3, 0.5)), name="kind")
    ppl.sample(key, dist.Normal(jnp.sum(kind).astype(float), 1.0), name="y")


def imputed(key):
    ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="y")


def of_a_class(key):
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    x = ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="x")
    ppl.sample(key, dist.Normal(x + z, 1.0), name="y")


def of_a_value(key):
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    x = ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="x")
    ppl.sample(key, dist.Normal(x, 1.0), name="y")


def test_prior_draws_of_a_summed_model_have_weights():
    model = ppl.marginalize(ppl.condition(of_a_value, {"y": 2.0}), ["z"])
    found = importance(jax.random.key(0), model, num_draws=20_000).log_evidence
    normal = lambda loc: np.exp(-((2 - loc) ** 2) / 4) / np.sqrt(4 * np.pi)  # noqa: E731
    np.testing.assert_allclose(found, np.log(0.7 * normal(0) + 0.3 * normal(2)), atol=0.03)


def refused(model=None, **settings):
    return importance(jax.random.key(0), *((model,) if model else (posterior(), x())), **settings)


@pytest.mark.slow_rows("other sites")
@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: refused(num_draws=0), ValueError, "num_draws must be an integer of at least 1"),
        (
            lambda: refused(guide=FullRank()),
            TypeError,
            "guide must be a result of svi, laplace or pathfinder",
        ),
        (
            lambda: refused(guide=svi(jax.random.key(0), posterior(), x(), guide=PointMass())),
            ValueError,
            "guide must have a density, which PointMass() has not",
        ),
        (
            lambda: refused(guide=svi(jax.random.key(0), imputed, num_steps=1)),
            ValueError,
            "guide must be fitted to the same sites, got one with the parameters LocScale(loc='flo",
        ),
        (
            lambda: refused(
                ppl.condition(imputed, {"y": ppl.impute(np.array([1.0, np.nan, 2.0]))})
            ),
            NotImplementedError,
            "is observed in part, so draws from the prior have no weights",
        ),
        (
            lambda: refused(
                ppl.condition(counts, {"kind": ppl.impute(np.ma.array([1, 0, 0], mask=[0, 1, 0]))})
            ),
            NotImplementedError,
            "site 'kind' is observed in part, so draws from the prior have no weights",
        ),
        (
            lambda: refused(ppl.marginalize(ppl.condition(of_a_class, {"y": 2.0}), ["z"])),
            NotImplementedError,
            "sites 'x' and 'y' are scored together, by one sum or integral",
        ),
        (
            lambda: refused(ppl.condition(imputed, {"y": np.zeros(3)})),
            ValueError,
            "has no latent site: there is nothing to infer",
        ),
        (
            lambda: refused(counts, guide=svi(jax.random.key(0), imputed, num_steps=1)),
            ValueError,
            "site 'kind': its values are discrete",
        ),
    ],
    ids=[
        *("no draws", "no result", "no density", "other sites", "observed in part"),
        *("discrete in part", "scored with data", "no site", "discrete with a guide"),
    ],
)
def test_what_cannot_be_is_refused(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make()
