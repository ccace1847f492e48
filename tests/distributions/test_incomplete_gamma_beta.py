"""Incomplete beta and gamma functions with their derivatives against mpmath; implicit gradients."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.special as sp
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


# Functions of a concentration `a` and of the root of a factor of `z`, and the logarithm of `z`.
UNDERFLOWS = {
    "Chi": (lambda a, s: dist.Chi(2 * a).log_cdf(1e-23 * s), np.log(0.5) - 46 * np.log(10)),
    "Gamma": (lambda a, s: dist.Gamma(a, 1e-20 * s).log_cdf(1e-25 * s), -45 * np.log(10)),
    "InverseGamma": (
        lambda a, s: dist.InverseGamma(a, 1e-20 * s).log_survival(1e25 / s),
        -45 * np.log(10),
    ),
}


@pytest.mark.parametrize("name", UNDERFLOWS)
def test_tails_whose_argument_underflows(name):
    """The probability is `z^a / Gamma(a + 1)` to rounding, with its two derivatives."""
    f, log_z = UNDERFLOWS[name]
    at = np.array([0.125, 1.0], np.float32)
    a = 0.125
    jet = lambda at: (f(*at), jax.jacfwd(lambda at: f(*at))(at))  # noqa: E731
    value, slopes = jax.jit(jet)(at)
    np.testing.assert_allclose(value, a * log_z - sp.gammaln(a + 1), rtol=1e-5)
    np.testing.assert_allclose(slopes, [log_z - sp.digamma(a + 1), 2 * a], rtol=1e-5)
    bends = jax.jit(jax.jacfwd(lambda at: jet(at)[1]))(at)
    np.testing.assert_allclose(bends, [[-sp.polygamma(1, a + 1), 2], [2, -2 * a]], rtol=1e-3)


def test_beta_tails_of_unequal_parameters_at_0():
    """`I_x(a, b)` is `x^a / (a B(a, b))` to rounding, where `x` has underflowed."""
    log_x = np.float32(-1e4)
    a = np.float32(3.5)
    b = np.float32(2.0**30)
    f = lambda a, log_x: log_betainc(a, b, log_x, jnp.zeros_like(log_x))[0]  # noqa: E731
    value, slopes = jax.value_and_grad(f, (0, 1))(a, log_x)
    b = float(b)
    np.testing.assert_allclose(value, a * log_x - np.log(a) - sp.betaln(3.5, b), rtol=1e-5)
    by_a = log_x - 1 / 3.5 - sp.digamma(3.5) + sp.digamma(3.5 + b)
    np.testing.assert_allclose(slopes, [by_a, a], rtol=1e-5)


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
