"""Gradients by single entries of cumulative sums, many at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from distributions import bijectors

pytestmark = pytest.mark.optimized  # XLA folds pads only when it optimizes


@pytest.mark.parametrize("n", [3, 4, 5])
@pytest.mark.parametrize("bijector", [bijectors.Ordered(), bijectors.PositiveOrdered()], ids=str)
def test_the_middle_entry_of_an_ordered_vector(bijector, n):
    x = np.linspace(-1.0, 1.0, 4 * n).reshape(4, n)
    slopes = np.exp(x) * (np.arange(n) <= n // 2)
    if isinstance(bijector, bijectors.Ordered):
        slopes[:, 0] = 1.0
    found = jax.jit(jax.vmap(jax.grad(lambda x: bijector.forward(x)[n // 2])))(jnp.asarray(x))
    np.testing.assert_allclose(found, slopes, rtol=1e-5)


def test_weights_of_broken_sticks():
    """d log p / dx for a = 2 and two breaks: 1 / x_3 - 1 / (x_2 + x_3) by x_3."""
    d = dist.StickBreakingWeights(2.0, 2)
    x = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.1, 0.1, 0.8]])
    left = x[:, 1] + x[:, 2]
    slopes = np.stack([0 * left, -1 / left, 1 / x[:, 2] - 1 / left], 1)
    found = jax.jit(jax.vmap(jax.grad(d.log_prob)))(jnp.asarray(x))
    np.testing.assert_allclose(found, slopes, rtol=1e-5)
