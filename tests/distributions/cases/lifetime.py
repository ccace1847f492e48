"""Lifetimes and their logarithms."""

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, INFINITE, PAIRS, SCALAR, Case

SIGNATURES = {
    "InverseGaussian": "loc, concentration",
    "Gompertz": "concentration, rate=1.0",
    "ExpGamma": "concentration, rate=None, log_rate=None",
    "ExpInverseGamma": "concentration, scale=None, log_scale=None",
}


class Negated:
    """The law of `-z`, for `z` of one of scipy's frozen distributions."""

    def __init__(self, base):
        self.base, self.var, self.entropy = base, base.var, base.entropy

    def logpdf(self, x):
        return self.base.logpdf(-x)

    def cdf(self, x):
        return self.base.sf(-x)

    def sf(self, x):
        return self.base.cdf(-x)

    def ppf(self, q):
        return -self.base.isf(q)

    def mean(self):
        return -self.base.mean()


CASES = [
    Case(
        "InverseGaussian",
        dist.InverseGaussian,
        {"loc": 1.5, "concentration": BATCH},
        lambda loc, concentration: st.invgauss(loc / concentration, scale=concentration),
        PAIRS,
        (-1.0, 0.0, *INFINITE),
    ),
    Case(
        "Gompertz",
        dist.Gompertz,
        {"concentration": BATCH, "rate": 0.75},
        lambda concentration, rate: st.gompertz(concentration, scale=1 / rate),
        PAIRS,
        (-1.0, *INFINITE),
    ),
    Case(
        "ExpGamma, rate",
        lambda concentration, rate: dist.ExpGamma(concentration, rate),
        {"concentration": 2.5, "rate": 1.5},
        lambda concentration, rate: st.loggamma(concentration, -np.log(rate)),
        SCALAR - 1.5,
        (),
    ),
    Case(
        "ExpInverseGamma, log scale",
        lambda concentration, log_scale: dist.ExpInverseGamma(concentration, log_scale=log_scale),
        {"concentration": 2.5, "log_scale": 0.5},
        lambda concentration, log_scale: Negated(st.loggamma(concentration, -log_scale)),
        SCALAR - 1.5,
        (),
    ),
]
