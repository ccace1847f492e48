"""Streamed diagnostics: moments, quantiles, R-hat and ESS of draws that need not be kept."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from inference.common.argument_checks import check_count, check_fraction
from inference.monitoring.batch_means import Array, BatchMeans, join, merge_moments, moments
from inference.monitoring.quantile_sketch import QuantileSketch
from inference.results.diagnostics import as_numbers


class StreamedDiagnostics:
    """Diagnostics of draws that come in pieces and are not kept, in fixed memory.

    :meth:`add` takes in further draws of the same chains, :meth:`merge` draws of other chains.

    | Quantity              | Computed by                             | Error, relative           |
    |-----------------------|-----------------------------------------|---------------------------|
    | mean, sd              | moments of each chain, merged           | rounding                  |
    | split R-hat           | moments of batches; not rank-normalized | draws left out, see below |
    | ESS, MCSE of the mean | autocovariances of batch means          | 12 % and 6 % (4 chains)   |
    | quantiles             | KLL sketch                              | `rank_error`, about 0.5 % |

    R-hat and ESS leave out the last incomplete batch, less than one part in 128 of all draws. After
    a merge of chains of several lengths, batches are as large as the batches of the longest chain.
    R-hat and ESS are then computed from as many first batches of each chain as the shortest chain
    has. R-hat is NaN for less than two batches, ESS for less than four. Mean, sd and quantiles are
    always computed from all draws.

    Args:
        max_batches: Maximum number of batches of a chain, an even number.
        sketch_capacity: Capacity of the sketch of quantiles. The error of quantiles falls in
            inverse proportion to it.

    Raises:
        TypeError: if an argument is not an integer.
        ValueError: if an argument is out of range.

    Example:
        >>> streamed, generator = StreamedDiagnostics(), np.random.default_rng(0)
        >>> for _ in range(100):
        ...     streamed.add(generator.normal(size=(4, 1000, 3)))
        >>> streamed.num_draws, streamed.rhat().round(2)
        (100000, array([1., 1., 1.]))
        >>> bool(np.all(np.abs(streamed.quantile(0.95) - 1.645) < 0.05))
        True

    References:
        See :class:`BatchMeans` and :class:`QuantileSketch`, in :mod:`inference.monitoring`.
    """

    def __init__(self, *, max_batches: int = 256, sketch_capacity: int = 256) -> None:
        max_batches = check_count("max_batches", max_batches, least=8)
        if max_batches % 2:
            raise ValueError(f"max_batches must be an even number, got {max_batches}")
        self._batches = BatchMeans(max_batches)
        self._sketch = QuantileSketch(check_count("sketch_capacity", sketch_capacity, least=8))
        self._shape: tuple[int, ...] | None = None
        self._numbers = np.zeros(0, int)  # draws of each chain
        self._moments: tuple[Array, Array] = (np.zeros((0, 0)), np.zeros((0, 0)))
        self._is_merged = False

    @property
    def num_draws(self) -> int:
        """Number of draws of each chain, or of the shortest chain if lengths differ."""
        return int(min(self._numbers, default=0))

    @property
    def rank_error(self) -> float:
        """Bound on the standard deviation of the rank of a quantile, as a share of all draws."""
        return self._sketch.rank_error

    def add(self, draws: ArrayLike) -> None:
        """Takes in the next draws of each chain.

        Args:
            draws: ``(chain, draw, *shape)``.

        Raises:
            ValueError: if there are other chains, or another shape, than before; or if chains have
                been merged.
        """
        if self._is_merged:
            raise ValueError("no draws can be added after a merge: add all draws first, then merge")
        array = as_numbers("draws", draws)
        if array.ndim < 2:
            raise ValueError(f"draws must have shape (chain, draw, *shape), got {array.shape}")
        shape = len(array), *array.shape[2:]
        if self._shape is not None and shape != self._shape:
            raise ValueError(
                f"draws must be of {self._shape[0]} chains with shape {self._shape[1:]} each, as "
                f"before, got {shape[0]} with {shape[1:]}"
            )
        self._shape = shape
        size = array.shape[0], array.shape[1], math.prod(shape[1:])
        flat = np.asarray(array.reshape(size), np.float64)
        if not flat.size:
            return
        self._batches.add(flat)
        new = moments(flat)
        before = self.num_draws
        self._moments = merge_moments(self._moments, before, new, len(flat[0])) if before else new
        self._numbers = np.full(len(flat), before + len(flat[0]))
        self._sketch.add(np.moveaxis(flat, 2, 0).reshape(flat.shape[2], -1))

    def merge(self, other: Self) -> None:
        """Takes in the draws of other chains, of any length; after a merge, `add` is an error.

        Raises:
            ValueError: if the shapes of sites differ, or `self` or `other` has no draws.
        """
        mine, its = (x._shape[1:] if x._shape and x.num_draws else None for x in (self, other))
        if self._shape is None or other._shape is None or mine is None or mine != its:
            raise ValueError(f"merge needs draws of equal shapes, got {mine} and {its}")
        self._batches = join([self._batches, other._batches])
        self._sketch.merge(other._sketch)
        self._numbers = np.concatenate([self._numbers, other._numbers])
        pairs = zip(self._moments, other._moments, strict=True)
        self._moments = tuple(np.concatenate(x) for x in pairs)  # pyright: ignore
        self._is_merged = True
        self._shape = self._shape[0] + other._shape[0], *self._shape[1:]

    def mean(self) -> Array:
        """Mean, ``shape``."""
        return self._shaped(self._mean_and_variance()[0])

    def sd(self) -> Array:
        """Standard deviation, ``shape``."""
        return self._shaped(np.sqrt(self._mean_and_variance()[1]))

    def _mean_and_variance(self) -> tuple[Array, Array]:
        (means, squares), number = self._moments, max(1, self._numbers.sum())
        mean = self._numbers @ means / number
        deviations = squares.sum(0) + self._numbers @ (means - mean) ** 2
        return mean, deviations / max(1, number - 1)

    def rhat(self) -> Array:
        """Split R-hat, ``shape``, not rank-normalized; NaN for a single chain."""
        return self._shaped(self._batches.rhat())

    def ess_mean(self) -> Array:
        """Effective sample size of the mean, ``shape``."""
        return self._shaped(self._batches.ess_mean())

    def mcse_mean(self) -> Array:
        """Monte Carlo standard error of the mean, ``shape``."""
        return self._shaped(self._batches.mcse_mean())

    def quantile(self, prob: float) -> Array:
        """Quantile over all chains, ``shape``.

        Args:
            prob: In (0, 1).
        """
        prob = check_fraction("prob", prob)
        self._shaped(np.zeros(0)) if self._shape is None else None
        return self._shaped(self._sketch.quantile(prob))

    def _shaped(self, values: Any) -> Array:
        if self._shape is None:
            raise ValueError("no draws have been added, so there is nothing to diagnose")
        return np.reshape(values, self._shape[1:])
