"""Threads that move batches of chains in turn, one for each core; and how chains are batched."""

import collections
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import jax
import numpy as np

from inference.runtime.core_threads import num_cores
from inference.runtime.devices import Share
from inference.runtime.interrupts import without_interrupts
from inference.runtime.jax_settings import numbers_of_any_kind
from inference.runtime.xla_options import may_hang

# Seconds of a call of a compiled program, as long as a user should wait for a sign of progress.
CALL_SECONDS = 0.1
_MIN_CHAIN_BATCHES = 16  # batches at least, and two for each core, if there are so many chains


class ChainThreads:
    """Threads that move batches of chains, one for each core; they end with the context.

    One core stays idle where calls of the compiled programs on all cores may hang.
    """

    def __init__(self, num_batches: int, programs: Sequence[Any], share: Share) -> None:
        """Starts threads for batches that the compiled `programs` move."""
        num_idle = any(map(may_hang, programs))
        num_threads = max(1, min(num_cores() - num_idle, num_batches))
        if share.own is not None:
            num_threads = 1  # a call waits until all devices have come to it
        self._pool = ThreadPoolExecutor(num_threads)
        self._num_threads = num_threads
        self._is_stopping = threading.Event()
        self._has_doubles = jax.dtypes.canonicalize_dtype(np.float64) == np.float64

    def finish(
        self, batches: Sequence[Any], move: Callable[[Any], bool], on_progress: Callable[[], None]
    ) -> None:
        """Moves all batches in turn, one call each, until no batch needs another call.

        Args:
            batches: The batches.
            move: Function that moves a batch by one call, and returns whether it needs another.
            on_progress: Function called now and then, and at the end.
        """
        waiting = collections.deque(batches)
        workers = [self._pool.submit(self._work, waiting, move) for _ in range(self._num_threads)]
        while (now := wait(workers, timeout=CALL_SECONDS)).not_done:
            on_progress()
            for worker in now.done:
                worker.result()
        for worker in workers:
            worker.result()
        on_progress()

    def _work(self, waiting: "collections.deque[Any]", move: Callable[[Any], bool]) -> None:
        with jax.enable_x64(self._has_doubles), numbers_of_any_kind():  # settings of this thread
            while not self._is_stopping.is_set():
                try:
                    batch = waiting.popleft()
                except IndexError:
                    return
                if move(batch):
                    waiting.append(batch)

    def __enter__(self) -> "ChainThreads":
        """The threads."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all threads, each after its current call: no thread can be stopped within one."""
        with without_interrupts():
            self._is_stopping.set()
            self._pool.shutdown()


def warn_of_interrupt(num_drawn: int, num_draws: int, error: BaseException | None) -> None:
    """Warns that a run was interrupted: how many draws it keeps, and the error, if any."""
    by = "" if error is None else f" by an error in the callback of progress, {error!r}"
    warnings.warn(
        f"interrupted{by}: the result holds the {num_drawn} draws per chain of {num_draws} that "
        "were finished",
        RuntimeWarning,
        stacklevel=5,
    )


def batch_size(num_chains: int) -> int:
    """Number of chains of a call; it divides `num_chains`, so that all batches share a program."""
    most = max(1, num_chains // max(_MIN_CHAIN_BATCHES, 2 * num_cores()))
    return next(size for size in range(most, 0, -1) if num_chains % size == 0)
