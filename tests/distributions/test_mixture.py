"""Mixtures: derivatives of their draws, and the support that their components share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist

KEY = jax.random.key(3)
HALVES = dist.Categorical(probs=[0.5, 0.5])

MIXTURES = {
    "of one family": lambda p, m: dist.MixtureSameFamily(
        dist.Categorical(probs=jnp.stack([p, 1 - p])), dist.Normal(jnp.stack([m, 2.0]), 0.5)
    ),
    "of several": lambda p, m: dist.Mixture(
        dist.Categorical(probs=jnp.stack([p, 1 - p])), [dist.Normal(m, 0.5), dist.Gumbel(2.0, 0.5)]
    ),
}


@pytest.mark.quick_rows("of several")
@pytest.mark.parametrize("make", MIXTURES.values(), ids=list(MIXTURES))
def test_draws_of_a_mixture_have_derivatives(make, x64):
    """The gradient of an expectation over draws, against the one of the exact mean.

    Within five standard errors: a failure rate of 6e-7 for each.
    """
    at = jnp.array([0.25, 0.75])
    assert make(*at).is_reparameterized

    def square(at, key):
        return jnp.square(make(*at).sample(key))

    def exact(at):
        d = make(*at)
        return d.variance() + d.mean() ** 2

    keys = jax.random.split(KEY, 20_000)
    gradients = np.asarray(jax.jit(jax.vmap(jax.grad(square), (None, 0)))(at, keys))
    error = gradients.std(0) / np.sqrt(len(keys))
    difference = np.abs(gradients.mean(0) - jax.grad(exact)(at))
    assert (difference < 5 * error).all()
    assert (difference < 0.2).all()


def test_the_support_of_a_mixture_of_vectors():
    half = dist.Independent(dist.HalfNormal(jnp.ones(2)), 1)
    real = dist.Independent(dist.Normal(jnp.zeros(2), 1.0), 1)
    assert dist.Mixture(HALVES, [half, real]).support.check(-jnp.ones(2))
    boxes = dist.Uniform(jnp.array([[0.0] * 3, [1.0] * 3]), jnp.array([[1.0] * 3, [2.0] * 3]))
    mixture = dist.MixtureSameFamily(HALVES, dist.Independent(boxes, 1))
    assert mixture.support.check(jnp.full(3, 0.5)).shape == ()
    assert mixture.bijector.forward(jnp.zeros(3)).shape == (3,)
    simplex = dist.Dirichlet(jnp.ones(2))
    with pytest.raises(ValueError, match="supports of the components differ"):
        dist.Mixture(HALVES, [simplex, real])
