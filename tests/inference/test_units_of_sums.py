"""Observations of marginalized models: whole series, and rows with gaps."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import distributions as dist
import inference
import ppl
from inference import MCMCResult
from inference.results.psis_loo import psis_loo

Y, W = np.random.default_rng(0).normal(size=(2, 3, 3)).astype(np.float32)
DRAWS = np.random.default_rng(1).uniform(0.8, 1.2, size=(1, 200)).astype(np.float32)


def log_likelihood_of_series(s, y, w):
    """By hand: the sum over all paths of a chain of three steps."""
    total = []
    for path in itertools.product((0, 1), repeat=3):
        stays = np.where(np.array((0, *path[:-1])) == 1, 0.8, 0.3)
        z = np.array(path)
        terms = np.log(np.where(z == 1, stays, 1 - stays)) + stats.norm.logpdf(y, 2.0 * z, s)
        if w is not None:
            terms = terms + stats.norm.logpdf(w, -z, s)
        total.append(terms.sum())
    return special.logsumexp(total)


def over_loop(function, keys):
    return jax.lax.scan(lambda _, key: (None, function(key)), None, keys)


def over_vmap(function, keys):
    return jax.vmap(function)(keys)


def series(over, has_both, weights: Any = 1.0):
    """Three series, each marginalized by itself, within a `vmap` or a loop."""

    def one(key, s):
        def step(z, key):
            z = ppl.sample(key, dist.Bernoulli(probs=jnp.where(z == 1, 0.8, 0.3)), name="z")
            ppl.sample(key, dist.Normal(2.0 * z, s), name="y")
            if has_both:
                ppl.sample(key, dist.Normal(-1.0 * z, s), name="w")
            return z, None

        jax.lax.scan(step, 0, jax.random.split(key, 3))

    def model(key):
        s = ppl.sample(key, dist.HalfNormal(1.0), name="s")
        part = ppl.marginalize(one, ["z"])
        each = lambda key: over(lambda key: part(key, s), jax.random.split(key, 3))  # noqa: E731
        ppl.scale(each, weights)(key)

    return ppl.condition(model, {"y": Y, **({"w": W} if has_both else {})})


@pytest.mark.parametrize("has_both", [False, True])
@pytest.mark.parametrize("over", [over_vmap, over_loop])
def test_whole_series_are_left_out(over, has_both):
    """They are no steps of a chain, which are given those before."""
    found = inference.loo(MCMCResult({"s": DRAWS}, {}, None), series(over, has_both), unit="row")
    each = [
        [log_likelihood_of_series(s, Y[i], W[i] if has_both else None) for i in range(3)]
        for s in DRAWS[0]
    ]
    np.testing.assert_allclose(found.pointwise, psis_loo(np.array([each])).elpd, rtol=1e-4)
    assert not any("chain" in words for words in found.problems)


def test_a_series_is_left_out_of_the_fit():
    key, model, folds = jax.random.key(0), series(over_vmap, False), np.arange(3)
    found = inference.cross_validate(
        key, model, folds=folds, unit="row", num_warmup=100, num_draws=100
    )
    assert found.names == ("y[0]", "y[1]", "y[2]")


@pytest.mark.parametrize("over", [over_vmap, over_loop])
def test_weights_of_series_multiply_each(over):
    weights = np.array([1.0, 2.0, 0.5], np.float32)
    terms = np.array([log_likelihood_of_series(0.9, y, None) for y in Y])
    found = ppl.log_density(series(over, False, weights))({"s": 0.9})
    np.testing.assert_allclose(found, weights @ terms + stats.halfnorm.logpdf(0.9), rtol=1e-4)


def test_gaps_do_not_make_other_data():
    """A row with a gap has the same data in the full and in the marginalized model."""
    before = np.array([0.5, np.nan, -1.0, 0.2])

    def model(key):
        b = ppl.sample(key, dist.Normal(0.0, 1.0), name="b")
        x = ppl.sample(key, dist.Normal(jnp.zeros(4), 1.0), name="x")
        ppl.sample(key, dist.Normal(x, 0.5), name="before")
        ppl.sample(key, dist.Normal(b * x, 0.5), name="after")

    def estimate(after, strategies):
        full = ppl.condition(model, {"before": ppl.ignore(before), "after": after})
        draws = {"b": DRAWS, "x": np.zeros((1, 200, 4), np.float32)}
        if strategies:
            full, draws = ppl.marginalize(full, strategies), {"b": DRAWS}
        return inference.loo(MCMCResult(draws, {}, None), full, unit="row")

    after = np.array([0.4, 1.0, -0.7, 0.1])
    full, out = estimate(after, {}), {"x": ppl.Gaussian()}
    same, other = estimate(after, out), estimate(after + np.eye(4)[1], out)
    assert "other data" not in str(inference.compare({"a": full, "b": same}))
    assert "1 of 4 observations differ" in str(inference.compare({"a": full, "b": other}))
