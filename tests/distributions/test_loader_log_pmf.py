"""Log masses of counts, small and large ones, and their derivatives by the counts."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import distributions as dist
from distributions.numerics.loader_log_pmf import (
    log_binomial,
    log_binomial_of_probs,
    log_negative_binomial,
    log_poisson,
    log_poisson_of_log,
)

COUNTS = [*range(11), 15, 16, 100, 10_000]
FRACTIONS = [0.25, 0.75, 2.5, 3.625, 7.25, 8.5]  # for all but Poisson variables
MASSES = {
    "Poisson": (lambda k: log_poisson(k, jnp.full_like(k, 3.5)), 3.5),
    "Poisson, log": (lambda k: log_poisson_of_log(k, jnp.full_like(k, 1.25)), mpmath.exp(1.25)),
    "binomial": (
        lambda k: log_binomial(k, jnp.full_like(k, 7), jnp.full_like(k, -0.5)),
        (7, 1 / (1 + mpmath.exp(0.5)), 1),
    ),
    "binomial, probs": (
        lambda k: log_binomial_of_probs(k, jnp.full_like(k, 7), jnp.full_like(k, 0.375)),
        (7, 0.375, 1),
    ),
    "negative binomial": (
        lambda k: log_negative_binomial(k, jnp.full_like(k, 2.5), jnp.full_like(k, -0.5)),
        (2.5, 1 / (1 + mpmath.exp(0.5)), 0),
    ),
}


def mass(k, parameters):
    """Of a Poisson variable, or of one with `(m, p, 1)` or `(r, p, 0)`, as gamma functions."""
    if not isinstance(parameters, tuple):
        return k * mpmath.log(parameters) - parameters - mpmath.loggamma(k + 1)
    m, p, more = parameters
    choose = mpmath.loggamma(k + m + more) - mpmath.loggamma(k + 1) - mpmath.loggamma(m + more)
    return choose + k * mpmath.log(p) + m * mpmath.log1p(-p)


@pytest.mark.quick_rows("float32-Poisson, log", "float64-Poisson, log")
@pytest.mark.parametrize("name", MASSES)
def test_masses_and_derivatives(name, float_dtype):
    single, (log_mass, parameters) = float_dtype == np.float32, MASSES[name]
    counts = [*COUNTS, *([] if "Poisson" in name else FRACTIONS)]
    k = jnp.asarray(counts, float_dtype)
    with mpmath.workdps(40):
        at = [mpmath.mpf(i) for i in counts]
        truths = [float(mass(i, parameters)) for i in at]
        slopes = [float(mpmath.diff(lambda x: mass(x, parameters), i)) for i in at]
        bends = [float(mpmath.diff(lambda x: mass(x, parameters), i, 2)) for i in at]
    np.testing.assert_allclose(
        log_mass(k), truths, rtol=2e-6 if single else 1e-13, atol=1e-6 if single else 1e-14
    )
    slope = jax.grad(log_mass)
    found, second = jax.vmap(slope)(k), jax.vmap(jax.grad(slope))(k)
    np.testing.assert_allclose(
        found[1:], slopes[1:], rtol=1e-5 if single else 1e-11, atol=2e-6 if single else 1e-13
    )
    np.testing.assert_allclose(
        second[1:], bends[1:], rtol=1e-5 if single else 1e-11, atol=2e-6 if single else 1e-12
    )
    assert np.isfinite([found[0], second[0]]).all()


def test_mixed_derivatives_of_a_poisson_mass(x64):
    hessian = jax.hessian(lambda v: log_poisson(v[0], v[1]))(jnp.array([1.0, 2.5]))
    np.testing.assert_allclose(hessian, [[1 - np.pi**2 / 6, 0.4], [0.4, -0.16]], rtol=1e-12)


@pytest.mark.parametrize("n", FRACTIONS)
def test_a_number_of_failures_that_is_no_integer(n, x64):
    """A beta-negative-binomial variable is made of masses whose counts are no integers either."""
    a, b, k = 1.5, 3.0, np.array([0, 1, 4, 20])
    with mpmath.workdps(40):
        truth = [
            float(
                mpmath.log(mpmath.gammaprod([n + i], [n, i + 1]))
                + mpmath.log(mpmath.beta(a + i, b + n) / mpmath.beta(a, b))
            )
            for i in map(int, k)
        ]
    found = dist.BetaNegativeBinomial(total_count=n, concentration1=a, concentration0=b).log_prob(k)
    np.testing.assert_allclose(found, truth, rtol=1e-12)
