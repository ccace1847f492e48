"""Runs of batches of chains that a call moves by some transitions, and the draws in their rows.

A call of a compiled program makes some transitions of a batch of chains. What a batch is, and how
its chains begin, is said by :mod:`inference.chains.step_sampling`, for kernels of `init` and `step`
alone, and by :mod:`inference.chains.ensemble_sampling`.
"""

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from inference.chains.batch import Batch
from inference.chains.chain_programs import compile_values
from inference.chains.chain_threads import CALL_SECONDS, ChainThreads
from inference.chains.recorder import KeptSites, Recorder
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
        self.batches: list[Batch] = []
        self.recorder = Recorder()

    def _make_batches(self, parts: Sequence[Any], size: int, num_done: Any = 0) -> None:
        """Batches of `size` chains each, which have made `num_done` transitions.

        Args:
            parts: Chains of each batch.
            size: Number of chains of each.
            num_done: Number of transitions of each batch, or of all.
        """
        self.batches = [
            Batch(
                part,
                np.full(size, number, np.int32),
                self.num_warmup,
                self.num_iterations,
                self.recorder,
                i * size,
            )
            for i, (part, number) in enumerate(
                zip(parts, np.broadcast_to(num_done, len(parts)), strict=True)
            )
        ]

    def state(self) -> State:
        """State of the run between two calls, from which it can go on to the same draws."""
        for batch in self.batches:
            batch.take(self._values)
        of_batches = [leaves_of_state("chain", batch.chains) for batch in self.batches]
        return {
            **{name: self._join([x[name] for x in of_batches]) for name in of_batches[0]},
            "chains_per_call": np.array(len(self.share.chains) // len(self.batches)),
            "num_done": np.array([int(batch.iteration[0]) for batch in self.batches]),
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
        for batch in self.batches:
            batch.num_iterations = num_iterations
            batch.is_watched, batch.monitor = monitor.is_watched, monitor
        programs = self.advance, self.values
        with ChainThreads(len(self.batches), programs, self.share) as threads:
            while moving := [batch for batch in self.batches if not batch.is_complete]:
                threads.finish(moving, self._move, lambda: monitor.tell(self))
                if self.recorder.is_due:
                    self.record()

    def _move(self, batch: Batch) -> bool:
        """Moves a batch by one call of about `CALL_SECONDS`, and reads rows that are full.

        On an accelerator the draws in full rows leave it during the next call. The length of the
        next call follows from the time of transitions alone, without that of values of sites; it
        grows after calls without draws that leave. Returns whether the batch needs another call.
        """
        num_done = int(batch.iteration[0])
        to_end = (self.num_warmup if num_done < self.num_warmup else self.num_iterations) - num_done
        most = self.number
        # Draw `i` is in row ``i % num_rows``, whenever draws are read: where many rows are computed
        # at once, the last bits of a value might depend on its row.
        place = max(0, num_done - self.num_warmup) % self.num_rows
        batch.first = batch.iteration - place
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
        batch.iteration = batch.iteration + np.int32(number)
        pause = min(_LOOK_SECONDS, self.monitor.look_seconds or _LOOK_SECONDS)
        if batch.is_watched and time.monotonic() - batch.looked > pause:
            batch.look()
        if batch.is_full or batch.is_complete:
            batch.send(self._values)
            if batch.is_complete or not self.share.is_mapped:
                buffers.receive()
        return not (batch.is_complete or self.recorder.is_due)

    def _values(self, rows: Any) -> Any:
        return self.values(self.kept, self.layout, rows[0])

    @property
    def num_done(self) -> int:
        """Number of complete iterations, the average over batches."""
        return int(np.mean([batch.iteration[0] for batch in self.batches]))

    @property
    def num_divergent(self) -> int:
        """Number of divergences that have been seen after warm-up."""
        return sum(batch.num_divergent for batch in self.batches)

    @property
    def step_size(self) -> float:
        """Median step size; NaN before it is known, and of a kernel without one."""
        return float(np.median(np.concatenate([x.step_size for x in self.batches])))

    @property
    def num_drawn(self) -> int:
        """Number of draws that every chain has made."""
        return max(0, min(int(batch.iteration[0]) for batch in self.batches) - self.num_warmup)

    def samples(self, num_drawn: int) -> Samples:
        """The first `num_drawn` draws of each chain."""
        for batch in self.batches:
            batch.take(self._values)
        draws, stats = self.recorder.read(num_drawn)
        return Samples(draws, stats, None)
