"""Evidence by bridge sampling, beside integrals that are known, and its standard error."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key
from scipy import integrate, stats
from scipy.special import gammaln, logsumexp

import distributions as dist
import inference
import ppl
from inference.evidence import bridge_sampling as module
from inference.evidence.bridge_sampling import bridge_sampling
from inference.results.evidence import evidence_problems

NUM_RUNS = 30
SHAPE = 0.5
SIZE = 3


def normal(x):
    return stats.norm.logpdf(x).sum(-1) + 3.0


def log_gamma(x):
    """Skewed: the log of Gamma variables."""
    with np.errstate(over="ignore"):
        return (SHAPE * x - np.exp(x)).sum(-1) - SIZE * gammaln(SHAPE) - 2.0


def two_modes(x):
    terms = [np.log(w) + stats.norm.logpdf(x[..., 0], m) for w, m in ((0.3, -5), (0.7, 5))]
    return np.logaddexp(*terms)


def funnel(x):
    inner = stats.norm.logpdf(x[..., 1:], 0, np.exp(x[..., :1] / 2)).sum(-1)
    return stats.norm.logpdf(x[..., 0], 0, 3) + inner


def correlated(rng, shape, rate=0.9):
    """Standard normal chains with autocorrelation."""
    x = rng.standard_normal((*shape, SIZE))
    for i in range(1, shape[1]):
        x[:, i] = rate * x[:, i - 1] + np.sqrt(1 - rate**2) * x[:, i]
    return x


def draw_funnel(rng, shape):
    v = 3 * rng.standard_normal((*shape, 1))
    return np.concatenate([v, np.exp(v / 2) * rng.standard_normal((*shape, 4))], -1)


TARGETS = {
    "normal": (normal, 3.0, lambda rng, shape: rng.standard_normal((*shape, 20))),
    "autocorrelated": (lambda x: stats.t.logpdf(x, 4).sum(-1), 0.0, None),
    "skewed": (log_gamma, -2.0, lambda rng, s: np.log(rng.gamma(SHAPE, size=(*s, SIZE)))),
    "heavy": (
        lambda x: stats.t.logpdf(x, 2).sum(-1),
        0.0,
        lambda rng, shape: rng.standard_t(2, size=(*shape, 2)),
    ),
    "two modes": (
        two_modes,
        0.0,
        lambda rng, s: rng.standard_normal((*s, 1)) + 5 - 10 * (rng.random((*s, 1)) < 0.3),
    ),
    "funnel": (funnel, 0.0, draw_funnel),
}


def scores(name, num_runs=NUM_RUNS):
    """Errors of many runs in standard errors."""
    log_density, expected, draw = TARGETS[name]
    if name == "autocorrelated":
        # The quantiles of a normal chain under the target.
        def draw(rng, shape):
            return stats.t.ppf(stats.norm.cdf(correlated(rng, shape)), 4)

    found = [
        bridge_sampling(log_density, draw(np.random.default_rng([7, i]), (4, 400)), [i, 8])
        for i in range(num_runs)
    ]
    return np.array([(x.log_integral - expected) / x.se for x in found])


@pytest.mark.parametrize("name", TARGETS)
def test_errors_are_as_large_as_told(name):
    """Errors of 30 runs in standard errors: fails by chance once in 10^5 runs."""
    z = scores(name)
    assert abs(z.mean()) < 4.5 / np.sqrt(NUM_RUNS)
    # The posterior's share of the error is bounded from above, so that z may be below 1.
    assert 0.35 < np.sqrt(np.mean(z**2)) < 1.7


def test_errors_that_ignore_autocorrelation_are_caught(monkeypatch):
    monkeypatch.setattr(module, "_ess", lambda x: float(x.size))
    assert np.sqrt(np.mean(scores("autocorrelated") ** 2)) > 1.7


def test_skewness_hurts_without_the_mirror():
    """The mirrored density overlaps more with the normal distribution (Meng and Schilling)."""
    _, _, draw = TARGETS["skewed"]
    draws = draw(np.random.default_rng(0), (4, 400))
    assert bridge_sampling(log_gamma, draws, [0]).overlap > 0.85


def beta_binomial(key):
    p = ppl.sample(key, dist.Beta(1.0, 1.0), name="p")
    return ppl.sample(key, dist.Binomial(10, probs=p), name="y")


def regression(key, x):
    weights = ppl.sample(key, dist.Normal(jnp.zeros(3), 2.0), name="weights")
    return ppl.sample(key, dist.Normal(x @ weights, 1.0), name="y")


X = np.random.default_rng(3).standard_normal((20, 3))
Y = X @ [1.0, -2.0, 0.5] + np.random.default_rng(4).standard_normal(20)


def fit(model, *args, **more):
    return inference.mcmc(key(0), model, *args, num_warmup=300, num_draws=500, **more)


def joint_normal(y, covariance):
    """Log density of data that are jointly normal with mean 0."""
    found = stats.multivariate_normal(np.zeros(len(y)), covariance)  # pyright: ignore
    return found.logpdf(np.asarray(y))


def close(found, expected):
    """Within 4 standard errors, and precise: fails by chance once in 10^4 runs."""
    assert not found.problems
    assert found.standard_error < 0.05
    assert abs(found.log_evidence - expected) < 4 * found.standard_error + 1e-4


def test_evidence_of_counts_and_of_a_regression_is_exact():
    counts = ppl.condition(beta_binomial, {"y": jnp.array(2)})
    close(inference.evidence(fit(counts), counts), -np.log(11))
    posterior = ppl.condition(regression, {"y": jnp.asarray(Y, float)})
    x = jnp.asarray(X, float)
    result = fit(posterior, x)
    covariance = 4 * X @ X.T + np.eye(20)
    found = inference.evidence(result, posterior, x)
    close(found, joint_normal(Y, covariance))
    again = inference.evidence(result, posterior, x)
    assert again.log_evidence == found.log_evidence
    other = inference.evidence(result, posterior, x, key=key(1))
    assert other.log_evidence != found.log_evidence
    close(other, joint_normal(Y, covariance))


def mixture(key, num):
    p = ppl.sample(key, dist.Beta(2.0, 2.0), name="p")
    z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(num, p)), name="z")
    return ppl.sample(key, dist.Normal(3.0 * z.astype(float), 1.0), name="y")


def test_evidence_sums_discrete_sites():
    """By the summed model, with draws of it and with those of Gibbs sampling of all sites."""
    y = np.array([-0.5, 0.2, 2.5, 3.5, 1.4])
    posterior = ppl.condition(mixture, {"y": jnp.asarray(y, float)})
    summed = ppl.marginalize(posterior, ["z"])

    def density(p):
        at = p * stats.norm.pdf(y, 3) + (1 - p) * stats.norm.pdf(y)
        return np.prod(at) * stats.beta.pdf(p, 2, 2)

    expected = np.log(integrate.quad(density, 0, 1)[0])
    close(inference.evidence(fit(summed, 5), summed, 5), expected)
    gibbs = fit(posterior, 5, kernel=inference.Gibbs.auto())
    close(inference.evidence(gibbs, summed, 5), expected)
    with pytest.raises(
        ValueError, match=r"ppl.marginalize\(model, \['z'\]\), \*args\), also for draws of"
    ):
        inference.evidence(gibbs, posterior, 5)


def mean(key):
    mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(3), 1.0), name="y")


@pytest.mark.slow
def test_evidence_of_each_of_many_fits():
    y = jnp.array([[1.0, 2.0, 4.0], [0.0, -1.0, 3.0]])

    def posterior(key, y):
        return ppl.condition(mean, {"y": y})(key)

    results = inference.mcmc_each(key(0), posterior, y, num_warmup=300, num_draws=500)
    covariance = 4 * np.ones((3, 3)) + np.eye(3)
    for result, row in zip(results, y, strict=True):
        close(inference.evidence(result, posterior, row), joint_normal(row, covariance))


def test_evidence_within_a_scope_with_gaps():
    """A missing value is latent, and integrates to one."""
    observed = ppl.impute(jnp.array([1.0, jnp.nan, 4.0]))
    posterior = ppl.condition(ppl.nest(mean, scope="inner"), {"inner": {"y": observed}})
    found = inference.evidence(fit(posterior), posterior)
    close(found, joint_normal([1.0, 4.0], 4 * np.ones((2, 2)) + np.eye(2)))


def test_models_are_compared_by_evidence(tmp_path):
    counts = [inference.Evidence(x, 0.01, 0.2, 0.9, (), "") for x in (-3.0, -2.0)]
    found = inference.compare({"a": counts[0], "b": counts[1]})
    assert found.names == ("b", "a")
    np.testing.assert_allclose(found.log_bayes_factor, [0, -1])
    np.testing.assert_allclose(found.log_bayes_factor_se, [0, 0.01 * np.sqrt(2)])
    expected = np.exp([-2, -3] - logsumexp([-2, -3]))
    np.testing.assert_allclose(found.probability, expected)
    assert "-1.00" in str(found)
    found.save(tmp_path / "models.npz")
    assert str(inference.EvidenceComparison.load(tmp_path / "models.npz")) == str(found)
    equal = inference.compare({"a": counts[0], "b": counts[0]})
    assert "which one has the higher evidence is open" in str(equal)
    with pytest.raises(TypeError, match="or a dict of results of evidence"):
        inference.compare({"a": counts[0], "b": 3.0})  # pyright: ignore


def test_evidences_of_other_data_are_not_compared():
    def rows(key):
        loc = ppl.sample(key, dist.Normal(0.0, 2.0), name="loc")
        return ppl.sample(key, dist.Normal(jnp.full(3, loc), 1.0), name="y")

    def columns(key):
        loc = ppl.sample(key, dist.Normal(0.0, 2.0), name="loc")
        ppl.sample(key, dist.Normal(jnp.full(2, loc), 1.0), name="a")
        return ppl.sample(key, dist.Normal(loc, 1.0), name="b")

    gap = jnp.array([False, False, True])
    models = {
        "rows": ppl.condition(rows, {"y": jnp.array([1.0, 2.0, 3.0])}),
        "columns": ppl.condition(columns, {"a": jnp.array([1.0, 3.0]), "b": jnp.array(2.0)}),
        "gap": ppl.condition(rows, {"y": ppl.ignore(jnp.array([1.0, 2.0, 3.0]), gap)}),
        "units": ppl.condition(rows, {"y": jnp.array([100.0, 200.0, 300.0])}),
    }
    found = {name: inference.evidence(fit(model), model) for name, model in models.items()}

    def told(name):
        return str(inference.compare({"rows": found["rows"], name: found[name]}))

    assert "conditioned on" not in told("columns")
    assert any(f"are conditioned on {x} numbers" in told("gap") for x in ("3 and 2", "2 and 3"))
    assert "rows and units are conditioned on other numbers" in told("units")


def test_doubts_are_told():
    x = np.random.default_rng(0).standard_cauchy((4, 200, 20))
    found = bridge_sampling(lambda x: stats.cauchy.logpdf(x).sum(-1), x, [0])
    words = evidence_problems
    told = words(found.se, found.overlap, 1.0, 1.0, 0.0, 0.0)
    assert "overlaps with its normal" in told[0]
    shifted = np.random.default_rng(0).standard_normal((4, 200, 2)) + np.arange(4)[:, None, None]
    found = bridge_sampling(lambda x: stats.norm.logpdf(x).sum(-1), shifted, [0])
    assert "the chains disagree" in words(0.01, 1.0, 0, found.rhat, 0, 0)[0]
    alone = bridge_sampling(lambda x: stats.norm.logpdf(x).sum(-1), shifted[:1], [0])
    assert words(0.01, 1.0, 0, alone.rhat, 0, 0)[0].startswith("the draws are of a single chain")
    assert "at the edge of a support" in words(0.01, 1.0, 0, 1.0, 0.1, 0)[0]
    assert "are rounded to 0.12, which" in words(0.01, 1.0, 0, 1.0, 0.0, 0.12)[0]


def improper(key):
    mu = ppl.sample(key, dist.Flat(dist.constraints.real), name="mu")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(3), 1.0), name="y")


def scaled(key):
    mu = ppl.sample(key, dist.Flat(dist.constraints.real), name="mu")
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(3), scale), name="y")


def test_what_has_no_evidence_is_refused():
    counts = ppl.condition(beta_binomial, {"y": jnp.array(2)})
    result = fit(counts)
    with pytest.raises(TypeError, match=r"comes first: inference\.evidence\(result, posterior"):
        inference.evidence(counts, result)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"has result\.log_evidence of its own"):
        inference.evidence(inference.laplace(key(0), counts), counts)  # pyright: ignore
    with pytest.raises(ValueError, match="its arguments or its data are not those of the run"):
        inference.evidence(result, ppl.condition(beta_binomial, {"y": jnp.array(3)}))
    with pytest.raises(ValueError, match="are of another model or of data of other shapes"):
        inference.evidence(result, ppl.condition(mean, {"y": jnp.ones(3)}))
    brief = jax.tree.map(lambda x: x[:, :20], (result.draws, result.stats))
    with pytest.raises(ValueError, match="50 draws of each chain or more, got 20"):
        inference.evidence(dataclasses.replace(result, draws=brief[0], stats=brief[1]), counts)
    flat = ppl.condition(improper, {"y": jnp.ones(3)})
    with pytest.raises(ValueError, match=r"site 'mu' has a distribution, Flat, that cannot be"):
        inference.evidence(inference.mcmc(key(0), flat, num_draws=100), flat)
    still = dataclasses.replace(
        result, draws={"p": jnp.full_like(result.draws["p"], 0.3)}, stats={}
    )
    with pytest.raises(ValueError, match="the draws of p do not vary in a half of the run"):
        inference.evidence(still, counts)
    integrated = ppl.marginalize(ppl.condition(scaled, {"y": jnp.ones(3)}), {"mu": ppl.Gaussian()})
    short = inference.mcmc(key(0), integrated, num_warmup=50, num_draws=50)
    with pytest.raises(ValueError, match=r"site 'mu' has a distribution, Flat, that cannot be"):
        inference.evidence(short, integrated)


def test_integral_of_a_bare_density():
    density = ppl.from_density(lambda x: -0.5 * jnp.sum(x**2) + 7.0, jnp.zeros(3))
    result = fit(density, init="uniform")
    close(inference.evidence(result, density), 7 + 1.5 * np.log(2 * np.pi))


@pytest.mark.slow
def test_evidence_in_double_precision_with_a_legacy_key(x64):
    posterior = ppl.condition(beta_binomial, {"y": jnp.array(2)})
    found = inference.evidence(fit(posterior), posterior, key=jax.random.PRNGKey(3))
    close(found, -np.log(11))
