"""First passages: distribution functions beside the density and the series of sines."""

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import distributions as dist
from distributions.numerics.wiener_tails import log_later

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
BIASES, DRIFTS = (0.001, 0.25, 0.5, 0.875, 0.999), (0.0, 0.5, -3.0, 40.0)
PARAMETERS = np.array(list(itertools.product((0.5, 2.0), BIASES, DRIFTS)))


@jax.jit
def slopes_and_densities(parameters, y):
    def at(row, y):
        d = dist.Wiener(row[0], 0.25, row[1], row[2])
        both = jax.grad(d.cdf)(y), jax.grad(d.survival)(y)
        return *both, jnp.exp(d.log_prob(y)), d.cdf(y), d.survival(y)

    return jax.vmap(jax.vmap(at, (None, 0)), (0, None))(parameters, y)


@pytest.mark.slow
def test_distribution_functions_have_the_density_as_slope(float_dtype):
    """At early and late times of both boundaries; in between, the probability of either is left."""
    y = np.array([0.2501, 0.26, 0.3, 0.34, 0.36, 0.5, 1.7, 1.9, 6.0])
    y = np.concatenate([-y, [-0.25, 0.0, 0.25], y]).astype(float_dtype)
    up, down, density, below, above = slopes_and_densities(PARAMETERS.astype(float_dtype), y)
    rtol, atol = (1e-9, 1e-12) if float_dtype == np.float64 else (1e-3, 2e-5)
    np.testing.assert_allclose(up, density, rtol, atol)
    np.testing.assert_allclose(-np.asarray(down), density, rtol, atol)
    np.testing.assert_allclose(below + above, 1, rtol=4 * np.finfo(float_dtype).eps)
    alpha, bias, drift = PARAMETERS.T
    with np.errstate(invalid="ignore"):
        upper = np.expm1(-2 * alpha * drift * bias) / np.expm1(-2 * alpha * drift)
    between = np.broadcast_to(np.where(drift == 0, bias, upper)[:, None], (len(PARAMETERS), 3))
    np.testing.assert_allclose(above[:, 9:12], between, rtol, rtol / 100)


def test_the_distance_of_the_boundaries_sets_the_unit_of_time(x64):
    """Twice as far apart, a passage takes four times as long at half of the drift."""
    y = np.array([-3.0, -0.4, 0.5, 2.0])
    near, far = dist.Wiener(1.0, 0.0, 0.25, 0.8), dist.Wiener(2.0, 0.0, 0.25, 0.4)
    np.testing.assert_allclose(far.log_prob(4 * y), near.log_prob(y) - np.log(4), rtol=1e-12)


def by_sines(t, w, v):
    """With as many digits as it needs at early times."""
    with mpmath.workdps(60):
        t, w, v = (mpmath.mpf(float(x)) for x in (t, w, v))
        rate = mpmath.pi**2 * t / 2
        term = lambda k: (  # noqa: E731
            (k * mpmath.pi * mpmath.sin(k * mpmath.pi * w) * mpmath.exp(-k * k * rate))
            / ((v * v + (k * mpmath.pi) ** 2) / 2)
        )
        total = mpmath.fsum(map(term, range(1, int(mpmath.sqrt(150 / rate)) + 3)))
        return float(mpmath.log(total) + v * w - v * v * t / 2)


@pytest.mark.parametrize("t", [0.01, 0.125, 0.375, 0.5, 8.0])
def test_later_passages(t, x64):
    """Of the logarithm, the relative error: far out in the tail, and near either boundary."""
    w, v = (x.ravel() for x in np.meshgrid(BIASES, (0.0, 0.5, -3.0, 40.0, -90.0)))
    truth = [by_sines(t, *pair) for pair in zip(w, v, strict=True)]
    np.testing.assert_allclose(log_later(t, w, 1 - w, v), truth, rtol=1e-11, atol=1e-11)


@pytest.mark.quick_rows("5.0")
@pytest.mark.parametrize("drift", [0.0, 5.0])
def test_times_at_the_ends(drift):
    """In single precision: numbers, and of derivatives, too."""
    d = dist.Wiener(1.0, 0.0, 0.25, drift)
    y = jnp.array([-1e30, -1e-30, 1e-30, 1e30], np.float32)
    lower = float(d.cdf(0.0))
    np.testing.assert_allclose(d.cdf(y), [0, lower, lower, 1], rtol=1e-6)
    slopes = jax.jacrev(lambda d: d.cdf(y[1:3]))(d)
    assert all(np.isfinite(slope).all() for slope in jax.tree.leaves(slopes))
