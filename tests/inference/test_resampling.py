"""Resampling schemes against the weights, among few particles and a million."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference.particles.resampling import SCHEMES, multinomial, residual

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
SOME = np.array([0.0, 0.31, 0.0, 1e-3, 0.249, 0.252, 0.0, 0.188, 0.0])
INF = float("inf")


def offspring(scheme, weights, num, runs):
    keys = jax.random.split(jax.random.key(1), runs)
    log_weights = jnp.log(jnp.asarray(weights)) - 70.0
    ancestors = jax.jit(jax.vmap(lambda key: scheme(key, log_weights, num)))(keys)
    assert ancestors.shape == (runs, num)
    counts = jax.vmap(lambda row: jnp.bincount(row, length=len(weights)))(ancestors)
    np.testing.assert_array_equal(counts.sum(1), num)
    return np.asarray(counts)


@pytest.mark.parametrize("num", [9, 4])
@pytest.mark.parametrize("name", SCHEMES)
def test_expected_offspring_are_the_weights(name, num):
    """Four standard errors each: by chance, in 3 of 10^4 seeds."""
    runs = 20_000
    counts = offspring(SCHEMES[name], SOME, num, runs)
    expected = num * SOME / SOME.sum()
    se = np.sqrt(np.maximum(counts.var(0), expected % 1 * (1 - expected % 1)) / runs)
    assert np.all(np.abs(counts.mean(0) - expected) <= 4 * se + 1e-6)
    assert not counts[:, SOME == 0].any()
    if name in ("systematic", "residual"):
        assert np.all(counts >= np.floor(expected))
    if name == "systematic":
        assert np.all(counts <= np.ceil(expected))


@pytest.mark.parametrize("name", SCHEMES)
def test_a_million_particles_in_float32(name):
    """Indices in range, none of a particle without weight, and the mean of a function kept."""
    rng = np.random.default_rng(2)
    log_weights = rng.normal(size=1_000_000) * 3
    log_weights[rng.random(1_000_000) < 0.3] = -INF
    log_weights[-1000:] = -INF
    scheme = jax.jit(SCHEMES[name])
    found = np.asarray(scheme(jax.random.key(3), jnp.asarray(log_weights, jnp.float32)))
    assert np.all(log_weights[found] > -INF)
    weights = np.exp(log_weights) / np.exp(log_weights).sum()
    part = np.arange(1_000_000) < 400_000
    assert abs(part[found].mean() - weights[part].sum()) < 4 * 0.5 / 1000


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize(
    ("log_weights", "chosen"),
    [
        ([-INF, -INF, -INF], {0, 1, 2}),
        ([-INF, 0.0, -INF], {1}),
        ([-INF, INF, 3.0], {1}),
        ([float("nan"), -1e30, -INF], {1}),
        ([7.0], {0}),
    ],
)
def test_weights_at_the_edges(name, log_weights, chosen):
    found = SCHEMES[name](jax.random.key(0), jnp.array(log_weights), 64)
    assert {*found.tolist()} == chosen


def test_multinomial_ancestors_are_independent():
    """The variance of a count is binomial; residual resampling has less."""
    weights, runs = np.array([0.5, 0.3, 0.2]), 20_000
    variances = offspring(multinomial, weights, 8, runs).var(0)
    exact = 8 * weights * (1 - weights)
    np.testing.assert_allclose(variances, exact, rtol=4 * np.sqrt(2 / runs) * 1.2)
    assert np.all(offspring(residual, weights, 8, runs).var(0) < 0.6 * exact)


def test_weights_of_another_shape_are_refused():
    for shape in ((), (0,), (2, 3)):
        with pytest.raises(ValueError, match="one entry a particle"):
            multinomial(jax.random.key(0), jnp.zeros(shape))
