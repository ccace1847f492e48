"""calibrate: right fits pass, wrong ones are found, and messages for wrong arguments."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference.calibration.ecdf_band import p_value
from inference.calibration.ranks import rank
from inference.results.diagnostics import ess_bulk

KEY = jax.random.key(0)
NOISE, NUM_DATA = 2.0, 3


def model(key):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(NUM_DATA), NOISE), name="y")


def weak(key):
    """Data that say little, so that the posterior is nearly the prior."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(1), 3.0), name="y")


def exact(key, posterior, data, scale=1.0, num=NUM_DATA, noise=NOISE):
    """Draws of the conjugate posterior, with another prior scale or fewer data than it has."""
    y = data["y"][:num]
    precision = 1 / scale**2 + y.size / noise**2
    mean = jnp.sum(y) / noise**2 / precision
    return {"mu": mean + jax.random.normal(key, (100,)) / jnp.sqrt(precision)}


def rates(key):
    rate = ppl.sample(key, dist.Gamma(2.0, 1.0), name="rate")
    return ppl.sample(key, dist.Exponential(rate), name="y")


def exact_rates(key, posterior, data, jacobian=1):
    """Draws of the conjugate posterior, or without the Jacobian of the log of the rate."""
    shape = 3.0 - (1 - jacobian)
    return {"rate": jax.random.gamma(key, shape, (100,)) / (1.0 + data["y"])}


WEAK = functools.partial(exact, noise=3.0)


def run(model, fit, number, key=KEY, **settings):
    settings |= {"observed": ["y"], "fit": fit, "vectorized": True, "num_simulations": number}
    return inference.calibrate(key, model, **settings)


def test_right_fits_pass():
    assert run(model, exact, 1000).is_calibrated
    assert run(rates, exact_rates, 1000).is_calibrated


