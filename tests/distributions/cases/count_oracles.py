"""Oracles of counts that SciPy has no distributions for."""

import functools
import itertools
from typing import Any

import mpmath
import numpy as np
import scipy.special as sp
import scipy.stats as st


class Inflated:
    """scipy's counts with other zeros: by a gate of probability `g`, and by a count or not."""

    def __init__(self, counts: Any, g: np.ndarray, hurdle: bool):
        self.counts = counts
        # The probability of a 0, and the factor of the mass of all other counts.
        rest = (1 - g) / counts.sf(0) if hurdle else 1 - g
        self.zero, self.rest = (g if hurdle else g + (1 - g) * counts.pmf(0)), rest

    def logpmf(self, k: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.where(k == 0, np.log(self.zero), np.log(self.rest) + self.counts.logpmf(k))

    def sf(self, k: np.ndarray) -> np.ndarray:
        return np.where(k < 0, 1, self.rest * self.counts.sf(np.maximum(k, 0)))

    def cdf(self, k: np.ndarray) -> np.ndarray:
        return 1 - self.sf(k)

    def mean(self) -> Any:
        return self.rest * self.counts.mean()

    def var(self) -> Any:
        second = self.counts.var() + self.counts.mean() ** 2
        return self.rest * second - self.mean() ** 2


class Urn:
    """scipy's distribution of vectors of counts, with the law of each entry."""

    def __init__(self, joint: Any, entry: Any):
        self.joint, self.entry = joint, entry

    def logpmf(self, values: np.ndarray) -> np.ndarray:
        return self.joint.logpmf(values)

    def mean(self) -> Any:
        return self.entry.mean()

    def var(self) -> Any:
        return self.entry.var()

    def marginals(self, draws: np.ndarray) -> Any:
        for i in range(draws.shape[-1]):
            law = type("Law", (), {"logpmf": lambda _, k, i=i: self.entry.logpmf(k[:, None])[:, i]})
            yield draws[:, i], law()


@functools.cache
def _skellam(k: int, rate1: float, rate2: float) -> float:
    """By the series over the smaller one of the two variables (scipy's has 1e-9 of precision)."""
    with mpmath.workdps(40):
        term = lambda j: mpmath.exp(  # noqa: E731
            (j + k) * mpmath.log(rate1)
            - mpmath.loggamma(j + k + 1)
            + j * mpmath.log(rate2)
            - mpmath.loggamma(j + 1)
        )
        start = max(0, -k)
        total = mpmath.fsum(term(mpmath.mpf(j)) for j in range(start, start + 400))
        return float(mpmath.log(total) - rate1 - rate2)


class Skellam:
    def __init__(self, rate1: np.ndarray, rate2: np.ndarray):
        self.rate1, self.rate2 = rate1, rate2
        self.cdf, self.sf = st.skellam(rate1, rate2).cdf, st.skellam(rate1, rate2).sf

    def logpmf(self, k: np.ndarray) -> np.ndarray:
        return np.vectorize(_skellam)(k.astype(int), self.rate1, self.rate2)

    def mean(self) -> Any:
        return self.rate1 - self.rate2

    def var(self) -> Any:
        return self.rate1 + self.rate2


class Zipf:
    """scipy's, with other functions by mpmath: scipy sums or lacks them."""

    def __init__(self, power: np.ndarray):
        self.power, self.law = power, st.zipf(power)
        self.logpmf, self.mean, self.var = self.law.logpmf, self.law.mean, self.law.var

    def sf(self, k: np.ndarray) -> np.ndarray:
        above = sp.zeta(self.power, np.maximum(k, 0) + 1) / sp.zeta(self.power, 1)
        return np.where(np.isinf(k), k < 0, above)

    def cdf(self, k: np.ndarray) -> np.ndarray:
        return 1 - self.sf(k)

    def entropy(self) -> Any:
        slope = [float(mpmath.diff(mpmath.zeta, s)) for s in np.ravel(self.power)]
        zeta = sp.zeta(self.power, 1)
        return np.log(zeta) - self.power * np.reshape(slope, np.shape(self.power)) / zeta


class BetaNegativeBinomial:
    """scipy's masses, summed."""

    def __init__(self, total_count: Any, concentration1: Any, concentration0: Any):
        self.law = st.betanbinom(total_count, concentration0, concentration1)
        self.logpmf, self.mean, self.var = self.law.logpmf, self.law.mean, self.law.var

    def cdf(self, k: np.ndarray) -> np.ndarray:
        most = int(np.max(k, where=np.isfinite(k), initial=0))
        masses = self.law.pmf(np.arange(most + 1).reshape((-1,) + (1,) * (np.ndim(k) - 1)))
        sums = np.cumsum(np.broadcast_to(masses, (most + 1, *np.shape(k)[1:])), 0)
        index = np.clip(np.nan_to_num(k), 0, most).astype(int)
        inner = np.take_along_axis(sums, index, 0)
        return np.where(k < 0, 0, np.where(k > most, 1, inner))

    def sf(self, k: np.ndarray) -> np.ndarray:
        return 1 - self.cdf(k)


class DiscreteWeibull:
    """The integer part of scipy's Weibull variable."""

    def __init__(self, q: np.ndarray, beta: np.ndarray):
        self.law = st.weibull_min(beta, scale=(-np.log(q)) ** (-1 / beta))

    def logpmf(self, k: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(self.law.sf(k) - self.law.sf(k + 1))

    def sf(self, k: np.ndarray) -> np.ndarray:
        return self.law.sf(np.floor(k) + 1)

    def cdf(self, k: np.ndarray) -> np.ndarray:
        return self.law.cdf(np.floor(k) + 1)

    def ppf(self, q: np.ndarray) -> np.ndarray:
        return np.ceil(self.law.ppf(q)) - 1


class PoissonBinomial:
    """By enumeration of what may happen."""

    def __init__(self, probs: np.ndarray):
        self.probs = probs
        masses = [np.zeros(p.size + 1) for p in probs]
        for mass, p in zip(masses, probs, strict=True):
            for happens in itertools.product((0, 1), repeat=p.size):
                mass[sum(happens)] += np.prod(np.where(happens, p, 1 - p))
        self.masses = np.stack(masses, -1)

    def _at(self, table: np.ndarray, k: np.ndarray) -> np.ndarray:
        n = len(table)
        index = np.clip(np.floor(np.nan_to_num(k)), -1, n - 1).astype(int) + 1
        return np.take_along_axis(np.append(0 * table[:1], table, 0), index, 0)

    def logpmf(self, k: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(np.where(k < len(self.masses), self._at(self.masses, k), 0))

    def cdf(self, k: np.ndarray) -> np.ndarray:
        return self._at(np.cumsum(self.masses, 0), k)

    def sf(self, k: np.ndarray) -> np.ndarray:
        return 1 - self.cdf(k)

    def mean(self) -> Any:
        return self.probs.sum(-1)

    def var(self) -> Any:
        return (self.probs * (1 - self.probs)).sum(-1)

    def entropy(self) -> Any:
        return sp.entr(self.masses).sum(0)


def negative_binomial(r: Any, p: Any) -> Any:
    return st.nbinom(r, 1 - p)
