"""Entropies at extremes: of large parameters, where textbook forms cancel, and of many counts."""

from typing import Any

import jax
import mpmath
import numpy as np
import pytest
import scipy.special as sp
import scipy.stats as st

import distributions as dist
from tests.distributions.cases import mostly_single

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")
ENTROPIES = {
    "Beta": (
        lambda a: dist.Beta(a, 3 * a),
        lambda a: (
            log_beta(a, 3 * a)
            + (a - 1) * (mpmath.digamma(4 * a) - mpmath.digamma(a))
            + (3 * a - 1) * (mpmath.digamma(4 * a) - mpmath.digamma(3 * a))
        ),
    ),
    "Gamma": (
        lambda a: dist.Gamma(a, 1.0),
        lambda a: a + mpmath.loggamma(a) + (1 - a) * mpmath.digamma(a),
    ),
    "InverseGamma": (
        lambda a: dist.InverseGamma(a, 1.0),
        lambda a: a + mpmath.loggamma(a) - (1 + a) * mpmath.digamma(a),
    ),
    "Chi": (
        lambda a: dist.Chi(2 * a),
        lambda a: mpmath.loggamma(a) + a - mpmath.log(2) / 2 - (a - 0.5) * mpmath.digamma(a),
    ),
    "ExpGamma": (
        lambda a: dist.ExpGamma(a, 1.0),
        lambda a: a + mpmath.loggamma(a) - a * mpmath.digamma(a),
    ),
    "StudentT": (
        lambda a: dist.StudentT(2 * a, 0.0, 1.0),
        lambda a: (
            (a + 0.5) * (mpmath.digamma(a + 0.5) - mpmath.digamma(a))
            + mpmath.log(2 * a) / 2
            + log_beta(a, mpmath.mpf(0.5))
        ),
    ),
    "SkewStudentT": (
        lambda a: dist.SkewStudentT(a, 3 * a, 0.0, 1.0),
        lambda a: (
            log_beta(a, 3 * a)
            + (a + 0.5) * step(a, 3 * a)
            + (3 * a + 0.5) * step(3 * a, a)
            + mpmath.log(4 * a) / 2
            - 2 * mpmath.log(2)
        ),
    ),
    "GammaGamma": (
        lambda a: dist.GammaGamma(a, 3 * a, 1.0),
        lambda a: (
            log_beta(a, 3 * a)
            + (a - 1) * (mpmath.digamma(3 * a) - mpmath.digamma(a))
            + 4 * a * step(3 * a, a)
        ),
    ),
    "MultivariateStudentT": (
        lambda a: dist.MultivariateStudentT(2 * a, 0.0, scale_tril=UNIT),
        lambda a: (
            1.5 * mpmath.log(2 * mpmath.pi * a)
            + mpmath.loggamma(a)
            - mpmath.loggamma(a + 1.5)
            + (a + 1.5) * step(a, 1.5)
        ),
    ),
    "Wishart": (
        lambda a: dist.Wishart(2 * a + 3, scale_tril=UNIT),
        lambda a: wishart(2 * a + 3) - (a - 0.5) * mean_log_det(2 * a + 3),
    ),
    "InverseWishart": (
        lambda a: dist.InverseWishart(2 * a + 3, scale_tril=UNIT),
        lambda a: wishart(2 * a + 3) - (a + 3.5) * mean_log_det(2 * a + 3),
    ),
    "WishartCholesky": (
        lambda a: dist.WishartCholesky(2 * a + 3, scale_tril=UNIT),
        lambda a: (
            wishart(2 * a + 3)
            - (a - 0.5) * mean_log_det(2 * a + 3)
            - sum((3 - k) * mean_log(2 * a + 3 - k) / 2 + mpmath.log(2) for k in range(3))
        ),
    ),
    "PowerSpherical": (
        lambda a: dist.PowerSpherical(np.float32([1, 0, 0]), a),
        lambda a: mpmath.log(4 * mpmath.pi) - mpmath.log(1 + a) + a * step(a + 1, 1),
    ),
    "VonMises": (
        lambda a: dist.VonMises(0.0, a),
        lambda a: (
            mpmath.log(2 * mpmath.pi * mpmath.besseli(0, a))
            - a * mpmath.besseli(1, a) / mpmath.besseli(0, a)
        ),
    ),
    "LKJ": (
        lambda a: dist.LKJ(3, a),
        lambda a: lkj(a) + (a - 1) * (step(a + 0.5, 0.5) + step(a, 1)),
    ),
    "LKJCholesky": (
        lambda a: dist.LKJCholesky(3, a),
        lambda a: lkj(a) + (a - 0.5) * step(a + 0.5, 0.5) + (a - 1) * step(a, 1),
    ),
}
UNIT = np.eye(3, dtype=np.float32)


def step(a, more):
    return mpmath.digamma(a + more) - mpmath.digamma(a)


def mean_log(df):
    """Of a chi-squared variable."""
    return mpmath.digamma(df / 2) + mpmath.log(2)


def mean_log_det(df):
    return sum(mean_log(df - k) for k in range(3))


def wishart(df):
    """The logarithm of the normalizer for 3 rows, and the mean of half the trace."""
    log_gammas = sum(mpmath.loggamma((df - k) / 2) for k in range(3))
    return 1.5 * df * mpmath.log(2) + 1.5 * mpmath.log(mpmath.pi) + log_gammas + 1.5 * df


def lkj(a):
    """The logarithm of the normalizer for 3 rows."""
    return log_beta(a + 0.5, mpmath.mpf(0.5)) + log_beta(a, mpmath.mpf(1)) + mpmath.log(mpmath.pi)


def log_beta(a, b):
    return mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)


