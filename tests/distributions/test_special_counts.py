"""Log masses of counts: each small one and some large ones, and their derivatives by the count."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from distributions.special_counts import (
    log_binomial,
    log_binomial_of_probs,
    log_negative_binomial,
    log_poisson,
    log_poisson_of_log,
)

COUNTS = [*range(20), 100, 10_000]
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


@pytest.mark.parametrize(("log_mass", "parameters"), MASSES.values(), ids=MASSES)
def test_masses_and_derivatives(log_mass, parameters, float_dtype):
    single = float_dtype == np.float32
    k = jnp.asarray(COUNTS, float_dtype)
    with mpmath.workdps(40):
        truths = [float(mass(mpmath.mpf(i), parameters)) for i in COUNTS]
        slopes = [float(mpmath.diff(lambda x: mass(x, parameters), mpmath.mpf(i))) for i in COUNTS]
    np.testing.assert_allclose(
        log_mass(k), truths, rtol=2e-6 if single else 1e-13, atol=1e-6 if single else 1e-14
    )
    found = jax.vmap(jax.grad(log_mass))(k)
    np.testing.assert_allclose(
        found[1:], slopes[1:], rtol=1e-5 if single else 1e-11, atol=2e-6 if single else 1e-13
    )
    assert np.isfinite(found[0])
