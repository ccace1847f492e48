"""Sampling with a kernel of `init` and `step` alone: starts, iterations and draws, on all cores.

A call of a compiled program makes some transitions of a batch of chains. On the CPU a thread for
each core takes the batches in turn, so that an interrupt finds draws of every chain; on an
accelerator all chains are mapped over.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jax.tree_util import Partial

from inference.chains.chain_programs import compile_values
from inference.chains.chain_threads import (
    CALL_SECONDS,
    ChainThreads,
    batch_size,
)
from inference.chains.recorder import (
    KeptSites,
    Recorder,
    State,
    leaves_of_state,
    restore_leaves,
)
from inference.chains.run_control import Monitor, finish_run
from inference.chains.samples import Samples, check_sites, shapes_of_draws
from inference.chains.step_chains import (
    StepChain,
    begin_chains,
    check_protocol,
    make_transition,
    step_chains,
    step_chains_mapped,
)
from inference.common.layout import Layout
from inference.common.target import Target
from inference.hamiltonian.kernel import Kernel
from inference.initialization.initial_positions import Init, parse_init, starting_points
from inference.initialization.jitter import warn_of_jitter
from inference.initialization.start_search import StartingPoints, find_starts
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import Share, share_chains
from inference.runtime.interrupts import without_interrupts

# Memory for draws between two calls: maximum of rows of a chain, and of numbers in all rows of a
# batch, one of many and one of all chains.
_MAX_ROWS, _MAX_NUMBERS, MAX_NUMBERS_WHOLE = 2048, 1 << 20, 1 << 22
_LOOK_SECONDS = 1.0  # seconds between looks at the rows of chains that somebody watches


def sample_by_steps(
    key: jax.Array,
    target: Target,
    kernel: Kernel,
    *,
    num_warmup: int,
    num_draws: int,
    num_chains: int,
    init: str | Mapping[str, Any] = "uniform",
    mesh: Mesh | None = None,
    monitor: Monitor | None = None,
    recorder: Recorder | None = None,
) -> Samples:
    """Draws from a target with `num_chains` chains, after `num_warmup` iterations that are dropped.

    See :func:`inference.mcmc` for the arguments.

    Raises:
        TypeError: if the kernel's states change their shapes, or its statistics are not scalars.
        ValueError: if a chain finds no point of finite density to start from.
    """
    share = share_chains(num_chains, mesh, target.mesh)
    starts = parse_init(init, target, num_chains)
    kernel = with_density(kernel, target)
    run = StepRun(kernel, target, share, num_warmup, num_draws)
    run.recorder = recorder or run.recorder
    with share.together():
        if run.recorder.state is not None:
            run.restore(run.recorder.state)
        else:
            run.begin(
                lambda tries: starting_points(key, share.chains, tries, starts, target, run.layout),
                starts,
            )
    num_drawn = finish_run(run, monitor or Monitor(), num_draws)
    with without_interrupts():
        return share.gather(run.samples(num_drawn))


def with_density(kernel: Any, target: Target) -> Any:
    """Kernel with the target's log density, if the kernel has a field for one."""
    if not hasattr(kernel, "log_density"):
        return kernel
    return dataclasses.replace(kernel, log_density=Partial(_log_density, target))


def _log_density(target: Target, position: Any) -> jax.Array:
    return target.log_density(position)


class StepBatch:
    """Batch of chains that one call moves, stacked, with their draws.

    Attributes:
        chains: The chains; a call that moves them takes their memory and that of the rows, so that
            neither is valid meanwhile.
        num_done: Number of complete transitions of each chain.
        rows: Memory for draws, positions and statistics; `None` before the first call.
        num_read: Number of draws of each chain that the recorder has.
        num_seen: Number of draws of each chain that `look` has seen.
        num_divergent, step_size: Divergences after warm-up and step sizes that it has seen.
        recorder: Keeper of draws that are read from the rows.
        place: Number of the first chain, among those of this process.
    """

    def __init__(self, chains: Any, recorder: Recorder, place: int = 0) -> None:
        self.chains, self.num_done = chains, 0
        self.rows: Any = None
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
        positions, stats = self.rows
        if not jax.tree.leaves(self.rows)[0].is_fully_addressable:
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

    def take(self, values: Callable[[Any], Any], num_drawn: int, num_rows: int) -> None:
        """Reads new draws from the rows; `values` computes values of sites from positions.

        Draw `i` is in row ``i % num_rows``, whenever draws are read: where many rows are computed
        at once, the last bits of a value might depend on its row.
        """
        if num_drawn <= self.num_read:
            return
        positions, stats = self.rows
        size = len(jax.tree.leaves(positions)[0])
        first = self.num_read // num_rows * num_rows
        span = [self.num_read, num_drawn, self.num_read - first, num_drawn - first]
        piece = jax.device_get((values(positions), stats))
        self.recorder.put(self.place, piece, np.array([span] * size))
        self.num_read = num_drawn


