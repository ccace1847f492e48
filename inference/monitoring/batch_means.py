"""Dynamic batch means: moments, R-hat and ESS of chains in fixed memory."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from inference.results.diagnostics import mcse_mean

Array = NDArray[np.float64]


class BatchMeans:
    r"""Means and sums of squares of batches of consecutive draws, in fixed memory.

    Batches grow: when there are `max_batches`, neighbors are merged and a batch has twice as many
    draws. So the number of batches is always between half of `max_batches` and `max_batches`, but
    for the first draws.

    - Mean, variance and split R-hat are exact, up to the draws of the last, incomplete batch.
    - The effective sample size treats batch means as draws, with all their autocovariances. While
      a batch is one draw, it is equal to :func:`inference.ess_mean`. Later its relative error has a
      standard deviation of about :math:`\sqrt{8 / (m a)}` for `m` chains of `a` batches, at most
      0.125 for 4 chains and `max_batches` of 256.

    Attributes:
        max_batches: Maximum number of batches, an even number.
        size: Number of draws of a batch.

    References:
        Yeh and Schmeiser (2000), Simulation output analysis via dynamic batch means; Chan, Golub
        and LeVeque (1983), Algorithms for computing the sample variance, section 3; Geyer (1992),
        Practical Markov chain Monte Carlo, section 3.3.
    """

    def __init__(self, max_batches: int = 256) -> None:
        self.max_batches = max_batches
        self.size = 1
        self.num_batches = 0
        self.num_rest = 0
        self._means: Array = np.zeros((0, 0, 0))  # (chain, batch, scalar)
        self._squares = self._means
        self._rest: tuple[Array, Array] = (np.zeros((0, 0)), np.zeros((0, 0)))

    @property
    def num_draws(self) -> int:
        """Number of draws of each chain."""
        return self.num_batches * self.size + self.num_rest

    def add(self, draws: Array) -> None:
        """Takes in draws ``(chain, draw, scalar)``, the next of each chain."""
        if not len(self._means):
            num_chains, _, num_scalars = draws.shape
            self._means, self._squares = np.zeros((2, num_chains, self.max_batches, num_scalars))
            self._rest = tuple(np.zeros((2, num_chains, num_scalars)))  # pyright: ignore
        while draws.shape[1]:
            room = (self.max_batches - self.num_batches) * self.size - self.num_rest
            self._add_to_room(draws[:, :room])
            draws = draws[:, room:]
            if self.num_batches == self.max_batches:
                self._merge_neighbors()

    def _add_to_room(self, draws: Array) -> None:
        """Takes in draws for which there is room among the batches."""
        if self.num_rest:
            missing = self.size - self.num_rest
            self._add_to_rest(draws[:, :missing])
            draws = draws[:, missing:]
        number = draws.shape[1] // self.size
        if number:
            shape = len(draws), number, self.size, draws.shape[2]
            whole = draws[:, : number * self.size].reshape(shape)
            end = self.num_batches + number
            means, squares = moments(whole)
            self._means[:, self.num_batches : end] = means
            self._squares[:, self.num_batches : end] = squares
            self.num_batches = end
        self._add_to_rest(draws[:, number * self.size :])

    def _add_to_rest(self, draws: Array) -> None:
        """Takes in draws that do not fill more than the incomplete batch."""
        number = draws.shape[1]
        if not number:
            return
        new = moments(draws)
        self._rest = merge_moments(self._rest, self.num_rest, new, number) if self.num_rest else new
        self.num_rest += number
        if self.num_rest == self.size:
            self._means[:, self.num_batches], self._squares[:, self.num_batches] = self._rest
            self.num_batches = self.num_batches + 1
            self.num_rest = 0

    def _merge_neighbors(self) -> None:
        first, second = ((self._means[:, i::2], self._squares[:, i::2]) for i in range(2))
        merged = merge_moments(first, self.size, second, self.size)
        half = self.max_batches // 2
        self._means[:, :half], self._squares[:, :half] = merged
        self._squares[:, half:] = 0.0
        self.num_batches = half
        self.size = 2 * self.size

    def means_and_squares(self) -> tuple[Array, Array]:
        """Means and sums of squared deviations of complete batches, ``(chain, batch, scalar)``."""
        return self._means[:, : self.num_batches], self._squares[:, : self.num_batches]

    def mean_and_variance(self) -> tuple[Array, Array]:
        """Mean and variance over all chains and draws, ``(scalar,)``."""
        means, squares = self.means_and_squares()
        total, deviations = np.zeros((2, self._means.shape[2]))
        number = means.shape[0] * self.num_batches * self.size
        if self.num_batches:
            total = means.mean((0, 1))
            deviations = squares.sum((0, 1)) + self.size * ((means - total) ** 2).sum((0, 1))
        if self.num_rest:
            mean = self._rest[0].mean(0)
            own = self._rest[1].sum(0) + self.num_rest * ((self._rest[0] - mean) ** 2).sum(0)
            more = len(means) * self.num_rest
            total, deviations = merge_moments((total, deviations), number, (mean, own), more)
            number += more
        return total, deviations / max(1, number - 1)

    def rhat(self) -> Array:
        """Split R-hat of complete batches, ``(scalar,)``; NaN for a single chain.

        The last batch of an odd number is left out. Draws are taken as they are, not as ranks, so
        R-hat has no meaning for a distribution without a variance.
        """
        means, squares = self.means_and_squares()
        num_chains, num_batches, num_scalars = means.shape
        half = num_batches // 2
        number = half * self.size
        if num_chains < 2 or number < 2:
            return np.full(num_scalars, np.nan)
        shape = 2 * num_chains, half, num_scalars
        means, squares = (x[:, : 2 * half].reshape(shape) for x in (means, squares))
        center = means.mean(1)
        deviations = squares.sum(1) + self.size * ((means - center[:, None]) ** 2).sum(1)
        within = deviations.mean(0) / (number - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            between = number * center.var(0, ddof=1)
            return np.sqrt((between / within + number - 1) / number)

    def mcse_mean(self) -> Array:
        """Monte Carlo standard error of the mean, ``(scalar,)``; NaN before four batches."""
        means, _ = self.means_and_squares()
        share = self.num_batches * self.size / max(1, self.num_draws)
        return mcse_mean(means) * np.sqrt(share)

    def ess_mean(self) -> Array:
        """Effective sample size of the mean, ``(scalar,)``; NaN before four batches."""
        _, variance = self.mean_and_variance()
        with np.errstate(divide="ignore", invalid="ignore"):
            return variance / self.mcse_mean() ** 2


def join(chains: Sequence[BatchMeans]) -> BatchMeans:
    """Batch means of several chains together, with equal batches for all chains.

    Batches get the size of the largest ones. If a chain then has more batches than another, its
    last batches are left out.
    """
    joined = BatchMeans(chains[0].max_batches)
    joined.size = max(chain.size for chain in chains)
    parts = [_with_size(chain, joined.size) for chain in chains]
    joined.num_batches = min(means.shape[1] for means, _ in parts)
    means, squares = zip(*parts, strict=True)

    def cut(arrays):
        return np.concatenate([x[:, : joined.num_batches] for x in arrays])

    joined._means, joined._squares = cut(means), cut(squares)
    rest = np.zeros((2, len(joined._means), joined._means.shape[2]))
    joined._rest = rest[0], rest[1]
    return joined


def _with_size(chains: BatchMeans, size: int) -> tuple[Array, Array]:
    """Complete batches merged to batches of `size` draws."""
    means, squares = chains.means_and_squares()
    now = chains.size
    while now < size:
        end = means.shape[1] // 2 * 2
        first = means[:, 0:end:2], squares[:, 0:end:2]
        second = means[:, 1:end:2], squares[:, 1:end:2]
        means, squares = merge_moments(first, now, second, now)
        now *= 2
    return means, squares


def moments(draws: Array) -> tuple[Array, Array]:
    """Mean and sum of squared deviations of draws ``(..., draw, scalar)``."""
    mean = np.einsum("...ds->...s", draws) / draws.shape[-2]  # here much faster than `mean`
    deviations = draws - mean[..., None, :]
    return mean, np.einsum("...ds,...ds->...s", deviations, deviations)


def merge_moments(
    first: tuple[Array, Array], number: int, second: tuple[Array, Array], other: int
) -> tuple[Array, Array]:
    """Mean and sum of squared deviations of two sets of draws together."""
    total = max(1, number + other)
    step = second[0] - first[0]
    mean = first[0] + step * (other / total)
    return mean, first[1] + second[1] + step**2 * (number * other / total)
