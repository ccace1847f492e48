"""Chains that start at draws of other results, by weight, each at its own, with their spread."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from inference import (
    FullRank,
    NUTS,
    PointMass,
    importance,
    laplace,
    mcmc,
    optimize,
    pathfinder,
    svi,
)
from inference.warm_start import _chosen, starts_of

KEY = jax.random.key(0)


def part(key, x):
    return ppl.sample(key, dist.LogNormal(jnp.zeros(2), 0.5), name="scale") * x


def model(key, x):
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    scale = ppl.nest(part, scope="part")(key, x)
    ppl.deterministic(mu + scale, name="both")
    return ppl.sample(key, dist.Normal(mu, scale), name="y")


X = jnp.ones(2)
POSTERIOR = ppl.condition(model, {"y": jnp.array([0.3, -1.0])})

RESULTS = {
    "svi": lambda: svi(KEY, POSTERIOR, X, num_steps=200, num_draws=50, guide=FullRank()),
    "laplace": lambda: laplace(KEY, POSTERIOR, X, num_draws=50),
    "pathfinder": lambda: pathfinder(KEY, POSTERIOR, X, num_draws=50, num_paths=2),
    "importance": lambda: importance(KEY, POSTERIOR, X, num_draws=200),
}


def target():
    return ppl.unconstrain(POSTERIOR, X)


def still(result, num_chains=3, key=KEY):
    """Where chains start: they hardly move from there."""
    settings = {"num_warmup": 0, "num_draws": 1, "kernel": NUTS(step_size=1e-6, max_depth=1)}
    draws = mcmc(key, POSTERIOR, X, init=result, num_chains=num_chains, **settings).draws
    return np.array(draws["mu"][:, 0])


@pytest.mark.parametrize("name", RESULTS)
def test_chains_start_at_draws_each_at_its_own(name):
    result = RESULTS[name]()
    mu = still(result)
    assert len(np.unique(mu.round(5))) == 3
    distance = np.abs(mu[:, None] - np.float64(result.draws["mu"]))
    assert np.all(distance.min(1) < 1e-4)
    starts = starts_of(KEY, result, target(), 5)
    again = starts_of(jax.random.PRNGKey(0), result, target(), 3)
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[:3], y), starts, again)
    other = starts_of(jax.random.key(1), result, target(), 3)
    assert not np.array_equal(other["mu"], again["mu"])


@pytest.mark.parametrize("make", [optimize, lambda *args: svi(*args, guide=PointMass())])
def test_all_chains_start_at_a_point(make):
    mu = still(make(KEY, POSTERIOR, X))
    np.testing.assert_allclose(mu, mu[0], atol=1e-4)


def test_draws_are_taken_by_their_weights_without_replacement():
    """Of the first of two, the probability is its weight; zeros are never taken, copies once.

    The share of 4000 choices stays within 4.3 standard errors but for a rate of 2e-5.
    """
    weights = np.array([0.3, 0.0, 0.7])
    chosen = np.array([_chosen(jax.random.key(i), weights, 2) for i in range(4000)])
    assert set(map(tuple, chosen)) == {(0, 2), (2, 0)}
    assert abs(np.mean(chosen[:, 0] == 0) - 0.3) < 4.3 * np.sqrt(0.21 / 4000)
    np.testing.assert_array_equal(np.sort(_chosen(KEY, weights, 4)), [0, 0, 2, 2])


def test_copies_of_a_draw_are_one_start():
    result = RESULTS["pathfinder"]()
    copies = jax.tree.map(lambda x: x[:, np.r_[np.zeros(48, int), 1, 2]], result.draws)
    starts = starts_of(KEY, type(result)(**{**vars(result), "draws": copies}), target(), 3)
    assert len(np.unique(starts["mu"])) == 3


def other(key):
    ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="mu")


def test_a_result_of_another_model_is_refused():
    message = (
        "init is a PathfinderResult of another model or of data of other shapes: it has mu (3,), "
        "and the model both (2,), mu (), part.scale (2,)."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        still(pathfinder(KEY, other, num_paths=1, num_draws=10))
