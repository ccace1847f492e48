"""Sampling runs of this library that count the gradients evaluated by their compiled loops."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from unittest import mock

import numpy as np

from inference.chains import sampling


class CountingRun(sampling._HamiltonianRun):
    """A sampling run that counts its gradients.

    Attributes:
        last: The run created last.
    """

    last: ClassVar[Any] = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        CountingRun.last = self
        self._num_executed, self._lock = 0, threading.Lock()

    def _move(self, batch: Any, budget: int) -> int:
        num_spent = super()._move(batch, budget)
        with self._lock:
            self._num_executed += num_spent * len(batch.first)
        return num_spent

    @property
    def num_executed(self) -> int:
        """Number of gradients that the compiled loops have evaluated.

        If chains are mapped over, each step evaluates a gradient for every chain, needed or not.
        """
        return self._num_executed if self.kernel.axis_name else self.num_useful

    @property
    def num_useful(self) -> int:
        """Number of gradients that the chains needed for starts, warm-up and draws."""
        return int(sum(np.sum(batch.chains.num_gradients) for batch in self.batches))


@contextmanager
def counted_runs() -> Iterator[list[CountingRun]]:
    """Runs of chains that begin meanwhile, in order: those that learn coordinates come first."""
    runs: list[CountingRun] = []

    def make(*args: Any) -> CountingRun:
        runs.append(CountingRun(*args))
        return runs[-1]

    with mock.patch.object(sampling, "_HamiltonianRun", make):
        yield runs