MISTAKES = {
    "a prior scale 10 % off": (weak, exact, {"scale": 1.1, "noise": 3.0}, 10_000, {"mu"}),
    "one observation missing": (model, exact, {"num": 2}, 1000, {"log likelihood"}),
    "no Jacobian": (rates, exact_rates, {"jacobian": 0}, 200, {"rate", "log likelihood"}),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.slow_rows("a prior scale 10 % off")
def test_a_mistake_is_found(mistake):
    model, fit, settings, number, names = MISTAKES[mistake]
    assert names <= {*run(model, fit, number, **settings).failures}


def reports(model, fit, size, number, seed, **settings):
    """Reports on `size` simulations each, which few calls make together."""
    together = min(number, MAX_SIMULATIONS // size)
    for i in range(number // together):
        key = jax.random.fold_in(jax.random.key(seed), i)
        whole = run(model, fit, size * together, key, **settings)
        for ranks in np.split(whole.ranks, together):
            yield dataclasses.replace(whole, ranks=ranks)


MAX_SIMULATIONS = 100_000  # of a call


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found_nearly_always(mistake):
    """In 99 % of reports: 10 misses of 300, or 6 of 100, would have a chance of 1e-3."""
    model, fit, settings, size, _ = MISTAKES[mistake]
    number, allowed = (300, 9) if size <= 1000 else (100, 5)
    found = reports(model, fit, size, number, 1, **settings)
    assert sum(x.is_calibrated for x in found) <= allowed


RIGHT = {"normal": (model, exact), "weak": (weak, WEAK), "rates": (rates, exact_rates)}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_right_fits_rarely_fail(name):
    """Of 500 reports at 1 % each: 15 false alarms have a chance below 1e-3."""
    assert sum(not x.is_calibrated for x in reports(*RIGHT[name], 200, 500, 2)) < 15


def test_quantities_of_a_user_are_ranked():
    """Draws from the prior pass for the prior's own site, and fail for what depends on data."""
    prior = lambda key, posterior: {"mu": jax.random.normal(key, (100,))}  # noqa: E731
    product = {"product": lambda values, data: values["mu"] * jnp.sum(data["y"])}
    report = run(model, prior, 500, quantities=product)
    assert report.adjusted["mu"] > 0.01
    assert "product" in report.failures


BRIEF = {"num_warmup": 50, "num_draws": 50, "num_simulations": 60}


def classes(key):
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    ppl.sample(key, dist.Normal(2.0 * z, 1.0), name="y")


def exact_classes(key, posterior, data, prior=0.3):
    odds = prior / (1 - prior) * jnp.exp(2 * data["y"] - 2)
    return {"z": jax.random.bernoulli(key, odds / (1 + odds), (100,)).astype(jnp.int32)}


def test_discrete_sites_that_a_fit_draws_are_ranked():
    assert run(classes, exact_classes, 300).is_calibrated
    assert not run(classes, functools.partial(exact_classes, prior=0.7), 300).is_calibrated


def scoped(key):
    """Sites in a scope, a vector, and a constraint."""
    level = ppl.nest(lambda key: ppl.sample(key, dist.Normal(0.0, 1.0), name="mu"), scope="a")(key)
    scale = ppl.sample(key, dist.HalfNormal(jnp.ones(2)), name="scale")
    return ppl.sample(key, dist.Normal(level, scale), name="y")


def test_chains_of_all_simulations_share_a_pool():
    report = inference.calibrate(KEY, scoped, observed=["y"], **BRIEF)
    assert report.names == ("a.mu", "scale[0]", "scale[1]", "log likelihood")
    assert report.is_calibrated
    assert report.num_divergent is not None


def test_a_fit_is_called_for_one_simulation_after_the_other():
    """With one chain or several in front, and arguments of the model."""
    seen = []

    def fit(key, posterior, noise, data, num_chains):
        seen.append(noise)
        draws = exact(key, posterior, data, noise=noise)["mu"]
        return {"mu": draws.reshape(num_chains, -1) if num_chains else draws}

    def noisy(key, noise):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ppl.sample(key, dist.Normal(mu * jnp.ones(NUM_DATA), noise), name="y")

    settings = {"observed": ["y"], "num_simulations": 30, "fit": fit}
    for num_chains in (0, 2):
        report = inference.calibrate(KEY, noisy, 2.0, **settings, num_chains=num_chains)
        assert report.is_calibrated
        assert report.ranks.shape == (30, 2)
    assert seen == [2.0] * 60


def test_ties_are_broken_at_random():
    """Draws and truth are each 0 or 1: without that, ranks would be 0 and 1 / 2."""
    generator = np.random.default_rng(0)
    draws = generator.integers(0, 2, (2000, 1, 50, 1)).astype(float)
    truths = generator.integers(0, 2, (2000, 1)).astype(float)
    assert p_value(rank(draws, truths, generator).values[:, 0]) > 1e-3


def test_correlated_draws_are_thinned():
    """Steps of a random walk with 10 % of innovation, and a truth of the same law."""
    generator = np.random.default_rng(1)
    chains = np.empty((1000, 4, 500, 1))
    state = generator.normal(size=(1000, 4, 1))
    for i in range(500):
        state = 0.9 * state + np.sqrt(0.19) * generator.normal(size=state.shape)
        chains[:, :, i] = state
    found = rank(chains, generator.normal(size=(1000, 1)), generator)
    assert p_value(found.values[:, 0]) > 1e-3
    assert 60 < np.median(found.ess) < 200


def test_drivers_fit_one_simulation_after_the_other():
    settings = {"observed": ["y"], "num_simulations": 4, "fit": inference.laplace}
    report = inference.calibrate(KEY, model, **settings)
    assert report.ranks.shape == (4, 2)
    assert report.num_divergent is None


@pytest.fixture(scope="module")
def result():
    posterior = ppl.condition(model, {"y": jnp.array([3.0, 4.0, 5.0])})
    settings = {"num_warmup": 200, "num_draws": 1000, "progress": False}
    return inference.mcmc(KEY, posterior, **settings)


def combined(key, posterior, data, number=1):
    """Draws of the conjugate posterior of observed and replicated data."""
    precision = 1 + 2 * NUM_DATA / NOISE**2
    mean = (number * jnp.sum(data["y"]) + 12.0) / NOISE**2 / precision
    return {"mu": mean + jax.random.normal(key, (100,)) / jnp.sqrt(precision)}


def test_posterior_calibration_fits_observed_and_new_data(result):
    given = {"observed": {"y": jnp.array([3.0, 4.0, 5.0])}, "result": result}
    exactly = {"fit": combined, "vectorized": True, "num_simulations": 500}
    assert inference.calibrate(KEY, model, **given, **exactly).is_calibrated
    assert not inference.calibrate(KEY, model, **given, **exactly, number=0).is_calibrated
    assert inference.calibrate(KEY, model, **given, **BRIEF).is_calibrated


GAPS = np.array([3.0, np.nan, 5.0])


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"observed": ["z"]}, ValueError, r"no site 'z'; there are \['mu', 'y'\]"),
        ({"observed": []}, ValueError, "no site is named"),
        ({"observed": {"y": jnp.zeros(3)}}, ValueError, "result= to simulate from the posterior"),
        ({"observed": ["y"], "result": "result"}, ValueError, "result needs the data"),
        ({"observed": {"y": GAPS}, "result": "result"}, ValueError,
         "data of site 'y' without missing entries, got NaN"),
        ({"observed": {"y": ppl.ignore(GAPS)}, "result": "result"}, ValueError,
         "data of site 'y' without missing entries, got ppl.ignore or ppl.impute"),
        ({"observed": ["y"], "fit": inference.optimize}, ValueError, "makes no draws"),
        ({"observed": ["y"], "fit": 3}, TypeError, "fit must be a function"),
        ({"observed": ["y"], "fit": lambda k, p: {"m": 0}}, ValueError, "latent site 'mu'"),
        ({"observed": ["y"], "fit": lambda k, p: 3}, TypeError, "must return draws"),
        ({"observed": ["y"], "fit": lambda k, p: {"mu": np.ones(())}}, ValueError, r"\(draw"),
        ({"observed": ["y"], "quantities": {"a": 1}}, TypeError, "quantities: 'a'"),
        ({"observed": ["y"], "num_simulations": 0}, ValueError, "num_simulations"),
        ({"observed": ["y"], "level": 2.0}, ValueError, "level"),
        ({"observed": ["y"], "fit": lambda key: 0}, TypeError,
         r"fit: <lambda>\(key\) cannot be called as fit\(key, posterior\): too many pos"),
        ({"observed": ["y"], "fit": exact, "size": 1}, TypeError,
         r"as fit\(key, posterior, data=, size=\): got an unexpected keyword argument 'size'"),
        ({"observed": ["y"], "fit": inference.mcmc_each}, ValueError, "use mcmc, whose chains"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_explained(settings, error, words):
    with pytest.raises(error, match=words):
        inference.calibrate(KEY, model, **{"num_simulations": 3, **settings})


def with_factor(key):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    ppl.factor(-(mu**2), name="penalty")
    return ppl.sample(key, dist.Normal(mu * jnp.ones(NUM_DATA), 1.0), name="y")


GAPS = {"y": ppl.impute(np.array([1.0, np.nan, 2.0]))}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ppl.condition(model, {"y": jnp.zeros(3)}), r"site 'y' .* observed .*observed=\['y'"),
        (ppl.condition(model, GAPS), "site 'y' of model 'model' is observed already"),
        (with_factor, "model 'with_factor' has the factor 'penalty'"),
    ],
    ids=["observed", "in part", "factor"],
)
def test_models_whose_runs_are_no_simulations_are_refused(model, words):
    with pytest.raises(ValueError, match=words):
        inference.calibrate(KEY, model, observed=["y"], num_simulations=3)


