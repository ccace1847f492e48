"""Rational quadratic splines: through their knots, smooth, and with the inverse of the formula."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference.guides.rational_quadratic_spline import BOUND, Spline


def some_spline(dtype, num_bins=6, size=40, spread=1.5):
    numbers = spread * np.random.default_rng(0).normal(size=(3 * num_bins - 1, size))
    return Spline.of(jnp.asarray(numbers, dtype))


def some_points(dtype, size=40):
    return jnp.asarray(np.linspace(-1.2 * BOUND, 1.2 * BOUND, size), dtype)


def test_the_inverse_undoes_it(float_dtype):
    spline, x = some_spline(float_dtype), some_points(float_dtype)
    y, log_derivative = jax.jit(spline.forward)(x)
    again, at_inverse = jax.jit(spline.inverse)(y)
    tolerance = 1e-10 if float_dtype == "float64" else 1e-3  # slopes are from 0.01 to 100
    assert y.dtype == again.dtype == float_dtype
    np.testing.assert_allclose(again, x, atol=tolerance)
    np.testing.assert_allclose(at_inverse, log_derivative, atol=10 * tolerance)


def test_the_derivative_is_that_of_the_value(x64):
    spline, x = some_spline(float), some_points(float)
    one = jnp.ones_like(x)
    _, slope = jax.jvp(lambda x: spline.forward(x)[0], (x,), (one,))
    np.testing.assert_allclose(spline.forward(x)[1], jnp.log(slope), atol=1e-10)
    _, slope = jax.jvp(lambda y: spline.inverse(y)[0], (x,), (one,))
    np.testing.assert_allclose(spline.inverse(x)[1], -jnp.log(slope), atol=1e-10)


@pytest.mark.parametrize("side", [-1e-9, 1e-9])
def test_it_goes_through_its_knots_with_their_derivatives(x64, side):
    """From both sides, the outer knots too, beyond which it is the identity."""
    spline = some_spline(float)
    for knot, value, derivative in zip(*spline, strict=True):
        found, log_derivative = spline.forward(knot + side)
        np.testing.assert_allclose(found, value, atol=1e-6)
        np.testing.assert_allclose(jnp.exp(log_derivative), derivative, rtol=1e-4)


@pytest.mark.quick_rows("250")
@pytest.mark.parametrize("num_bins", [100, 250])
def test_knots_ascend_however_many_there_are(x64, num_bins):
    spline, x = some_spline(float, num_bins, spread=3.0), some_points(float)
    assert jnp.all(jnp.diff(spline.x, axis=0) > 0)
    assert jnp.all(jnp.std(jnp.diff(spline.x, axis=0), axis=0) > 0.01)
    np.testing.assert_allclose(spline.inverse(spline.forward(x)[0])[0], x, atol=1e-9)


@pytest.mark.quick_rows("float64")
def test_it_begins_as_the_identity(float_dtype):
    x = some_points(float_dtype)
    y, log_derivative = Spline.of(jnp.zeros((20, x.size), float_dtype)).forward(x)
    np.testing.assert_allclose(y, x, rtol=1e-5)
    np.testing.assert_allclose(log_derivative, 0.0, atol=1e-5)


@pytest.mark.slow
def test_gradients_are_finite_everywhere():
    def total(numbers, x):
        spline = Spline.of(numbers)
        return sum(jnp.sum(part) for f in (spline.forward, spline.inverse) for part in f(x))

    x = jnp.asarray([-1e6, -BOUND, 0.0, BOUND, 1e6])
    for numbers in (jnp.zeros((8, 5)), 50 * jnp.eye(8, 5)):
        gradients = jax.grad(total, (0, 1))(numbers, x)
        assert all(bool(jnp.all(jnp.isfinite(x))) for x in gradients)
