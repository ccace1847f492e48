"""Densities and draws by one evaluation of an integral, beside those of the two transformations."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import distributions as dist
import ppl
from ppl.marginal.scored_recovery import score_and_recover

Y = np.array([0, 3, 1])


def counts(key):
    log_tau = ppl.sample(key, dist.Normal(0.0, 1.0), name="log_tau")
    mu = ppl.sample(key, dist.HalfNormal(1.0), name="mu")
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), jnp.exp(log_tau)), name="x")
    total = ppl.deterministic(jnp.sum(x), name="total")
    ppl.sample(key, dist.Poisson(jnp.exp(mu + x)), name="y")
    ppl.sample(key, dist.Normal(mu, 1.0), name="alone")
    ppl.factor(0.3 * log_tau, name="more")
    return total


@pytest.mark.parametrize("num_proposals", [1, 8])
def test_densities_and_draws_by_one_evaluation(num_proposals):
    posterior = ppl.condition(counts, {"y": jnp.asarray(Y), "alone": 0.5})
    inner = ppl.marginalize(posterior, {"x": ppl.Laplace(num_proposals=num_proposals)})
    target = ppl.unconstrain(inner)
    position = {"log_tau": jnp.asarray(0.4), "mu": jnp.asarray(-0.2)}

    @jax.jit
    def both(key, is_wanted):
        return score_and_recover(target, key, position, is_wanted)

    keys = jax.random.split(jax.random.key(0), 10_000)
    log_density, drawn, log_weights = jax.vmap(both, (0, None))(keys, True)
    here = target.log_density(position)
    np.testing.assert_allclose(log_density, np.full(len(keys), here), rtol=1e-5)
    np.testing.assert_allclose(drawn["total"], np.sum(drawn["x"], axis=1), atol=1e-5)
    # The weights average to the exact evidence over Laplace's, by quadrature of each effect.
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    rates = np.exp(-0.2) + np.exp(0.4) * nodes  # log rates
    terms: Any = Y[:, None] * rates - np.exp(rates) - gammaln(Y + 1)[:, None]
    integrals: Any = logsumexp(terms + np.log(weights / weights.sum()), axis=1)
    exact = np.sum(integrals)
    priors = ppl.log_density(counts)(
        {"log_tau": 0.4, "mu": np.exp(-0.2), "x": jnp.zeros(3), "y": Y, "alone": 0.5}
    )
    at_zero = np.sum(Y * np.exp(-0.2) - np.exp(np.exp(-0.2)) - gammaln(Y + 1))
    of_effects = -3 * (0.4 + np.log(2 * np.pi) / 2)
    exact += float(priors) - at_zero - of_effects - 0.2  # the last by the map of mu
    ratios = np.exp(np.asarray(log_weights + log_density, float) - exact)
    error = np.std(ratios) / np.sqrt(len(keys))
    assert abs(np.mean(ratios) - 1) < 5 * error < 0.06  # fails by chance in 1 of 10^6
    same, mode, none = both(keys[0], False)
    np.testing.assert_allclose(same, here, rtol=1e-5)
    expected = ppl.recover(inner, {"log_tau": 0.4, "mu": np.exp(-0.2)}, mode=True)(keys[0])
    np.testing.assert_allclose(mode["x"], expected["x"], atol=1e-4)
    assert none == 0
