"""Batches of chains that one call moves together, of any kernel: their rows and draws."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from inference.chains.recorder import Recorder
from inference.chains.row_buffers import RowBuffers
from inference.chains.run_control import Monitor


class Batch:
    """Batch of chains that one call moves, stacked, with the rows that it fills.

    Rows are a pair, positions ``(chain, row, size)`` and statistics ``(chain, row)`` by name,
    unless a subclass says otherwise. Values that are not kept go to the last row.

    Attributes:
        chains: The chains; a call that moves them takes their memory, so they are not valid
            meanwhile.
        iteration: Number of complete transitions of each chain.
        num_warmup: Iterations of warm-up.
        num_iterations: Number of transitions after which the chains are complete.
        buffers: Memory for draws.
        first: Iteration of the first row, of each chain.
        sent: Number of iterations of each chain that `send` has handled.
        seen: Number of iterations of each chain that `look` has counted.
        num_divergent: Number of divergences after warm-up that `look` has counted.
        step_size: Step size in the last row of each chain that `look` has read; NaN before.
        is_watched: Whether a monitor shows divergences and step sizes. If so, `num_divergent` and
            `step_size` are updated by calls of `look` and before rows are read.
        looked: Time of the last call of `look`, in seconds.
        monitor: Monitor that is told new draws by `look`.
        recorder: Keeper of draws and statistics read from the rows.
        place: Number of the first chain among the chains of this process.
    """

    def __init__(
        self,
        chains: Any,
        iteration: np.ndarray,
        num_warmup: int,
        num_iterations: int,
        recorder: Recorder,
        place: int = 0,
    ) -> None:
        self.chains = chains
        self.iteration = iteration
        self.num_warmup = num_warmup
        self.num_iterations = num_iterations
        self.buffers = RowBuffers()
        self.first = iteration.copy()
        self.sent = iteration.copy()
        self.seen = iteration.copy()
        self.num_divergent = 0
        self.step_size = np.full(len(iteration), np.nan)
        self.is_watched = False
        self.looked = time.monotonic()
        self.monitor = Monitor()
        self.recorder = recorder
        self.place = place

    @property
    def is_complete(self) -> bool:
        """Whether all chains have made all their transitions."""
        return bool(np.all(self.iteration >= self.num_iterations))

    @property
    def is_full(self) -> bool:
        """Whether a chain has no row for its next draw."""
        filling = self.buffers.filling
        if filling is None:
            return False
        return bool(np.any(self.iteration - self.first >= _num_rows(filling)))

    def parts(self, rows: Any) -> tuple[Any, dict[str, Any]]:
        """Positions and statistics in rows."""
        return rows

    def leaving(self, rows: Any) -> Any:
        """The part of `rows` that is copied to the host together with the values of sites."""
        return rows[1]

    def stats(self, left: Any) -> dict[str, Any]:
        """Statistics by name, from the part `left` that `leaving` chose, on the host."""
        return left

    def learn_from(self, rows: Any, num_rows: np.ndarray) -> None:
        """Keeps draws for warm-up from the first `num_rows` of each chain, before rows are sent."""

    def look(self) -> None:
        """Reads new rows: counts divergences, notes step sizes, and tells the monitor positions."""
        self.looked = time.monotonic()
        filling = self.buffers.filling
        if filling is None or not jax.tree.leaves(filling)[0].is_fully_addressable:
            return
        positions, stats = self.parts(filling)
        num_rows = _num_rows(filling)
        stops = np.minimum(self.iteration - self.first, num_rows)
        begins = np.clip(self.seen - self.first, 0, stops)
        draws = np.clip(self.num_warmup - self.first, begins, stops)
        if "step_size" in stats:
            is_new = np.flatnonzero(begins < stops)
            self.step_size[is_new] = np.asarray(stats["step_size"])[is_new, stops[is_new] - 1]
        if "is_divergent" in stats:
            place = np.arange(num_rows + 1)
            is_draw = (place >= draws[:, None]) & (place < stops[:, None])
            is_divergent = np.asarray(stats["is_divergent"])
            self.num_divergent += int(np.count_nonzero(is_divergent[is_draw]))
        if self.monitor.look_seconds is not None:
            for i in np.flatnonzero(draws < stops):
                chain = np.asarray(positions)[i, draws[i] : stops[i]]
                self.monitor.add(self.place + int(i), chain)
        self.seen = np.maximum(self.seen, self.iteration)

    def send(self, values: Callable[[Any], Any]) -> None:
        """Starts the copy of new draws to the recorder.

        `values` is a function from rows to the values of sites and to the amounts, by name, that
        are subtracted from statistics.
        """
        stops = np.minimum(self.iteration, self.num_iterations)
        filling = self.buffers.filling
        if filling is None or np.all(stops <= self.first):
            return
        if self.is_watched:
            self.look()
        num_rows = np.maximum(stops - self.first, 0)
        self.learn_from(filling, num_rows)
        begin = np.clip(np.maximum(self.num_warmup, self.sent) - self.first, 0, num_rows)
        if np.any(begin < num_rows):
            start = self.first + begin - self.num_warmup
            spans = np.stack([start, start + num_rows - begin, begin, num_rows], -1)

            def keep(piece: tuple[Any, Any]) -> None:
                (sites, excess), left = piece
                stats = self.stats(left)
                for name in excess.keys() & stats.keys():
                    stats[name] = stats[name][:, : excess[name].shape[1]] - excess[name]
                self.recorder.put(self.place, (sites, stats), spans)

            self.buffers.send((values(filling), self.leaving(filling)), keep)
        self.sent = np.maximum(self.sent, stops)

    def take(self, values: Callable[[Any], Any]) -> None:
        """Sends new draws as :meth:`send` does, and waits until the recorder has all new draws."""
        self.send(values)
        self.buffers.receive()


def _num_rows(rows: Any) -> int:
    return jax.tree.leaves(rows)[0].shape[1] - 1
