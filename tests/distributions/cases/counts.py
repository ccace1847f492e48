"""Families of counts."""

import numpy as np
import scipy.special as sp
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import COUNTS, INFINITE, Case
from tests.distributions.cases.count_oracles import (
    BetaNegativeBinomial,
    DiscreteWeibull,
    Inflated,
    PoissonBinomial,
    Skellam,
    Urn,
    Zipf,
    negative_binomial,
)

NO_ENTROPY = {"entropy": "no closed form"}
NO_MODE = {"mode": "no closed form"}
OFF = (-1, 1.5, *INFINITE)
SIGNATURES = {
    "Binomial": "total_count, logits=None, probs=None",
    "Poisson": "rate=None, log_rate=None",
    "Geometric": "logits=None, probs=None",
    "NegativeBinomial": (
        "total_count=None, logits=None, probs=None, *, mean=None, concentration=None"
    ),
    "GammaPoisson": "concentration, rate=1.0",
    "BetaNegativeBinomial": "total_count, concentration1, concentration0",
    "PoissonBinomial": "logits=None, probs=None",
    "Hypergeometric": "total_count, num_successes, num_failures",
    "BetaBinomial": "total_count, concentration1, concentration0",
    "Multinomial": "total_count, logits=None, probs=None",
    "DirichletMultinomial": "total_count, concentration",
    "DiscreteUniform": "low, high",
    "DiscreteWeibull": "q, beta",
    "Logarithmic": "probs",
    "Skellam": "rate1, rate2",
    "Zipf": "power",
    "ZeroInflated": "distribution, logits=None, probs=None",
    "Hurdle": "distribution, logits=None, probs=None",
}
TWO = np.stack([COUNTS, 30 + COUNTS], 1)
TRIPLES = np.array([[0, 3, 2], [1, 1, 3], [5, 0, 0], [2, 2, 1], [0, 5, 0]])
OFF_TRIPLES = ([1, 1, 1], [6, -1, 0], [2.5, 2.5, 0], *INFINITE)
CASES = [
    Case(
        "Binomial, logits",
        dist.Binomial,
        {"total_count": np.array([7, 20]), "logits": 0.5},
        lambda total_count, logits: st.binom(total_count, sp.expit(logits)),
        np.stack([COUNTS, 3 * COUNTS], 1),
        (-1, 21, 1.5, *INFINITE),
    ),
    Case(
        "Binomial, probs",
        dist.Binomial,
        {"total_count": 200, "probs": np.array([0.375, 0.0])},
        lambda total_count, probs: st.binom(total_count, probs),
        np.stack([70 + COUNTS, 0 * COUNTS], 1),
        (-1, 201, 1.5, *INFINITE),
        tolerance32=2e-4,  # That of JAX's incomplete beta function.
    ),
    Case(
        "Poisson, rate",
        dist.Poisson,
        {"rate": np.array([2.5, 0.0])},
        lambda rate: st.poisson(rate),
        np.stack([COUNTS, 0 * COUNTS], 1),
        OFF,
    ),
    Case(
        "Poisson, log rate",
        dist.Poisson,
        {"log_rate": np.array([0.5, 3.5])},
        lambda log_rate: st.poisson(np.exp(log_rate)),
        TWO,
        OFF,
    ),
    Case(
        "Geometric, logits",
        dist.Geometric,
        {"logits": np.array([0.5, -3.0])},
        lambda logits: st.geom(sp.expit(logits), loc=-1),
        TWO,
        OFF,
    ),
    Case(
        "Geometric, probs",
        dist.Geometric,
        {"probs": np.array([0.3125, 0.0625])},
        lambda probs: st.geom(probs, loc=-1),
        TWO,
        OFF,
    ),
    Case(
        "NegativeBinomial, logits",
        dist.NegativeBinomial,
        {"total_count": np.array([3.5, 0.5]), "logits": 0.5},
        lambda total_count, logits: negative_binomial(total_count, sp.expit(logits)),
        TWO,
        OFF,
    ),
    Case(
        "NegativeBinomial, probs",
        dist.NegativeBinomial,
        {"total_count": 40.0, "probs": np.array([0.25, 0.0])},
        lambda total_count, probs: negative_binomial(total_count, probs),
        np.stack([10 + COUNTS, 0 * COUNTS], 1),
        OFF,
        tolerance32=1e-4,  # That of JAX's incomplete beta function.
    ),
    Case(
        "NegativeBinomial, mean",
        dist.NegativeBinomial,
        {"mean": np.array([2.5, 30.0]), "concentration": 2.0},
        lambda mean, concentration: negative_binomial(concentration, mean / (mean + concentration)),
        TWO,
        OFF,
    ),
    Case(
        "GammaPoisson",
        dist.GammaPoisson,
        {"concentration": 2.5, "rate": np.array([2.0, 0.125])},
        lambda concentration, rate: st.nbinom(concentration, rate / (1 + rate)),
        TWO,
        OFF,
    ),
    Case(
        "BetaNegativeBinomial",
        dist.BetaNegativeBinomial,
        {"total_count": 3.0, "concentration1": 2.5, "concentration0": np.array([4.5, 30.0])},
        BetaNegativeBinomial,
        TWO,
        OFF,
        excluded={"integral": "the mass beyond 20000 is above the tolerance"},
    ),
    Case(
        "Hypergeometric",
        dist.Hypergeometric,
        {"total_count": np.array([12, 40]), "num_successes": 9, "num_failures": np.array([6, 60])},
        lambda total_count, num_successes, num_failures: st.hypergeom(
            num_successes + num_failures, num_successes, total_count
        ),
        np.array([[6, 0], [7, 2], [8, 3], [9, 9], [7, 4]]),
        (-1, 10, 6.5, *INFINITE),
    ),
    Case(
        "BetaBinomial",
        dist.BetaBinomial,
        {"total_count": np.array([7, 50]), "concentration1": 2.5, "concentration0": 0.75},
        lambda total_count, concentration1, concentration0: st.betabinom(
            total_count, concentration1, concentration0
        ),
        np.stack([COUNTS, 45 + COUNTS], 1),
        (-1, 51, 1.5, *INFINITE),
    ),
    Case(
        "Multinomial, logits",
        dist.Multinomial,
        {"total_count": 5, "logits": np.array([0.5, -1.0, 2.0])},
        lambda total_count, logits: Urn(
            st.multinomial(int(total_count), sp.softmax(logits)),
            st.binom(total_count, sp.softmax(logits)),
        ),
        TRIPLES,
        OFF_TRIPLES,
        excluded=NO_MODE,
    ),
    Case(
        "Multinomial, probs",
        dist.Multinomial,
        {"total_count": 5, "probs": np.array([0.25, 0.0, 0.75])},
        lambda total_count, probs: Urn(
            st.multinomial(int(total_count), probs), st.binom(total_count, probs)
        ),
        np.array([[0, 0, 5], [1, 0, 4], [5, 0, 0], [2, 0, 3], [3, 0, 2]]),
        OFF_TRIPLES,
        excluded=NO_MODE,
    ),
    Case(
        "DirichletMultinomial",
        dist.DirichletMultinomial,
        {"total_count": 5, "concentration": np.array([0.5, 2.0, 3.5])},
        lambda total_count, concentration: Urn(
            st.dirichlet_multinomial(concentration, int(total_count)),
            st.betabinom(total_count, concentration, concentration.sum() - concentration),
        ),
        TRIPLES,
        OFF_TRIPLES,
        excluded=NO_MODE,
    ),
    Case(
        "DiscreteUniform",
        dist.DiscreteUniform,
        {"low": np.array([-2, 0]), "high": np.array([3, 5])},
        lambda low, high: st.randint(low, high + 1),
        np.stack([COUNTS - 2, COUNTS], 1),
        (-3, 6, 0.5, *INFINITE),
    ),
    Case(
        "DiscreteWeibull",
        dist.DiscreteWeibull,
        {"q": np.array([0.5625, 0.8125]), "beta": np.array([1.5, 0.75])},
        DiscreteWeibull,
        np.stack([COUNTS, 3 * COUNTS], 1),
        OFF,
        moments=False,
        excluded=NO_MODE | NO_ENTROPY,
    ),
    Case(
        "Logarithmic",
        dist.Logarithmic,
        {"probs": np.array([0.25, 0.9375])},
        lambda probs: st.logser(probs),
        TWO + 1,
        (0, 1.5, *INFINITE),
        excluded=NO_ENTROPY,
    ),
    Case(
        "Skellam",
        dist.Skellam,
        {"rate1": np.array([2.5, 30.0]), "rate2": np.array([4.0, 0.25])},
        Skellam,
        np.stack([COUNTS - 2, 25 + COUNTS], 1),
        (0.5, *INFINITE),
        excluded=NO_MODE
        | {"integral": "no least value", "quantile": "no integer says that there is none"},
    ),
    Case(
        "Zipf",
        dist.Zipf,
        {"power": np.array([3.5, 7.0])},
        Zipf,
        COUNTS[:, None] + np.array([1, 30]),
        (0, 1.5, *INFINITE),
    ),
    Case(
        "PoissonBinomial, probs",
        lambda probs: dist.PoissonBinomial(probs=probs),
        {"probs": np.stack([np.linspace(0.125, 0.875, 6), np.full(6, 0.25)])},
        PoissonBinomial,
        np.stack([COUNTS, np.array([1, 2, 3, 4, 5])], 1),
        (-1, 7, 1.5, *INFINITE),
    ),
    Case(
        "PoissonBinomial, logits",
        dist.PoissonBinomial,
        {"logits": np.array([[-2.0, 0.5, 3.0, -0.25, 0.0], [1.0, 1.0, -1.0, 0.5, 0.75]])},
        lambda logits: PoissonBinomial(sp.expit(logits)),
        np.stack([COUNTS, COUNTS[::-1]], 1),
        (-1, 6, 1.5, *INFINITE),
    ),
    Case(
        "ZeroInflated, probs",
        lambda probs, rate: dist.ZeroInflated(dist.Poisson(rate), probs=probs),
        {"probs": np.array([0.25, 0.0]), "rate": np.array([2.5, 40.0])},
        lambda probs, rate: Inflated(st.poisson(rate), probs, False),
        np.stack([COUNTS, 30 * COUNTS], 1),
        OFF,
        excluded=NO_ENTROPY,
    ),
    Case(
        "ZeroInflated, logits",
        lambda logits, total_count: dist.ZeroInflated(
            dist.NegativeBinomial(total_count, 0.5), logits
        ),
        {"logits": 0.5, "total_count": np.array([0.5, 20.0])},
        lambda logits, total_count: Inflated(
            negative_binomial(total_count, sp.expit(0.5)), sp.expit(logits), False
        ),
        TWO,
        OFF,
        excluded=NO_ENTROPY,
    ),
    Case(
        "Hurdle, probs",
        lambda probs, rate: dist.Hurdle(dist.Poisson(rate), probs=probs),
        {"probs": np.array([0.25, 0.0]), "rate": 2.5},
        lambda probs, rate: Inflated(st.poisson(rate), probs, True),
        np.stack([COUNTS, 1 + COUNTS], 1),
        OFF,
        excluded=NO_ENTROPY | NO_MODE,
    ),
    Case(
        "Hurdle, logits",
        lambda logits, total_count: dist.Hurdle(dist.Binomial(total_count, 0.5), logits),
        {"logits": np.array([0.5, -1.0]), "total_count": 7},
        lambda logits, total_count: Inflated(
            st.binom(total_count, sp.expit(0.5)), sp.expit(logits), True
        ),
        np.stack([COUNTS, COUNTS[::-1]], 1),
        (-1, 8, 1.5, *INFINITE),
        excluded=NO_ENTROPY | NO_MODE,
    ),
]
KL = {
    "Binomial": (
        dist.Binomial(np.array([7, 20]), probs=0.25),
        dist.Binomial(np.array([7, 20]), logits=0.5),
    ),
    "Poisson": (dist.Poisson(np.array([2.5, 0.5])), dist.Poisson(log_rate=0.5)),
    "Geometric": (dist.Geometric(logits=np.array([0.5, -2.0])), dist.Geometric(probs=0.25)),
}
