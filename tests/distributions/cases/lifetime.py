"""Lifetimes and their logarithms."""

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import BATCH, INFINITE, PAIRS, SCALAR, Case


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
        name="InverseGaussian",
        make=dist.InverseGaussian,
        signature="loc, concentration",
        parameters={"loc": 1.5, "concentration": BATCH},
        oracle=lambda loc, concentration: st.invgauss(loc / concentration, scale=concentration),
        inside=PAIRS,
        outside=(-1.0, 0.0, *INFINITE),
    ),
    Case(
        name="Gompertz",
        make=dist.Gompertz,
        signature="concentration, rate=1.0",
        parameters={"concentration": BATCH, "rate": 0.75},
        oracle=lambda concentration, rate: st.gompertz(concentration, scale=1 / rate),
        inside=PAIRS,
        outside=(-1.0, *INFINITE),
    ),
    Case(
        name="ExpGamma, rate",
        make=lambda concentration, rate: dist.ExpGamma(concentration, rate),
        signature="concentration, rate=None, *, log_rate=None",
        parameters={"concentration": 2.5, "rate": 1.5},
        oracle=lambda concentration, rate: st.loggamma(concentration, -np.log(rate)),
        inside=SCALAR - 1.5,
        outside=(),
    ),
    Case(
        name="ExpInverseGamma, log scale",
        make=lambda concentration, log_scale: dist.ExpInverseGamma(
            concentration, log_scale=log_scale
        ),
        signature="concentration, scale=None, *, log_scale=None",
        parameters={"concentration": 2.5, "log_scale": 0.5},
        oracle=lambda concentration, log_scale: Negated(st.loggamma(concentration, -log_scale)),
        inside=SCALAR - 1.5,
        outside=(),
    ),
]
