"""Entropies of counts whose chance is random: to 1e-10, of any number of draws and any tails."""

import functools
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


def first_terms(scores):
    """All but the last two, and at the last but one what the Euler-Maclaurin formula has."""
    terms = sp.entr(np.exp(scores))
    return terms[:-2].sum() + terms[-2] / 2 - (terms[-1] - terms[-3]) / 24


def half(n, a, b):
    """Of the smaller counts: the first ones, and an integral beyond."""
    choose = lambda k: -mpmath.log(n + 1) - log_beta(k + 1, n - k + 1)  # noqa: E731
    log_mass = lambda k: choose(k) + log_beta(k + a, n - k + b) - log_beta(a, b)  # noqa: E731
    k = np.arange(SUMMED + 1)
    steps = np.log((k + a) / (k + 1)) - np.log1p((b - 1) / (n - k))
    scores = float(log_mass(mpmath.mpf(0))) + np.cumsum([0.0, *steps])
    first = first_terms(scores)
    end, peak = np.log(n / 2), np.log(n) + np.log(a) - np.log(a + b)
    return first + float(integrated(log_mass, np.log(SUMMED), end, peak))


@functools.cache
def beta_binomial(n, a, b):
    if n > 10 * SUMMED:
        with mpmath.workdps(40):
            return half(n, a, b) + half(n, b, a)
    return sp.entr(np.exp(log_masses(n, a, b))).sum()


def log_masses(n, a, b):
    """By their ratios."""
    k = np.arange(n)
    steps = np.log((k + a) / (n - k - 1 + b)) + np.log((n - k) / (k + 1))
    scores = np.cumsum([0.0, *steps])
    return scores - sp.logsumexp(scores)


@functools.cache
def dirichlet_multinomial(n, *a):
    """By the laws of the single counts."""

    def parts(x):
        return [mpmath.loggamma(k + x) - mpmath.loggamma(k + 1) for k in range(n + 1)]

    with mpmath.workdps(40):
        a = [mpmath.mpf(x) for x in a]
        total = sum(a)
        log_all = parts(total)[-1] - mpmath.loggamma(total)
        means = -log_all
        for x in a:
            scores, others = parts(x), reversed(parts(total - x))
            norm = mpmath.loggamma(x) + mpmath.loggamma(total - x) + log_all
            chances = [mpmath.exp(s + o - norm) for s, o in zip(scores, others, strict=True)]
            means += mpmath.fsum(
                p * (s - mpmath.loggamma(x)) for p, s in zip(chances, scores, strict=True)
            )
        return -float(means)


@functools.cache
def beta_negative_binomial(n, a, b):
    """The first masses, an integral, and beyond it what a power has."""

    def log_mass(k):
        choose = mpmath.loggamma(k + n) - mpmath.loggamma(k + 1) - mpmath.loggamma(n)
        return choose + log_beta(a + k, b + n) - log_beta(a, b)

    with mpmath.workdps(60):
        k = np.arange(SUMMED + 1)
        steps = np.log((k + n) / (k + 1)) - np.log1p((b + n) / (k + a))
        scores = float(log_mass(mpmath.mpf(0))) + np.cumsum([0.0, *steps])
        first = first_terms(scores)
        peak = np.log(n) + np.log(a) - np.log(b)
        end = max(peak, np.log(SUMMED)) + np.log1p(b) + 33
        body = integrated(log_mass, np.log(SUMMED), end, peak)
        last = log_mass(mpmath.exp(end))
        return first + float(body + mpmath.exp(last + end) / b * ((b + 1) / b - last))


