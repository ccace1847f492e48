"""Predictions under `scale`: observations are scored by their own density."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import distributions as dist
import inference
import ppl
from inference.results.mcmc_result import MCMCResult

Y = np.array([0.5, -1.0, 2.0, 1.2, 0.1])
Z = scipy.stats.norm.ppf((np.arange(4000) + 0.5) / 4000)  # evenly spread normal numbers


def posterior(factor, *, is_summed):
    """Normal rows with a common mean; or a mixture of two classes, one of them impossible."""

    def rows(mu, key):
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.zeros(5)), name="z") if is_summed else 0.0
        ppl.sample(key, dist.Normal(mu + z * jnp.ones(5), 1.0), name="y")

    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ppl.scale(lambda key: rows(mu, key), factor)(key)

    given = ppl.condition(model, {"y": Y})
    return ppl.marginalize(given, ["z"]) if is_summed else given


@pytest.mark.parametrize("is_summed", [False, True])
@pytest.mark.parametrize("factor", [0.1, np.array([1.0, 2.0, 0.5, 0.0, 1.0])])
def test_an_observation_is_predicted_by_its_own_density(factor, is_summed):
    """The exact posterior without each is that of the other weights."""
    weights = np.broadcast_to(factor, 5)
    precision = 1 + weights.sum()
    draws = weights @ Y / precision + np.random.default_rng(0).permutation(Z) / np.sqrt(precision)
    result = MCMCResult({"mu": draws.reshape(4, 1000).astype(np.float32)}, {}, None)
    model = posterior(factor, is_summed=is_summed)
    found = inference.loo(result, model)
    rest = precision - weights
    mean = (weights @ Y - weights * Y) / rest
    exact = scipy.stats.norm.logpdf(Y, mean, np.sqrt(1 + 1 / rest))
    np.testing.assert_allclose(found.pointwise, exact, atol=0.02)
    assert all(np.asarray(found.pareto_k) < 0.7)
    own = scipy.stats.norm.logpdf(Y, draws.reshape(4, 1000, 1), 1.0)
    np.testing.assert_allclose(result.to_arviz(model).log_likelihood["y"], own, rtol=1e-4)
