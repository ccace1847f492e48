"""More families on an interval."""

import functools
import math
from fractions import Fraction

import numpy as np
import scipy.integrate
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import INFINITE, UNIT, Case
from tests.distributions.cases.oracles import Density, Transformed


class Bates:
    """By the alternating sum, in rational numbers."""

    def __init__(self, n, low, high):
        self.n, self.low, self.width = n, low, high - low

    def _sum(self, x, power):
        def one(x, low, width):
            z = self.n * (Fraction(float(x)) - Fraction(float(low))) / Fraction(float(width))
            z = min(max(z, 0), self.n)
            sign = lambda k: (-1) ** k * math.comb(self.n, k)  # noqa: E731
            terms = (sign(k) * (z - k) ** power for k in range(math.floor(z) + 1))
            return float(sum(terms, Fraction(0)) / math.factorial(power))

        return np.vectorize(one)(np.nan_to_num(x), self.low, self.width)

    def logpdf(self, x):
        with np.errstate(divide="ignore"):
            return np.log(self._sum(x, self.n - 1) * self.n / self.width)

    def cdf(self, x):
        return self._sum(x, self.n)

    def sf(self, x):
        return self.cdf(2 * self.low + self.width - x)

    def mean(self):
        return self.low + self.width / 2

    def var(self):
        return self.width**2 / 12 / self.n

    def entropy(self):
        """That of the sum, by quadrature between its knots."""

        def share(z):
            p = float(Bates(self.n, 0, self.n)._sum(z, self.n - 1))
            return -p * math.log(p)

        pieces = [scipy.integrate.quad(share, k, k + 1, epsabs=1e-13) for k in range(self.n)]
        return sum(piece[0] for piece in pieces) + np.log(self.width / self.n)


OUTSIDE = (-1.0, 0.0, 1.0, 2.0, *INFINITE)
PAIRS = np.stack([UNIT, UNIT[::-1]], 1)


def logistic(z):
    return 1 / (1 + np.exp(-z))


def kumaraswamy(concentration1, concentration0):
    return Transformed(
        st.beta(1, concentration0),
        lambda z: z ** (1 / concentration1),
        lambda x: np.clip(x, 0, 1) ** concentration1,
        lambda x: np.log(concentration1) + (concentration1 - 1) * np.log(x),
    )


def logit_normal(loc, scale):
    return Transformed(
        st.norm(loc, scale),
        logistic,
        lambda x: np.log(x / (1 - x)),
        lambda x: -np.log(x * (1 - x)),
    )


def pert(low, peak, high, temperature):
    a = 1 + temperature * (peak - low) / (high - low)
    return st.beta(a, temperature + 2 - a, low, high - low)


def power_law(alpha, low, high):
    total = np.log((high ** (alpha + 1) - low ** (alpha + 1)) / (alpha + 1))
    return Density(lambda x: alpha * np.log(x) - total, low, high)


CASES = [
    Case(
        name="Bates",
        make=functools.partial(dist.Bates, 5),
        signature="total_count, low=0.0, high=1.0",
        parameters={"low": np.array([-1.0, 0.0]), "high": 2.0},
        oracle=functools.partial(Bates, 5),
        inside=np.stack([3 * UNIT - 1, 2 * UNIT], 1),
        outside=(-1.5, 2.5, *INFINITE),
    ),
    Case(
        name="Kumaraswamy",
        make=dist.Kumaraswamy,
        signature="concentration1, concentration0",
        parameters={"concentration1": 0.75, "concentration0": 2.5},
        oracle=kumaraswamy,
        inside=UNIT,
        outside=OUTSIDE,
        excluded={"mode": "the density is infinite there"},
    ),
    Case(
        name="LogitNormal",
        make=dist.LogitNormal,
        signature="loc, scale",
        parameters={"loc": 0.5, "scale": 1.75},
        oracle=logit_normal,
        inside=UNIT,
        outside=OUTSIDE,
    ),
    Case(
        name="BetaProportion",
        make=dist.BetaProportion,
        signature="loc, concentration",
        parameters={"loc": np.array([0.25, 0.75]), "concentration": 6.0},
        oracle=lambda loc, concentration: st.beta(loc * concentration, (1 - loc) * concentration),
        inside=PAIRS,
        outside=OUTSIDE,
    ),
    Case(
        name="Triangular",
        make=dist.Triangular,
        signature="low=0.0, high=1.0, peak=0.5",
        parameters={"low": -1.0, "high": 3.0, "peak": np.array([-1.0, 0.75])},
        oracle=lambda low, high, peak: st.triang((peak - low) / (high - low), low, high - low),
        inside=4 * PAIRS - 1.125,
        outside=(-1.0, 3.0, 4.0, *INFINITE),
    ),
    Case(
        name="PERT",
        make=dist.PERT,
        signature="low, peak, high, temperature=4.0",
        parameters={"low": -1.0, "peak": 0.5, "high": np.array([1.0, 3.0]), "temperature": 5.0},
        oracle=pert,
        inside=PAIRS,
        outside=(-1.0, 4.0, *INFINITE),
    ),
    Case(
        name="ContinuousBernoulli, logits",
        make=lambda logits: dist.ContinuousBernoulli(logits=logits),
        signature="*, logits=None, probs=None",
        parameters={"logits": np.array([-0.25, -30.0])},
        oracle=lambda logits: st.truncexpon(-logits, scale=-1 / logits),
        inside=PAIRS,
        outside=(-1.0, 2.0, *INFINITE),
    ),
    Case(
        name="ContinuousBernoulli, probs",
        make=lambda probs: dist.ContinuousBernoulli(probs=probs),
        parameters={"probs": 0.875},
        oracle=lambda probs: Density(
            lambda x: (
                np.log(probs / (1 - probs)) * x
                - np.log((probs / (1 - probs) - 1) / np.log(probs / (1 - probs)))
            ),
            0,
            1,
        ),
        inside=UNIT,
        outside=(-1.0, 2.0, *INFINITE),
    ),
    Case(
        name="LogUniform",
        make=dist.LogUniform,
        signature="low, high",
        parameters={"low": 0.5, "high": np.array([2.0, 50.0])},
        oracle=lambda low, high: st.loguniform(low, high),
        inside=PAIRS + 0.5,
        outside=(-1.0, 0.25, 60.0, *INFINITE),
    ),
    Case(
        name="DoublyTruncatedPowerLaw",
        make=dist.DoublyTruncatedPowerLaw,
        signature="alpha, low, high",
        parameters={"alpha": -2.5, "low": 0.5, "high": 4.0},
        oracle=power_law,
        inside=UNIT + 0.75,
        outside=(-1.0, 0.25, 60.0, *INFINITE),
    ),
]
