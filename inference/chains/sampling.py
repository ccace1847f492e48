"""Sampling with a Hamiltonian kernel: starts, warm-up and draws of all chains, on all cores.

One compiled function moves a chain from any place: through its start, its warm-up and its draws.
The function returns to Python when

- it has spent a number of gradients, so that progress shows and an interrupt keeps the draws;
- there is no room for more draws;
- a mass matrix is due to be renewed.

| Device      | Chains                                                                         |
|-------------|--------------------------------------------------------------------------------|
| CPU         | a thread per core takes one batch of chains after the other; differences       |
|             | between chains are ordinary control flow                                       |
| accelerator | all mapped over by ``jax.vmap``; they move together, each at its own place     |
"""

import dataclasses
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from inference.chains.chain import Chain, ChainPlan, stats_of
from inference.chains.chain_batch import ChainBatch, renew_together, restore_windows, state_of
from inference.chains.chain_programs import compile_advance, compile_values
from inference.chains.chain_threads import CALL_SECONDS, ChainThreads, batch_size
from inference.chains.initial_chain import make_unplaced_chain, place_chains
from inference.chains.recorder import KeptSites, Recorder
from inference.chains.run_control import Monitor, finish_run
from inference.chains.samples import Samples, check_sites, shapes_of_draws
from inference.common.far_chains import find_lost
from inference.common.layout import Layout
from inference.common.matrices import default_kind, kind_of, restrict_covariance
from inference.common.state_leaves import State, restore_leaves
from inference.common.target import Target
from inference.hamiltonian.kernel import HamiltonianKernel
from inference.initialization.initial_positions import Init, parse_init
from inference.initialization.jitter import warn_of_jitter
from inference.initialization.start_search import StartingPoints, find_starts
from inference.runtime.blas_threads import one_blas_thread
from inference.runtime.devices import Share, share_chains
from inference.runtime.interrupts import without_interrupts
from inference.warmup.adaptation import schedule
from inference.warmup.cross_chain_pool import is_pooled, pool_windows, thin_windows
from inference.warmup.lost_chains import choose_successors, warn_of_lost

_AXIS = "chain"

# Memory for draws between two calls: maximum of rows of a chain, and of numbers in all rows of a
# batch, on the CPU and on an accelerator.
_MAX_ROWS, _MAX_NUMBERS, _MAX_NUMBERS_MAPPED = 2048, 1 << 18, 1 << 23
_LOOK_SECONDS = 1.0  # seconds between looks at the divergences of chains that somebody watches
_FIRST_BUDGET, _MAX_GROWTH = 1024, 64  # gradients of the first call; the most it grows at once


