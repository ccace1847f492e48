"""Entropies of counts whose chance is random: to 1e-10, of any number of draws and any tails."""

import itertools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
import scipy.special as sp

import distributions as dist

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
SUMMED = 20_000
MANY = 2**31 - 1


def log_beta(a, b):
    return mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)


def integrated(log_mass, low, high, peak):
    """Over the logarithm of the count, by parts that are finer around a peak."""
    around = [peak + s * x for s in (-1, 1) for x in (0, 0.002, 0.005, 0.02, 0.1, 0.4, 1.5)]
    inner = [x for x in (*around, *np.linspace(low, high, 12)) if low < x < high]

    def term(y):
        score = log_mass(mpmath.exp(y))
        return -mpmath.exp(y + score) * score

    return mpmath.quad(term, [low, *sorted(inner), high])


def summed(log_masses):
    return sp.entr(np.exp(log_masses)).sum()


def half(n, a, b):
    """Of the smaller counts: the first ones, and an integral beyond."""
    choose = lambda k: -mpmath.log(n + 1) - log_beta(k + 1, n - k + 1)  # noqa: E731
    log_mass = lambda k: choose(k) + log_beta(k + a, n - k + b) - log_beta(a, b)  # noqa: E731
    k = np.arange(SUMMED)
    steps = np.log((k + a) / (k + 1)) - np.log1p((b - 1) / (n - k))
    scores = float(log_mass(mpmath.mpf(0))) + np.cumsum([0.0, *steps])
    first = summed(scores[:-1]) + summed(scores[-1:]) / 2
    end, peak = np.log(n / 2), np.log(n) + np.log(a) - np.log(a + b)
    return first + float(integrated(log_mass, np.log(SUMMED), end, peak))


def beta_binomial(n, a, b):
    if n > 10 * SUMMED:
        with mpmath.workdps(40):
            return half(n, a, b) + half(n, b, a)
    return summed(log_masses(n, a, b))


def log_masses(n, a, b):
    """By their ratios."""
    k = np.arange(n)
    steps = np.log((k + a) / (n - k - 1 + b)) + np.log((n - k) / (k + 1))
    scores = np.cumsum([0.0, *steps])
    return scores - sp.logsumexp(scores)


def dirichlet_multinomial(n, *a):
    """By the laws of the single counts."""
    total, k = sum(a), np.arange(n + 1)
    log_all = sp.gammaln(n + 1) - sp.gammaln(n + total) + sp.gammaln(total)
    terms = ((np.exp(log_masses(n, x, total - x)), x) for x in a)
    means = (p @ (sp.gammaln(k + 1) - sp.gammaln(k + x) + sp.gammaln(x)) for p, x in terms)
    return sum(means) - log_all


def beta_negative_binomial(n, a, b):
    """The first masses, an integral, and beyond it what a power has."""

    def log_mass(k):
        choose = mpmath.loggamma(k + n) - mpmath.loggamma(k + 1) - mpmath.loggamma(n)
        return choose + log_beta(a + k, b + n) - log_beta(a, b)

    with mpmath.workdps(60):
        k = np.arange(SUMMED)
        steps = np.log((k + n) / (k + 1)) - np.log1p((b + n) / (k + a))
        scores = float(log_mass(mpmath.mpf(0))) + np.cumsum([0.0, *steps])
        first = summed(scores[:-1]) + summed(scores[-1:]) / 2
        peak = np.log(n) + np.log(a) - np.log(b)
        end = max(peak, np.log(SUMMED)) + np.log1p(b) + 33
        body = integrated(log_mass, np.log(SUMMED), end, peak)
        last = log_mass(mpmath.exp(end))
        return first + float(body + mpmath.exp(last + end) / b * ((b + 1) / b - last))


