"""Families of angles."""

import math

import numpy as np
import scipy.special as sp
import scipy.stats as st

import distributions as dist
from tests.distributions.cases.base import INFINITE, PAIRS, Case
from tests.distributions.cases.vector_oracles import Batch, Tabulated


class OnTheInterval:
    """Scipy's von Mises distribution from -pi to pi: its own goes round and round."""

    def __init__(self, loc, concentration):
        self.base = st.vonmises(concentration, loc)
        self.logpdf, self.entropy = self.base.logpdf, self.base.entropy

    def cdf(self, x):
        return self.base.cdf(np.clip(x, -np.pi, np.pi)) - self.base.cdf(-np.pi)


class Sine:
    """Normalized by the series of Singh, Hnizdo and Demchuk; sums of angles by quadrature."""

    def __init__(self, phi_loc, psi_loc, k, m, r):
        self.loc, self.k, self.m, self.r = np.array([phi_loc, psi_loc]), k, m, r
        terms = [
            math.comb(2 * i, i) * (r * r / 4 / k / m) ** i * sp.iv(i, k) * sp.iv(i, m)
            for i in range(60)
        ]
        self.log_total = np.log(4 * np.pi**2 * sum(terms))

    def logpdf(self, values):
        a, b = np.moveaxis(values - self.loc, -1, 0)
        kernel = self.k * np.cos(a) + self.m * np.cos(b) + self.r * np.sin(a) * np.sin(b)
        return kernel - self.log_total

    def _resultants(self):
        """The mean of `exp(1j x)` of each angle."""
        grid = np.linspace(-np.pi, np.pi, 400, endpoint=False)
        at = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1)
        density = np.exp(self.logpdf(at)) * (grid[1] - grid[0]) ** 2
        return (np.exp(1j * at) * density[..., None]).sum((0, 1))

    def mean(self):
        return np.angle(self._resultants())

    def var(self):
        return 1 - np.abs(self._resultants())

    def marginals(self, draws):
        a, b = np.moveaxis(np.angle(np.exp(1j * (draws - self.loc))), -1, 0)
        grid = np.linspace(-np.pi, np.pi, 400, endpoint=False)

        def density(way):
            pairs = [lambda t: (t, grid), lambda t: (grid, t), lambda t: (grid, t - grid)]
            at = lambda t: np.stack(np.broadcast_arrays(*pairs[way](t)), -1) + self.loc  # noqa: E731
            return lambda x: np.array([np.exp(self.logpdf(at(t))).mean() for t in x])

        both = np.angle(np.exp(1j * (a + b)))
        return ((x, Tabulated(density(i), -np.pi, np.pi)) for i, x in enumerate((a, b, both)))


ANGLES = PAIRS[:, ::-1] / 4 + [-1, 0.25]
CASES = [
    Case(
        name="SineBivariateVonMises",
        make=dist.SineBivariateVonMises,
        signature="phi_loc, psi_loc, phi_concentration, psi_concentration, correlation=None, *, "
        "weighted_correlation=None",
        parameters={
            "phi_loc": 0.75,
            "psi_loc": -0.5,
            "phi_concentration": np.array([2.0, 8.0]),
            "psi_concentration": np.array([1.5, 4.0]),
            "correlation": np.array([-1.25, 9.0]),
        },
        oracle=lambda phi_loc, psi_loc, phi_concentration, psi_concentration, correlation: Batch(
            *(
                Sine(phi_loc, psi_loc, *each)
                for each in zip(phi_concentration, psi_concentration, correlation, strict=True)
            )
        ),
        inside=np.stack([ANGLES, ANGLES[::-1]], 1),
        outside=([-4.0, 0.0], [0.0, 4.0], [np.nan, 0.0]),
        excluded={"moments of draws": "those of the distribution are circular"},
    ),
    Case(
        name="VonMises",
        make=dist.VonMises,
        signature="loc, concentration",
        parameters={"loc": 0.75, "concentration": np.array([0.5, 40.0])},
        oracle=OnTheInterval,
        inside=PAIRS[:, ::-1] / 4 + [-1, 0.25],
        outside=(-4.0, 4.0, *INFINITE),
        moments=False,
    ),
]