def sample(
    key: jax.Array,
    target: Target,
    kernel: HamiltonianKernel,
    *,
    num_warmup: int,
    num_draws: int,
    num_chains: int,
    mass_matrix: str = "auto",
    target_acceptance_rate: float,
    init: str | Mapping[str, Any] | Init = "uniform",
    covariance: np.ndarray | None = None,
    mesh: Mesh | None = None,
    monitor: Monitor | None = None,
    recorder: Recorder | None = None,
) -> Samples:
    """Draws from a target with `num_chains` chains; see :func:`inference.mcmc` for more arguments.

    Args:
        key: Random key of the run.
        target: Density to draw from.
        kernel: Kernel, whose `log_density` is not used.
        num_warmup: Iterations of warm-up.
        num_draws: Draws of each chain.
        num_chains: Number of chains, of all processes.
        mass_matrix: Kind of the mass matrix, or ``"auto"``.
        target_acceptance_rate: Acceptance rate that the step size adapts to.
        init: Starting points.
        covariance: Estimate of the covariance of positions, ``(size, size)``, or `None`; the
            inverse mass matrix at the start of warm-up, unless the kernel has one.
        mesh: Devices to spread chains over, or `None`.
        monitor: Monitor that is told how far the run is, and may end it; by default none.
        recorder: Keeper of draws and of states, which may have a state to go on from.

    Raises:
        ValueError: if a chain finds no point of finite density and gradient to start from.
    """
    layout, share = Layout.of(target.position_shapes), share_chains(num_chains, mesh, target.mesh)
    kernel = dataclasses.replace(kernel, axis_name=_AXIS if share.is_mapped else None)
    kind = mass_matrix
    if mass_matrix == "auto":
        metric = kernel.inverse_mass_matrix
        kind = default_kind(layout.size, share.is_mapped) if metric is None else kind_of(metric)
    if kernel.inverse_mass_matrix is None and covariance is not None and num_warmup:
        kernel = dataclasses.replace(
            kernel, inverse_mass_matrix=restrict_covariance(covariance, kind)
        )
    rate = np.asarray(target_acceptance_rate, layout.dtype)
    learns_together = is_pooled(num_chains, kind, share.is_mapped)
    plan = ChainPlan(schedule(num_warmup, learns_together), rate, np.int32(num_warmup + num_draws))
    chain = make_unplaced_chain(kernel, layout, kind, num_warmup > 0)
    if num_chains > 1 and not share.is_mapped:  # chains mapped over do not wait for each other
        chain = chain._replace(is_compared=np.zeros((), bool))

    starts = parse_init(init, target, num_chains)

    run = _SamplingRun(kernel, target, layout, plan, share, kind, learns_together)
    run.recorder = recorder or run.recorder
    with share.together():
        if run.recorder.state is None:
            run.begin(key, chain, starts)
        else:
            run.restore(place_chains(chain, *_nowhere(layout, num_chains)), run.recorder.state)
    with nullcontext() if kind == "diagonal" else one_blas_thread():
        num_drawn = finish_run(run, monitor or Monitor(), num_draws)
    with without_interrupts():
        return share.gather(run.samples(num_drawn))


def _nowhere(layout: Layout, num_chains: int) -> tuple[np.ndarray, np.ndarray]:
    """Seeds and positions that stand for those of chains, in their shapes."""
    return np.zeros((num_chains, 2), np.uint32), np.zeros((num_chains, layout.size), layout.dtype)