LAWS = {
    "BetaBinomial": (dist.BetaBinomial, beta_binomial),
    "DirichletMultinomial": (
        lambda n, *a: dist.DirichletMultinomial(n, jnp.stack(a)),
        dirichlet_multinomial,
    ),
    "BetaNegativeBinomial": (dist.BetaNegativeBinomial, beta_negative_binomial),
}
RARE = 2.0**-10
PARAMETERS = {
    "BetaBinomial": [
        *((0, 2.0, 3.0), (1, RARE, RARE), (40, 0.5, 2.5), (321, RARE, 30.0), (322, 1e6, 1e6)),
        *((5000, 1000.0, 0.03125), (10**5, RARE, RARE), (10**5, 30.0, 2e3), (10**5, 1.0, 1e6)),
        *((MANY, RARE, RARE), (MANY, 0.5, 4.0), (MANY, 1e6, 1e6), (MANY, 1e3, 0.125)),
    ],
    "DirichletMultinomial": [
        *((7, 0.5, 2.0, 3.5), (300, RARE, RARE, 1.0), (1000, 30.0, 0.25, 2e3, 1e6)),
        (20_000, 500.0, 2000.0, 8000.0),
    ],
    "BetaNegativeBinomial": [
        *((3.0, 2.5, 4.5), (1.0, 1.0, 0.125), (RARE, 30.0, 0.5), (0.5, RARE, 2.0)),
        *((1e6, 1e6, 0.125), (1e6, 1e6, 1e6), (1e6, 0.5, 1.0), (RARE, RARE, 1e6)),
        *((30.0, 1e6, 1e3), (4.0, 1e6, 0.25), (1e3, 200.0, 3e4)),
    ],
}
ALL = [(name, at) for name, rows in PARAMETERS.items() for at in rows]


def typed(at, dtype):
    """Numbers of draws are integers, as they are given."""
    return [x if isinstance(x, int) else dtype.type(x) for x in at]


@pytest.mark.parametrize(("name", "at"), ALL)
def test_entropies(name, at, float_dtype):
    make, truth = LAWS[name]
    entropy = jax.jit(lambda *at: make(*at).entropy())(*typed(at, float_dtype))
    tolerance = 1e-5 if float_dtype == np.float32 else 1e-10
    np.testing.assert_allclose(entropy, truth(*at), tolerance, tolerance)


@pytest.mark.parametrize(("name", "at"), ALL)
def test_derivatives_are_differences(name, at, x64):
    """In the logarithms of the parameters; those in single precision to 1e-3."""
    make, at = LAWS[name][0], typed(at, np.dtype(float))
    split = isinstance(at[0], int)

    def entropy(logs):
        return make(*at[:split], *(jnp.exp(x) for x in logs)).entropy()

    logs = np.log(at[split:])
    slopes = jax.jit(jax.grad(entropy))(logs)
    steps = 1e-3 * np.eye(len(logs))
    at_steps = jax.jit(jax.vmap(entropy))(np.stack([logs + i * steps for i in (-2, -1, 1, 2)]))
    differences = np.array([1, -8, 8, -1]) @ at_steps / 12e-3
    np.testing.assert_allclose(slopes, differences, 1e-6, 1e-8)
    single = jax.jit(jax.grad(entropy))(logs.astype(np.float32))
    np.testing.assert_allclose(single, slopes, 1e-3, 1e-3)


@pytest.mark.parametrize("n", [5, 1000, MANY])
def test_uniform_laws(n, float_dtype):
    """Of ones for concentrations, all vectors of counts are equally probable."""
    ones = np.ones(3, float_dtype)
    found = [
        dist.BetaBinomial(n, *ones[:2]).entropy(),
        dist.DirichletMultinomial(n, ones).entropy(),
        dist.DirichletMultinomial(n, ones[:1]).entropy(),
    ]
    expected = np.log(n + 1), np.log((n + 2) / 2) + np.log(n + 1), 0
    np.testing.assert_allclose(found, expected, 1e-5 if float_dtype == np.float32 else 1e-10)


def test_by_enumeration(x64):
    d = dist.DirichletMultinomial(4, np.array([[0.25, 3.0, 0.5], [2.0, 1.0, 60.0]]))
    counts = [k for k in itertools.product(range(5), repeat=3) if sum(k) == 4]
    scores = d.log_prob(np.array(counts)[:, None])
    np.testing.assert_allclose(d.entropy(), sp.entr(np.exp(scores)).sum(0), 1e-12)


def test_batches(x64):
    """Of every parameter, and as single ones are."""
    n, a, b = np.array([0, 50, 10**6])[:, None], np.array([0.5, 1e5]), 3.0
    for make in (dist.BetaBinomial, dist.BetaNegativeBinomial):
        size = n if make is dist.BetaBinomial else n + 0.5
        found = make(size, a, b).entropy()
        each = [[make(s, x, b).entropy() for x in a] for s in size[:, 0]]
        np.testing.assert_allclose(found, each, 1e-12, 1e-12)
