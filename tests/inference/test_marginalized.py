"""Comparison of marginalized models: what each log probability belongs to, and what is refused."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax import lax
from jax.random import split

import distributions as dist
import inference
import ppl
from inference.results.mcmc_result import MCMCResult
from inference.results.psis_loo import psis_loo

LOG_PDF = scipy.stats.norm.logpdf


def drawn(*names, size=20):
    rng = np.random.default_rng(0)
    draws = {name: rng.normal(size=(2, size)).astype(np.float32) for name in names}
    return MCMCResult(draws, {}, None)


def by_index(index, probs=(0.2, 0.5, 0.9)):
    """An observation for each number in `index`, of the class with that number."""

    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.array(probs)), name="z")
        ppl.sample(key, dist.Normal(mu + 2.0 * z[index], 1.0), name="y")

    return model


def log_likelihood(mu, y, probs):
    """Of each observation of a mixture, by its sum over two states."""
    of_state = [LOG_PDF(y, mu[..., None] + 2.0 * k, 1) for k in (0, 1)]
    return np.logaddexp(np.log(1 - probs) + of_state[0], np.log(probs) + of_state[1])


@pytest.mark.parametrize("order", [[2, 1, 0], [1, 2, 0]])
def test_observations_of_a_mixture_are_left_out_in_their_order(order):
    """Nothing is told of them: they are independent given the draws."""
    index, y = np.array([2, 0, 1]), np.array([0.3, -1.0, 2.5])
    result = drawn("mu", size=200)
    summed = ppl.marginalize(ppl.condition(by_index(index[order]), {"y": y[order]}), ["z"])
    found = inference.loo(result, summed)
    assert found.names == ("y[0]", "y[1]", "y[2]")
    assert not any("marginalized" in x for x in found.problems)
    exact = log_likelihood(result.draws["mu"], y, np.array([0.2, 0.5, 0.9])[index])
    expected = psis_loo(exact.astype(np.float32))
    np.testing.assert_allclose(found.pointwise, expected.elpd[order], rtol=1e-4)


def test_groups_of_entries_are_left_out_whole():
    """Rows of them are refused before any work, as they have no log probability."""
    index, y = np.array([2, 0, 2, 1]), np.array([0.3, -1.0, 2.5, 0.1])
    posterior = ppl.condition(by_index(index), {"y": y})
    summed, result = ppl.marginalize(posterior, ["z"]), drawn("mu", size=200)
    for unit in ("element", "row"):
        with pytest.raises(
            ValueError, match=r"entries of y that .* of z have one .*'z\.y'"
        ) as error:
            inference.loo(result, summed, unit=unit)
        assert 'unit="group"' in str(error.value)
        assert "ppl.recover" in str(error.value)
        with pytest.raises(ValueError, match=r"'z\.y' of ppl.log_probs, 3 in"):
            inference.cross_validate(jax.random.key(0), summed, folds=2, unit=unit)
    found = inference.loo(result, summed, unit="group")
    assert found.names == ("y[group 0]", "y[group 1]", "y[group 2]")
    mu, probs = result.draws["mu"][..., None], np.array([0.2, 0.5, 0.9])
    of_state = [np.log([1 - probs, probs][k]) * np.ones((2, 200, 3)) for k in (0, 1)]
    for i, group in enumerate(index):
        for k in (0, 1):
            of_state[k][..., group] += LOG_PDF(y[i], mu[..., 0] + 2.0 * k, 1)
    exact = np.logaddexp(*of_state)
    np.testing.assert_allclose(found.pointwise, psis_loo(exact).elpd, rtol=1e-4)
    assert result.to_arviz(summed).log_likelihood["z.y"].shape == (2, 200, 3)
    recovered = ppl.recover(summed, result.draws)(jax.random.key(0))
    replaced = dataclasses.replace(result, draws={**result.draws, **recovered})
    assert len(inference.loo(replaced, posterior).names) == 4
    with pytest.raises(ValueError, match="groups of entries"):
        inference.compare(
            {
                "a": found,
                "b": inference.loo(
                    drawn("mu"),
                    ppl.marginalize(ppl.condition(by_index(index[1:]), {"y": y[1:]}), ["z"]),
                ),
            }
        )


def scored_together(key):
    """In each of five rows the data `a` and `b` depend on `z`."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(5, 0.3)), name="z")
    ppl.sample(key, dist.Normal(mu + z, 1.0), name="a")
    ppl.sample(key, dist.Normal(mu - z, 1.0), name="b")