class _SamplingRun:
    """Run of all chains of this process, with the compiled functions that move them."""

    def __init__(
        self,
        kernel: HamiltonianKernel,
        target: Target,
        layout: Layout,
        plan: ChainPlan,
        share: Share,
        kind: str,
        is_pooled: bool,
    ) -> None:
        # Arrays, as JAX may give Python numbers other dtypes in other threads.
        constant = kernel, target, plan
        self.kernel, self.target, self.plan = jax.device_put(constant, share.everywhere)
        self.layout, self.share, self.kind, self.is_pooled = layout, share, kind, is_pooled
        self.num_warmup = int(plan.schedule.num_warmup)
        self.host_plan, self.num_iterations = plan, int(np.asarray(plan.num_iterations))
        self.batches: list[ChainBatch] = []
        self.budget, self.look_seconds = np.int32(_FIRST_BUDGET), _LOOK_SECONDS
        self.recorder, self.is_whole = Recorder(), False

    def begin(self, key: jax.Array, unplaced: Chain, init: Init) -> None:
        """Makes the chains at starting points of finite density and gradient.

        Before warm-up, the mass matrix is guessed from the gradient, unless the kernel has a
        matrix.

        Args:
            key: Random key of the run.
            unplaced: A chain without a place.
            init: Initial positions.

        Raises:
            ValueError: if a chain finds no such point.
        """
        size = num_chains = len(self.share.chains)
        if self.share.mesh is None and not self.share.is_mapped:
            size = batch_size(num_chains)
        chains = place_chains(unplaced, *_nowhere(self.layout, num_chains))
        self._compile(chains, size)
        self._make_batches(chains, size)

        def evaluate(seeds: np.ndarray, positions: np.ndarray) -> StartingPoints:
            chains = place_chains(unplaced, seeds, positions)
            seconds = np.inf  # of a call with one gradient, overhead included
            for batch, part in zip(self.batches, _split_chains(chains, size), strict=True):
                batch.chains = part
                began = time.monotonic()
                self._move(batch, np.int32(1))
                seconds = min(seconds, max(time.monotonic() - began, 1e-6))
            self.budget = np.int32(np.clip(CALL_SECONDS / seconds, 1, _FIRST_BUDGET))
            parts = zip(*[batch.start for batch in self.batches], strict=True)
            return StartingPoints(*map(np.concatenate, parts), result=seeds)

        found = find_starts(evaluate, key, self.share.chains, init, self.target, self.layout)
        warn_of_jitter(lambda nearby: evaluate(found.result, nearby).log_density, found.position)
        evaluate(found.result, found.position)
        if self.num_warmup and self.kernel.inverse_mass_matrix is None:
            for batch in self.batches:
                batch.guess(self.kind)
        self.is_whole = True
        if self.recorder.is_due:
            self.record()

    def restore(self, chains: Chain, state: State) -> None:
        """Makes the chains as they were when a state of this run was recorded.

        Args:
            chains: Chains of the same shapes.
            state: The state, as `state` gives it.

        Raises:
            ValueError: if the state does not fit the run.
        """
        size = int(state["chains_per_call"])
        self._compile(chains, size)
        self._make_batches(restore_leaves("chain", state, chains), size)
        restore_windows(self.batches, state)
        self.is_whole = True

    def state(self) -> State:
        """State of the run between two calls, from which it can go on to the same draws."""
        return state_of(self.batches, self._values, self.no_rows[0, :0])

    def record(self) -> None:
        """Records the state, unless chains are being compared or other processes have some."""
        if self.is_whole and not self.share.is_partial:
            with without_interrupts():
                self.recorder.record(self.state)

    def _make_batches(self, chains: Chain, size: int) -> None:
        self.batches = [
            ChainBatch(part, self.host_plan, self.kinds, self.recorder, i * size)
            for i, part in enumerate(_split_chains(chains, size))
        ]

    def go_on(self, num_iterations: int, monitor: Monitor) -> None:
        """Moves all chains to an iteration, on a thread for each core."""
        self._set_end(num_iterations)
        self.look_seconds = min(_LOOK_SECONDS, monitor.look_seconds or _LOOK_SECONDS)
        for batch in self.batches:
            batch.is_watched, batch.monitor = monitor.is_watched, monitor
        report = lambda: monitor.tell(self)  # noqa: E731
        programs = self.advance, self.values
        with ChainThreads(len(self.batches), programs, self.share) as threads:
            while moving := [batch for batch in self.batches if not batch.is_complete]:
                threads.finish(moving, self._move_on, report)
                self.is_whole = False
                if self.is_pooled and all(batch.is_due.all() for batch in self.batches):
                    self._renew_together()
                if all(batch.awaits_comparison for batch in self.batches):
                    self._compare()
                self.is_whole = True
                if self.recorder.is_due:
                    self.record()

    def _set_end(self, num_iterations: int) -> None:
        """Sets the number of transitions after which chains are complete; it is data."""
        self.num_iterations = num_iterations
        self.recorder.reserve(num_iterations - self.num_warmup)
        for batch in self.batches:
            batch.num_iterations = num_iterations
        placed = jax.device_put(np.int32(num_iterations), self.share.everywhere)
        self.plan = self.plan._replace(num_iterations=placed)
        self.constant = jax.tree.leaves((self.target, self.kernel, self.plan, self.layout))

    def _compare(self) -> None:
        """Lets chains that are lost go on from where others are; draws of each are its own."""
        progress = [jax.device_get(batch.chains.progress) for batch in self.batches]
        progress = jax.tree.map(lambda *x: np.concatenate(x), *progress)
        log_densities = self.share.gather(progress.state.log_density)
        is_lost = find_lost(log_densities, self.layout.size)
        if is_lost.any():
            warn_of_lost(log_densities, is_lost, int(self.host_plan.schedule.comparison))
            progress, successors = self.share.gather(progress), choose_successors(is_lost)
            place = 0
            for batch in self.batches:
                numbers = self.share.chains[place : place + len(batch.first)]
                batch.go_on_from(
                    jax.tree.map(lambda x, n=successors[numbers]: x[n], progress), is_lost[numbers]
                )
                place += len(batch.first)
        for batch in self.batches:
            flags = np.ones(len(batch.first), bool)
            batch.chains = batch.chains._replace(is_compared=flags)

    def _renew_together(self) -> None:
        """Renews the mass matrices of all chains from the pooled draws of all processes."""
        for batch in self.batches:
            batch.take(self._values)
        windows = [np.concatenate(pieces) for batch in self.batches for pieces in batch.windows]
        whole = self.share.gather(np.stack(thin_windows(windows, self.share.num_chains)))
        pool, agrees = pool_windows(*self.batches[0].split(whole))
        renew_together(self.batches, pool, agrees[self.share.chains])

    def _move_on(self, batch: ChainBatch) -> bool:
        """Moves a batch by one call, and returns whether it needs another call now.

        The budget of the next call makes it take about `CALL_SECONDS`. It grows after
        calls during which no draws leave an accelerator.
        """
        began, budget, is_alone = time.monotonic(), self.budget, not batch.buffers.is_sending
        num_spent = self._move(batch, budget)
        seconds = time.monotonic() - began
        growth = min(CALL_SECONDS / (2 * max(seconds, 1e-6)), _MAX_GROWTH)
        if is_alone and growth > 2 and num_spent >= budget:
            self.budget = np.int32(min(growth * int(budget), 1 << 28))
        elif seconds > 2 * CALL_SECONDS:
            self.budget = np.int32(max(1, int(budget) // 2))
        waits = batch.is_complete or batch.is_due.all() or batch.awaits_comparison
        return not (waits or self.recorder.is_due)

    def _compile(self, chains: Chain, size: int) -> None:
        """Compiles the programs that move a batch of chains and compute values from its rows.

        They are compiled ahead of time, in this thread, as JAX's settings differ between threads.
        """
        self.kinds = stats_of(self.kernel, jax.tree.map(lambda x: x[0], chains))
        batch = next(_split_chains(chains, size))
        has_gradients = chains.progress.adaptation.has_windows
        most_numbers = _MAX_NUMBERS_MAPPED if self.share.is_mapped else _MAX_NUMBERS
        num_rows = max(1, min(_MAX_ROWS, most_numbers // (self.layout.size * size)))
        shape = size, num_rows + 1, (1 + has_gradients) * self.layout.size + len(self.kinds)
        self.no_rows, first = np.zeros(shape, self.layout.dtype), np.zeros(size, np.int32)
        constant = self.target, self.kernel, self.plan, self.layout
        self.constant = jax.tree.leaves(constant)  # once, not in each call
        arguments = batch, self.no_rows, first, self.budget, *constant
        self.advance = compile_advance(*arguments, share=self.share)
        self.kept = KeptSites(self.target, self.recorder.keep)
        self.values = compile_values(self.kept, self.layout, self.no_rows, share=self.share)
        check_sites(self.values.out_info)
        sites = shapes_of_draws(self.values.out_info)
        num_draws = self.num_iterations - self.num_warmup
        self.recorder.open((sites, self.kinds), len(self.share.chains), num_draws)

    def _move(self, batch: ChainBatch, budget: np.int32) -> int:
        """Moves a batch of chains by one call, and reads the rows when they are full.

        On an accelerator the draws in them leave it during the next call.
        """
        buffers, rows = batch.buffers, batch.buffers.fill(self.no_rows)
        batch.chains, buffers.filling, num_spent = self.advance(
            batch.chains, rows, batch.first, budget, self.constant
        )
        buffers.receive()
        batch.iteration = np.asarray(batch.chains.progress.iteration)
        if batch.is_watched and time.monotonic() - batch.looked > self.look_seconds:
            batch.look()
        if not self.is_pooled:
            batch.renew(self._values)
        if batch.is_full or batch.is_complete:
            batch.send(self._values)
            if batch.is_complete or not self.share.is_mapped:
                buffers.receive()
        return int(np.asarray(num_spent).max())

    def _values(self, rows: Any) -> Any:
        return self.values(self.kept, self.layout, rows)

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
        """Median step size; NaN before it is known."""
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
        metrics = [batch.chains.progress.adaptation.inverse_mass_matrix for batch in self.batches]
        return Samples(draws, stats, jax.tree.map(lambda *x: np.concatenate(x), *metrics))


def _split_chains(chains: Chain, size: int) -> Iterator[Chain]:
    """Parts of stacked chains, each of `size` chains."""
    for i in range(0, len(chains.progress.iteration), size):
        yield jax.tree.map(lambda x, i=i: x[i : i + size], chains)
