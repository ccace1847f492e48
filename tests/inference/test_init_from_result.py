"""Chains that start at draws of other results, by weight, each at its own, with their spread."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from inference import (
    NUTS,
    FullRank,
    PointMass,
    importance,
    laplace,
    mcmc,
    optimize,
    pathfinder,
    svgd,
    svi,
)
from inference.drivers.init_from_result import _choose_draws, choose_starts, covariance_of
from inference.guides.low_rank_normal import GuideMixture

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
    "svgd": lambda: svgd(KEY, POSTERIOR, X, num_particles=20, num_steps=20),
    "importance": lambda: importance(KEY, POSTERIOR, X, num_draws=200),
}


RESULTS = {name: functools.cache(make) for name, make in RESULTS.items()}


def target():
    return ppl.unconstrain(POSTERIOR, X)


def begun(result, num_warmup=0, kernel=NUTS(step_size=1e-6, max_depth=1), **settings):
    """Chains that hardly move from where they start."""
    settings |= {"num_warmup": num_warmup, "num_draws": 1, "num_chains": 3, "kernel": kernel}
    return mcmc(KEY, POSTERIOR, X, init=result, **settings)


@pytest.mark.quick_rows("importance")
@pytest.mark.parametrize("name", RESULTS)
def test_chains_start_at_draws_each_at_its_own(name):
    result = RESULTS[name]()
    starts = choose_starts(KEY, result, target(), 5)
    again = choose_starts(jax.random.PRNGKey(0), result, target(), 3)
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[:3], y), starts, again)
    assert len(np.unique(starts["mu"])) == 5
    assert np.all(np.isin(starts["mu"], result.draws["mu"]))
    other = choose_starts(jax.random.key(1), result, target(), 3)
    assert not np.array_equal(other["mu"], again["mu"])


@pytest.mark.quick_rows("make1")
@pytest.mark.parametrize(
    "make", [optimize, functools.partial(svi, guide=PointMass(), num_steps=10)]
)
def test_all_chains_start_at_a_point(make):
    result = make(KEY, POSTERIOR, X)
    starts = choose_starts(KEY, result, target(), 3)
    assert len(np.unique(starts["mu"])) == 1
    assert covariance_of(result) is None


@pytest.mark.slow
def test_draws_are_taken_by_their_weights_without_replacement():
    """Of the first of two, the probability is its weight; zeros are never taken, copies once.

    The share of 4000 choices stays within 4.3 standard errors but for a rate of 2e-5.
    """
    weights = np.array([0.3, 0.0, 0.7])
    chosen = np.array([_choose_draws(jax.random.key(i), weights, 2) for i in range(4000)])
    assert set(map(tuple, chosen)) == {(0, 2), (2, 0)}
    assert abs(np.mean(chosen[:, 0] == 0) - 0.3) < 4.3 * np.sqrt(0.21 / 4000)
    np.testing.assert_array_equal(np.sort(_choose_draws(KEY, weights, 4)), [0, 0, 2, 2])
    np.testing.assert_array_equal(_choose_draws(KEY, np.array([0.0, 1e-310, 1.0]), 2), [2, 1])


@pytest.mark.slow
def test_chains_begin_there_with_the_covariance_that_is_known():
    result = RESULTS["laplace"]()
    covariance = covariance_of(result)
    np.testing.assert_array_equal(covariance, result.guide.covariance(result.parameters))
    starts = choose_starts(KEY, result, target(), 3)
    still = begun(result)
    np.testing.assert_allclose(still.draws["mu"][:, 0], starts["mu"], atol=1e-4)
    np.testing.assert_array_equal(still.inverse_mass_matrix[0], np.eye(3))  # without a warm-up
    short = begun(result, num_warmup=2)
    np.testing.assert_allclose(short.inverse_mass_matrix, np.stack([covariance] * 3), rtol=1e-6)
    diagonal = begun(result, num_warmup=2, mass_matrix="diagonal").inverse_mass_matrix
    np.testing.assert_allclose(diagonal[0], np.diag(covariance), rtol=1e-6)
    own = begun(result, num_warmup=2, kernel=NUTS(inverse_mass_matrix=jnp.full(3, 0.5)))
    np.testing.assert_array_equal(own.inverse_mass_matrix[0], 0.5)


def test_the_covariance_of_several_paths_is_that_of_the_best():
    result = RESULTS["pathfinder"]()
    assert isinstance(result.guide, GuideMixture)
    best = jax.tree.map(lambda x: x[np.argmax(result.elbos)], result.parameters.components)
    expected = result.guide.guide.covariance(best)
    np.testing.assert_array_equal(covariance_of(result), expected)


def test_a_covariance_that_is_none_is_left_out():
    result = RESULTS["laplace"]()
    broken = result.parameters._replace(log_scale=jnp.full(3, jnp.inf))
    assert covariance_of(dataclasses.replace(result, parameters=broken)) is None


def test_copies_of_a_draw_are_one_start():
    result = RESULTS["pathfinder"]()
    copies = jax.tree.map(lambda x: x[:, np.r_[np.zeros(48, int), 1, 2]], result.draws)
    starts = choose_starts(KEY, dataclasses.replace(result, draws=copies), target(), 3)
    assert len(np.unique(starts["mu"])) == 3


def other(key):
    ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="mu")


def test_a_result_of_another_model_is_refused():
    message = (
        "init is a PathfinderResult of another model or of data of other shapes: it has mu (3,), "
        "and the model both (2,), mu (), part.scale (2,)."
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        begun(pathfinder(KEY, other, num_paths=1, num_draws=10))
