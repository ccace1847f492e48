"""laplace by a diagonal and a low rank: exact where the Hessian is one, and in many dimensions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import hadamard

import distributions as dist
import ppl
from inference import laplace
from inference.optimization import lanczos_normal

KEY = jax.random.key(0)
SIZE = 64
RNG = np.random.default_rng(0)
MEAN, SCALE = RNG.normal(size=SIZE), np.exp(RNG.normal(size=SIZE))
DIRECTIONS = hadamard(SIZE)[:, [1, 5, 9, 20]] / np.sqrt(SIZE)
STRETCH = np.array([100.0, 30.0, 0.05, 0.01])
PRECISION = np.eye(SIZE) + (DIRECTIONS * (STRETCH - 1)) @ DIRECTIONS.T
PRECISION /= np.outer(SCALE, SCALE)


def stretched(key, precision):
    x = ppl.sample(key, dist.Flat(dist.constraints.real, shape=(SIZE,)), name="x")
    off = x - jnp.asarray(MEAN, x.dtype)
    ppl.factor(-0.5 * off @ precision @ off, name="f")


@pytest.mark.quick_rows("float32-7")
@pytest.mark.parametrize("rank", [4, 7])
def test_a_diagonal_and_a_low_rank_are_exact(float_dtype, rank):
    result = laplace(KEY, stretched, jnp.asarray(PRECISION, float), rank=rank)
    tolerance = 1e-9 if float_dtype == jnp.float64 else 3e-3
    covariance = result.guide.covariance(result.parameters)
    np.testing.assert_allclose(covariance @ PRECISION, np.eye(SIZE), atol=tolerance)
    np.testing.assert_allclose((result.parameters.loc - MEAN) / SCALE, 0.0, atol=0.01)
    evidence = 0.5 * (SIZE * np.log(2 * np.pi) - np.linalg.slogdet(PRECISION)[1])
    np.testing.assert_allclose(result.log_evidence, evidence, atol=10 * tolerance)
    assert result.parameters.loc.dtype == float_dtype
    assert result.pareto_k < 0.7


def test_a_rank_that_is_too_small_is_told():
    result = laplace(KEY, stretched, jnp.asarray(PRECISION, float), rank=2)
    assert result.pareto_k > 0.7


def regression(num_rows, size):
    """One with fewer rows than coordinates, and its evidence."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(num_rows, size)) * rng.uniform(0.2, 2.0, size=size)
    y = x @ rng.normal(size=size) + rng.normal(size=num_rows)
    covariance = x @ x.T + np.eye(num_rows)
    evidence = -0.5 * (
        y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1]
    )

    def model(key, x):
        w = ppl.sample(key, dist.Normal(jnp.zeros(size), 1.0), name="w")
        ppl.sample(key, dist.Normal(x @ w, 1.0), name="y")

    data = jnp.asarray(x, float)
    return ppl.condition(model, {"y": jnp.asarray(y, float)}), data, evidence


@pytest.mark.slow
def test_the_scales_are_those_of_the_other_directions(x64, monkeypatch):
    """By the diagonal of the whole Hessian, prior and data together, the evidence is off."""
    model, data, evidence = regression(12, 300)
    right = laplace(KEY, model, data, rank=24)
    np.testing.assert_allclose(right.log_evidence, evidence, atol=0.05)
    assert right.pareto_k < 0.7
    monkeypatch.setattr(lanczos_normal, "_MAX_SCALINGS", 1)
    assert abs(laplace(KEY, model, data, rank=24).log_evidence - evidence) > 2.0


@pytest.mark.slow
def test_many_coordinates_have_a_low_rank_by_default():
    model, data, evidence = regression(10, 2500)
    result = laplace(KEY, model, data, num_draws=500)
    assert result.guide.rank == 50
    np.testing.assert_allclose(result.log_evidence, evidence, atol=0.05)
