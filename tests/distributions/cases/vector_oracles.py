"""Oracles of vectors and matrices: scipy's, and some made of normal laws and of quadrature."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.integrate as si
import scipy.stats as st


class Each:
    """One of scipy's frozen distributions, evaluated event by event.

    `marginals` gives, of many draws, numbers with their laws.
    """

    def __init__(
        self, frozen: Any, mean: Any = None, var: Any = None, event_ndims: int = 1, laws: Any = None
    ):
        self.frozen, self._mean, self._var, self.event_ndims = frozen, mean, var, event_ndims
        self.marginals = (lambda draws: iter(())) if laws is None else laws
        if hasattr(frozen, "entropy"):
            self.entropy = frozen.entropy

    def logpdf(self, values: np.ndarray) -> np.ndarray:
        split = values.ndim - self.event_ndims
        flat = values.reshape(-1, *values.shape[split:])
        return np.array([self.frozen.logpdf(v) for v in flat]).reshape(values.shape[:split])

    def mean(self) -> Any:
        return self._mean

    def var(self) -> Any:
        return self._var


class Density:
    """A log density of one event, and perhaps the entropy."""

    def __init__(self, logpdf: Callable[[np.ndarray], float]):
        self.logpdf = logpdf


class Gaussian(Each):
    """A normal law of arrays with the mean and the covariance of their entries in a row."""

    def __init__(self, mean: Any, covariance: np.ndarray, shape: tuple[int, ...] | None = None):
        n = len(covariance)
        self.shape = (n,) if shape is None else shape
        self.loc, self.covariance = np.broadcast_to(np.asarray(mean).reshape(-1), (n,)), covariance
        frozen = st.multivariate_normal(self.loc, covariance, allow_singular=True)
        variance = np.diagonal(covariance).reshape(self.shape)
        super().__init__(frozen, self.loc.reshape(self.shape), variance, len(self.shape))
        self.marginals = self._projections
        # Onto the plane of its draws, off which rounding puts a value.
        self.plane = covariance @ np.linalg.pinv(covariance, hermitian=True)

    def logpdf(self, values: np.ndarray) -> np.ndarray:
        split = values.ndim - self.event_ndims
        flat = values.reshape(*values.shape[:split], len(self.covariance)) - self.loc
        flat = flat @ self.plane.T + self.loc
        return np.asarray(self.frozen.logpdf(flat)).reshape(values.shape[:split])

    def _projections(self, draws: np.ndarray) -> Iterator[tuple[np.ndarray, Any]]:
        n = len(self.covariance)
        flat = draws.reshape(len(draws), n)
        for way in (*np.eye(n), np.sin(np.arange(1, n + 1))):
            yield flat @ way, st.norm(self.loc @ way, np.sqrt(way @ self.covariance @ way))


class Batch:
    """One oracle after another along a batch axis."""

    def __init__(self, *oracles: Any):
        self.oracles = oracles
        if all(hasattr(oracle, "entropy") for oracle in oracles):
            self.entropy = lambda: np.stack([oracle.entropy() for oracle in oracles])

    def logpdf(self, values: np.ndarray) -> np.ndarray:
        return np.stack([o.logpdf(values[:, i]) for i, o in enumerate(self.oracles)], 1)

    def mean(self) -> Any:
        return np.stack([o.mean() for o in self.oracles])

    def var(self) -> Any:
        return np.stack([o.var() for o in self.oracles])

    def marginals(self, draws: np.ndarray) -> Iterator[tuple[np.ndarray, Any]]:
        for i, oracle in enumerate(self.oracles):
            yield from oracle.marginals(draws[:, i])


class Tabulated:
    """A law on an interval, given by its density up to a factor, smooth inside."""

    def __init__(self, density: Callable[[np.ndarray], np.ndarray], low: float, high: float):
        # Dense near the ends, where densities may have roots.
        self.x = low + (high - low) * np.sin(np.linspace(0, np.pi / 2, 20_001)) ** 2
        with np.errstate(divide="ignore"):
            y = np.where(np.isfinite(density(self.x)), density(self.x), 0)
        total = si.cumulative_trapezoid(y, self.x, initial=0)
        self.values = total / total[-1]

    def cdf(self, x: Any) -> np.ndarray:
        return np.interp(x, self.x, self.values)


def log_det(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> float:
    """The log determinant of the Jacobian of an analytic map, by complex steps."""
    step = 1e-30
    columns = [function(x + 1j * step * unit).imag / step for unit in np.eye(len(x))]
    return np.linalg.slogdet(np.array(columns))[1]
