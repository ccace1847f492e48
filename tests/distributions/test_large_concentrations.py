"""Gamma and beta variables of concentrations up to 1e30, with derivatives, against mpmath."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.stats

import distributions as dist
from distributions.numerics.incomplete_gamma_beta import log_betainc, log_gammainc

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
CONCENTRATIONS = (2e4, 1e6, 1e8, 1e10, 1e12, 1e20, 1e30)
PAIRS = [(2e4, 6e4), (9e6, 3e7), (1e9, 1e9), (1e12, 3e12), (1e30, 1e30), (1e8, 1e16)]


def tolerance(dtype):
    return 1e-6 if dtype == np.float32 else 1e-12


def integrals(log_density, score, x, width):
    """Of a density below `x`, and of its product with its derivative in the concentration."""
    ends = [x + width * k for k in (-12, -6, -3, -1.5, -0.5, 0)]
    density = lambda t: mpmath.exp(log_density(t))  # noqa: E731
    return [mpmath.quad(f, ends) for f in (density, lambda t: density(t) * score(t))]


def gamma_truth(a, x):
    with mpmath.workdps(90):
        a, x = mpmath.mpf(float(a)), mpmath.mpf(float(x))
        log_gamma, mean = mpmath.loggamma(a), mpmath.psi(0, a)
        return integrals(
            lambda t: (a - 1) * mpmath.log(t) - t - log_gamma,
            lambda t: mpmath.log(t) - mean,
            x,
            mpmath.sqrt(a),
        )


def beta_truth(a, b, x):
    """And what a step to the next floating number adds."""
    with mpmath.workdps(90):
        p, q, y, step = (mpmath.mpf(float(z)) for z in (a, b, x, np.spacing(x)))
        log_beta = mpmath.loggamma(p) + mpmath.loggamma(q) - mpmath.loggamma(p + q)
        mean = mpmath.psi(0, p) - mpmath.psi(0, p + q)
        log_density = lambda t: (p - 1) * mpmath.log(t) + (q - 1) * mpmath.log(1 - t) - log_beta  # noqa: E731
        width = mpmath.sqrt(p * q / (p + q)) / (p + q)
        found = integrals(log_density, lambda t: mpmath.log(t) - mean, y, width)
        return *found, float(mpmath.exp(log_density(y)) * step)


@jax.jit
def below_gamma(a, x):
    return jax.value_and_grad(lambda a: dist.Gamma(a, 1.0).cdf(x))(a)


@jax.jit
def below_beta(a, b, x):
    return jax.value_and_grad(lambda a: dist.Beta(a, b).cdf(x))(a)


quantile, survival = jax.jit(lambda d, q: d.quantile(q)), jax.jit(lambda d, x: d.survival(x))


@jax.jit
def draws(d):
    return d.sample(jax.random.key(3), (2000,))


@pytest.mark.quick_rows("float64-1000000000000.0", "float64-100000000.0")
@pytest.mark.parametrize("a", CONCENTRATIONS)
def test_gamma_variables(a, float_dtype):
    a, most = float_dtype.type(a), tolerance(float_dtype)
    d = dist.Gamma(a, float_dtype.type(1))
    for deviation in (-2.0, -0.5, 0.0):
        x = (a + deviation * np.sqrt(a)).astype(float_dtype)
        truth, slope = gamma_truth(a, x)
        found, found_slope = below_gamma(a, x)
        np.testing.assert_allclose(found, float(truth), atol=most)
        np.testing.assert_allclose(found_slope, float(slope), rtol=100 * most)
        np.testing.assert_allclose(survival(d, x), float(1 - truth), atol=most)
        np.testing.assert_allclose(quantile(d, found), x, atol=np.spacing(x) + 10 * most * a**0.5)


@pytest.mark.quick_rows(
    "float64-1000000000000.0-3000000000000.0", "float64-1000000000.0-1000000000.0"
)
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_beta_variables(a, b, float_dtype):
    """As precise as the value is."""
    a, b = float_dtype.type(a), float_dtype.type(b)
    x = (a / (a + b) - 0.5 * np.sqrt(a / (a + b)) * np.sqrt(b / (a + b)) / np.sqrt(a + b)).astype(
        float_dtype
    )
    truth, slope, step = beta_truth(a, b, x)
    found, found_slope = below_beta(a, b, x)
    most = tolerance(float_dtype)
    np.testing.assert_allclose(found, float(truth), atol=most + step)
    np.testing.assert_allclose(survival(dist.Beta(a, b), x), float(1 - truth), atol=most + step)
    np.testing.assert_allclose(found_slope, float(slope), rtol=100 * most + 3 * step)


@pytest.mark.parametrize("least", [0.5, 3.0, 30.0])
@pytest.mark.parametrize("most", [1e12, 1e20, 1e30])
def test_beta_variables_that_are_nearly_gamma(least, most, float_dtype):
    least, most = float_dtype.type(least), float_dtype.type(most)
    x = (2 * least / most).astype(float_dtype)
    with mpmath.workdps(60):
        n = mpmath.mpf(float(most)) + (mpmath.mpf(float(least)) - 1) / 2
        w = -n * mpmath.log1p(-mpmath.mpf(float(x)))
        truth = float(mpmath.log(mpmath.gammainc(float(least), w, regularized=True)))
    rtol = 20 * tolerance(float_dtype)
    np.testing.assert_allclose(jnp.log(survival(dist.Beta(least, most), x)), truth, rtol=rtol)
    mirrored = log_betainc(most, least, jnp.log1p(-x), jnp.log(x))
    np.testing.assert_allclose(mirrored[0], truth, rtol=rtol)


def noncentral_log_density(x, df, noncentrality):
    """By Hankel's expansion of the Bessel function for large arguments."""
    s, mu = mpmath.sqrt(noncentrality * x), (df - 2) ** 2
    series = 1 - (mu - 1) / (8 * s) + (mu - 1) * (mu - 9) / (128 * s * s)
    bessel = s - mpmath.log(2 * mpmath.pi * s) / 2 + mpmath.log(series)
    power = (df / 4 - mpmath.mpf(0.5)) * mpmath.log(x / noncentrality)
    return bessel - mpmath.log(2) - (x + noncentrality) / 2 + power