class StepRun:
    """Run of all chains of this process, with the compiled functions that move them."""

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

    def begin(
        self, start: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], init: Init
    ) -> None:
        """Makes the chains at starting points of finite density.

        Args:
            init: Initial positions.
            start: Function from the number of the attempt of each chain to seeds and positions.

        Raises:
            TypeError: if the kernel breaks the protocol.
            ValueError: if a chain finds no such point.
        """
        seeds, states = self._find_starts(start, init)
        chains = StepChain(seeds, np.zeros(len(seeds), np.int32), states)
        check_protocol(self.kernel, self.layout, jax.tree.map(lambda x: x[0], states))
        self._compile(chains)
        self.record()

    def restore(self, state: State) -> None:
        """Makes the chains as they were when a state of this run was recorded.

        Raises:
            ValueError: if the state does not fit the run.
        """
        num_chains = len(self.share.chains)
        empty = np.zeros((num_chains, self.layout.size), self.layout.dtype)
        states, _ = jax.eval_shape(begin_chains, *self.unplaced, self.layout, empty)
        words, numbers = np.zeros((num_chains, 2), np.uint32), np.zeros(num_chains, np.int32)
        chains = restore_leaves("chain", state, StepChain(words, numbers, states))
        self._compile(chains, int(state["chains_per_call"]))
        self._go_on_at(state["num_done"])

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

    def _find_starts(
        self, start: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], init: Init
    ) -> tuple[np.ndarray, Any]:
        """Seeds, and states of the kernel at points of finite density; see :meth:`begin`."""
        unspread, states = dataclasses.replace(self.share, mesh=None), None

        def evaluate(positions: np.ndarray) -> tuple[Any, np.ndarray]:
            arguments = *self.unplaced, self.layout, positions
            begun = compile_once(begin_chains, *arguments, share=unspread)(*arguments)
            return jax.device_get(begun)

        def try_starts(attempts: np.ndarray) -> StartingPoints:
            nonlocal seeds, positions, states
            seeds, positions = start(attempts)
            states, log_densities = evaluate(positions)
            return StartingPoints(positions, log_densities)

        seeds = positions = np.zeros(0)
        find_starts(try_starts, init, self.share.chains, self.unplaced[1], self.layout)
        warn_of_jitter(lambda nearby: evaluate(nearby)[1], positions)
        return seeds, states

    def _compile(self, chains: StepChain, chains_per_call: int | None = None) -> None:
        num_chains, is_mapped = len(chains.seed), self.share.is_mapped
        is_whole = self.share.mesh is not None or is_mapped
        size = chains_per_call or (num_chains if is_whole else batch_size(num_chains))
        parts = [
            jax.tree.map(lambda x, i=i: x[i : i + size], chains) for i in range(0, num_chains, size)
        ]
        self.batches = [StepBatch(part, self.recorder, i * size) for i, part in enumerate(parts)]
        chain = jax.tree.map(lambda x: x[0], chains)
        _, row = jax.eval_shape(
            lambda kernel, chain: make_transition(kernel, self.layout, chain), self.kernel, chain
        )
        self._make_rows(row, size, MAX_NUMBERS_WHOLE if is_whole else _MAX_NUMBERS)
        arguments = parts[0], self.no_rows, np.int32(0), np.int32(1), self.kernel, self.layout
        by_chain = ("chains", "rows")
        self.advance = compile_once(
            step_chains_mapped if is_mapped else step_chains,
            *arguments,
            share=self.share,
            donate=by_chain,
            sharded=by_chain,
        )
        self._compile_values()

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

        The length of the next call follows from the time of transitions alone, without that of
        values of sites. Returns whether the batch needs another call.
        """
        is_warmup = batch.num_done < self.num_warmup
        to_end = (self.num_warmup if is_warmup else self.num_iterations) - batch.num_done
        most = self.number
        place = max(0, batch.num_done - self.num_warmup) % self.num_rows
        number = min(most, to_end, self.num_rows - place)
        rows = jax.tree.map(np.copy, self.no_rows) if batch.rows is None else batch.rows
        numbers = np.int32(place), np.int32(number)
        began = time.monotonic()
        moved = self.advance(batch.chains, rows, *numbers, self.kernel, self.layout)
        batch.chains, batch.rows = jax.block_until_ready(moved)
        each = (time.monotonic() - began) / number
        self.number = int(np.clip(CALL_SECONDS / max(each, 1e-9), 1, 2 * most + 1))
        batch.num_done += number
        is_complete = batch.num_done == self.num_iterations
        num_drawn, is_full = batch.num_done - self.num_warmup, place + number == self.num_rows
        pause = min(_LOOK_SECONDS, self.monitor.look_seconds or _LOOK_SECONDS)
        is_looked_at = is_full or is_complete or time.monotonic() - batch.looked > pause
        if self.monitor.is_watched and is_looked_at:
            batch.look(place + number - 1, num_drawn, self.num_rows, self.monitor)
        if is_full or is_complete:
            self._take(batch)
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
