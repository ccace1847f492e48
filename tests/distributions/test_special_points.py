"""Derivatives where a formula branches: at the points that starts and optimisers meet."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist

PATH = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
POINTS = {
    "CAR, no correlation": (lambda c: dist.CAR(0.0, c, 1.5, PATH).log_prob([1.0, 3.0, -2.0]), 0.0),
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
