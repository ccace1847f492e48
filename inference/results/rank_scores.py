"""Normal scores of the ranks of draws, from one sort, which gives quantiles too.

References:
    Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
    localization: an improved R-hat for assessing convergence of MCMC, Bayesian Analysis 16,
    section 4.1.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]


def split_halves(draws: Array) -> Array:
    """Halves of chains as chains; the middle draw of an odd number of draws is left out."""
    num_parameters, num_chains, num_draws = draws.shape
    half = num_draws // 2
    if num_draws % 2:
        draws = np.delete(draws, half, 2)
    return draws.reshape(num_parameters, 2 * num_chains, half)


def rank_normalize_halves(
    draws: Array, levels: Sequence[float] = ()
) -> tuple[tuple[Array, Array], Array]:
    """Normal scores of ranks in half chains, of draws and of their distances from the median.

    Ties share their mean rank. The function also returns quantiles of the draws of whole chains.
    """
    halves = split_halves(draws)
    rows = draws.reshape(len(draws), -1)
    scores, folded = np.empty((2, len(draws), halves[:1].size))
    quantiles = np.empty((len(levels), len(draws)))
    for i, row in enumerate(rows):
        order = argsort(row)
        values = row[order]
        quantiles[:, i] = quantiles_of_sorted(values, levels)
        if draws.shape[2] % 2:
            is_kept = np.ones(draws.shape[1:], bool)
            is_kept[:, draws.shape[2] // 2] = False
            order = order[is_kept.ravel()[order]]
            values = row[order]
            order = (np.cumsum(is_kept) - 1)[order]
        scores[i, order], folded[i, order] = _scores_and_folded(values)
    return (scores.reshape(halves.shape), folded.reshape(halves.shape)), quantiles


def rank_normalize(draws: Array) -> tuple[Array, Array]:
    """Normal scores of ranks over all chains, of draws and of their distances from the median.

    Ties share their mean rank.
    """
    rows = draws.reshape(len(draws), -1)
    scores, folded = np.empty((2, *rows.shape))
    for i, row in enumerate(rows):
        order = argsort(row)
        scores[i, order], folded[i, order] = _scores_and_folded(row[order])
    return scores.reshape(draws.shape), folded.reshape(draws.shape)


def _scores_and_folded(ordered: Array) -> tuple[Array, Array]:
    """Normal scores of sorted numbers, and of their distances from the median, in their order."""
    middle = len(ordered) // 2
    distances = np.abs(ordered - (ordered[middle] + ordered[-1 - middle]) / 2)
    # A merge of two runs, falling and rising, which a stable sort finds.
    places = np.argsort(distances, kind="stable")
    folded = np.empty(len(ordered))
    folded[places] = scores_of_sorted(distances[places])
    return scores_of_sorted(ordered), folded


def argsort(row: Array) -> NDArray[np.intp]:
    """Order of numbers. If float32 can represent them, integers of 64 bits are sorted instead.

    The upper half of such an integer holds the bits of the number, the lower half its place. NumPy
    sorts integers with vector instructions, and equal numbers stay in their order.
    """
    with np.errstate(over="ignore"):
        single = row.astype(np.float32)
    if len(row) > 2**32 or not np.array_equal(single, row):
        return np.argsort(row)
    bits = single.view(np.int32)
    # As unsigned integers, these keys are in the order of the numbers.
    keys = (bits ^ ((bits >> 31) | np.int32(-(2**31)))).view(np.uint32)
    packed = keys.astype(np.uint64) << np.uint64(32)
    packed |= np.arange(len(row), dtype=np.uint64)
    packed.sort()
    return (packed & np.uint64(2**32 - 1)).astype(np.intp)


def quantiles_of_sorted(ordered: Array, levels: Sequence[float]) -> Array:
    """Quantiles by linear interpolation, to the last bit as by `numpy.quantile`."""
    place = np.asarray(levels, np.float64) * (len(ordered) - 1)
    low = np.floor(place).astype(int)
    below = ordered[low]
    above = ordered[np.minimum(low + 1, len(ordered) - 1)]
    share = place - low
    step = above - below
    return np.where(share < 0.5, below + step * share, above - step * (1 - share))


def scores_of_sorted(ordered: Array) -> Array:
    """Normal scores of sorted numbers."""
    size = len(ordered)
    scores = _normal_scores(size)
    is_tie = ordered[1:] == ordered[:-1]
    if not is_tie.any():
        return scores
    is_first = np.r_[True, ~is_tie]
    is_last = np.r_[~is_tie, True]
    is_tied = ~(is_first & is_last)
    first = np.flatnonzero(is_first & is_tied)
    last = np.flatnonzero(is_last & is_tied)
    scores = scores.copy()
    scores[is_tied] = np.repeat(_score((first + last) / 2, size), last - first + 1)
    return scores


@lru_cache(maxsize=4)
def _normal_scores(size: int) -> Array:
    """Normal scores of the ranks from 1 to `size`."""
    return _score(np.arange(size), size)


def _score(place: NDArray[Any], size: int) -> Array:
    """Normal scores of places from 0 to `size` - 1."""
    return scipy.special.ndtri((place + 1 - 3 / 8) / (size + 1 / 4))
