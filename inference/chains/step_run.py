"""Runs of batches of chains that a call moves by some transitions, and the draws in their rows.

A call of a compiled program makes some transitions of a batch of chains. What a batch is, and how
its chains begin, is said by :mod:`inference.chains.step_sampling`, for kernels of `init` and `step`
alone, and by :mod:`inference.chains.ensemble_sampling`.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from inference.chains.chain_programs import compile_values
from inference.chains.chain_threads import CALL_SECONDS, ChainThreads
from inference.chains.recorder import KeptSites, Recorder
from inference.chains.row_buffers import RowBuffers
from inference.chains.run_control import Monitor
from inference.chains.samples import Samples, check_sites, shapes_of_draws
from inference.common.layout import Layout
from inference.common.state_leaves import State, leaves_of_state
from inference.common.target import Target
from inference.runtime.devices import Share
from inference.runtime.interrupts import without_interrupts

# Memory for draws between two calls: maximum of rows of a chain, and of numbers in all rows of a
# batch, one of many and one of all chains.
_MAX_ROWS, MAX_NUMBERS, MAX_NUMBERS_WHOLE = 2048, 1 << 20, 1 << 22
_LOOK_SECONDS = 1.0  # seconds between looks at the rows of chains that somebody watches


class StepBatch:
    """Batch of chains that one call moves, stacked, with their draws.

    Attributes:
        chains: The chains; a call that moves them takes their memory and that of the rows that it
            fills, so that neither is valid meanwhile.
        num_done: Number of complete transitions of each chain.
        buffers: Memory for draws, positions and statistics.
        num_read: Number of draws of each chain that the recorder has, or that are sent to it.
        num_seen: Number of draws of each chain that `look` has seen.
        num_divergent, step_size: Divergences after warm-up and step sizes that it has seen.
        recorder: Keeper of draws that are read from the rows.
        place: Number of the first chain, among those of this process.
    """

    def __init__(self, chains: Any, recorder: Recorder, place: int = 0) -> None:
        self.chains, self.num_done = chains, 0
        self.buffers = RowBuffers()
        self.num_read, self.recorder, self.place = 0, recorder, place
        self.num_seen, self.looked = 0, time.monotonic()
        self.num_divergent, self.step_size = 0, np.array(np.nan)

    def look(self, last: int, num_drawn: int, num_rows: int, monitor: Monitor) -> None:
        """Counts divergences in new rows, and tells their positions.

        Args:
            last: Row of the last transition.
            num_drawn: Number of draws of each chain, which may be negative in warm-up.
            num_rows: Number of rows; draw `i` is in row ``i % num_rows``.
            monitor: Monitor to tell.
        """
        self.looked = time.monotonic()
        positions, stats = rows = self.buffers.filling
        if not jax.tree.leaves(rows)[0].is_fully_addressable:
            return
        if "step_size" in stats:
            self.step_size = np.asarray(stats["step_size"])[:, last]
        if num_drawn <= self.num_seen:
            return
        first = (num_drawn - 1) // num_rows * num_rows  # draw in the first row
        new = slice(max(self.num_seen - first, 0), num_drawn - first)
        self.num_seen = num_drawn
        if "is_divergent" in stats:
            self.num_divergent += int(np.sum(np.asarray(stats["is_divergent"])[:, new]))
        if monitor.look_seconds is not None:
            for i, chain in enumerate(np.asarray(positions)[:, new]):
                monitor.add(self.place + i, chain)

    def send(self, values: Callable[[Any], Any], num_drawn: int, num_rows: int) -> None:
        """Sends new draws in the rows off; `values` computes values of sites from positions.

        Draw `i` is in row ``i % num_rows``, whenever draws are read: where many rows are computed
        at once, the last bits of a value might depend on its row.
        """
        if num_drawn <= self.num_read:
            return
        positions, stats = self.buffers.filling
        size = len(jax.tree.leaves(positions)[0])
        first = self.num_read // num_rows * num_rows
        span = [self.num_read, num_drawn, self.num_read - first, num_drawn - first]
        spans = np.array([span] * size)
        keep = lambda piece: self.recorder.put(self.place, piece, spans)  # noqa: E731
        self.buffers.send((values(positions), stats), keep)
        self.num_read = num_drawn

    def take(self, values: Callable[[Any], Any], num_drawn: int, num_rows: int) -> None:
        """Sends new draws off, see :meth:`send`, and waits until the recorder has all."""
        self.send(values, num_drawn, num_rows)
        self.buffers.receive()


class StepRun:
    """Run of all chains of this process, with the compiled functions that move them.

    A subclass makes the batches, and the program `advance` that moves one, when a run begins and
    when it goes on from a state.
    """

    advance: Any

    def __init__(
        self, kernel: Any, target: Target, share: Share, num_warmup: int, num_draws: int
    ) -> None:
        self.unplaced = kernel, target
        self.kernel, self.target = jax.device_put((kernel, target), share.everywhere)
        self.layout, self.share = Layout.of(target.position_shapes), share
        self.num_warmup, self.num_iterations = num_warmup, num_warmup + num_draws
        self.number, self.monitor = 1, Monitor()
        self.batches: list[StepBatch] = []
        self.recorder = Recorder()

    def _go_on_at(self, num_done: np.ndarray) -> None:
        for batch, number in zip(self.batches, num_done, strict=True):
            batch.num_done = int(number)
            batch.num_read = batch.num_seen = max(0, int(number) - self.num_warmup)

    def state(self) -> State:
        """State of the run between two calls, from which it can go on to the same draws."""
        for batch in self.batches:
            self._take(batch)
        of_batches = [leaves_of_state("chain", batch.chains) for batch in self.batches]
        return {
            **{name: self._join([x[name] for x in of_batches]) for name in of_batches[0]},
            "chains_per_call": np.array(len(self.share.chains) // len(self.batches)),
            "num_done": np.array([batch.num_done for batch in self.batches]),
        }

    def _join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def record(self) -> None:
        """Records the state, unless other processes have some of the chains."""
        if not self.share.is_partial:
            with without_interrupts():
                self.recorder.record(self.state)

    def _compile_values(self) -> None:
        self.kept = KeptSites(self.target, self.recorder.keep)
        self.values = compile_values(self.kept, self.layout, self.no_rows[0], share=self.share)
        check_sites(self.values.out_info)
        shapes = shapes_of_draws((self.values.out_info, self.no_rows[1]))
        num_draws = self.num_iterations - self.num_warmup
        self.recorder.open(shapes, len(self.share.chains), num_draws)

    def _make_rows(self, row: Any, size: int, most_numbers: int) -> None:
        """Empty rows for `size` chains, as many as `most_numbers` in them allow."""
        self.num_rows = max(1, min(_MAX_ROWS, most_numbers // (size * max(1, self.layout.size))))
        # One row more, which `values` leaves out.
        shape = size, self.num_rows + 1
        self.no_rows = jax.tree.map(lambda x: np.zeros((*shape, *x.shape), x.dtype), row)

    def go_on(self, num_iterations: int, monitor: Monitor) -> None:
        """Moves all chains to an iteration, on a thread for each core."""
        self.num_iterations, self.monitor = num_iterations, monitor
        self.recorder.reserve(num_iterations - self.num_warmup)
        programs = self.advance, self.values
        with ChainThreads(len(self.batches), programs, self.share) as threads:
            while moving := [x for x in self.batches if x.num_done < self.num_iterations]:
                threads.finish(moving, self._move, lambda: monitor.tell(self))
                if self.recorder.is_due:
                    self.record()

    def _move(self, batch: StepBatch) -> bool:
        """Moves a batch by one call of about `CALL_SECONDS`, and reads rows that are full.

        On an accelerator the draws in full rows leave it during the next call. The length of the
        next call follows from the time of transitions alone, without that of values of sites; it
        grows after calls without draws that leave. Returns whether the batch needs another call.
        """
        is_warmup = batch.num_done < self.num_warmup
        to_end = (self.num_warmup if is_warmup else self.num_iterations) - batch.num_done
        most = self.number
        place = max(0, batch.num_done - self.num_warmup) % self.num_rows
        number = min(most, to_end, self.num_rows - place)
        buffers, numbers = batch.buffers, (np.int32(place), np.int32(number))
        rows, is_alone = buffers.fill(self.no_rows), not buffers.is_sending
        began = time.monotonic()
        moved = self.advance(batch.chains, rows, *numbers, self.kernel, self.layout)
        batch.chains, buffers.filling = moved
        buffers.receive()
        jax.block_until_ready(moved)
        each = (time.monotonic() - began) / number
        longest = 2 * most + 1 if is_alone else most
        self.number = int(np.clip(CALL_SECONDS / max(each, 1e-9), 1, longest))
        batch.num_done += number
        is_complete = batch.num_done == self.num_iterations
        num_drawn, is_full = batch.num_done - self.num_warmup, place + number == self.num_rows
        pause = min(_LOOK_SECONDS, self.monitor.look_seconds or _LOOK_SECONDS)
        is_looked_at = is_full or is_complete or time.monotonic() - batch.looked > pause
        if self.monitor.is_watched and is_looked_at:
            batch.look(place + number - 1, num_drawn, self.num_rows, self.monitor)
        if is_full or is_complete:
            batch.send(self._values, num_drawn, self.num_rows)
            if is_complete or not self.share.is_mapped:
                buffers.receive()
        return not (is_complete or self.recorder.is_due)

    def _take(self, batch: StepBatch) -> None:
        batch.take(self._values, batch.num_done - self.num_warmup, self.num_rows)

    def _values(self, positions: Any) -> Any:
        return self.values(self.kept, self.layout, positions)

    @property
    def num_done(self) -> int:
        """Number of complete iterations, the average over batches."""
        return int(np.mean([batch.num_done for batch in self.batches]))

    @property
    def num_divergent(self) -> int:
        """Number of divergences that have been seen after warm-up."""
        return sum(batch.num_divergent for batch in self.batches)

    @property
    def step_size(self) -> float:
        """Median step size; NaN before it is known, and of a kernel without one."""
        return float(np.median(np.concatenate([np.ravel(x.step_size) for x in self.batches])))

    @property
    def num_drawn(self) -> int:
        """Number of draws that every chain has made."""
        return max(0, min(batch.num_done for batch in self.batches) - self.num_warmup)

    def samples(self, num_drawn: int) -> Samples:
        """The first `num_drawn` draws of each chain."""
        for batch in self.batches:
            self._take(batch)
        draws, stats = self.recorder.read(num_drawn)
        return Samples(draws, stats, None)
