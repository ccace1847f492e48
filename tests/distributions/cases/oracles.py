"""Distributions made of scipy's or of a density, where scipy has none."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.interpolate import PchipInterpolator

EXACT: dict[str, Any] = {"epsabs": 1e-14, "epsrel": 1e-13, "limit": 500}


def _integral(f: Callable[[float], float], low: float, high: float) -> float:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # The tolerances asked for are those of rounding.
        return quad(
            lambda x: np.nan_to_num(f(x), nan=0.0, posinf=0.0, neginf=0.0), low, high, **EXACT
        )[0]


class Transformed:
    """The law of `forward(z)`, increasing, for `z` of one of scipy's frozen distributions.

    `log_det` is the logarithm of the derivative of `inverse`.
    """

    def __init__(self, base: Any, forward: Any, inverse: Any, log_det: Any) -> None:
        self.base, self.forward, self.inverse, self.log_det = base, forward, inverse, log_det

    def logpdf(self, x: Any) -> Any:
        return self.base.logpdf(self.inverse(x)) + self.log_det(x)

    def _at_ends(self, name: str, x: Any) -> Any:
        x = np.asarray(x, float)
        with np.errstate(all="ignore"):
            z = np.where(np.isinf(x), x, self.inverse(np.where(np.isinf(x), 0.5, x)))
            return getattr(self.base, name)(z)

    def cdf(self, x: Any) -> Any:
        return self._at_ends("cdf", x)

    def sf(self, x: Any) -> Any:
        return self._at_ends("sf", x)

    def logcdf(self, x: Any) -> Any:
        return self._at_ends("logcdf", x)

    def logsf(self, x: Any) -> Any:
        return self._at_ends("logsf", x)

    def ppf(self, q: Any) -> Any:
        return self.forward(self.base.ppf(q))

    def _expect(self, f: Callable[[Any], Any]) -> Any:
        low, middle, high = self.base.support()[0], self.base.median(), self.base.support()[1]
        density = lambda z: f(z) * self.base.pdf(z)  # noqa: E731
        return sum(_integral(density, *ends) for ends in ((low, middle), (middle, high)))

    def mean(self) -> Any:
        return self._expect(self.forward)

    def var(self) -> Any:
        mean = self.mean()
        return self._expect(lambda z: (self.forward(z) - mean) ** 2)

    def entropy(self) -> Any:
        return self.base.entropy() - self._expect(lambda z: self.log_det(self.forward(z)))


class Density:
    """The law with a log density of numbers between `low` and `high`, all else by quadrature.

    `points` cut the integrals: where most of the mass lies, and where the density has kinks.
    """

    def __init__(self, logpdf: Any, low: float, high: float, *points: float) -> None:
        self.logpdf = logpdf
        self.cuts = np.array([low, *points, high])

    def _between(self, f: Callable[[float], float], low: float, high: float) -> float:
        inner = self.cuts[(self.cuts > low) & (self.cuts < high)]
        cuts = np.array([low, *inner, high])
        return sum(_integral(f, a, b) for a, b in itertools.pairwise(cuts))

    def _mass(self, low: float, high: float) -> float:
        low, high = np.clip([low, high], self.cuts[0], self.cuts[-1])
        return self._between(self.pdf, low, high) if low < high else 0.0

    def pdf(self, x: Any) -> Any:
        return np.exp(self.logpdf(x))

    def cdf(self, x: Any) -> Any:
        x = np.asarray(x, float)
        if x.size > 100:
            knots = np.unique(np.quantile(x, np.linspace(0, 1, 301)))
            start = self._mass(self.cuts[0], knots[0])
            steps = [self._mass(a, b) for a, b in itertools.pairwise(knots)]
            return PchipInterpolator(knots, start + np.append(0, np.cumsum(steps)))(x)
        return np.vectorize(lambda x: self._mass(self.cuts[0], x))(x)

    def sf(self, x: Any) -> Any:
        return np.vectorize(lambda x: self._mass(x, self.cuts[-1]))(np.asarray(x, float))

    def logcdf(self, x: Any) -> Any:
        return np.log(self.cdf(x))

    def logsf(self, x: Any) -> Any:
        return np.log(self.sf(x))

    def _expect(self, f: Callable[[float], float]) -> float:
        return self._between(lambda x: f(x) * self.pdf(x), self.cuts[0], self.cuts[-1])

    def mean(self) -> float:
        return self._expect(lambda x: x)

    def var(self) -> float:
        mean = self.mean()
        return self._expect(lambda x: (x - mean) ** 2)

    def entropy(self) -> float:
        return self._expect(lambda x: -np.nan_to_num(self.logpdf(x), neginf=0.0))
