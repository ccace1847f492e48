"""Order, quantiles and normal scores of numbers, from one sort of them."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

Array = NDArray[np.float64]


def argsort(row: Array) -> NDArray[np.intp]:
    """Order of numbers; those that float32 has, as most draws, by a radix sort of 16 bits twice."""
    with np.errstate(over="ignore"):
        single = row.astype(np.float32)
    if not np.array_equal(single, row):
        return np.argsort(row)
    bits = single.view(np.int32)
    # As unsigned integers, these are in the order of the numbers.
    keys = (bits ^ ((bits >> 31) | np.int32(-(2**31)))).view(np.uint32)
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    return order[np.argsort((keys >> 16).astype(np.uint16)[order], kind="stable")]


def quantiles_of_sorted(ordered: Array, levels: Sequence[float]) -> Array:
    """Quantiles by linear interpolation, to the last bit as by `numpy.quantile`."""
    place = np.asarray(levels, np.float64) * (len(ordered) - 1)
    low = np.floor(place).astype(int)
    below, above = ordered[low], ordered[np.minimum(low + 1, len(ordered) - 1)]
    share, step = place - low, above - below
    return np.where(share < 0.5, below + step * share, above - step * (1 - share))


def scores_of_sorted(ordered: Array) -> Array:
    """Normal scores of sorted numbers."""
    size = len(ordered)
    scores = _normal_scores(size)
    is_tie = ordered[1:] == ordered[:-1]
    if not is_tie.any():
        return scores
    is_first, is_last = np.r_[True, ~is_tie], np.r_[~is_tie, True]
    is_tied = ~(is_first & is_last)
    first, last = np.flatnonzero(is_first & is_tied), np.flatnonzero(is_last & is_tied)
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
