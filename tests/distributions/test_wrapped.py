"""Distributions that are made of others: what the table of families does not say of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist

KEY = jax.random.key(3)
T, B = dist.TransformedDistribution, dist.bijectors
HALVES = dist.Categorical(probs=[0.5, 0.5])


def test_masked_values_do_not_count_whatever_they_are():
    d = dist.Masked(dist.Gamma(2.0, 1.0), jnp.array([True, False, False]))
    values = jnp.array([1.0, jnp.nan, -1.0])
    np.testing.assert_allclose(d.log_prob(values), [-1, 0, 0], rtol=1e-6)
    gradient = jax.grad(lambda v, d: d.log_prob(v).sum(), 0)(values, d)
    assert np.isfinite(gradient).all()
    assert d.sample(KEY, (4,)).shape == (4, 3)
    vectors = dist.Masked(dist.Dirichlet(jnp.ones(2)), jnp.array([True, False]))
    assert vectors.batch_shape == (2,)
    scores = vectors.log_prob(jnp.array([[0.5, 0.5], [9.0, 9.0]]))
    np.testing.assert_allclose(scores[0], 0, atol=1e-5)
    assert scores[1] == 0


BAD = {
    "Truncated: distribution must be a Distribution; got 1.0": lambda: dist.Truncated(1.0),
    "Truncated: low must be less than high; got 2.0 and 1.0": lambda: dist.Truncated(
        dist.Normal(0.0, 1.0), 2.0, 1.0
    ),
    r"Truncated: distribution must be of numbers; got draws of shape \(2,\)": lambda: (
        dist.Truncated(dist.Dirichlet([1.0, 1.0]), 0.0)
    ),
    r"Censored: the bounds do not broadcast with batch_shape \(2,\): low \(3,\)": lambda: (
        dist.Censored(dist.Normal(0.0, [1.0, 2.0]), np.zeros(3))
    ),
    "Independent: reinterpreted_batch_ndims must be an integer from 0 to 0": lambda: (
        dist.Independent(dist.Normal(0.0, 1.0), 1)
    ),
    "iid: sample_shape must hold nonnegative integers": lambda: dist.iid(
        dist.Normal(0.0, 1.0), (2.5,)
    ),
    "Masked: mask must hold booleans; got 1.0": lambda: dist.Masked(dist.Normal(0.0, 1.0), 1.0),
    "Delta: event_ndims must be from 0 to 0": lambda: dist.Delta(0.0, event_ndims=1),
    "TransformedDistribution: distribution must be continuous": lambda: (
        dist.TransformedDistribution(dist.Poisson(1.0), dist.bijectors.Exp())
    ),
    "Mixture: 2 categories, but 1 components": lambda: dist.Mixture(
        dist.Categorical(logits=[0.0, 0.0]), [dist.Normal(0.0, 1.0)]
    ),
    "Mixture: some components are discrete": lambda: dist.Mixture(
        dist.Categorical(logits=[0.0, 0.0]), [dist.Normal(0.0, 1.0), dist.Poisson(1.0)]
    ),
    "Custom: log_density must give one number .* it raised an error": lambda: dist.Custom(
        lambda x, loc: jnp.sum(-jnp.square(x - loc)), (jnp.zeros(6),)
    ),
    "Custom: event_shape must have at least 1 axes, as values of the support": lambda: dist.Custom(
        lambda x: x.sum(-1), support=dist.constraints.simplex
    ),
    "Custom: log_density must give one number per event; .* it gave": lambda: dist.Custom(
        lambda x: jnp.sum(x), support=dist.constraints.real
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_parts_that_do_not_fit_are_named(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()


def test_a_custom_distribution_without_sampler_is_scored_only():
    d = dist.Custom(lambda x: -jnp.square(x))
    assert d.log_prob(2.0) == -4
    with pytest.raises(NotImplementedError, match="there is no sampler"):
        d.sample(KEY)


def test_a_support_of_numbers_holds_for_each_entry_of_an_event():
    square = lambda x: -jnp.square(x).sum(-1)  # noqa: E731
    d = dist.Custom(square, event_shape=(2,))
    assert (d.batch_shape, d.event_shape) == ((), (2,))
    np.testing.assert_array_equal(d.log_prob(jnp.array([[1.0, 2.0], [3.0, 0.0]])), [-5, -9])
    d = dist.Custom(square, support=dist.constraints.positive, event_shape=(2,))
    np.testing.assert_array_equal(d.log_prob(jnp.array([[1.0, 2.0], [3.0, -1.0]])), [-5, -np.inf])
    assert d.bijector.event_ndims == 1


def test_leaves_of_a_custom_distribution_are_mapped():
    kernel = lambda x, m: -0.5 * jnp.square(x - m)  # noqa: E731
    d = dist.Custom(kernel, (jnp.arange(3.0),))
    assert d.batch_shape == (3,)
    assert jax.vmap(lambda d: d.log_prob(0.0))(d).shape == (3,)
    assert jax.vmap(lambda m: dist.Custom(kernel, (m,)))(jnp.arange(3.0)).batch_shape == (3,)


def test_wrapped_shapes_dtypes_and_flags(x64):
    masked = dist.Masked(dist.Normal(0.0, 1.0), jnp.array([True, False]))
    assert masked.cdf(0.0).shape == (2,)
    narrow = T(dist.Normal(jnp.float32(0), jnp.float32(1)), B.Affine(jnp.float64(1), 1.0))
    assert narrow.sample(KEY).dtype == narrow.dtype
    custom = dist.Custom(lambda x: -jnp.square(x))
    assert not dist.Mixture(HALVES, [custom, dist.Normal(0.0, 1.0)]).is_reparameterized
    assert not dist.Quantized(dist.Normal(0.0, 1.0)).is_reparameterized
    with pytest.raises(ValueError, match="Censored: low must be an integer, as the draws are"):
        dist.Censored(dist.Poisson(2.0), 1.5, 4.0)
    normal = dist.Normal(0.0, 1.0)
    nested, flat = dist.iid(dist.iid(normal, 3), 2), dist.iid(normal, (2, 3))
    with pytest.raises(NotImplementedError, match="differ in sample_shape"):
        dist.kl_divergence(nested, flat)
