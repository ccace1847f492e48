"""Sampling with a kernel of `init` and `step` alone: starts, iterations and draws, on all cores.

A call of a compiled program makes some transitions of a batch of chains. On the CPU a thread for
each core takes the batches in turn, so that an interrupt finds draws of every chain; on an
accelerator all chains are mapped over.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping
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
    warn_of_interrupt,
)
from inference.chains.sampling import Samples, check_sites
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
    on_progress: Callable[..., None] | None = None,
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
    with share.together():
        run.begin(
            lambda tries: starting_points(key, share.chains, tries, starts, target, run.layout),
            starts,
        )
    try:
        run.go_on(on_progress)
    except KeyboardInterrupt:
        if not run.num_drawn:
            raise
        warn_of_interrupt(run.num_drawn, num_draws)
    with without_interrupts():
        return share.gather(run.samples(share.min_over_processes(run.num_drawn)))


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
        num_stored: Number of rows that hold draws not yet read.
        pieces: Draws read from the rows, in pieces: values of sites, and statistics by name.
    """

    def __init__(self, chains: Any) -> None:
        self.chains, self.num_done = chains, 0
        self.rows: Any = None
        self.num_stored, self.pieces = 0, []

    def take(self, values: Callable[[Any], Any]) -> None:
        """Reads draws from the rows; `values` computes values of sites from positions."""
        if not self.num_stored:
            return
        positions, stats = self.rows
        piece = jax.device_get((values(positions), stats))
        self.pieces.append(jax.tree.map(lambda x: x[:, : self.num_stored].copy(), piece))
        self.num_stored = 0


class StepRun:
    """Run of all chains of this process, with the compiled functions that move them."""

    def __init__(
        self, kernel: Any, target: Target, share: Share, num_warmup: int, num_draws: int
    ) -> None:
        self.unplaced = kernel, target
        self.kernel, self.target = jax.device_put((kernel, target), share.everywhere)
        self.layout, self.share = Layout.of(target.position_shapes), share
        self.num_warmup, self.num_iterations = num_warmup, num_warmup + num_draws
        self.number = 1
        self.batches: list[StepBatch] = []

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

    def _compile(self, chains: StepChain) -> None:
        num_chains, is_mapped = len(chains.seed), self.share.is_mapped
        is_whole = self.share.mesh is not None or is_mapped
        size = num_chains if is_whole else batch_size(num_chains)
        parts = [
            jax.tree.map(lambda x, i=i: x[i : i + size], chains) for i in range(0, num_chains, size)
        ]
        self.batches = [StepBatch(part) for part in parts]
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
        self.values = compile_values(self.target, self.layout, self.no_rows[0], share=self.share)
        check_sites(self.values.out_info)

    def _make_rows(self, row: Any, size: int, most_numbers: int) -> None:
        """Empty rows for `size` chains, as many as `most_numbers` in them allow."""
        self.num_rows = max(1, min(_MAX_ROWS, most_numbers // (size * max(1, self.layout.size))))
        # One row more, which `values` leaves out.
        shape = size, self.num_rows + 1
        self.no_rows = jax.tree.map(lambda x: np.zeros((*shape, *x.shape), x.dtype), row)

    def go_on(self, on_progress: Callable[..., None] | None) -> None:
        """Moves all chains until they are complete, on a thread for each core."""
        programs = self.advance, self.values
        with ChainThreads(len(self.batches), programs, self.share) as threads:
            report = on_progress or (lambda _: None)
            threads.finish(self.batches, self._move, lambda: report(self.num_done))

    def _move(self, batch: StepBatch) -> bool:
        """Moves a batch by one call of about `CALL_SECONDS`, and reads rows that are full.

        The length of the next call follows from the time of transitions alone, without that of
        values of sites. Returns whether the batch needs another call.
        """
        is_warmup = batch.num_done < self.num_warmup
        to_end = (self.num_warmup if is_warmup else self.num_iterations) - batch.num_done
        most = self.number
        number = min(most, to_end, self.num_rows - batch.num_stored)
        rows = jax.tree.map(np.copy, self.no_rows) if batch.rows is None else batch.rows
        numbers = np.int32(batch.num_stored), np.int32(number)
        began = time.monotonic()
        moved = self.advance(batch.chains, rows, *numbers, self.kernel, self.layout)
        batch.chains, batch.rows = jax.block_until_ready(moved)
        each = (time.monotonic() - began) / number
        self.number = int(np.clip(CALL_SECONDS / max(each, 1e-9), 1, 2 * most + 1))
        batch.num_done += number
        batch.num_stored += 0 if is_warmup else number
        is_complete = batch.num_done == self.num_iterations
        if batch.num_stored == self.num_rows or is_complete:
            batch.take(self._values)
        return not is_complete

    def _values(self, positions: Any) -> Any:
        return self.values(self.target, self.layout, positions)

    @property
    def num_done(self) -> int:
        """Number of complete iterations, the average over batches."""
        return int(np.mean([batch.num_done for batch in self.batches]))

    @property
    def num_drawn(self) -> int:
        """Number of draws that every chain has made."""
        return max(0, min(batch.num_done for batch in self.batches) - self.num_warmup)

    def samples(self, num_drawn: int) -> Samples:
        """The first `num_drawn` draws of each chain."""
        for batch in self.batches:
            batch.take(self._values)
        parts = [
            jax.tree.map(lambda *x: np.concatenate(x, 1)[:, :num_drawn], *batch.pieces)
            for batch in self.batches
        ]
        whole: Any = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        draws, stats = whole
        return Samples(draws, stats, None)
