"""Chains far from the others, by their log density; warm-up and the summary look for them."""

import math

import numpy as np

_MAX_DEVIATIONS = 10.0  # standard deviations of the log density between chains that agree
_NORMAL = 1.4826  # standard deviation over median absolute deviation, of a normal distribution


def find_lost(log_densities: np.ndarray, size: int, least: float = 20.0) -> np.ndarray:
    r"""Flags of the chains whose log density is far below the median chain's, ``(chain,)``.

    The limit is ten standard deviations. The standard deviation combines the spread between chains,
    by the median absolute deviation, with the standard deviation of the log density of a normal
    distribution of `size` coordinates, :math:`\sqrt{\mathrm{size} / 2}`. So a minority is found,
    however far away it is. If all chains differ much, as in a funnel, no chain is lost. The limit
    is at least `least`, as the tail of a log density is exponential: for a normal distribution in
    two coordinates, one chain in 40,000 is 10 below the median.

    A chain in a mode of its own, with a mass of more than about ``exp(-10)``, is not lost, unless
    its mode is far wider than the other modes and lower by as much.

    Args:
        log_densities: Log density of each chain after the same number of iterations, ``(chain,)``.
        size: Number of coordinates.
        least: Difference from the median below which no chain is lost; 0 for means of many draws.
    """
    values = np.where(np.isfinite(log_densities), log_densities, -np.finfo(np.float64).max)
    with np.errstate(over="ignore"):
        below = np.median(values) - values.astype(np.float64)
        spread = math.hypot(math.sqrt(size / 2), _NORMAL * float(np.median(np.abs(below))))
    return below > max(_MAX_DEVIATIONS * spread, least)
