"""Distributions and bijectors of TFP's as parts of ours."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from tensorflow_probability.substrates import jax as tfp

import distributions as dist

tfd, tfb = tfp.distributions, tfp.bijectors
KEY = jax.random.key(3)

PARTS = {
    "truncated": lambda g: dist.Truncated(g, 0.0, 3.0),
    "censored": lambda g: dist.Censored(g, 0.0, 3.0),
    "iid": lambda g: dist.iid(g, 2),
    "masked": lambda g: dist.Masked(g, True),
    "transformed": lambda g: dist.TransformedDistribution(g, dist.bijectors.Affine(1.0, 2.0)),
    "mixture": lambda g: dist.Mixture(
        dist.Categorical(logits=[0.0, 0.0]), [g, dist.Normal(0.0, 1.0)]
    ),
}


@pytest.mark.slow_rows("truncated", "mixture")
@pytest.mark.parametrize("make", PARTS.values(), ids=list(PARTS))
def test_distributions_of_tfp_are_parts_too(make):
    ours, theirs = make(dist.Gumbel(0.5, 2.0)), make(tfd.Gumbel(0.5, 2.0))
    value = jnp.full(ours.event_shape, 1.5)
    np.testing.assert_allclose(theirs.log_prob(value), ours.log_prob(value), rtol=1e-4)
    assert theirs.sample(KEY, (3,)).shape == (3, *ours.event_shape)
    assert theirs.support.check(value)
    assert not theirs.support.check(value * jnp.nan)


def test_bijectors_of_tfp_transform_too():
    d = dist.TransformedDistribution(dist.Normal(0.0, 1.0), tfb.Exp())
    np.testing.assert_allclose(d.log_prob(2.0), dist.LogNormal(0.0, 1.0).log_prob(2.0), rtol=1e-6)
    assert d.log_prob(-1.0) == -np.inf
    np.testing.assert_allclose(d.bijector.forward(0.5), np.exp(0.5), rtol=1e-6)


@pytest.mark.parametrize(
    ("d", "value", "expected"),
    [
        (dist.Truncated(tfd.Weibull(2.0, 1.0), high=3.0), 1.0, st.weibull_min(2).logpdf(1)),
        (dist.Truncated(tfd.LogNormal(0.0, 1.0), high=1e9), 1.0, st.lognorm(1).logpdf(1)),
        (dist.Truncated(tfd.Poisson(3.0), low=0, high=50), 2, st.poisson(3).logpmf(2)),
        (dist.Independent(tfd.Gamma(2 * jnp.ones(2), 1.0), 1), [-1.0, 1.0], -np.inf),
        (dist.Masked(tfd.Beta(2.0, 2.0), True), -1.0, -np.inf),
    ],
    ids=["Weibull", "LogNormal", "Poisson", "Gamma", "Beta"],
)
@pytest.mark.promotion(rank="allow", dtype="standard")
def test_distributions_of_tfp_off_their_support(d, value, expected):
    np.testing.assert_allclose(d.log_prob(value), expected, rtol=1e-3)


@pytest.mark.promotion(rank="allow", dtype="standard")
def test_distributions_of_tfp_draw_for_a_wider_batch():
    d = dist.Masked(tfd.Normal(jnp.zeros(1), 1.0), jnp.array([True, False]))
    draws = d.sample(KEY, (3,))
    assert draws.shape == (3, 2)
    assert (draws[:, 0] != draws[:, 1]).all()