RARE = 2.0**-10
NAMES = ("total_count", "concentration1", "concentration0")
LAWS = {
    "BetaBinomial": (
        lambda *at: dist.BetaBinomial(**dict(zip(NAMES, at, strict=True))),
        beta_binomial,
        [
            *((0, 2.0, 3.0), (1, RARE, RARE), (40, 0.5, 2.5), (321, RARE, 30.0), (322, 1e6, 1e6)),
            *((5000, 1e3, 0.03125), (10**5, RARE, RARE), (10**5, 30.0, 2e3), (10**5, 1.0, 1e6)),
            *((MANY, RARE, RARE), (MANY, 0.5, 4.0), (MANY, 1e6, 1e6), (MANY, 1e3, 0.125)),
        ],
    ),
    "DirichletMultinomial": (
        lambda n, *a: dist.DirichletMultinomial(total_count=n, concentration=jnp.stack(a, -1)),
        dirichlet_multinomial,
        [
            *((7, 0.5, 2.0, 3.5), (300, RARE, RARE, 1.0), (1000, 30.0, 0.25, 1e6)),
            *((2000, 500.0, 2000.0, 8000.0), (2000, RARE, 1e6, 0.25)),
        ],
    ),
    "BetaNegativeBinomial": (
        lambda _, *at: dist.BetaNegativeBinomial(**dict(zip(NAMES, at, strict=True))),
        lambda _, *at: beta_negative_binomial(*at),
        [
            *((0, 3.0, 2.5, 4.5), (0, 1.0, 1.0, 0.125), (0, RARE, 30.0, 0.5), (0, 0.5, RARE, 2.0)),
            *((0, 1e6, 1e6, 0.125), (0, 1e6, 1e6, 1e6), (0, 1e6, 0.5, 1.0), (0, RARE, RARE, 1e6)),
            *((0, 30.0, 1e6, 1e3), (0, 4.0, 1e6, 0.25), (0, 1e3, 200.0, 3e4)),
        ],
    ),
}


def columns(rows, dtype):
    """Numbers of draws, which are integers, and the rest."""
    n, *rest = zip(*rows, strict=True)
    return np.array(n, jnp.result_type(int)), np.array(rest, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_entropies(name, float_dtype):
    make, truth, rows = LAWS[name]
    n, rest = columns(rows, float_dtype)
    entropies = jax.jit(lambda n, rest: make(n, *rest).entropy())(n, rest)
    tolerance = 1e-5 if float_dtype == np.float32 else 1e-10
    expected = [truth(*row) for row in rows]
    np.testing.assert_allclose(entropies, expected, tolerance, tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_derivatives_are_differences(name, x64):
    """In the logarithms of the parameters; those in single precision to 1e-3."""
    make, _, rows = LAWS[name]

    def entropies(n, logs):
        return make(n, *jnp.exp(logs)).entropy()

    slope = jax.jit(jax.grad(lambda n, logs: jnp.sum(entropies(n, logs)), 1))
    n, rest = columns(rows, np.dtype(float))
    logs = np.log(rest)
    slopes = slope(n, logs)
    moved = [logs + 1e-3 * i * x for x in np.eye(len(logs))[..., None] for i in (-2, -1, 1, 2)]
    values = jax.jit(jax.vmap(entropies, (None, 0)))(n, np.stack(moved))
    differences = np.array([1, -8, 8, -1]) @ np.asarray(values).reshape(len(logs), 4, -1) / 12e-3
    np.testing.assert_allclose(slopes, differences, 1e-6, 1e-8)
    np.testing.assert_allclose(slope(n, logs.astype(np.float32)), slopes, 1e-3, 1e-3)


@pytest.mark.slow_rows("float32-5", "float64-5")
@pytest.mark.parametrize("n", [5, 1000, MANY])
def test_uniform_laws(n, float_dtype):
    """Of ones for concentrations, all vectors of counts are equally probable."""
    ones = np.ones(3, float_dtype)
    found = [
        dist.BetaBinomial(total_count=n, concentration1=ones[0], concentration0=ones[1]).entropy(),
        dist.DirichletMultinomial(total_count=n, concentration=ones).entropy(),
        dist.DirichletMultinomial(total_count=n, concentration=ones[:1]).entropy(),
    ]
    expected = np.log(n + 1), np.log((n + 2) / 2) + np.log(n + 1), 0
    np.testing.assert_allclose(found, expected, 1e-5 if float_dtype == np.float32 else 1e-10)


def test_by_enumeration(x64):
    d = dist.DirichletMultinomial(
        total_count=4, concentration=np.array([[0.25, 3.0, 0.5], [2.0, 1.0, 60.0]])
    )
    counts = [k for k in itertools.product(range(5), repeat=3) if sum(k) == 4]
    scores = d.log_prob(np.array(counts)[:, None])
    np.testing.assert_allclose(d.entropy(), sp.entr(np.exp(scores)).sum(0), 1e-12)


def test_batches(x64):
    """Of each parameter."""
    n, a, b = np.array([0, 50, 10**6]), np.array([0.5, 1e5]), 3.0
    found = dist.BetaBinomial(total_count=n[:, None], concentration1=a, concentration0=b).entropy()
    each = dist.BetaBinomial(
        total_count=np.repeat(n, 2), concentration1=np.tile(a, 3), concentration0=np.full(6, b)
    ).entropy()
    np.testing.assert_allclose(np.ravel(found), each, 1e-12, 1e-12)