@pytest.mark.slow_rows("0.001-MultivariateStudentT", "0.001-LKJ")
@pytest.mark.parametrize("name", ENTROPIES)
@pytest.mark.parametrize("a", [1e-3, 0.5, 3.0, 100.0, 1e8, 1e30])
def test_entropies(name, a):
    make, truth = ENTROPIES[name]
    with mpmath.workdps(90):
        expected = float(truth(mpmath.mpf(float(np.float32(a)))))
    np.testing.assert_allclose(make(np.float32(a)).entropy(), expected, 1e-5, 1e-5)


def summed(law: Any, mean, sd, most=np.inf):
    k = np.arange(max(mean - 14 * sd - 200, 0), min(mean + 14 * sd + 200, most) + 1).round()
    return sp.entr(law.pmf(k)).sum()


def binomial(n, p):
    p = float(np.float32(p))
    return summed(st.binom(n, p), n * p, np.sqrt(n * p * (1 - p)), n)


def hypergeometric(n, a, b):
    law = st.hypergeom(a + b, a, n)
    return summed(law, law.mean(), law.std(), min(n, a))


def negative_binomial(mean, r):
    """By the sum; of a gamma variable, where counts are as good as one."""
    if mean > 1e6:
        return st.gamma(r, scale=mean / r).entropy()
    k = np.arange(mean + 40 * (np.sqrt(mean + mean**2 / r) + mean / r) + 200)
    log_odds = np.log(mean) - np.log(r)
    choose = sp.gammaln(k + r) - sp.gammaln(r) - sp.gammaln(k + 1)
    masses = choose + k * sp.log_expit(log_odds) + r * sp.log_expit(-log_odds)
    return sp.entr(np.exp(masses)).sum()


def skellam(a, b):
    law: Any = st.skellam(a, b)
    k = np.arange(-200 - 14 * law.std(), 200 + 14 * law.std()).round() + round(a - b)
    return sp.entr(law.pmf(k)).sum()


COUNTS = {
    "Binomial, many": (lambda f: dist.Binomial(10**7, probs=f(0.5)), binomial(10**7, 0.5)),
    "Binomial, most often": (
        lambda f: dist.Binomial(10**9, probs=1 - f(2.0**-23)),
        summed(st.binom(10**9, 2.0**-23), 120, 11),
    ),
    "Binomial, logits": (lambda f: dist.Binomial(9000, logits=f(0.0)), binomial(9000, 0.5)),
    "Poisson, spread": (lambda f: dist.Poisson(f(2900)), summed(st.poisson(2900), 2900, 54)),
    "Poisson, many": (
        lambda f: dist.Poisson(f(2.0**100)),
        0.5 * np.log(2 * np.pi * np.e * 2.0**100),
    ),
    "Hypergeometric": (
        lambda f: dist.Hypergeometric(total_count=400, num_successes=3000, num_failures=5000),
        hypergeometric(400, 3000, 5000),
    ),
    "Hypergeometric, many": (
        lambda f: dist.Hypergeometric(
            total_count=50_000, num_successes=30_000, num_failures=90_000
        ),
        hypergeometric(50_000, 30_000, 90_000),
    ),
    "Hypergeometric, most": (
        lambda f: dist.Hypergeometric(total_count=5 * 10**7, num_successes=10**8, num_failures=600),
        hypergeometric(5 * 10**7, 600, 10**8),
    ),
    "Skellam": (lambda f: dist.Skellam(f(30.0), f(2.5)), skellam(30.0, 2.5)),
    "Skellam, spread": (lambda f: dist.Skellam(f(9e3), f(2e3)), skellam(9e3, 2e3)),
    "Multinomial": (
        lambda f: dist.Multinomial(1000, probs=np.array([0.5, 0.25, 0.25], f)),
        st.multinomial(1000, [0.5, 0.25, 0.25]).entropy(),
    ),
    "Multinomial, of two": (
        lambda f: dist.Multinomial(10**7, probs=np.array([0.25, 0.75, 0.0], f)),
        binomial(10**7, 0.25),
    ),
    "Multinomial, of one that is rare": (
        lambda f: dist.Multinomial(10**9, probs=np.array([2.0**-23, 1 - 2.0**-23], f)),
        summed(st.binom(10**9, 2.0**-23), 120, 11),
    ),
} | {
    f"NegativeBinomial of mean {m} and concentration {r}": (
        lambda f, m=m, r=r: dist.NegativeBinomial(mean=f(m), concentration=f(r)),
        negative_binomial(m, r),
    )
    for m, r in [
        *((0.25, 2.0**-16), (30.0, 0.125), (1e4, 50.0), (1e4, 60.0)),
        *((200.0, 60.0), (1e4, 9000.0), (1e12, 2.5), (1e12, 1000.0)),
    ]
}


@pytest.mark.quick_rows(
    "Binomial, logits-float32",
    "Hypergeometric-float32",
    "Multinomial, of two-float32",
    "NegativeBinomial of mean 10000.0 and concentration 50.0-float32",
    "Poisson, many-float32",
    "Skellam, spread-float32",
)
@mostly_single
@pytest.mark.parametrize("name", COUNTS)
def test_entropies_of_counts(name, float_dtype):
    """Of rounded masses nothing is lost; from where on a series is used, it is as good."""
    make, truth = COUNTS[name]
    entropy = jax.value_and_grad(lambda d: d.entropy(), allow_int=True)
    found, slopes = jax.jit(entropy)(make(float_dtype.type))
    rtol = 1e-5 if float_dtype == np.float32 else 1e-8
    np.testing.assert_allclose(found, truth, rtol)
    slopes = [x for x in jax.tree.leaves(slopes) if x.dtype == float_dtype]
    assert all(np.isfinite(x).all() for x in slopes)
