"""Where a matrix is renewed, steps are as long as it allows."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from inference import mcmc
from inference.common.matrices import LowRankMatrix, expand_diagonal, factorize
from inference.warmup.adaptation import adaptation_init
from inference.warmup.fisher_mass_matrix import estimate_gains, fisher_low_rank, renew_matrices

SCALES = np.array([1e-3, 0.1, 1.0, 10.0, 1e3])


def factors():
    """Of each kind, with the dense factor that they stand for."""
    rng = np.random.default_rng(0)
    dense = np.cov(rng.normal(size=(5, 20)))
    scale, vectors = rng.uniform(1, 4, size=5), np.linalg.qr(rng.normal(size=(5, 2)))[0].T
    low_rank = LowRankMatrix(scale, vectors, np.array([9.0, 0.1]))
    inner = np.eye(5) + vectors.T @ np.diag(np.sqrt(low_rank.values) - 1) @ vectors
    return {
        "dense": (factorize(dense, np), np.linalg.cholesky(dense)),
        "low_rank": (factorize(low_rank, np), scale[:, None] * inner),
    }


def test_a_low_rank_matrix_is_its_factor_squared():
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 2)))[0].T
    matrix = LowRankMatrix(SCALES, vectors, np.array([9.0, 0.1]))
    middle = np.eye(5) + vectors.T @ np.diag(matrix.values - 1) @ vectors
    dense = SCALES[:, None] * middle * SCALES
    np.testing.assert_allclose(matrix.dense(), dense, rtol=1e-12)
    np.testing.assert_allclose(matrix.diagonal(), np.diag(dense), rtol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "low_rank"])
def test_the_gain_is_that_of_all_pairs_of_draws(kind):
    """By the definition, pair by pair."""
    gradients = np.random.default_rng(1).normal(size=(20, 5)) + 3.0
    centered, (old, dense) = gradients - gradients.mean(0), factors()[kind]

    def of_pairs(factor):
        return sum((a @ b) ** 2 for a, b in itertools.permutations(centered @ factor, 2))

    expected = 0.25 * np.log(of_pairs(dense) / of_pairs(np.diag(SCALES)))
    several = jax.tree.map(lambda x: np.stack([x, x]), old)
    np.testing.assert_allclose(
        estimate_gains(gradients, several, np.diag(SCALES)), expected, rtol=1e-10
    )
    others = jax.tree.map(lambda x, y: np.stack([x, y]), old, jax.tree.map(lambda x: 2 * x, old))
    assert estimate_gains(gradients, others, old)[0] == 0.0
    assert estimate_gains(gradients, others, old)[1] > 0.0


def test_a_gain_is_that_of_the_frequencies():
    """The fourth root of sums of fourth powers, within 10 %, which a second root misses by far."""
    draws = np.random.default_rng(2).normal(size=(4000, 5))
    new = np.diag(SCALES)
    gains = [estimate_gains(part / SCALES, np.eye(5)[None], new) for part in np.split(draws, 100)]
    expected = 0.25 * np.log(np.sum(SCALES**-4) / 5)
    np.testing.assert_allclose(np.mean(gains), expected, atol=0.1)


def test_gains_need_finite_gradients_that_vary():
    for gradients in (np.full((15, 5), np.nan), np.zeros((15, 5)), np.ones((1, 5))):
        assert estimate_gains(gradients, np.eye(5)[None], np.diag(SCALES)) == 0.0


@pytest.mark.quick_rows("100-dense", "84-low_rank")
@pytest.mark.parametrize("kind", ["dense", "low_rank"])
@pytest.mark.parametrize("num_warmup", [60, 84, 100])
def test_a_short_warm_up_takes_long_steps(kind, num_warmup):
    """Without the gain, trajectories of 40 to 90 steps at an acceptance rate of 1."""

    def model(key):
        return ppl.sample(key, dist.Normal(jnp.zeros(5), jnp.asarray(SCALES, float)), name="x")

    settings = {"num_warmup": num_warmup, "num_draws": 200, "mass_matrix": kind}
    result = mcmc(jax.random.key(0), model, **settings)
    assert np.mean(result.stats["num_steps"]) < 8
    assert 0.7 < np.mean(result.stats["acceptance_rate"]) < 0.95


@pytest.mark.parametrize("kind", ["dense", "low_rank"])
@pytest.mark.parametrize("num_draws", [15, 30, 60, 655])
def test_a_window_in_which_nothing_moves_tells_nothing(kind, num_draws):
    """Of numbers whose mean is another number by rounding: all proposals were rejected."""
    x, gradient = np.array([101.7, 99.3, 0.1]), np.array([-1.7, 0.3, 0.7])
    window = np.repeat(np.stack([x, gradient])[None], num_draws, 0)
    diagonal = np.array([0.4, 0.7, 1.3])
    matrix = expand_diagonal(diagonal, kind)
    state = adaptation_init(jnp.asarray(0.1), matrix)
    batch = jax.tree.map(lambda x: np.asarray(x)[None], state)
    found = renew_matrices(batch, [window]).inverse_mass_matrix
    found = jax.tree.map(lambda x: x[0], found)
    found = np.diag(found) if kind == "dense" else found.diagonal()
    np.testing.assert_allclose(found, diagonal, rtol=1e-6)


def test_a_matrix_of_rank_zero_is_a_diagonal_that_is_learned():
    rng = np.random.default_rng(3)
    draws = rng.normal(size=(300, 5)) * SCALES
    matrix = fisher_low_rank(draws, -draws / SCALES**2, np.ones(5), 0)
    np.testing.assert_allclose(matrix.diagonal(), SCALES**2, rtol=0.2)
