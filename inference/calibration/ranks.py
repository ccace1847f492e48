"""Ranks of true values among draws that are thinned to near independence."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inference.results.diagnostics import rhat_and_ess_bulk

_MIN_KEPT = 20  # draws that are kept at least, however correlated
SPARING = 2  # effective draws for each one that is kept
MIN_ESS = _MIN_KEPT * SPARING  # effective draws; with fewer, those kept are correlated


class Ranks(NamedTuple):
    """Ranks of the true values of several quantities in many simulations.

    Attributes:
        values: Normalized ranks in (0, 1), ``(simulation, quantity)``; see :func:`rank`.
        rhat: R-hat of the draws, ``(simulation, quantity)``; NaN for one chain.
        ess: Effective sample size of the draws, ``(simulation, quantity)``.
    """

    values: NDArray[np.floating]
    rhat: NDArray[np.floating]
    ess: NDArray[np.floating]


def rank(
    draws: NDArray[np.floating], truths: NDArray[np.floating], generator: np.random.Generator
) -> Ranks:
    r"""Normalized ranks :math:`(r + u) / (L + 1)` of true values among `L` draws.

    The number of draws below the truth is `r`, with ties broken at random, and `u` is uniform. A
    normalized rank is uniform on (0, 1) for any `L` if the truth and the draws are exchangeable.
    So each quantity of each simulation may keep another number of draws: half of their effective
    sample size, evenly spaced, but 20 at least. Draws of NaN count as above the truth.

    Args:
        draws: ``(simulation, chain, draw, quantity)``.
        truths: ``(simulation, quantity)``.
        generator: Source of the random numbers.

    References:
        Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference
        algorithms with simulation-based calibration, algorithm 2; Modrák et al. (2023),
        Simulation-based calibration checking for Bayesian computation, section 2, on ties.
    """
    num, num_chains, num_draws, size = draws.shape
    rhat, bulk = rhat_and_ess_bulk(np.moveaxis(draws, 0, 2))
    total = num_chains * num_draws
    wanted = np.where(np.isfinite(bulk), bulk, total) / SPARING
    kept = np.clip(wanted.astype(int), min(_MIN_KEPT, total), total)
    pooled = np.moveaxis(draws.reshape(num, total, size), 1, 2)
    values = np.empty((num, size))
    for number in np.unique(kept):
        which = kept == number
        some = pooled[which][:, np.arange(number) * total // number]
        truth = truths[which][:, None]
        below = np.sum(some < truth, 1)
        ties = np.sum(some == truth, 1)
        rank = below + generator.integers(0, ties + 1)
        values[which] = (rank + generator.uniform(size=rank.shape)) / (number + 1)
    return Ranks(values, rhat, bulk)
