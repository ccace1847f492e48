"""Transformed distributions: shapes, images, and bounds at infinity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tensorflow_probability.substrates import jax as tfp

import distributions as dist

tfd, tfb = tfp.distributions, tfp.bijectors
T, B = dist.TransformedDistribution, dist.bijectors
KEY = jax.random.key(3)
HALVES = dist.Categorical(probs=[0.5, 0.5])


def test_a_bijector_of_vectors_takes_axes_of_the_batch():
    d = T(dist.Normal(jnp.zeros(2), 1.0), B.StickBreaking())
    assert (d.batch_shape, d.event_shape) == ((), (3,))
    draw = d.sample(KEY)
    assert d.support.check(draw)
    assert np.isfinite(d.log_prob(draw))
    assert d.log_prob(jnp.ones(3)) == -np.inf


@pytest.mark.slow_rows("truncated")
@pytest.mark.parametrize(
    "score",
    [
        lambda s: dist.Truncated(T(dist.Normal(0.0, 1.0), B.Affine(0.0, s)), high=2.0).log_prob(
            1.0
        ),
        lambda s: dist.Censored(T(dist.Normal(0.0, 1.0), B.Affine(0.0, s)), high=2.0).log_prob(2.0),
        lambda s: T(dist.Normal(0.0, 1.0), B.Affine(0.0, s)).cdf(jnp.inf),
    ],
    ids=["truncated", "censored", "at infinity"],
)
def test_gradients_where_a_bound_is_infinite(score, x64):
    expected = (score(1 + 1e-6) - score(1 - 1e-6)) / 2e-6
    np.testing.assert_allclose(jax.grad(score)(1.0), expected, rtol=1e-7, atol=1e-9)


def test_transformed_values_broadcast_with_the_batch():
    d = T(dist.Normal(0.0, 1.0), B.Affine(jnp.zeros(3), 1.0))
    assert d.log_prob(1.0).shape == d.mean().shape == d.variance().shape == (3,)
    assert T(dist.Uniform(jnp.zeros(3), jnp.ones(3)), B.Exp()).log_prob(jnp.full(3, 1.5)).shape == (
        3,
    )
    vectors = dist.Independent(dist.Normal(jnp.zeros(3), 1.0), 1)
    assert T(vectors, B.Affine(jnp.zeros((2, 1)), 1.0)).log_prob(jnp.zeros(3)).shape == (2,)
    assert T(vectors, tfb.Scale(2.0)).log_prob(jnp.zeros(3)).shape == ()
    gammas = T(dist.Gamma(jnp.array([2.0, 3.0]), 1.0), B.Affine(jnp.array([0.0, 1.0]), 1.0))
    assert np.isfinite(dist.MixtureSameFamily(HALVES, gammas).log_prob(1.5))


def test_the_image_of_a_chain():
    d = T(dist.Normal(0.0, 1.0), B.Chain((B.Exp(), B.Softplus())))  # onto the numbers above 1
    assert d.log_prob(0.5) == -np.inf
    assert not d.support.check(0.5)
    shifted = T(dist.Normal(0.0, 1.0), B.Chain((B.Affine(1.0, 2.0), B.Exp())))
    np.testing.assert_allclose(shifted.cdf(jnp.array([0.5, 3.0])), [0, 0.5], atol=1e-6)
    assert T(dist.Normal(0.0, 1.0), tfb.Exp()).cdf(-1.0) == 0
    assert dist.Truncated(T(dist.Gamma(2.0, 1.0), B.Affine(1.0, 1.0)), high=5.0).support.low == 1
