r"""Simultaneous bands of empirical distribution functions, and exact p-values of uniformity.

At each of :math:`K - 1` evenly spaced points `z`, the number of `N` uniform values up to `z` is
binomial. The statistic is the smallest two-sided tail probability of these numbers,

.. math:: \gamma = \min(1, \min_i 2 \min\{P(X_i \le k_i), P(X_i \ge k_i)\}),

and the band of level :math:`\alpha` has all paths with a larger statistic than its
:math:`\alpha`-quantile. The probability of a path within bounds is exact: given that there are `N`
points in all, a Poisson process on the unit interval has the law of `N` uniform points. Counts of
the process in disjoint cells are independent, so that one convolution leads from each point to the
next.

References:
    Säilynoja, Bürkner and Vehtari (2022), Graphical test for discrete uniformity and its
    applications in goodness-of-fit evaluation and multiple sample comparison, Statistics and
    Computing 32, sections 2 and 3; Moscovich and Nadler (2017), Fast calculation of boundary
    crossing probabilities for Poisson processes, Statistics and Probability Letters 123.
"""

import functools

import numpy as np
from numpy.typing import ArrayLike, NDArray

MAX_POINTS = 100  # cells of the unit interval
_SLACK = 1e-9  # relative; a tail probability that equals the statistic is outside of the band


def num_cells(num_values: int) -> int:
    """Number of cells of the unit interval for so many values."""
    return max(2, min(MAX_POINTS, num_values))


def p_value(values: ArrayLike) -> float:
    """Exact p-value of the hypothesis that `values` in (0, 1) are independent and uniform.

    Args:
        values: Values, ``(value,)``.

    Example:
        >>> p_value(np.linspace(0.01, 0.99, 50))
        1.0
    """
    from scipy import stats

    values = np.asarray(values, float)
    size = len(values)
    cells = num_cells(len(values))
    counts = counts_below(values, cells)
    points = np.arange(1, cells) / cells
    below = stats.binom.cdf(counts, size, points)
    above = stats.binom.sf(counts - 1, size, points)
    statistic = float(np.min(2 * np.minimum(below, above)))
    return _p_value(size, cells, min(statistic, 1.0))


def counts_below(values: NDArray[np.floating], cells: int) -> NDArray[np.int64]:
    """Number of values up to each inner point of a grid of `cells` cells, ``(cells - 1,)``."""
    points = np.arange(1, cells) / cells
    return np.searchsorted(np.sort(values), points, side="right")


def band(num_values: int, level: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lowest and highest counts at the inner points of a simultaneous band, ``(cells - 1,)`` each.

    Args:
        num_values: Number of uniform values.
        level: Probability, at most, that a path of uniform values leaves the band.
    """
    cells = num_cells(num_values)
    low = np.log(level / (10 * cells))
    high = np.log(level)
    for _ in range(30):  # bisection of the statistic on the log scale
        middle = (low + high) / 2
        fits = _p_value(num_values, cells, float(np.exp(middle))) <= level
        low, high = (middle, high) if fits else (low, middle)
    return _bounds(num_values, cells, float(np.exp(low)))


@functools.lru_cache(maxsize=4096)
def _p_value(size: int, cells: int, statistic: float) -> float:
    """Probability that the statistic of uniform values is at most `statistic`."""
    from scipy import stats

    lowest, highest = _bounds(size, cells, statistic)
    if statistic >= 1 or np.any(lowest > highest):
        return 1.0
    rate = size / cells
    first = 0
    inside = np.ones(1)
    for low, high in zip(lowest, highest, strict=True):
        steps = stats.poisson.pmf(np.arange(high - first + 1), rate)
        moved = np.convolve(inside, steps)
        inside = moved[low - first : high - first + 1]
        first = low
    last = stats.poisson.pmf(size - first - np.arange(len(inside)), rate)
    whole = inside @ last / stats.poisson.pmf(size, size)
    return float(np.clip(1 - whole, 0.0, 1.0))


def _bounds(size: int, cells: int, statistic: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lowest and highest counts whose tail probabilities are above `statistic`."""
    from scipy import stats

    points = np.arange(1, cells) / cells
    tail = statistic / 2 * (1 + _SLACK)
    lowest = stats.binom.ppf(tail, size, points)
    highest = stats.binom.isf(tail, size, points)
    return lowest.astype(np.int64), highest.astype(np.int64)
