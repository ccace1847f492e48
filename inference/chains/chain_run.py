"""Runs of chains: the loop that moves the chains of any kernel, on all cores and devices.

A call of a compiled program moves a batch of chains. It returns to Python after about
:data:`inference.chains.chain_threads.CALL_SECONDS`, so that progress shows and an interrupt keeps
the draws; when there is no room for more draws; and when chains have to meet.

| Duty                                          | Where                                           |
|-----------------------------------------------|-------------------------------------------------|
| starts, chains of a state, compiled programs  | the subclass; `start` begins or restores        |
| a call: its arguments, transitions it made    | `_call`, `_wait` and `_next_budget` of subclass |
| common work of all chains between calls       | `_meet` of the subclass                         |
| threads, rounds of calls, the end of a run    | `go_on`                                         |
| looks, full rows, draws that leave a device   | `_move`, with `Batch` and `RowBuffers`          |
| states for checkpoints, and when              | `state`, `record`                               |
| news for a monitor, samples                   | `num_done` and the like, `samples`              |
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from inference.chains.chain_programs import compile_values
from inference.chains.chain_threads import ChainThreads
from inference.chains.recorder import KeptSites, Recorder, RowValues
from inference.chains.run_control import Monitor
from inference.chains.samples import Samples, check_sites, shapes_of_draws
from inference.common.layout import Layout
from inference.common.state_leaves import NUM_MEETINGS, State, leaves_of_state
from inference.common.target import Target
from inference.common.warm_up import WarmUp
from inference.runtime.devices import Share
from inference.runtime.interrupts import without_interrupts

_MAX_ROWS = 2048  # maximum of rows of a chain between two calls
_LOOK_SECONDS = 1.0  # seconds between looks at the rows of chains that somebody watches


class ChainRun:
    """Run of all chains of this process, with the compiled programs that move them.

    Attributes:
        advance: Compiled program that moves a batch.
        no_rows: Rows of a batch, all zeros.
        batches: The batches, each of the same number of chains.
        budget: Work of the next call, in the subclass's unit: gradients or transitions.
        is_whole: Whether all chains are between two calls, so that a state can be recorded.
        num_meetings: Number of times that the chains of all processes have met so far.
    """

    advance: Any
    no_rows: Any
    batches: Sequence[Any]

    def __init__(
        self,
        kernel: Any,
        target: Target,
        share: Share,
        num_warmup: int,
        num_draws: int,
        recorder: Recorder | None,
    ) -> None:
        self.unplaced = kernel, target
        # Arrays, as JAX may give Python numbers other dtypes in other threads.
        self.kernel, self.target = share.place((kernel, target))
        self.layout = Layout.of_numbers(target.position_shapes)
        self.share = share
        self.num_warmup = num_warmup
        self.num_iterations = num_warmup + num_draws
        self.recorder = recorder or Recorder()
        self.batches = []
        self.budget = 1
        self.is_whole = True
        self.num_meetings = 0
        self.look_seconds = _LOOK_SECONDS

    def _call(self, batch: Any, rows: Any, budget: int) -> Any:
        """Starts a call that moves a batch and fills rows; returns the work that it does."""
        raise NotImplementedError

    def _wait(self, batch: Any, spent: Any) -> int:
        """Waits for the call, reads the iterations of the chains, and returns the work as a number.

        Args:
            batch: The batch.
            spent: What `_call` has returned.
        """
        raise NotImplementedError

    def _next_budget(self, budget: int, spent: int, seconds: float, is_alone: bool) -> int:
        """Work of the next call.

        Args:
            budget: Work that the last call was allowed.
            spent: Work that it has done.
            seconds: Time that it took.
            is_alone: Whether no draws were copied from an accelerator during the call.
        """
        raise NotImplementedError

    def _learn(self, batch: Any) -> None:
        """Lets a batch learn by itself between two calls; by default it learns nothing."""

    def _waits(self, batch: Any) -> bool:
        """Whether a batch waits until all chains meet."""
        return False

    def _meet(self) -> bool:
        """Lets all chains meet once no batch needs another call, and returns whether they have met.

        By default they do not.
        """
        return False

    def _positions(self, rows: Any) -> Any:
        """The part of rows from which the program computes values of sites."""
        return rows

    def _further_state(self) -> State:
        """Entries of a state other than the chains."""
        return {}

    def _inverse_mass_matrices(self) -> Any:
        """Matrices at the end of warm-up, with the chains in front; `None` without any."""
        return None

    def _warm_up(self) -> WarmUp | None:
        """Record of warm-up, with the chains in front; `None` without any."""
        return None

    def start(self, begin: Callable[[], None], restore: Callable[[State], None]) -> None:
        """Makes the chains: new chains, or the chains of the recorder's state.

        Args:
            begin: Function that makes chains at starting points.
            restore: Function that makes chains as they were when a state was recorded.
        """
        with self.share.together():
            if self.recorder.state is not None:
                self.num_meetings = int(self.recorder.state.get(NUM_MEETINGS, 0))
                restore(self.recorder.state)
                return
            begin()
            if self.recorder.is_due:
                self.record()

    def go_on(self, num_iterations: int, monitor: Monitor) -> None:
        """Moves all chains to an iteration, on a thread for each core."""
        self._set_end(num_iterations)
        self.look_seconds = min(_LOOK_SECONDS, monitor.look_seconds or _LOOK_SECONDS)
        for batch in self.batches:
            batch.is_watched = monitor.is_watched
            batch.monitor = monitor
        programs = self.advance, self.values
        with ChainThreads(len(self.batches), programs, self.share) as threads:
            while moving := [batch for batch in self.batches if not batch.is_complete]:
                threads.finish(moving, self._move_on, lambda: monitor.tell(self))
                has_met = self._meet()
                self.num_meetings += has_met
                if self.recorder.is_due or (has_met and self.share.is_partial):
                    self.record()

    def _set_end(self, num_iterations: int) -> None:
        """Sets the number of transitions after which chains are complete."""
        self.num_iterations = num_iterations
        self.recorder.reserve(num_iterations - self.num_warmup)
        for batch in self.batches:
            batch.num_iterations = num_iterations

    def _move_on(self, batch: Any) -> bool:
        """Moves a batch by one call, and returns whether it needs another call now."""
        self._move(batch, self.budget)
        return not (batch.is_complete or self._waits(batch) or self.recorder.is_due)

    def _move(self, batch: Any, budget: int) -> int:
        """Moves a batch by one call, and reads the rows when they are full.

        On an accelerator the draws in full rows leave the device during the next call. The next
        budget follows only from the time of the call, without the time for values of sites.

        Returns:
            The work that the call has done.
        """
        buffers = batch.buffers
        rows = buffers.fill(self.no_rows)
        is_alone = not buffers.is_sending
        began = time.monotonic()
        started = self._call(batch, rows, budget)
        buffers.receive()
        spent = self._wait(batch, started)
        following = self._next_budget(budget, spent, time.monotonic() - began, is_alone)
        self.budget = self.share.agree(following)
        if batch.is_watched and time.monotonic() - batch.looked > self.look_seconds:
            batch.look()
        self._learn(batch)
        if batch.is_full or batch.is_complete:
            batch.send(self._values)
            if batch.is_complete or not self.share.is_mapped:
                buffers.receive()
        return spent

    def _values(self, rows: Any) -> Any:
        return self.values(self.kept, self.layout, self._positions(rows))

    def _compile_values(self, stats: Any) -> None:
        """Compiles the program for values of sites in `no_rows`, and opens the recorder.

        Args:
            stats: Shapes and dtypes of the statistics of one draw.
        """
        self.kept = RowValues(KeptSites(self.target, self.recorder.keep))
        rows = self._positions(self.no_rows)
        self.values = compile_values(self.kept, self.layout, rows, share=self.share)
        sites, _ = self.values.out_info
        check_sites(sites)
        shapes = shapes_of_draws(sites), stats
        num_draws = self.num_iterations - self.num_warmup
        self.recorder.open(shapes, len(self.share.chains), num_draws)

    def _num_rows(self, size: int, max_numbers: int) -> int:
        """Number of rows for `size` chains, so that positions have at most `max_numbers`."""
        return max(1, min(_MAX_ROWS, max_numbers // (size * max(1, self.layout.size))))

    def state(self) -> State:
        """State of the run between two calls; a run that goes on from it makes the same draws."""
        for batch in self.batches:
            batch.take(self._values)
        parts = [leaves_of_state("chain", batch.chains) for batch in self.batches]
        joined = parts[0]
        if len(parts) > 1:
            joined = {name: np.concatenate([part[name] for part in parts]) for name in joined}
        size = np.array(len(self.share.chains) // len(self.batches))
        meetings = {NUM_MEETINGS: np.array(self.num_meetings)} if self.share.is_partial else {}
        return {**joined, "chains_per_call": size, **meetings, **self._further_state()}

    def record(self) -> None:
        """Records the state, unless chains are meeting.

        Of several processes each records its own, in a folder only, and always after a meeting:
        chains must go on from states between the same two meetings.
        """
        if self.is_whole and (self.recorder.takes_parts or not self.share.is_partial):
            with without_interrupts():
                self.recorder.record(self.state)

    @property
    def num_done(self) -> int:
        """Number of complete iterations, the average over chains."""
        iterations = np.concatenate([batch.iteration for batch in self.batches])
        return int(np.mean(np.minimum(iterations, self.num_iterations)))

    @property
    def num_divergent(self) -> int:
        """Number of divergences that have been seen after warm-up."""
        return sum(batch.num_divergent for batch in self.batches)

    @property
    def step_size(self) -> float:
        """Median step size; NaN before it is known, and of a kernel without one."""
        sizes = np.concatenate([batch.step_size for batch in self.batches])
        return float("nan") if np.all(np.isnan(sizes)) else float(np.nanmedian(sizes))

    @property
    def num_drawn(self) -> int:
        """Number of draws that every chain has made."""
        fewest = min(int(np.min(batch.iteration)) for batch in self.batches)
        return max(0, min(fewest, self.num_iterations) - self.num_warmup)

    def samples(self, num_drawn: int) -> Samples:
        """The first `num_drawn` draws of each chain."""
        for batch in self.batches:
            batch.take(self._values)
        draws, stats = self.recorder.read(num_drawn)
        return Samples(draws, stats, self._inverse_mass_matrices(), self._warm_up())
