"""KLL sketch: quantiles of many streams in fixed memory, with a bound on their error."""

from typing import Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_SHRINKAGE = 2 / 3  # capacity of a level, divided by the capacity of the level above


class QuantileSketch:
    """KLL sketch of several streams of numbers at once, all of equal length.

    Level `h` holds numbers that stand for :math:`2^h` draws each. A full level is sorted, and one
    number of each pair of neighbors, by a toss of a coin the first or the second, goes one level
    up. The capacity of levels falls by a third from the top down.

    The rank of any number, as a share of all draws, is unbiased. Its standard deviation is at most
    :attr:`rank_error`, which is about ``1.3 / capacity`` for long streams.

    Args:
        capacity: Capacity of the top level. A stream keeps about three times as many numbers.
        seed: Seed of the coins.

    References:
        Karnin, Lang and Liberty (2016), Optimal quantile approximation in streams, sections 2 and
        3, with the variance of a compaction in the proof of theorem 1.
    """

    def __init__(self, capacity: int = 256, seed: int = 0) -> None:
        self.capacity = capacity
        self.num_draws = 0
        self._levels: list[Array] = []  # (stream, number) each
        self._variance = 0.0  # bound on the variance of the number of draws below any point
        self._coins = np.random.default_rng(seed)

    @property
    def rank_error(self) -> float:
        """Bound on the standard deviation of the rank of a quantile, as a share of all draws."""
        return float(np.sqrt(self._variance)) / max(1, self.num_draws)

    @property
    def num_kept(self) -> int:
        """Count of numbers that are kept of each stream."""
        return sum(level.shape[1] for level in self._levels)

    def add(self, draws: Array) -> None:
        """Takes in draws ``(stream, draw)``."""
        if not self._levels:
            self._levels = [np.zeros((len(draws), 0))]
        self.num_draws += draws.shape[1]
        self._levels[0] = np.concatenate([self._levels[0], draws], 1)
        self._compress()

    def merge(self, other: Self) -> None:
        """Takes in the draws of another sketch of as many streams."""
        self.num_draws += other.num_draws
        self._variance += other._variance
        height = max(len(self._levels), len(other._levels))
        streams = len((self._levels or other._levels)[0])

        def pad(levels):
            return [*levels, *[np.zeros((streams, 0))] * (height - len(levels))]

        pairs = zip(pad(self._levels), pad(other._levels), strict=True)
        self._levels = [np.concatenate(pair, 1) for pair in pairs]
        self._compress()

    def quantile(self, prob: float) -> Array:
        """Quantile ``(stream,)``: the smallest number kept whose rank reaches `prob`."""
        weights = np.concatenate(
            [np.full(x.shape[1], 2.0**height) for height, x in enumerate(self._levels)]
        )
        numbers = np.concatenate(self._levels, 1)
        order = np.argsort(numbers, 1)
        ranks = np.cumsum(weights[order], 1)
        place = np.sum(ranks < prob * self.num_draws, 1, keepdims=True)
        place = np.minimum(place, numbers.shape[1] - 1)
        return np.take_along_axis(numbers, np.take_along_axis(order, place, 1), 1)[:, 0]

    def _compress(self) -> None:
        """Empties full levels, the lowest first, until none is full."""
        height = 0
        while height < len(self._levels):
            if self._levels[height].shape[1] > self._capacity_of(height):
                self._compact(height)
                height = -1  # the levels below may have got less capacity
            height += 1

    def _capacity_of(self, height: int) -> int:
        depth = len(self._levels) - 1 - height
        return max(2, int(np.ceil(self.capacity * _SHRINKAGE**depth)))

    def _compact(self, height: int) -> None:
        """Moves half of a level up; the first of an odd number of values stays."""
        level = self._levels[height]
        kept = level.shape[1] % 2
        numbers = np.sort(level[:, kept:], 1)
        if height + 1 == len(self._levels):
            self._levels.append(np.zeros((len(level), 0)))
        chosen = numbers[:, int(self._coins.integers(2)) :: 2]
        self._levels[height] = level[:, :kept]
        self._levels[height + 1] = np.concatenate([self._levels[height + 1], chosen], 1)
        self._variance += 4.0**height
