"""First passages of diffusions."""

import functools

import mpmath
import numpy as np
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import INFINITE, PAIRS, Case


@functools.cache
def _passage(y, alpha, tau, beta, delta):
    """The series of sines, with as many digits as its cancellation needs at early times."""
    with mpmath.workdps(150):
        t, a, b, v = map(mpmath.mpf, (abs(y) - tau, alpha, beta, delta))
        w, v = (1 - b, v) if y > 0 else (b, -v)
        rate = (mpmath.pi / a) ** 2 * t / 2
        most = int(mpmath.sqrt(350 / rate)) + 2
        term = lambda k: k * mpmath.exp(-k * k * rate) * mpmath.sin(k * mpmath.pi * w)  # noqa: E731
        total = mpmath.fsum(map(term, range(1, most))) * mpmath.pi / a**2
        return float(mpmath.log(total) + v * a * w - v * v * t / 2)


class Wiener:
    """Draws are compared boundary by boundary, and how often the process leaves at each."""

    def __init__(self, alpha, tau, beta, delta):
        self.parameters = alpha, tau, beta, delta

    def logpdf(self, y):
        return np.vectorize(_passage)(y, *self.parameters)

    def cdf(self, y):
        early, late = (Side(sign, *self.parameters) for sign in (-1, 1))
        first = early.mass * (1 - early.cdf(np.maximum(-y, early.tau)))
        return first + late.mass * late.cdf(np.maximum(y, late.tau))

    def sf(self, y):
        return 1 - self.cdf(y)

    def marginals(self, draws):
        for i in range(draws.shape[1]):
            parts = [np.broadcast_to(p, draws.shape[1:])[i] for p in self.parameters]
            up = Side(1, *parts).mass
            yield (draws[:, i] > 0).astype(int), st.bernoulli(up)
            for sign in (1, -1):
                yield sign * draws[sign * draws[:, i] > 0, i], Side(sign, *parts)


class Side:
    """The times of one boundary: by the series of sines, integrated term by term."""

    def __init__(self, sign, alpha, tau, beta, delta):
        self.tau, w, v = tau, 1 - beta if sign > 0 else beta, sign * delta
        alpha, w, v = (np.expand_dims(x, -1) for x in (alpha, w, v))
        k = np.arange(1, 400)
        self.rates = v**2 / 2 + (k * np.pi / alpha) ** 2 / 2
        self.weights = np.pi / alpha**2 * np.exp(v * alpha * w) * k * np.sin(k * np.pi * w)
        self.mass = (np.expm1(-2 * v * alpha * (1 - w)) / np.expm1(-2 * v * alpha))[..., 0]

    def cdf(self, t):
        later = np.exp(-np.asarray(t - self.tau)[..., None] * self.rates)
        passed = 1 - (later * (self.weights / self.rates)).sum(-1) / self.mass
        return np.where(t > self.tau, passed, 0.0)  # the series converges slowly at the start


CASES = [
    Case(
        name="Wiener",
        make=dist.Wiener,
        signature="alpha, tau, beta, delta",
        parameters={
            "alpha": np.array([1.5, 0.75]),
            "tau": 0.125,
            "beta": np.array([0.5, 0.875]),
            "delta": np.array([1.0, -2.0]),
        },
        oracle=Wiener,
        inside=PAIRS * np.array([[1], [-1], [1], [-1], [1]]),
        outside=(0.0, 0.125, -0.125, 0.0625, *INFINITE),
        moments=False,
        excluded={
            **{name: "not known" for name in ("mode", "entropy")},
            "integral": "no map onto the support",
        },
    ),
]
