"""Families of angles."""

import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import INFINITE, PAIRS, Case

SIGNATURES = {"VonMises": "loc, concentration"}


class OnTheInterval:
    """Scipy's von Mises distribution from -pi to pi: its own goes round and round."""

    def __init__(self, loc, concentration):
        self.base = st.vonmises(concentration, loc)
        self.logpdf, self.entropy = self.base.logpdf, self.base.entropy

    def cdf(self, x):
        return self.base.cdf(np.clip(x, -np.pi, np.pi)) - self.base.cdf(-np.pi)


CASES = [
    Case(
        "VonMises",
        dist.VonMises,
        {"loc": 0.75, "concentration": np.array([0.5, 40.0])},
        OnTheInterval,
        PAIRS[:, ::-1] / 4 + [-1, 0.25],
        (-4.0, 4.0, *INFINITE),
        moments=False,
    ),
]