@pytest.mark.slow
@pytest.mark.parametrize("noncentrality", [1e8, 1e10, 1e12, 1e14, 1e20, 1e36])
def test_far_normal_vectors(noncentrality, float_dtype):
    noncentrality = float_dtype.type(noncentrality)
    d, most = dist.NoncentralChi2(float_dtype.type(3), noncentrality), tolerance(float_dtype)
    for deviation in (-1.0, 0.0):
        x = (noncentrality + 2 * deviation * np.sqrt(noncentrality)).astype(float_dtype)
        with mpmath.workdps(70):
            m, y = mpmath.mpf(float(noncentrality)), mpmath.mpf(float(x))
            log_density = lambda t, m=m: noncentral_log_density(t, 3, m)  # noqa: E731
            truth, _ = integrals(log_density, lambda t: 1, y, 2 * mpmath.sqrt(m))
            log_truth = float(log_density(y))
        np.testing.assert_allclose(d.log_prob(x), log_truth, rtol=most)
        np.testing.assert_allclose(d.cdf(x), float(truth), atol=10 * most)
    standard = (draws(d) - noncentrality) / (2 * np.sqrt(noncentrality))
    if np.spacing(noncentrality) < 0.01 * np.sqrt(noncentrality):
        assert scipy.stats.kstest(standard, "norm").pvalue > 1e-6
    assert abs(standard.mean()) < 0.1 + 1e-6 * np.sqrt(noncentrality)


@pytest.mark.slow_rows("float32-9.0-1e+20")
@pytest.mark.parametrize("a", [1e20, 1e30])
@pytest.mark.parametrize("deviation", [9.0, 100.0])
def test_far_tails(a, deviation, float_dtype):
    """Of values that are hardly told from the mean: the normal limit."""
    a, truth = float_dtype.type(a), scipy.stats.norm.logsf(deviation)
    shift = (deviation * np.sqrt(a)).astype(float_dtype)
    rtol = 1e-6 if float_dtype == np.float32 else 2 * deviation / np.sqrt(a) + 1e-12
    _, above = log_gammainc(a, a + shift, -shift)
    np.testing.assert_allclose(above, truth, rtol)
    below, _ = log_gammainc(a, a - shift, shift)
    np.testing.assert_allclose(below, truth, rtol)
    b, half = jnp.log(float_dtype.type(0.5)), shift * float_dtype.type(np.sqrt(0.5))
    below, _ = log_betainc(a, a, b, b, half)
    np.testing.assert_allclose(below, truth, rtol)


