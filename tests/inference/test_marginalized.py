"""Comparison of marginalized models: sites that are scored together, and joint terms."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import distributions as dist
import inference
import ppl
from inference.results.mcmc_result import MCMCResult


def test_of_a_marginalized_model_the_terms_are_told():
    """The terms of a mixture are apart, but are told as well."""

    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(6, 0.3)), name="z")
        ppl.sample(key, dist.Normal(mu + jnp.where(z == 1, 3.0, 0.0), 1.0), name="y")

    posterior = ppl.condition(model, {"y": jnp.linspace(-1.0, 4.0, 6)})
    summed = ppl.marginalize(posterior, ["z"])
    draws = {"mu": np.random.default_rng(0).normal(size=(4, 50)).astype(np.float32)}
    result = inference.MCMCResult(draws, {}, None)
    for form in (summed, lambda key: summed(key)):  # a function around it is the same model
        problems = inference.loo(result, form).problems
        assert any("the model is marginalized" in x and 'folds="future"' in x for x in problems)


def scored_together(key):
    """In each of five rows the data `a` and `b` depend on `z`."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(5, 0.3)), name="z")
    ppl.sample(key, dist.Normal(mu + z, 1.0), name="a")
    ppl.sample(key, dist.Normal(mu - z, 1.0), name="b")


def with_latent(key):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    x = ppl.sample(key, dist.Normal(mu + z, 1.0), name="x")
    ppl.sample(key, dist.Normal(x - z, 1.0), name="b")


def by_index(key):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    effect = ppl.sample(key, dist.Normal(mu * jnp.ones(2), 1.0), name="effect")
    ppl.sample(key, dist.Normal(effect[np.array([0, 0, 1])], 1.0), name="y")


def with_factor(key):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    ppl.factor(0.3 * z, name="weight")
    ppl.sample(key, dist.Normal(mu - z, 1.0), name="b")


def drawn(*names, size=20):
    rng = np.random.default_rng(0)
    draws = {name: rng.normal(size=(2, size)).astype(np.float32) for name in names}
    return MCMCResult(draws, {}, None)


def test_zeros_of_sites_scored_at_another_are_no_observations():
    a, b = np.linspace(-1.0, 1.0, 5), np.linspace(0.0, 2.0, 5)
    summed = ppl.marginalize(ppl.condition(scored_together, {"a": a, "b": b}), ["z"])
    result = drawn("mu")
    for unit in ("element", "row"):
        estimate = inference.loo(result, summed, unit=unit)
        assert estimate.names == tuple(f"b[{i}]" for i in range(5))
    mu = np.ravel(result.draws["mu"])[:, None]
    log_pdf = scipy.stats.norm.logpdf
    of_state = [
        log_pdf(a, mu + z, 1) + log_pdf(b, mu - z, 1) + np.log([0.7, 0.3][z]) for z in (0, 1)
    ]
    lpd = np.log(np.mean(np.exp(np.logaddexp(*of_state)), 0)).sum()
    np.testing.assert_allclose(estimate.elpd + estimate.p, lpd, rtol=1e-5)
    with pytest.raises(ValueError, match="'a' is scored together with a later site; cho"):
        inference.loo(result, summed, site="a")
    assert list(result.to_arviz(summed).log_likelihood) == ["b"]


@pytest.mark.parametrize("out", [{"x": ppl.Gaussian()}, {"z": ppl.Enumerate()}])
def test_data_that_depend_by_others_alone_have_terms_of_their_own(out):
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


@pytest.mark.parametrize(
    ("model", "data", "out", "match"),
    [
        (with_latent, {"b": 0.5}, ["z"], "'b' is scored together with the latent site 'x'"),
        (with_factor, {"b": 0.5}, ["z"], "'b' is scored together with a factor"),
        (by_index, {"y": np.zeros(3)}, {"effect": ppl.Gaussian()}, "write the groups under"),
    ],
)
def test_joint_terms_say_what_to_do(model, data, out, match):
    """With draws of what was taken out, the model as it was has terms of its own."""
    posterior = ppl.condition(model, data)
    summed = ppl.marginalize(posterior, out)
    result = drawn(*(["mu", "x"] if model is with_latent else ["mu"]))
    with pytest.raises(ValueError, match=match) as error:
        inference.loo(result, summed)
    assert "ppl.recover" in str(error.value)
    if model is by_index:
        recovered = ppl.recover(summed, result.draws)(jax.random.key(0))
        replaced = dataclasses.replace(result, draws={**result.draws, **recovered})
        assert inference.loo(replaced, posterior).names == ("y[0]", "y[1]", "y[2]")
        return
    with pytest.raises(ValueError, match=match):
        inference.power_scale(result, summed)
    assert "b" not in getattr(result.to_arviz(summed), "log_likelihood", ())