def test_sites_that_are_scored_together_are_left_out_together():
    a, b = np.linspace(-1.0, 1.0, 5), np.linspace(0.0, 2.0, 5)
    summed = ppl.marginalize(ppl.condition(scored_together, {"a": a, "b": b}), ["z"])
    result = drawn("mu")
    mu = np.ravel(result.draws["mu"])[:, None]
    of_state = [
        LOG_PDF(a, mu + z, 1) + LOG_PDF(b, mu - z, 1) + np.log([0.7, 0.3][z]) for z in (0, 1)
    ]
    lpd = np.log(np.mean(np.exp(np.logaddexp(*of_state)), 0)).sum()
    for unit, label in (("group", "a, b[group {}]"), ("row", "row[{}]")):
        estimate = inference.loo(result, summed, unit=unit)
        assert estimate.names == tuple(label.format(i) for i in range(5))
        np.testing.assert_allclose(estimate.elpd + estimate.p, lpd, rtol=1e-5)
    whole = ppl.condition(scored_together, {"a": a, "b": b, "z": np.zeros(5, int)})
    rows = inference.loo(result, whole, unit="row", site=["a", "b"])
    np.testing.assert_array_equal(rows.digests, estimate.digests)
    with pytest.raises(ValueError, match="'a' is scored together with 'b'; choose all of a, b"):
        inference.loo(result, summed, site="a")
    assert list(result.to_arviz(summed).log_likelihood) == ["z.a.b"]


