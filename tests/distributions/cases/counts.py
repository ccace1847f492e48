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
TWO = np.stack([COUNTS, 30 + COUNTS], 1)
TRIPLES = np.array([[0, 3, 2], [1, 1, 3], [5, 0, 0], [2, 2, 1], [0, 5, 0]])
OFF_TRIPLES = ([1, 1, 1], [6, -1, 0], [2.5, 2.5, 0], *INFINITE)
CASES = [
    Case(
        name="Binomial, logits",
        make=dist.Binomial,
        signature="total_count, *, logits=None, probs=None",
        parameters={"total_count": np.array([7, 20]), "logits": 0.5},
        oracle=lambda total_count, logits: st.binom(total_count, sp.expit(logits)),
        inside=np.stack([COUNTS, 3 * COUNTS], 1),
        outside=(-1, 21, 1.5, *INFINITE),
    ),
    Case(
        name="Binomial, probs",
        make=dist.Binomial,
        parameters={"total_count": 200, "probs": np.array([0.375, 0.0])},
        oracle=lambda total_count, probs: st.binom(total_count, probs),
        inside=np.stack([70 + COUNTS, 0 * COUNTS], 1),
        outside=(-1, 201, 1.5, *INFINITE),
        tolerance32=2e-4,  # That of JAX's incomplete beta function.
    ),
    Case(
        name="Poisson, rate",
        make=dist.Poisson,
        signature="rate=None, *, log_rate=None",
        parameters={"rate": np.array([2.5, 0.0])},
        oracle=lambda rate: st.poisson(rate),
        inside=np.stack([COUNTS, 0 * COUNTS], 1),
        outside=OFF,
    ),
    Case(
        name="Poisson, log rate",
        make=dist.Poisson,
        parameters={"log_rate": np.array([0.5, 3.5])},
        oracle=lambda log_rate: st.poisson(np.exp(log_rate)),
        inside=TWO,
        outside=OFF,
    ),
    Case(
        name="Geometric, logits",
        make=dist.Geometric,
        signature="*, logits=None, probs=None",
        parameters={"logits": np.array([0.5, -3.0])},
        oracle=lambda logits: st.geom(sp.expit(logits), loc=-1),
        inside=TWO,
        outside=OFF,
    ),
    Case(
        name="Geometric, probs",
        make=dist.Geometric,
        parameters={"probs": np.array([0.3125, 0.0625])},
        oracle=lambda probs: st.geom(probs, loc=-1),
        inside=TWO,
        outside=OFF,
    ),
    Case(
        name="NegativeBinomial, logits",
        make=dist.NegativeBinomial,
        signature="*, total_count=None, logits=None, probs=None, mean=None, concentration=None",
        parameters={"total_count": np.array([3.5, 0.5]), "logits": 0.5},
        oracle=lambda total_count, logits: negative_binomial(total_count, sp.expit(logits)),
        inside=TWO,
        outside=OFF,
    ),
    Case(
        name="NegativeBinomial, probs",
        make=dist.NegativeBinomial,
        parameters={"total_count": 40.0, "probs": np.array([0.25, 0.0])},
        oracle=lambda total_count, probs: negative_binomial(total_count, probs),
        inside=np.stack([10 + COUNTS, 0 * COUNTS], 1),
        outside=OFF,
        tolerance32=1e-4,  # That of JAX's incomplete beta function.
    ),
    Case(
        name="NegativeBinomial, mean",
        make=dist.NegativeBinomial,
        parameters={"mean": np.array([2.5, 30.0]), "concentration": 2.0},
        oracle=lambda mean, concentration: negative_binomial(
            concentration, mean / (mean + concentration)
        ),
        inside=TWO,
        outside=OFF,
    ),
    Case(
        name="GammaPoisson",
        make=dist.GammaPoisson,
        signature="concentration, rate=1.0",
        parameters={"concentration": 2.5, "rate": np.array([2.0, 0.125])},
        oracle=lambda concentration, rate: st.nbinom(concentration, rate / (1 + rate)),
        inside=TWO,
        outside=OFF,
    ),
    Case(
        name="BetaNegativeBinomial",
        make=dist.BetaNegativeBinomial,
        signature="*, total_count, concentration1, concentration0",
        parameters={
            "total_count": 3.0,
            "concentration1": 2.5,
            "concentration0": np.array([4.5, 30.0]),
        },
        oracle=BetaNegativeBinomial,
        inside=TWO,
        outside=OFF,
        excluded={"integral": "the mass beyond 20000 is above the tolerance"},
    ),
    Case(
        name="Hypergeometric",
        make=dist.Hypergeometric,
        signature="*, total_count, num_successes, num_failures",
        parameters={
            "total_count": np.array([12, 40]),
            "num_successes": 9,
            "num_failures": np.array([6, 60]),
        },
        oracle=lambda total_count, num_successes, num_failures: st.hypergeom(
            num_successes + num_failures, num_successes, total_count
        ),
        inside=np.array([[6, 0], [7, 2], [8, 3], [9, 9], [7, 4]]),
        outside=(-1, 10, 6.5, *INFINITE),
    ),
    Case(
        name="BetaBinomial",
        make=dist.BetaBinomial,
        signature="*, total_count, concentration1, concentration0",
        parameters={
            "total_count": np.array([7, 50]),
            "concentration1": 2.5,
            "concentration0": 0.75,
        },
        oracle=lambda total_count, concentration1, concentration0: st.betabinom(
            total_count, concentration1, concentration0
        ),
        inside=np.stack([COUNTS, 45 + COUNTS], 1),
        outside=(-1, 51, 1.5, *INFINITE),
    ),
    Case(
        name="Multinomial, logits",
        make=dist.Multinomial,
        signature="total_count, *, logits=None, probs=None",
        parameters={"total_count": 5, "logits": np.array([0.5, -1.0, 2.0])},
        oracle=lambda total_count, logits: Urn(
            st.multinomial(int(total_count), sp.softmax(logits)),
            st.binom(total_count, sp.softmax(logits)),
        ),
        inside=TRIPLES,
        outside=OFF_TRIPLES,
        excluded=NO_MODE,
    ),
    Case(
        name="Multinomial, probs",
        make=dist.Multinomial,
        parameters={"total_count": 5, "probs": np.array([0.25, 0.0, 0.75])},
        oracle=lambda total_count, probs: Urn(
            st.multinomial(int(total_count), probs), st.binom(total_count, probs)
        ),
        inside=np.array([[0, 0, 5], [1, 0, 4], [5, 0, 0], [2, 0, 3], [3, 0, 2]]),
        outside=OFF_TRIPLES,
        excluded=NO_MODE,
    ),
    Case(
        name="DirichletMultinomial",
        make=dist.DirichletMultinomial,
        signature="*, total_count, concentration",
        parameters={"total_count": 5, "concentration": np.array([0.5, 2.0, 3.5])},
        oracle=lambda total_count, concentration: Urn(
            st.dirichlet_multinomial(concentration, int(total_count)),
            st.betabinom(total_count, concentration, concentration.sum() - concentration),
        ),
        inside=TRIPLES,
        outside=OFF_TRIPLES,
        excluded=NO_MODE,
    ),
    Case(
        name="DiscreteUniform",
        make=dist.DiscreteUniform,
        signature="low, high",
        parameters={"low": np.array([-2, 0]), "high": np.array([3, 5])},
        oracle=lambda low, high: st.randint(low, high + 1),
        inside=np.stack([COUNTS - 2, COUNTS], 1),
        outside=(-3, 6, 0.5, *INFINITE),
    ),
    Case(
        name="DiscreteWeibull",
        make=dist.DiscreteWeibull,
        signature="q, beta",
        parameters={"q": np.array([0.5625, 0.8125]), "beta": np.array([1.5, 0.75])},
        oracle=DiscreteWeibull,
        inside=np.stack([COUNTS, 3 * COUNTS], 1),
        outside=OFF,
        moments=False,
        excluded=NO_MODE | NO_ENTROPY,
    ),
    Case(
        name="Logarithmic",
        make=dist.Logarithmic,
        signature="probs",
        parameters={"probs": np.array([0.25, 0.9375])},
        oracle=lambda probs: st.logser(probs),
        inside=TWO + 1,
        outside=(0, 1.5, *INFINITE),
        excluded=NO_ENTROPY,
    ),
    Case(
        name="Skellam",
        make=dist.Skellam,
        signature="rate1, rate2",
        parameters={"rate1": np.array([2.5, 30.0]), "rate2": np.array([4.0, 0.25])},
        oracle=Skellam,
        inside=np.stack([COUNTS - 2, 25 + COUNTS], 1),
        outside=(0.5, *INFINITE),
        excluded=NO_MODE
        | {"integral": "no least value", "quantile": "no integer says that there is none"},
    ),
    Case(
        name="Zipf",
        make=dist.Zipf,
        signature="power",
        parameters={"power": np.array([3.5, 7.0])},
        oracle=Zipf,
        inside=COUNTS[:, None] + np.array([1, 30]),
        outside=(0, 1.5, *INFINITE),
    ),
    Case(
        name="PoissonBinomial, probs",
        make=lambda probs: dist.PoissonBinomial(probs=probs),
        signature="*, logits=None, probs=None",
        parameters={"probs": np.stack([np.linspace(0.125, 0.875, 6), np.full(6, 0.25)])},
        oracle=PoissonBinomial,
        inside=np.stack([COUNTS, np.array([1, 2, 3, 4, 5])], 1),
        outside=(-1, 7, 1.5, *INFINITE),
    ),
    Case(
        name="PoissonBinomial, logits",
        make=dist.PoissonBinomial,
        parameters={
            "logits": np.array([[-2.0, 0.5, 3.0, -0.25, 0.0], [1.0, 1.0, -1.0, 0.5, 0.75]])
        },
        oracle=lambda logits: PoissonBinomial(sp.expit(logits)),
        inside=np.stack([COUNTS, COUNTS[::-1]], 1),
        outside=(-1, 6, 1.5, *INFINITE),
    ),
    Case(
        name="ZeroInflated, probs",
        make=lambda probs, rate: dist.ZeroInflated(dist.Poisson(rate), probs=probs),
        signature="distribution, *, logits=None, probs=None",
        parameters={"probs": np.array([0.25, 0.0]), "rate": np.array([2.5, 40.0])},
        oracle=lambda probs, rate: Inflated(st.poisson(rate), probs, False),
        inside=np.stack([COUNTS, 30 * COUNTS], 1),
        outside=OFF,
        excluded=NO_ENTROPY,
    ),
    Case(
        name="ZeroInflated, logits",
        make=lambda logits, total_count: dist.ZeroInflated(
            dist.NegativeBinomial(total_count=total_count, logits=0.5), logits=logits
        ),
        parameters={"logits": 0.5, "total_count": np.array([0.5, 20.0])},
        oracle=lambda logits, total_count: Inflated(
            negative_binomial(total_count, sp.expit(0.5)), sp.expit(logits), False
        ),
        inside=TWO,
        outside=OFF,
        excluded=NO_ENTROPY,
    ),
    Case(
        name="Hurdle, probs",
        make=lambda probs, rate: dist.Hurdle(dist.Poisson(rate), probs=probs),
        signature="distribution, *, logits=None, probs=None",
        parameters={"probs": np.array([0.25, 0.0]), "rate": 2.5},
        oracle=lambda probs, rate: Inflated(st.poisson(rate), probs, True),
        inside=np.stack([COUNTS, 1 + COUNTS], 1),
        outside=OFF,
        excluded=NO_ENTROPY | NO_MODE,
    ),
    Case(
        name="Hurdle, logits",
        make=lambda logits, total_count: dist.Hurdle(
            dist.Binomial(total_count, logits=0.5), logits=logits
        ),
        parameters={"logits": np.array([0.5, -1.0]), "total_count": 7},
        oracle=lambda logits, total_count: Inflated(
            st.binom(total_count, sp.expit(0.5)), sp.expit(logits), True
        ),
        inside=np.stack([COUNTS, COUNTS[::-1]], 1),
        outside=(-1, 8, 1.5, *INFINITE),
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
