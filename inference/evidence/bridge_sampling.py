"""Bridge sampling: the integral of a density from draws of it and draws of a normal distribution.

All densities are of flat positions on unconstrained space, in NumPy and float64.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from inference.results.diagnostics import ess_mean, rhat
from inference.results.psis import psis_on_host
from inference.runtime.blas_threads import one_blas_thread

_MAX_BISECTIONS = 200
LogDensity = Callable[[np.ndarray], np.ndarray]


class Bridge(NamedTuple):
    """Estimate of the log of an integral.

    Attributes:
        log_integral: The estimate.
        se: Its standard error, from this run alone.
        overlap: Overlap of the density and its normal approximation, between 0 and 1.
        pareto_k: Pareto k of the density ratios at the draws of the normal distribution.
        rhat: Largest R-hat of the coordinates and of the log density ratio.
        log_density: Median of the log density at the draws, made symmetric.
    """

    log_integral: float
    se: float
    overlap: float
    pareto_k: float
    rhat: float
    log_density: float


class BridgeHalf(NamedTuple):
    """Estimate by one half of the draws, with relative standard errors by both sets of draws."""

    log_integral: float
    error_of_draws: float
    error_of_proposals: float
    overlap: float
    pareto_k: float
    rhat: float
    log_density: float


def bridge_sampling(log_density: LogDensity, draws: np.ndarray, seed: list[int]) -> Bridge:
    r"""Log of the integral of a density.

    A normal distribution is fitted to one half of the draws of each chain. The other half, and as
    many draws of the normal distribution, give the estimate; then the halves change places. The
    density is first made symmetric about the mean of the normal distribution, which leaves its
    integral as it is, and skewness no longer matters (Warp-III).

    Args:
        log_density: Log density of positions ``(draw, size)``, as ``(draw,)``.
        draws: Draws of the density, ``(chain, draw, size)``, eight a chain at least.
        seed: Seed of the draws of the normal distributions.

    References:
        Meng and Wong (1996), Simulating ratios of normalizing constants via a simple identity,
        Statistica Sinica 6; Meng and Schilling (2002), Warp bridge sampling, JCGS 11;
        Frühwirth-Schnatter (2004), Estimating marginal likelihoods for mixture and Markov switching
        models using bridge sampling techniques, Econometrics Journal 7 (standard error).
    """
    middle = draws.shape[1] // 2
    halves = draws[:, :middle], draws[:, middle:]
    found = [
        _bridge(log_density, fitted, used, np.random.default_rng([*seed, 1 + i]))
        for i, (fitted, used) in enumerate([halves, halves[::-1]])
    ]
    values = np.array([x.log_integral for x in found])
    # The mean of both integrals; errors are relative to it. Each half is fitted in one and averaged
    # in the other, so that the errors by the draws go together.
    log_integral = np.logaddexp(*values) - math.log(2)
    shares = np.exp(values - np.logaddexp(*values))
    of_draws = np.sum(shares * [x.error_of_draws for x in found])
    of_proposals = np.linalg.norm(shares * [x.error_of_proposals for x in found])
    return Bridge(
        log_integral=float(log_integral),
        se=float(np.hypot(of_draws, of_proposals)),
        overlap=min(x.overlap for x in found),
        pareto_k=max(x.pareto_k for x in found),
        rhat=_largest_rhat(draws, [x.rhat for x in found]),
        log_density=float(np.mean([x.log_density for x in found])),
    )


def _bridge(
    log_density: LogDensity, fitted: np.ndarray, used: np.ndarray, rng: np.random.Generator
) -> BridgeHalf:
    """Estimate by one half of the draws, with a normal distribution fitted to the other half."""
    size = used.shape[-1]
    normal = FittedNormal.fit(fitted.reshape(-1, size))
    proposals = normal.draw(rng, used[..., 0].size)

    def log_ratio(x: np.ndarray) -> np.ndarray:
        mirrored = 2 * normal.mean - x
        symmetric = np.logaddexp(log_density(x), log_density(mirrored)) - math.log(2)
        return symmetric - normal.log_density(x)

    flat = used.reshape(-1, size)
    at_draws = log_ratio(flat).reshape(used.shape[:2])
    at_proposals = log_ratio(proposals)
    num_effective = _ess(at_draws)
    num_proposals = at_proposals.size
    log_integral = _solve(at_draws.ravel(), at_proposals, num_effective)
    # Both means of the bridge: terms are bounded, so that they have a variance.
    odds = math.log(num_effective / num_proposals) - log_integral
    of_draws = _sigmoid(-(odds + at_draws))
    of_proposals = _sigmoid(odds + at_proposals)
    share = num_effective / (num_effective + num_proposals)
    return BridgeHalf(
        log_integral=log_integral,
        error_of_draws=_relative_error(of_draws, _ess(of_draws)),
        error_of_proposals=_relative_error(of_proposals, num_proposals),
        overlap=float(of_proposals.mean() / share),
        pareto_k=float(psis_on_host(at_proposals, 1e-6).pareto_k),
        rhat=float(rhat(at_draws)) if np.ptp(at_draws) > 1e-6 else 1.0,
        log_density=float(np.median(at_draws.ravel() + normal.log_density(flat))),
    )


def _solve(at_draws: np.ndarray, at_proposals: np.ndarray, num_effective: float) -> float:
    r"""Root of the estimating equation of the optimal bridge.

    With log ratios :math:`l`, sigmoid :math:`\sigma` and :math:`c = \log(n_1 / n_2)` it is
    :math:`n_2\,\mathrm{mean}_j\,\sigma(c + l_j - r) = n_1\,\mathrm{mean}_i\,\sigma(r - c - l_i)`:
    the left side falls with :math:`r`, the right side grows.
    """
    num_proposals = at_proposals.size
    odds = math.log(num_effective / num_proposals)

    def excess(r: float) -> float:
        of_proposals = num_proposals * _sigmoid(odds + at_proposals - r).mean()
        return of_proposals - num_effective * _sigmoid(r - odds - at_draws).mean()

    finite = np.concatenate([at_draws, at_proposals[np.isfinite(at_proposals)]])
    low = float(finite.min()) - abs(odds) - 1
    high = float(finite.max()) + abs(odds) + 1
    while excess(low) < 0:
        low -= high - low
    while excess(high) > 0:
        high += high - low
    for _ in range(_MAX_BISECTIONS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2


def _largest_rhat(draws: np.ndarray, others: list[float]) -> float:
    """Largest R-hat of all coordinates that vary, and of other quantities."""
    of_draws = np.asarray(rhat(draws))[np.ptp(draws, (0, 1)) > 0]
    return float(np.max([*of_draws, *others]))


def _relative_error(terms: np.ndarray, num_effective: float) -> float:
    """Standard error of a mean over its value."""
    return float(terms.std() / terms.mean() / math.sqrt(num_effective))


def _ess(values: np.ndarray) -> float:
    """Effective number of draws of a mean, ``(chain, draw)``; all of them if nothing varies."""
    found = float(ess_mean(values)) if np.ptp(values) > 0 else math.nan
    return min(found, values.size) if math.isfinite(found) else float(values.size)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


class FittedNormal(NamedTuple):
    """Normal distribution with a lower triangular factor of its covariance."""

    mean: np.ndarray
    factor: np.ndarray

    @classmethod
    def fit(cls, draws: np.ndarray) -> "FittedNormal":
        """Moments of draws ``(draw, size)``, with correlations shrunk as their noise asks for.

        References:
            Schäfer and Strimmer (2005), A shrinkage approach to large-scale covariance matrix
            estimation, section 2.
        """
        num_draws, size = draws.shape
        mean = draws.mean(0)
        scale = draws.std(0, ddof=1)
        scores = (draws - mean) / scale
        with one_blas_thread():
            correlation = scores.T @ scores / (num_draws - 1)
            spread = (scores**2).T @ scores**2 / num_draws - correlation**2
        off = ~np.eye(size, dtype=bool)
        total = np.sum(correlation[off] ** 2)
        weight = min(1.0, np.sum(spread[off]) / (num_draws * total)) if total > 0 else 1.0
        correlation = np.where(off, (1 - weight) * correlation, 1.0)
        with one_blas_thread():
            factor = np.linalg.cholesky(correlation + 1e-10 * np.eye(size))
        return cls(mean, scale[:, None] * factor)

    def draw(self, rng: np.random.Generator, num_draws: int) -> np.ndarray:
        """Draws ``(draw, size)``."""
        with one_blas_thread():
            return self.mean + rng.standard_normal((num_draws, len(self.mean))) @ self.factor.T

    def log_density(self, x: np.ndarray) -> np.ndarray:
        """Log density of positions ``(draw, size)``, as ``(draw,)``."""
        with one_blas_thread():
            scores = np.linalg.solve(self.factor, (x - self.mean).T)
        log_det = np.sum(np.log(np.diag(self.factor)))
        return -0.5 * np.sum(scores**2, 0) - log_det - 0.5 * len(self.mean) * math.log(2 * math.pi)