def series(key):
    """Three series of two steps, with a state that stays with a probability of 0.8."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")

    def one(key):
        def step(z, key):
            z = ppl.sample(key, dist.Bernoulli(probs=jnp.where(z == 1, 0.8, 0.2)), name="z")
            return z, ppl.sample(key, dist.Normal(mu + 2.0 * z, 1.0), name="y")

        return lax.scan(step, 0, split(key, 2))[1]

    jax.vmap(one)(split(key, 3))


def test_series_are_left_out_by_rows_and_not_by_steps():
    y = np.random.default_rng(1).normal(size=(3, 2))
    summed = ppl.marginalize(ppl.condition(series, {"y": y}), ["z"])
    result = drawn("mu", size=200)
    rows = inference.loo(result, summed, unit="row")
    assert rows.names == ("y[0]", "y[1]", "y[2]")
    assert not any("marginalized" in x for x in rows.problems)
    mu, stay = result.draws["mu"][..., None], np.array([[0.8, 0.2], [0.2, 0.8]])
    paths = [
        LOG_PDF(y[:, 0], mu + 2.0 * i, 1)
        + LOG_PDF(y[:, 1], mu + 2.0 * j, 1)
        + np.log(stay[0, i] * stay[i, j])
        for i in (0, 1)
        for j in (0, 1)
    ]
    exact = psis_loo(np.logaddexp.reduce(paths))
    np.testing.assert_allclose(rows.pointwise, exact.elpd, rtol=1e-4)
    steps = inference.loo(result, summed)
    assert len(steps.names) == 6
    assert "each step of a chain given those before" in steps.problems[-1]
    assert 'Take whole series, unit="row", or take inference.loo of the' in steps.problems[-1]
    for folds in (2, np.arange(6).reshape(3, 2) % 2):
        with pytest.raises(ValueError, match="given those before it, not given all others"):
            inference.cross_validate(jax.random.key(0), summed, folds=folds)
    with pytest.raises(ValueError, match="given those before it"):
        inference.loo(result, summed, refit=0.7)
    with pytest.raises(ValueError, match="not the rows of y in order, but run on another axis"):
        inference.cross_validate(jax.random.key(0), summed, folds="future", start=1)


@pytest.mark.parametrize("out", [{"x": ppl.Gaussian()}, {"z": ppl.Enumerate()}])
def test_data_that_depend_by_others_alone_have_their_own_terms(out):
    """Nothing is told of them, as each is left out by itself."""

    def model(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="x")
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(3, 0.3)), name="z")
        w = ppl.sample(key, dist.Normal(x + z, 1.0), name="w")
        ppl.sample(key, dist.Normal(w, 1.0), name="y")

    given = {"y": np.ones(3), "x": np.ones(3), "z": np.ones(3, int)}
    values = ppl.condition(model, {name: v for name, v in given.items() if name not in out})
    rng = np.random.default_rng(0)
    result = MCMCResult({"w": 1 + rng.normal(size=(2, 200, 3)).astype(np.float32)}, {}, None)
    estimate = inference.loo(result, ppl.marginalize(values, out), site="y")
    assert estimate.names == ("y[0]", "y[1]", "y[2]")
    assert not any("marginalized" in x for x in estimate.problems)


def with_latent(key):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    x = ppl.sample(key, dist.Normal(mu + z, 1.0), name="x")
    ppl.sample(key, dist.Normal(x - z, 1.0), name="b")


def with_factor(key):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    ppl.factor(0.3 * z, name="weight")
    ppl.sample(key, dist.Normal(mu - z, 1.0), name="b")


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (with_latent, "'b' is scored together with the latent site 'x'"),
        (with_factor, "'b' is scored together with a factor"),
    ],
)
def test_data_with_no_log_probability_of_their_own_are_refused(model, match):
    summed = ppl.marginalize(ppl.condition(model, {"b": 0.5}), ["z"])
    result = drawn(*(["mu", "x"] if model is with_latent else ["mu"]))
    with pytest.raises(ValueError, match=match) as error:
        inference.loo(result, summed)
    assert "ppl.recover" in str(error.value)
    with pytest.raises(ValueError, match=match):
        inference.power_scale(result, summed)
    assert not list(getattr(result.to_arviz(summed), "log_likelihood", ()))


def test_priors_that_are_scored_together_are_scaled_together():
    def model(key):
        z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
        a = ppl.sample(key, dist.Normal(1.0 * z, 1.0), name="a")
        b = ppl.sample(key, dist.Normal(-1.0 * z, 1.0), name="b")
        ppl.sample(key, dist.Normal(a + b, 1.0), name="y")

    summed = ppl.marginalize(ppl.condition(model, {"y": 0.3}), ["z"])
    found = inference.power_scale(drawn("a", "b", size=100), summed)
    assert found.sites == ("z.a.b",)
    with pytest.raises(ValueError, match=r"'a' is scored together with other sites; .* z\.a\.b"):
        inference.power_scale(drawn("a", "b", size=100), summed, prior="a")


def covariates_in_part(key):
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
    x = ppl.sample(key, dist.Normal(jnp.zeros(5), 1.0), name="x")
    ppl.sample(key, dist.Normal(slope * x, 0.5), name="y")


def joint_covariates_in_part(key):
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
    prior = dist.MultivariateNormal(jnp.zeros(5), covariance=0.5 * jnp.eye(5) + 0.5)
    x = ppl.sample(key, prior, name="x")
    ppl.sample(key, dist.Normal(slope * x, 0.5), name="y")


def test_an_outcome_is_left_out_given_its_seen_covariate():
    """Not the covariate with it; where these are joint, that is told."""
    x, y = np.array([0.5, np.nan, -1.0, 0.3, -0.2]), np.array([0.4, 1.0, -0.7, 0.2, -0.3])
    grid = np.linspace(-4, 5, 4001)[:, None]
    spread = np.where(np.isnan(x), np.hypot(grid, 0.5), 0.5)
    terms = LOG_PDF(y, grid * np.nan_to_num(x), spread)
    weights = np.exp(terms.sum(1) + LOG_PDF(grid[:, 0]))
    exact = -np.log((weights[:, None] / np.exp(terms)).sum(0) / weights.sum())
    levels = (np.arange(2000) + 0.5) / 2000
    slopes = np.interp(levels, np.cumsum(weights) / weights.sum(), grid[:, 0])
    result = MCMCResult({"slope": slopes.reshape(1000, 2).T}, {}, None)

    def posterior(model):
        data = ppl.condition(model, {"x": ppl.impute(x), "y": y})
        return ppl.marginalize(data, {"x": ppl.Gaussian()})

    for unit in ("element", "row"):
        found = inference.loo(result, posterior(covariates_in_part), unit=unit, site="y")
        np.testing.assert_allclose(found.pointwise, exact, atol=0.03)
        assert found.names == tuple(f"y[{i}]" for i in range(5))
    with pytest.raises(ValueError, match=r"y and the known entries of x, which ppl\.impute"):
        inference.loo(result, posterior(joint_covariates_in_part), unit="group")


def joined_chains(key):
    def chain(key):
        mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")

        def step(z, k):
            z = ppl.sample(k, dist.Bernoulli(probs=jnp.where(z == 1, 0.8, 0.3)), name="z")
            return z, ppl.sample(k, dist.Normal(mu + 2.0 * z, 1.0), name="y")

        return lax.scan(step, 0, split(key, 3))[0]

    a, b = (ppl.nest(chain, scope=scope)(key) for scope in "ab")
    ppl.sample(key, dist.Normal(1.0 * a - b, 1.0), name="last")


def test_advice_on_chains_that_are_joined_names_what_works():
    """Neither groups nor the future: the model with draws of what was taken out."""
    y = jnp.array([0.1, 1.0, 2.0])
    model = ppl.condition(joined_chains, {"a": {"y": y}, "b": {"y": -y}, "last": 0.7})
    summed = ppl.marginalize(model, ["a.z", "b.z"])
    asked: list[dict[str, Any]] = [{}, {"unit": "group"}, {"folds": "future", "start": 1}]
    for given in asked:
        with pytest.raises(ValueError, match=r"ake inference\.loo of the model as it was") as told:
            inference.cross_validate(jax.random.key(0), summed, **given)
        words = str(told.value).partition("of ppl.log_probs")[2] or str(told.value)
        assert "unit=" not in words
        assert "folds=" not in words
    mu = drawn("a", "b").draws
    draws = {scope: {"mu": x} for scope, x in mu.items()}
    recovered = ppl.recover(summed, draws)(jax.random.key(0))
    whole = MCMCResult({s: {**draws[s], **recovered[s]} for s in "ab"}, {}, None)
    assert len(inference.loo(whole, model).names) == 7