@pytest.mark.quick_rows("float32-1000000.0-30000000.0")
@pytest.mark.parametrize(("a", "b"), [(1e6, 1e6), (1e6, 3e7), (1e10, 3e10)])
def test_beta_quantiles(a, b, float_dtype):
    """The value is the least of its dtype with the probability."""
    d = dist.Beta(float_dtype.type(a), float_dtype.type(b))
    for q in (0.01, 0.5, 0.9999):
        x = quantile(d, float_dtype.type(q))
        truth, _, step = beta_truth(a, b, x)
        most = 10 * tolerance(float_dtype)
        assert q - most <= truth <= q + 2 * step + most


@pytest.mark.slow_rows("float32-10000.0")
@pytest.mark.parametrize("mean", [1e4, 1e6])
def test_counts_of_large_mean(mean, float_dtype):
    """Incomplete functions of which JAX's are wrong."""
    mean = float_dtype.type(mean)
    below, _ = gamma_truth(mean, mean)
    with mpmath.workdps(60):
        at = mpmath.mpf(float(mean))
        mass = mpmath.exp(at * mpmath.log(at) - at - mpmath.loggamma(at + 1))
    poisson = float(1 - below + mass)  # `Q(m + 1, m)` is `Q(m, m)` and the mass at `m`.
    most = tolerance(float_dtype)
    np.testing.assert_allclose(dist.Poisson(mean).cdf(mean), poisson, atol=most)
    half = dist.Binomial(2 * mean, probs=float_dtype.type(0.5))
    log_mass = half.log_prob(mean)  # By symmetry half of the rest is below.
    np.testing.assert_allclose(half.cdf(mean), 0.5 + np.exp(log_mass) / 2, atol=10 * most)


def gamma_divergence(a, b):
    return mpmath.loggamma(b) - mpmath.loggamma(a) - (b - a) * mpmath.digamma(a)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0, 1e8, 1e16])
def test_divergences(scale):
    """Of laws that are about a standard deviation apart, and of those that are far apart."""
    with mpmath.workdps(90):
        for step in (1 / np.sqrt(scale + 16), 2.0):
            a = np.float32([scale, 3 * scale])
            b = np.float32([scale * (1 + step), 3 * scale])
            exact, other = ([mpmath.mpf(float(x)) for x in y] for y in (a, b))
            first, second = map(gamma_divergence, exact, other)
            beta = first + second - gamma_divergence(sum(exact), sum(other))
            found = dist.kl_divergence(dist.Dirichlet(a), dist.Dirichlet(b))
            np.testing.assert_allclose(found, float(beta), 2e-5, 1e-6)
            found = dist.kl_divergence(dist.Beta(*a), dist.Beta(*b))
            np.testing.assert_allclose(found, float(beta), 2e-5, 1e-6)
            for make in (dist.Gamma, dist.InverseGamma):
                found = dist.kl_divergence(*(make(x[0], np.float32(2)) for x in (a, b)))
                np.testing.assert_allclose(found, float(first), 2e-5, 1e-6)


@pytest.mark.parametrize(
    "pair", [(1.0, 50.0), (400.0, 2.0), (16.0, 16.0), (70.0, 64.0), (0.5, 1e4)]
)
def test_beta_densities_of_given_numbers(pair, float_dtype):
    """As exact as of traced ones, whichever formula the numbers choose."""
    x = np.random.default_rng(0).beta(*pair, 20).astype(float_dtype)
    of_numbers = dist.Beta(*pair).log_prob(jnp.asarray(x))
    of_traced = jax.jit(lambda a, b, x: dist.Beta(a, b).log_prob(x))(*pair, jnp.asarray(x))
    with mpmath.workdps(40):
        (a, b), ys = map(mpmath.mpf, pair), [mpmath.mpf(float(v)) for v in x]
        base = mpmath.log(mpmath.beta(a, b))
        truth = [float((a - 1) * mpmath.log(y) + (b - 1) * mpmath.log(1 - y) - base) for y in ys]
    bound = 1e-5 if float_dtype == np.float32 else 1e-10
    for found in (of_numbers, of_traced):
        np.testing.assert_allclose(found, truth, rtol=bound, atol=bound)


def test_a_prior_of_given_numbers_is_short_to_trace():
    eqns = jax.make_jaxpr(dist.Beta(1.0, 50.0).log_prob)(0.5).eqns
    assert len(eqns) < 25
