"""Incomplete beta and gamma functions with their derivatives against mpmath; implicit gradients."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist
from distributions.numerics.incomplete_gamma_beta import log_betainc, log_gammainc

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
BETAS = [
    (2.0, 3.0, 0.4),
    (0.5, 2.5, 0.3),
    (200.0, 100.0, 0.66),
    (0.01, 0.02, 0.5),
    (50.0, 9.0, 0.05),
    (0.25, 0.5, 0.4),  # A transformation for unequal parameters has 0 / 0 at a = (1 - b) / 2.
]
GAMMAS = [(0.5, 0.3), (2.0, 1.0), (2.0, 3.5), (200.0, 210.0), (0.01, 3.0), (50.0, 20.0)]


def truths(f, at):
    """The value and the partial derivatives but for the last."""
    with mpmath.workdps(25):
        moved = [lambda z, i=i: f(*at[:i], z, *at[i + 1 :]) for i in range(len(at) - 1)]
        return [float(f(*at)), *(float(mpmath.diff(m, at[i])) for i, m in enumerate(moved))]


@pytest.mark.slow_rows("at0")
@pytest.mark.parametrize("at", BETAS)
def test_log_betainc(at, x64):
    """With whole parameters, too, where a continued fraction ends and its derivatives do not."""
    lower = lambda a, b, x: mpmath.log(mpmath.betainc(a, b, 0, x, regularized=True))  # noqa: E731
    upper = lambda a, b, x: mpmath.log(mpmath.betainc(a, b, x, 1, regularized=True))  # noqa: E731
    for i, truth in enumerate((lower, upper)):
        ours = lambda a, b, x, i=i: log_betainc(a, b, jnp.log(x), jnp.log1p(-x))[i]  # noqa: E731
        found = [ours(*at), *jax.grad(ours, (0, 1))(*at)]
        np.testing.assert_allclose(found, truths(truth, at), rtol=1e-11, atol=1e-12)


@pytest.mark.slow_rows("at0")
@pytest.mark.parametrize("at", GAMMAS)
def test_log_gammainc(at, x64):
    lower = lambda a, x: mpmath.log(mpmath.gammainc(a, 0, x, regularized=True))  # noqa: E731
    upper = lambda a, x: mpmath.log(mpmath.gammainc(a, x, regularized=True))  # noqa: E731
    for i, truth in enumerate((lower, upper)):
        ours = lambda a, x, i=i: log_gammainc(a, x)[i]  # noqa: E731
        found = [ours(*at), jax.grad(ours)(*at)]
        np.testing.assert_allclose(found, truths(truth, at), rtol=1e-11, atol=1e-12)


def test_second_derivatives_in_reverse_mode(x64):
    """Of whole parameters, too; reverse mode twice, against differences of first derivatives."""
    slopes = jax.jacrev(lambda at: log_gammainc(at[0], at[1])[0])
    at, step = jnp.array([[2.0, 1.5], [2.0, 3.5], [2.5, 3.0]]), 1e-5
    both = jax.jit(jax.vmap(lambda at: (slopes(at), jax.jacrev(slopes)(at))))
    columns = [(both(at + e)[0] - both(at - e)[0]) / (2 * step) for e in step * jnp.eye(2)[:, None]]
    np.testing.assert_allclose(both(at)[1], np.stack(columns, 2), rtol=1e-7, atol=1e-9)


IMPLICIT = [
    (dist.InverseGaussian, (1.5, 2.0), lambda m, c: st.invgauss(m / c, scale=c)),
    (dist.VonMises, (0.75, 2.0), lambda m, c: st.vonmises(c, m)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "at", "oracle"), IMPLICIT)
def test_draws_move_with_the_parameters(make, at, oracle, x64):
    """As those that keep their probability: `dx / dp = -(d cdf / dp) / density`."""
    key = jax.random.key(1)
    draws = make(*at).sample(key, (5,))
    slopes = jax.jacobian(lambda p: make(*p).sample(key, (5,)))(at)
    for i, slope in enumerate(slopes):
        up, down = (
            oracle(*(p + s if i == j else p for j, p in enumerate(at))).cdf(draws)
            for s in (1e-6, -1e-6)
        )
        expected = -(up - down) / 2e-6 / oracle(*at).pdf(draws)
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-8)


def test_moments_of_the_circle(x64):
    d = dist.VonMises(0.75, 2.0)
    x = np.linspace(-np.pi, np.pi, 2001)[:-1]
    resultant = (np.exp(np.asarray(d.log_prob(x)) + 1j * x)).sum() * (x[1] - x[0])
    np.testing.assert_allclose(d.mean(), np.angle(resultant), rtol=1e-10)
    np.testing.assert_allclose(d.variance(), 1 - np.abs(resultant), rtol=1e-10)
