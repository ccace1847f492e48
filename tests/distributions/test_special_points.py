"""Derivatives where a formula branches: at the points that starts and optimizers meet."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
from distributions.numerics.special import log_weighted_sum

INF = np.inf
PATH = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
POINTS = {
    "CAR, no correlation": (
        lambda c: dist.CAR(0.0, correlation=c, conditional_precision=1.5, adj_matrix=PATH).log_prob(
            [1.0, 3.0, -2.0]
        ),
        0.0,
    ),
    "Wiener, fast": (lambda b: dist.Wiener(1.2, 0.1, b, 0.3).log_prob(0.3), 0.5),
    "Wiener, slow": (lambda b: dist.Wiener(1.2, 0.1, b, 0.3).log_prob(1.5), 0.5),
    "Wiener, slow and below": (lambda b: dist.Wiener(1.2, 0.1, b, 0.3).log_prob(-1.5), 0.5),
}


@pytest.mark.parametrize("name", POINTS)
def test_first_and_second_derivatives(name, x64):
    """Those of central differences, of the value and of the first derivative."""
    f, at = POINTS[name]
    at, step = jnp.float64(at), 1e-5
    slope = jax.jit(jax.grad(f))
    np.testing.assert_allclose(slope(at), (f(at + step) - f(at - step)) / (2 * step), rtol=1e-8)
    found, differences = jax.grad(slope)(at), (slope(at + step) - slope(at - step)) / (2 * step)
    np.testing.assert_allclose(found, differences, rtol=1e-6)


def mixture(probs):
    parts = dist.Normal(jnp.array([0.0, 1.0, 4.0]), jnp.array([1.0, 2.0, 0.5]))
    return dist.MixtureSameFamily(dist.Categorical(probs=probs), parts)


def unlike(probs):
    parts = [dist.Normal(0.0, 1.0), dist.Normal(1.0, 2.0), dist.Logistic(4.0, 0.5)]
    return dist.Mixture(dist.Categorical(probs=probs), parts)


WEIGHTED = {
    "density": lambda d: d.log_prob(1.3),
    "distribution function": lambda d: d.cdf(1.3),
    "log survival": lambda d: d.log_survival(1.3),
    "mean": lambda d: d.mean(),
    "variance": lambda d: d.variance(),
}


@pytest.mark.parametrize("make", [mixture, unlike])
@pytest.mark.parametrize("name", WEIGHTED)
def test_derivatives_by_weights_that_are_zero(make, name, x64):
    """Those of one-sided differences, as a weight is not negative; first and second ones."""
    f = jax.jit(lambda w: WEIGHTED[name](make(w)))
    slope = jax.jit(jax.grad(f))
    at, step = jnp.array([0.4, 0.6, 0.0]), 1e-6
    moved = [at.at[i].add(step) for i in range(3)]
    np.testing.assert_allclose(slope(at), [(f(w) - f(at)) / step for w in moved], 2e-5, 1e-8)
    expected = [(slope(w) - slope(at)) / step for w in moved]
    np.testing.assert_allclose(jax.hessian(f)(at), expected, 1e-4, 1e-8)


def test_parts_without_weight_or_density_have_finite_derivatives(x64):
    slope = jax.jit(jax.grad(lambda w, x: mixture(w).log_prob(x)))
    alone = jnp.array([0.0, 0.0, 1.0])
    assert np.isfinite(slope(alone, 1e3)).all()  # at which others have the whole density
    np.testing.assert_array_equal(slope(alone, jnp.inf), 0)


def test_weights_too_small_for_their_slopes(x64):
    """In single precision: the part has the whole density, and the share of it is 1."""
    weights, x = jnp.array([1.0, 1e-25], jnp.float32), jnp.array([-200.0, 0.0], jnp.float32)
    by_weights, shares = jax.jit(jax.grad(log_weighted_sum, (0, 1)))(weights, x)
    np.testing.assert_allclose(log_weighted_sum(weights, x), np.log(1e-25), rtol=1e-6)
    np.testing.assert_allclose(shares, [0, 1], atol=1e-6)
    assert np.isfinite(by_weights).all()
    nothing = jax.grad(log_weighted_sum, (0, 1))(jnp.array([1.0, 0.0]), jnp.array([-INF, INF]))
    np.testing.assert_array_equal(nothing, np.zeros((2, 2)))


def test_second_derivatives_of_a_weighted_sum(x64):
    """Those of its textbook form, where no part is rare; symmetric by a weight of 0, too."""
    textbook = lambda at: jnp.log(jnp.sum(at[0] * jnp.exp(at[1])))  # noqa: E731
    second = jax.jit(jax.hessian(lambda at: log_weighted_sum(at[0], at[1])))
    at = jnp.array([[0.25, 0.75], [0.5, -1.0]])
    np.testing.assert_allclose(second(at), jax.hessian(textbook)(at), rtol=1e-12)
    found = second(jnp.array([[1.0, 0.0], [0.5, -1.0]])).reshape(4, 4)
    np.testing.assert_allclose(found, found.T, rtol=1e-12)
