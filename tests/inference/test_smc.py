"""smc: evidence and posteriors beside integrals that are known, its errors, refusals, files."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.random import key
from scipy import integrate, stats

import distributions as dist
import inference
import ppl
from inference import HMC, MALA, NUTS, Barker, RandomWalk, Slice, smc
from inference.common.layout import Layout
from inference.drivers.smc_start import Rows, Start, _carried
from inference.models.observed_data import digest_data
from inference.particles.resampling import systematic
from inference.runtime.compiled_program import compile_program
from inference.sequential import tempering
from inference.sequential.moves import Mover, move_particles
from inference.sequential.path_weights import (
    Place,
    effective_number,
    effective_share,
    evidence_variance,
    influences,
    log_mean_weight,
    log_weights,
    next_place,
)
from inference.sequential.paths import ModelsPath

QUICK = RandomWalk(num_steps=5)  # it compiles twice as fast as one with gradients
KERNELS = {
    "NUTS": NUTS(),
    "HMC": HMC(num_steps=4),
    "MALA": MALA(),
    "Barker": Barker(),
    "RandomWalk": QUICK,
    "Slice": Slice(),
}


def beta_binomial(key):
    p = ppl.sample(key, dist.Beta(1.0, 1.0), name="p")
    return ppl.sample(key, dist.Binomial(10, probs=p), name="y")


def cauchy(key, scale):
    x = ppl.sample(key, dist.Cauchy(0.0, 1.0), name="x")
    return ppl.sample(key, dist.Normal(x, scale), name="y")


def blobs(key):
    x = ppl.sample(key, dist.Uniform(-5.0 * jnp.ones(2), 5.0), name="x")
    right = jnp.log(0.3) - jnp.sum((x - 1) ** 2) / 0.02
    left = jnp.log(0.7) - jnp.sum((x + 1) ** 2) / 0.02
    ppl.factor(jnp.logaddexp(right, left), name="likelihood")


def box(key):
    x = ppl.sample(key, dist.Uniform(-5.0 * jnp.ones(2), 5.0), name="x")
    ppl.factor(-0.5 * jnp.sum(x**2), name="likelihood")


def conjugate(key, y):
    x = ppl.sample(key, dist.Normal(jnp.zeros(y.shape), 1.0), name="x")
    return ppl.sample(key, dist.Normal(x, 0.3), name="y")


def bounded(key, y):
    """Data up to a maximum: the likelihood is 0 on most of the prior."""
    top = ppl.sample(key, dist.Uniform(0.0, 10.0), name="top")
    return ppl.sample(key, dist.Uniform(0.0 * y, top), name="y")


def of_cauchy(y):
    """Log evidence and posterior mean of `cauchy`, by quadrature."""

    def integral(power):
        def density(x):
            return x**power * stats.cauchy.pdf(x) * stats.norm.pdf(y, x, 0.5)

        return integrate.quad(density, -10, 20, points=[y])[0]

    return np.log(integral(0)), integral(1) / integral(0)


def share_right(result):
    return float((result.draws["x"][0, :, 0] > 0).mean())


def posterior_of_beta():
    return ppl.condition(beta_binomial, {"y": jnp.array(2)})


def errors(model, expected, *args, num_runs, **settings):
    """Errors of the log evidence of many runs, in standard errors."""
    found = [smc(key(i), model, *args, **settings) for i in range(num_runs)]
    return np.array([(x.log_evidence - expected) / x.standard_error for x in found])


def wide(key, y):
    """Prior and noise of `conjugate`, twice as large."""
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), 2.0), name="x")
    return ppl.sample(key, dist.Normal(x, 0.6), name="y")


# Each bound below is passed by chance once in 10^5 runs or less, unless another rate is told.


def test_the_evidence_of_an_asymmetric_likelihood():
    """A wrong sign in the search for temperatures hides behind symmetric likelihoods."""
    model = ppl.condition(cauchy, {"y": jnp.float32(2.0)})
    evidence, mean = of_cauchy(2.0)
    z = errors(model, evidence, jnp.float32(0.5), num_runs=4, kernel=QUICK)
    assert abs(z.mean()) < 4.5 / np.sqrt(4)
    result = smc(key(100), model, jnp.float32(0.5), kernel=QUICK)
    row = result.summary()["x"]
    assert abs(row.mean - mean) < 4.5 * row.mcse_mean


def test_two_modes_have_their_weights():
    found = [smc(key(i), blobs, kernel=QUICK) for i in range(3)]
    values = np.array([x.log_evidence for x in found])
    expected = np.log(2 * np.pi * 0.01 / 100)
    error = np.sqrt(np.mean([x.standard_error**2 for x in found]) / 3)
    assert abs(values.mean() - expected) < 4.5 * error
    shares = np.array([*map(share_right, found)])
    assert abs(shares.mean() - 0.3) < 0.16  # of one run 0.06


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.quick_rows("HMC", "RandomWalk")
def test_each_kernel_finds_the_posterior(name):
    y = jnp.array([1.0, -2.0, 0.5])
    result = smc(key(3), ppl.condition(conjugate, {"y": y}), y, kernel=KERNELS[name])
    expected = stats.norm.logpdf(y, 0, np.sqrt(1.09)).sum()
    assert abs(result.log_evidence - expected) < 4.5 * result.standard_error
    rows = result.summary()["x"]
    assert (abs(rows.mean - y / 1.09) < 4.5 * rows.mcse_mean).all()
    np.testing.assert_allclose(rows.sd, np.sqrt(0.09 / 1.09), rtol=0.15)
    assert result.num_chains * 16 == result.draws["x"].shape[1] == 2048


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (posterior_of_beta(), -np.log(11)),
        (box, np.log(2 * np.pi / 100)),
        (blobs, np.log(2 * np.pi * 0.01 / 100)),
    ],
    ids=["beta-binomial", "box", "blobs"],
)
def test_errors_are_as_large_as_told(model, expected):
    z = errors(model, expected, num_runs=200)
    assert abs(z.mean()) < 4.5 / np.sqrt(200)
    assert 0.8 < z.std() < 1.25


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 5, 10, 20])
def test_conjugate_normal_in_many_dimensions(size):
    y = jnp.linspace(-1.0, 2.0, size)
    model = ppl.condition(conjugate, {"y": y})
    expected = stats.norm.logpdf(y, 0, np.sqrt(1.09)).sum()
    z = errors(model, expected, y, num_runs=100)
    assert abs(z.mean()) < 4.5 / np.sqrt(100)
    assert 0.75 < z.std() < 1.35


def twice(found):
    """Log mean weight as of powers in place of their rises."""
    return log_mean_weight(2 * found)


def blind(key, found, num):
    """Resampling that does not see the weights."""
    return systematic(key, 0 * found, num)


@pytest.mark.parametrize(("name", "wrong"), [("log_mean_weight", twice), ("systematic", blind)])
def test_wrong_steps_are_caught(monkeypatch, name, wrong):
    monkeypatch.setattr(tempering, name, wrong)
    z = errors(blobs, np.log(2 * np.pi * 0.01 / 100), num_runs=2, kernel=QUICK)
    assert abs(z.sum()) / np.sqrt(2) > 5


def test_moves_at_the_temperature_before_are_caught(monkeypatch):
    def late(mover, seed, starts, powers, *others):
        return move_particles(mover, seed, starts, 0.5 * powers, *others)

    monkeypatch.setattr(tempering, "move_particles", late)
    z = errors(blobs, np.log(2 * np.pi * 0.01 / 100), num_runs=2, kernel=QUICK)
    assert abs(z.sum()) / np.sqrt(2) > 5


def test_a_likelihood_that_is_0_on_most_of_the_prior():
    """The evidence is the integral of 1 / (10 top^3) from the largest datum to 10."""
    y = jnp.array([1.0, 9.0, 2.0])
    model = ppl.condition(bounded, {"y": y})
    expected = np.log((1 / 81 - 1 / 100) / 20)
    z = errors(model, expected, y, num_runs=2, kernel=QUICK)
    assert abs(z.mean()) < 4.5 / np.sqrt(2)
    result = smc(key(0), model, y, kernel=QUICK)
    assert result.draws["top"].min() > 9
    assert result.steps["num_possible"][0] < 400
    y = jnp.array([1.0, 9.99])
    few = smc(key(0), ppl.condition(bounded, {"y": y}), y, kernel=QUICK)
    assert any("particles of a step only" in x for x in few.summary().problems)


def with_spike(key, sd):
    """Half of the mass in a spike that is `sd` wide."""
    x = ppl.sample(key, dist.Uniform(-5.0 * jnp.ones(2), 5.0), name="x")
    spike = -jnp.sum((x - 2) ** 2) / (2 * sd**2) - 2 * jnp.log(sd)
    ppl.factor(jnp.logaddexp(-jnp.sum(x**2) / 2, spike), name="likelihood")


@pytest.mark.slow
def test_a_spike_that_few_draws_have_hit_is_told():
    """Half of the mass: the evidence is off by 0.7 if none hits it, and uncertain if one does."""

    def is_told(result):
        return any("decide the log evidence" in x for x in result.summary().problems)

    expected = np.log(4 * np.pi / 100)
    narrow = [smc(key(i), with_spike, jnp.float32(0.05), kernel=KERNELS["HMC"]) for i in range(8)]
    hit = [x for x in narrow if (abs(x.draws["x"][0] - 2) < 0.2).all(1).mean() > 0.1]
    assert 3 <= len(hit) <= 7
    assert all(map(is_told, hit))
    wide = [smc(key(i), with_spike, jnp.float32(0.7), kernel=KERNELS["HMC"]) for i in range(8)]
    assert not any(map(is_told, wide))
    assert all(abs(x.log_evidence - expected) < 4.5 * x.standard_error for x in wide)


def test_a_run_of_few_particles_claims_no_more_than_it_shows():
    short = smc(key(0), posterior_of_beta(), kernel=QUICK, num_particles=64, chain_length=2)
    few = dataclasses.replace(short, num_chains=4)
    words = "\n".join(few.summary().problems)
    assert "4 chains are too few to show whether some of them decide" in words
    assert "raise num_particles to 256 or more" in words
    assert "particles of a step only" not in words  # all of them have a likelihood above 0
    assert inference.evidence(few).problems[0] in words
    assert short.summary().problems == ()
    verdict = short.summary().verdict
    assert verdict.startswith("No problem found: standard error of the log evidence at most")
    for number, is_told in ((2.5, True), (3.5, False)):  # of 32 chains
        steps = {**short.steps, "num_decisive": np.full(len(short.steps["place"]), number)}
        problems = dataclasses.replace(short, steps=steps).summary().problems
        assert any("decide the log evidence" in x for x in problems) == is_told


def test_the_effective_number_of_chains_in_an_error():
    parts = np.random.default_rng(0).standard_normal(10_000)
    np.testing.assert_allclose(effective_number(parts), 10_000 / 3, rtol=0.1)
    np.testing.assert_allclose(effective_number(np.eye(100)[0] - 0.01), 1, rtol=0.05)
    assert effective_number(np.zeros(5)) == 5


def test_new_data_keys_and_temperatures_compile_nothing():
    y = jnp.array([1.0, -2.0, 0.5])
    first = smc(key(0), ppl.condition(conjugate, {"y": y}), y, kernel=QUICK)
    before = compile_program.cache_info().misses
    other = smc(key(1), ppl.condition(conjugate, {"y": 5 * y}), 5 * y, kernel=QUICK)
    assert compile_program.cache_info().misses == before
    assert len(other.steps["place"]) > len(first.steps["place"]) > 1
    again = smc(key(0), ppl.condition(conjugate, {"y": y}), y, kernel=QUICK)
    np.testing.assert_array_equal(again.draws["x"], first.draws["x"])


def test_steps_along_a_path():
    rng = np.random.default_rng(0)
    terms = -(10 ** rng.uniform(0, 6, (500, 1)))
    start = Place(0, 0.0)
    place = next_place(terms, start, 0.5, np.dtype(np.float64))
    assert place.whole == 0
    assert 0 < place.part < 1e-3
    found = log_weights(terms, start, place)
    np.testing.assert_allclose(found, place.part * terms[:, 0])
    np.testing.assert_allclose(effective_share(found), 0.5, rtol=1e-6)
    # Particles without density count neither for nor against a step.
    padded = np.concatenate([terms, np.full((500, 1), -np.inf), np.full((500, 1), np.nan)])
    assert next_place(padded, start, 0.5, np.dtype(np.float64)) == place
    weights = log_weights(padded, start, place)
    np.testing.assert_allclose(log_mean_weight(weights), log_mean_weight(found) - np.log(3))
    # Whole terms where they may be taken, and then a part of the next one.
    terms = 0.2 * rng.standard_normal((500, 50))
    end = next_place(terms, start, 0.5, np.dtype(np.float64))
    assert 5 < end.whole < 50
    further = Place(end.whole + 1, 0.0)
    assert effective_share(log_weights(terms, start, further)) < 0.5
    np.testing.assert_allclose(effective_share(log_weights(terms, start, end)), 0.5, rtol=1e-6)
    between = log_weights(terms, end, further)
    np.testing.assert_allclose(between, (1 - end.part) * terms[:, end.whole])
    with pytest.raises(ValueError, match=r"Set jax_enable_x64"):
        next_place(-np.logspace(0, 120, 50)[:, None], start, 0.5, np.dtype(np.float32))


def test_the_variance_counts_correlation_within_families():
    """States that do not move, siblings that are alike; fails once in 10^5 runs."""
    rng = np.random.default_rng(1)
    shapes = {"moved": (64, 2, 4), "chains": (64, 2, 1), "families": (64, 1, 1)}
    parents = np.repeat(np.arange(64), 2)
    for shape in shapes.values():
        x = np.broadcast_to(0.5 * rng.standard_normal((400, *shape)), (400, 64, 2, 4))
        x = x.reshape(400, -1)
        found = np.array([log_mean_weight(row) for row in x])
        told = np.mean([evidence_variance([influences(row, 128)], [parents]) for row in x])
        assert abs(found.var() / told - 1) < 0.35


def test_the_variance_counts_what_descendants_inherit():
    """Weights that are the same in all steps: the error of their logs is a multiple of one."""
    part = np.random.default_rng(0).standard_normal(64) / 64
    part -= part.mean()
    alike = evidence_variance([part] * 3, [np.arange(64)] * 3)
    np.testing.assert_allclose(alike, 9 * evidence_variance([part], [np.arange(64)]), rtol=0.05)


def test_result_goes_where_others_go(tmp_path):
    y = jnp.array([1.0, -2.0, 0.5])
    model = ppl.condition(conjugate, {"y": y})
    result = smc(key(0), model, y, kernel=QUICK)
    result.save(tmp_path / "smc.npz")
    loaded = inference.SMCResult.load(tmp_path / "smc.npz")
    for a, b in zip(jax.tree.leaves(loaded), jax.tree.leaves(result), strict=True):
        np.testing.assert_array_equal(a, b)
    assert str(loaded.summary()) == str(result.summary())
    assert "log evidence" in str(result.summary())
    assert "R-hat" not in str(result.summary())
    np.testing.assert_allclose(
        result.stats["log_density"][0, 0],
        ppl.unconstrain(model, y).log_density({"x": result.draws["x"][0, 0]}),
        rtol=1e-5,
    )
    draws = jax.tree.map(lambda x: x[0], result.draws)
    assert ppl.predict(conjugate, draws)(key(1), y)["y"].shape == (2048, 3)
    assert result.to_arviz()["posterior"]["x"].shape == (1, 2048, 3)
    found = inference.evidence(result)
    assert (found.log_evidence, found.standard_error) == (
        result.log_evidence,
        result.standard_error,
    )
    assert found.num_observed == 3
    assert found.digest == digest_data(model, (y,), {})[0]
    assert inference.compare({"a": found, "b": found}).probability.tolist() == [0.5, 0.5]
    with pytest.raises(TypeError, match=r"name: inference.evidence\(result, model, \*args\)"):
        inference.compare({"a": result, "b": result})  # pyright: ignore
    assert inference.evidence(result, model, y).log_evidence == found.log_evidence
    for other in (y[::-1], y + 1.0):
        with pytest.raises(ValueError, match="its data are not those of the run"):
            inference.evidence(result, ppl.condition(conjugate, {"y": other}), y)
    few = result.steps | {"num_decisive": np.ones(len(result.steps["place"]))}
    told = dataclasses.replace(result, steps=few).summary().problems
    assert "of the first draws decide the log evidence" in "".join(told)
    unknown = dataclasses.replace(result, log_evidence=np.float64(np.nan))
    assert "standard error of the log evidence" not in unknown.summary().verdict
    with pytest.raises(ValueError, match="went on from one of mcmc, and does not know"):
        inference.evidence(unknown)


@pytest.mark.slow
def test_result_goes_into_cross_validation_and_arviz():
    y = jnp.array([1.0, -2.0, 0.5])
    model = ppl.condition(conjugate, {"y": y})
    result = smc(key(0), model, y, kernel=QUICK, num_particles=256)
    assert np.isfinite(inference.loo(result, model, y).elpd)
    groups = result.to_arviz(model, y, key=key(1)).groups()
    assert any("posterior_predictive" in x for x in groups)


@pytest.mark.slow
def test_keys_of_both_kinds_and_float64():
    y = jnp.array([1.0, -2.0])
    model = ppl.condition(conjugate, {"y": y})
    settings = {"kernel": QUICK, "num_particles": 128}
    typed = smc(key(5), model, y, **settings)
    legacy = smc(jax.random.PRNGKey(5), model, y, **settings)
    np.testing.assert_array_equal(typed.draws["x"], legacy.draws["x"])
    with jax.enable_x64(True):
        y = jnp.array([1.0, -2.0])
        double = smc(key(5), ppl.condition(conjugate, {"y": y}), y, **settings)
    assert double.draws["x"].dtype == np.float64


def improper(key):
    x = ppl.sample(key, dist.Flat(dist.constraints.real), name="x")
    return ppl.sample(key, dist.Normal(x, 1.0), name="y")


def discrete(key):
    z = ppl.sample(key, dist.Bernoulli(probs=0.5), name="z")
    return ppl.sample(key, dist.Normal(z * 1.0, 1.0), name="y")


def undefined(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    return ppl.sample(key, dist.Normal(x, jnp.nan * x), name="y")


@pytest.mark.parametrize(
    ("model", "settings", "error", "words"),
    [
        (improper, {}, ValueError, "improper, the evidence is not defined"),
        (discrete, {}, ValueError, "site 'z': its values are discrete"),
        (undefined, {}, ValueError, "not finite at any of 2048 draws from the prior.*'y'"),
        (cauchy, {"num_particles": 2.5}, TypeError, "num_particles must be an integer"),
        (cauchy, {"num_particles": 3}, ValueError, "num_particles must be an integer of at least"),
        (cauchy, {"num_particles": 1009}, ValueError, "divides; take 1008"),
        (cauchy, {"chain_length": 100}, ValueError, "num_particles=2100 would do"),
        (cauchy, {"ess_fraction": 1.5}, ValueError, "ess_fraction must lie between 0 and 1"),
        (cauchy, {"path": "prior"}, ValueError, "path must be"),
        (cauchy, {"path": 3}, TypeError, "path must be .*, or a list of models, got 3"),
        (cauchy, {"path": []}, ValueError, "path must be"),
        (cauchy, {"path": cauchy, "batch_size": 2}, ValueError, 'batch_size is for path="data"'),
        (cauchy, {"path": [wide]}, ValueError, "path: model 0 has the latent sites 'x' \\(3,\\)"),
        (cauchy, {"batch_size": 2}, ValueError, 'batch_size is for path="data"'),
        (cauchy, {"path": "data"}, ValueError, 'the model has none.*Use path="likelihood"'),
        (cauchy, {"init": 3}, TypeError, "init must be a result of smc or mcmc"),
        (cauchy, {"kernel": NUTS}, TypeError, re.escape("did you mean NUTS()?")),
        (cauchy, {"kernel": inference.ChEES()}, TypeError, "moves all chains together"),
        (cauchy, {"kernel": inference.Gibbs.auto()}, TypeError, "kernel of smc must be"),
        (cauchy, {"kernel": inference.SGLD(batch_size=2)}, TypeError, "kernel of smc must be"),
        (cauchy, {"kernel": inference.EllipticalSlice()}, TypeError, "kernel of smc must be"),
        (cauchy, {"kernel": inference.ParallelTempering()}, TypeError, "of its own, as smc has"),
        (cauchy, {"kernel": NUTS(step_size=-1.0)}, ValueError, "step_size must be a positive"),
    ],
)
def test_bad_input_is_told(model, settings, error, words):
    args = (jnp.float32(0.5),) if model is cauchy else ()
    with pytest.raises(error, match=words):
        smc(key(0), ppl.condition(model, {"y": jnp.float32(2.0)}), *args, **settings)


def test_a_log_density_has_no_prior():
    model = ppl.from_density(lambda x: -0.5 * jnp.sum(x["x"] ** 2), {"x": jnp.zeros(2)})
    with pytest.raises(NotImplementedError, match=r"smc starts with draws from the prior, and"):
        smc(key(0), model)


def test_undefined_likelihoods_are_told():
    def model(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        return ppl.sample(key, dist.Normal(x, jnp.sqrt(x)), name="y")

    result = smc(key(0), ppl.condition(model, {"y": 0.5}), kernel=QUICK)
    assert result.draws["x"].min() > 0
    assert any("NaN or infinite at" in x for x in result.summary().problems)


def regression(key, x):
    w = ppl.sample(key, dist.Normal(jnp.zeros(2), 3.0), name="w")
    return ppl.sample(key, dist.Normal(x @ w, 0.5), name="y")


X = np.random.default_rng(5).standard_normal((30, 2)).astype(np.float32)
Y = (X @ [1.0, -2.0] + 0.5 * np.random.default_rng(6).standard_normal(30)).astype(np.float32)


def of_regression(number):
    """Log evidence, posterior mean and covariance of the first rows."""
    x, y = X[:number].astype(float), Y[:number].astype(float)
    covariance = np.linalg.inv(x.T @ x / 0.25 + np.eye(2) / 9)
    marginal = 0.25 * np.eye(number) + 9 * x @ x.T
    evidence = stats.multivariate_normal.logpdf(y, np.zeros(number), marginal)  # pyright: ignore
    return evidence, covariance @ x.T @ y / 0.25, covariance


def of_rows(number):
    return ppl.condition(regression, {"y": Y[:number]}), X[:number]


def check_regression(result):
    """The posterior of all rows."""
    _, mean, covariance = of_regression(30)
    rows = result.summary()["w"]
    assert (abs(rows.mean - mean) < 4.5 * rows.mcse_mean).all()
    np.testing.assert_allclose(rows.sd, np.sqrt(np.diag(covariance)), rtol=0.15)


def check_evidence(result):
    gap = result.log_evidence - of_regression(30)[0]
    assert abs(gap) < 4.5 * result.standard_error
    assert result.standard_error < 0.3


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.quick_rows("7")
def test_data_come_row_by_row(batch_size):
    """The last batch of 7 has two rows."""
    model, x = of_rows(30)
    result = smc(key(0), model, x, path="data", batch_size=batch_size, kernel=QUICK)
    check_regression(result)
    check_evidence(result)
    assert result.steps["place"][0] < 0.3


def test_new_rows_go_on_from_a_result():
    model, x = of_rows(20)
    first = smc(key(0), model, x, kernel=QUICK)
    model, x = of_rows(30)
    result = first.update(key(1), model, x, kernel=QUICK)
    check_regression(result)
    check_evidence(result)
    number = len(np.unique(first.draws["w"][0], axis=0))
    assert result.note.startswith(f"for 10 new rows, the {number} distinct old draws were worth")
    with pytest.raises(ValueError, match="a result of all 30 rows"):
        smc(key(1), model, x, init=result, kernel=QUICK)
    other = ppl.condition(regression, {"y": Y[::-1]})
    with pytest.raises(ValueError, match="not those of the first rows, for no number of rows"):
        smc(key(1), other, x, init=first, kernel=QUICK)


def edge(key, y):
    top = ppl.sample(key, dist.HalfNormal(10.0), name="top")
    return ppl.sample(key, dist.Uniform(0.0 * y, top), name="y")


def within(key, y):
    """Each row says nothing, or is impossible."""
    low = ppl.sample(key, dist.Normal(0.0, 1.0), name="low")
    return ppl.sample(key, dist.Uniform(low + 0.0 * y, low + 1.0), name="y")


def number_of(model, y, positions, number, log_densities=None):
    """Number of rows found by the log densities of the model of the first ones."""
    target = ppl.unconstrain(ppl.condition(model, {"y": y}), y)
    layout = Layout.of(target.position_shapes)
    if log_densities is None:
        first = ppl.unconstrain(ppl.condition(model, {"y": y[:number]}), y[:number])
        log_densities = jax.vmap(lambda x: first.log_density(layout.unravel(x)))(positions[:, None])
    start = Start(target, positions[:, None], np.asarray(log_densities))
    return start.num_rows(Rows.of(target), layout)


def test_rows_that_old_draws_cannot_carry_are_new():
    y = jnp.array([1.0, 5.0, 2.0, 3.0, 5.5])
    tops = jnp.log(jnp.linspace(5.1, 5.4, 16))  # the last row is impossible at each
    assert number_of(edge, y, tops, 4) == 4
    assert number_of(edge, y, jnp.log(jnp.linspace(5.1, 6.0, 16)), 4) == 4
    with pytest.raises(ValueError, match="it has none among 16 draws"):
        number_of(edge, y, tops, 4, np.full(16, -np.inf))


def test_rows_that_say_nothing_at_old_draws_are_new():
    y = jnp.array([0.5, 0.8, 0.3, 0.5, 0.9])
    lows = jnp.linspace(0.0, 0.25, 16)
    assert number_of(within, y, lows, 3) == 0
    assert number_of(within, jnp.append(y, 1.1), lows, 5) == 0


def test_numbers_of_rows_that_are_rounded_away_are_refused():
    y = jnp.array([1e5, 0.5, 0.3, 0.5, 0.9])
    with pytest.raises(ValueError, match="rounded too coarsely to tell how many"):
        number_of(row_of_normals, y, jnp.linspace(0.0, 1.0, 16), 3)


def test_log_densities_of_values_tell_the_number_of_rows():
    """Gibbs sampling, which moves values, has these."""
    y = jnp.array([1.0, 5.0, 2.0, 3.0, 5.5])
    tops = jnp.linspace(5.1, 6.0, 16)
    density = ppl.log_density(ppl.condition(edge, {"y": y[:4]}))
    log_densities = jax.vmap(lambda top: density({"top": top}, y[:4]))(tops)
    assert number_of(edge, y, jnp.log(tops), 4, log_densities) == 4


def row_of_normals(key, y):
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(y.shape), 1.0), name="y")


def groups(key, y):
    mu = ppl.sample(key, dist.Normal(0.0, 3.0), name="mu")
    a = ppl.sample(key, dist.Normal(mu * jnp.ones(2), 0.5), name="a")
    return ppl.sample(key, dist.Normal(jnp.broadcast_to(a, y.shape), 1.0), name="y")


@pytest.mark.slow
def test_new_rows_go_on_twice_in_learned_coordinates():
    y = jnp.linspace(-1.0, 1.0, 12).reshape(6, 2)
    draws = {"mu": jnp.linspace(-1.0, 1.0, 64), "a": jnp.linspace(-0.5, 0.7, 128).reshape(64, 2)}
    weights = {"a": jnp.array([0.2, 0.6])}
    posteriors = [ppl.condition(groups, {"y": y[:number]}) for number in (2, 4, 6)]
    target = ppl.unconstrain(posteriors[0], y[:2]).with_learned_centering().with_centering(weights)
    log_densities = jax.vmap(lambda x: target.log_density(target.unconstrain(x)))(draws)
    result = inference.SMCResult(
        draws=jax.tree.map(lambda x: np.asarray(x)[None], draws),
        stats={"log_density": np.asarray(log_densities)[None]},
        log_evidence=np.float64(0.0),
        standard_error=np.float64(0.0),
        steps={},
        num_chains=4,
        centering=jax.tree.map(lambda x: x[None], weights),
    )
    for number, model in zip((4, 6), posteriors[1:], strict=True):
        result = result.update(
            key(number), model, y[:number], kernel=RandomWalk(), num_particles=64
        )
        assert result.note.startswith("for 2 new rows")
        np.testing.assert_array_equal(result.centering["a"], weights["a"][None])


def test_copies_of_old_draws_are_worth_no_more():
    positions = np.random.default_rng(0).standard_normal((300, 2)).astype(np.float32)
    found = positions[:, 0].astype(float)
    alone = _carried(found, positions, "a row")
    assert alone.startswith("for a row, the 300 distinct old draws were worth ")
    assert _carried(np.repeat(found, 7), np.repeat(positions, 7, 0), "a row") == alone


def test_old_chains_are_the_first_families():
    """Old chains of 32 states that do not move: shorter ones would tell half the variance."""
    y = jnp.array([1.0, 5.0, 2.0, 3.0, 5.5])
    target = ppl.unconstrain(ppl.condition(row_of_normals, {"y": y}), y)
    layout = Layout.of(target.position_shapes)
    positions = np.repeat(np.linspace(-1.0, 1.0, 16, dtype=np.float32), 32)[:, None]
    rows = Rows.of(target)
    mover = Mover(None, rows.path(3, 2), layout, 16, 64)
    for num_chains, expected in [(16, 16), (0, 32)]:
        start = Start(target, positions, np.zeros(512), num_chains)
        population, _ = start.population(mover)
        assert population.num_chains == expected


@pytest.mark.slow
def test_new_rows_go_on_from_chains():
    chains = inference.mcmc(key(0), of_rows(20)[0], X[:20], num_warmup=300, num_draws=1000)
    model, x = of_rows(30)
    result = chains.update(key(1), model, x, kernel=QUICK)
    check_regression(result)
    assert np.isnan(result.log_evidence)
    gap = result.steps["log_increment"].sum() - (of_regression(30)[0] - of_regression(20)[0])
    assert abs(gap) < 0.2
    assert not any("evidence" in x for x in result.summary().problems)


def test_a_path_of_models_has_the_evidence_of_each():
    """From the prior of another model, and from its posterior: a bridge."""
    y = jnp.array([1.0, -2.0, 0.5])
    data = {"y": y}
    model, other = ppl.condition(conjugate, data), ppl.condition(wide, data)
    ends = [stats.norm.logpdf(y, 0, np.sqrt(v)).sum() for v in (1.09, 4.36)]
    whole = smc(key(0), model, y, path=[other], kernel=QUICK)
    assert abs(whole.log_evidence - ends[0]) < 4.5 * whole.standard_error
    first = smc(key(1), other, y, kernel=QUICK)
    result = smc(key(2), model, y, path=other, init=first, kernel=QUICK)
    assert abs(result.log_evidence - ends[0]) < 4.5 * result.standard_error
    ratio = result.steps["log_increment"].sum()
    assert abs(ratio - (ends[0] - ends[1])) < 4.5 * result.standard_error
    assert result.note.startswith("for the last model, the ")
    for found in (whole, result):
        rows = found.summary()["x"]
        assert (abs(rows.mean - y / 1.09) < 4.5 * rows.mcse_mean).all()
        x = found.draws["x"][0, 0]
        likelihood = stats.norm.logpdf(y, x, 0.3).sum()
        np.testing.assert_allclose(found.stats["log_likelihood"][0, 0], likelihood, rtol=1e-4)
        likelihood += stats.norm.logpdf(x).sum()
        np.testing.assert_allclose(found.stats["log_density"][0, 0], likelihood, rtol=1e-4)
    with pytest.raises(ValueError, match="init must be a result for the first model of path"):
        smc(key(2), model, y, path=other, init=result, kernel=QUICK)


def test_terms_of_a_path_add_up_to_each_model():
    """Where a density is 0, a later one that is not is told as infinite."""
    y = jnp.ones(3)
    models = [ppl.condition(x, {"y": y}) for x in (wide, conjugate)]
    targets = [ppl.unconstrain(model, y) for model in models]
    position = {"x": jnp.array([0.3, -0.2, 1.0])}
    own, terms = ModelsPath((*targets, targets[0])).split(position)
    found = own + np.cumsum(terms)
    expected = [x.log_density(position) for x in (*targets, targets[0])]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(own, stats.norm.logpdf(position["x"], 0, 2).sum(), rtol=1e-5)
    ends = [ppl.condition(bounded, {"y": jnp.array([1.0, x])}) for x in (9.0, 5.0)]
    targets = [ppl.unconstrain(model, jnp.ones(2)) for model in ends]
    below, between = (targets[0].unconstrain({"top": jnp.float32(x)}) for x in (3.0, 7.0))
    assert ModelsPath((*targets,)).split(below)[1].tolist() == [-np.inf, -np.inf]
    assert ModelsPath((*targets,)).split(between)[1].tolist() == [-np.inf, np.inf]


def walk(key, y):
    """Rows that depend on each other given the latent site."""
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    before = jnp.concatenate([jnp.zeros(1), y[:-1]])
    return ppl.sample(key, dist.Normal(before, scale), name="y")


def with_factor(key, y):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    ppl.factor(-(mu**2), name="more")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(y.shape), 1.0), name="y")


def test_a_datum_beside_large_likelihoods_is_no_row():
    """At draws from the prior, the log likelihood of the rows is -10^10, and the datum's -1."""

    def model(key, x):
        slope = ppl.sample(key, dist.Normal(0.0, 10.0), name="slope")
        center = ppl.sample(key, dist.Normal(0.0, 1.0), name="center")
        ppl.sample(key, dist.Normal(center, 1.0), name="z")
        return ppl.sample(key, dist.Normal(slope * x, 0.005), name="y")

    x = jnp.linspace(0.0, 1.0, 4000)
    data = {"y": 2.0 * x, "z": jnp.float32(1.0)}
    with pytest.raises(ValueError, match="the log density of site 'z' is"):
        smc(
            key(0),
            ppl.condition(model, data),
            x,
            path="data",
            num_particles=64,
            kernel=RandomWalk(),
        )


def test_rows_are_checked_at_the_last_particles():
    """The first row of a batch is another one, which residuals at draws of the prior hide."""

    def model(key, y):
        mu = ppl.sample(key, dist.Normal(0.0, 1e5), name="mu")
        mean = mu + 2.0 * (jnp.arange(y.size) == 0)
        return ppl.sample(key, dist.Normal(mean, 1.0), name="y")

    y = jnp.sin(jnp.arange(200.0))
    with pytest.raises(ValueError, match="the log density of site 'y' is"):
        smc(
            key(0),
            ppl.condition(model, {"y": y}),
            y,
            path="data",
            num_particles=64,
            kernel=RandomWalk(),
        )


@pytest.mark.parametrize("model", [walk, with_factor])
def test_data_that_are_no_rows_are_refused(model):
    y = jnp.arange(1.0, 6.0)
    with pytest.raises(ValueError, match=r"cannot split the data of the model into rows"):
        smc(key(0), ppl.condition(model, {"y": y}), y, path="data", num_particles=64)