def test_more_simulations_than_draws_are_refused(result):
    given = {"observed": {"y": jnp.ones(3)}, "result": result, "num_simulations": 4001}
    with pytest.raises(ValueError, match="at most the 4000 draws"):
        inference.calibrate(KEY, model, **given)


def test_correlated_draws_of_a_result_are_refused():
    """New data that say little, an exact fit, and draws that are correlated or independent."""
    observed = {"y": jnp.array([1.0])}

    def both(key, posterior, data):
        precision = 1 + 2 / 9
        mean = (1.0 + data["y"][0]) / 9 / precision
        return {"mu": mean + jax.random.normal(key, (50,)) / precision**0.5}

    rng = np.random.default_rng(6)
    draws = rng.normal(size=(4, 1000))
    for i in range(1, 1000):
        draws[:, i] = 0.95 * draws[:, i - 1] + np.sqrt(1 - 0.95**2) * draws[:, i]
    draws = (1 / 10 + np.sqrt(9 / 10) * draws).astype(np.float32)
    given = {"observed": observed, "fit": both, "vectorized": True}
    chains = inference.MCMCResult({"mu": draws}, {}, None)
    with pytest.raises(ValueError, match=r"half the effective sample size .* at site 'mu'"):
        inference.calibrate(KEY, weak, **given, result=chains, num_simulations=300)
    assert inference.calibrate(KEY, weak, **given, result=chains, num_simulations=40).is_calibrated
    posterior = ppl.condition(weak, observed)
    by_default = inference.calibrate(KEY, weak, **given, result=chains)
    assert len(by_default.ranks) == int(ess_bulk(draws[..., None])[0] / 2)
    guide = inference.laplace(KEY, posterior, num_draws=1000)
    report = inference.calibrate(KEY, weak, **given, result=guide)
    assert len(report.ranks) == 1000
    assert report.is_calibrated


def test_fits_with_weights_have_equally_many_draws():
    settings = {"observed": ["y"], "num_simulations": 30, "fit": inference.importance}
    report = inference.calibrate(KEY, model, **settings, num_draws=300)
    assert report.is_calibrated
    assert report.ranks.shape == (30, 2)


def test_other_kernels_fit_one_simulation_after_the_other():
    settings = {"num_chains": 8, "num_warmup": 100, "num_draws": 50, "num_simulations": 2}
    kernel = inference.ChEES()
    report = inference.calibrate(KEY, model, observed=["y"], kernel=kernel, **settings)
    assert report.ranks.shape == (2, 2)


def test_only_the_bar_of_all_fits_is_shown():
    """Drivers show none of their own."""
    seen = []

    def fit(key, posterior, data, progress=None):
        seen.append(progress)
        return exact(key, posterior, data)

    inference.calibrate(KEY, model, observed=["y"], fit=fit, num_simulations=2)
    assert seen == [False, False]


def schools(key, sigma):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfNormal(5.0), name="tau")
    z = ppl.sample(key, dist.Normal(jnp.zeros(8), 1.0), name="z")
    return ppl.sample(key, dist.Normal(mu + tau * z, sigma), name="y")


@pytest.mark.slow
@pytest.mark.optimized
def test_eight_schools_are_calibrated():
    sigma = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    settings = {"observed": ["y"], "num_warmup": 300, "num_draws": 250}
    report = inference.calibrate(KEY, schools, sigma, **settings)
    assert report.is_calibrated, str(report)
