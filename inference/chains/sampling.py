"""Sampling with a Hamiltonian kernel: starts, warm-up and draws of all chains, on all cores.

One compiled function moves a chain from any state: through its start, its warm-up and its draws.
It returns to :mod:`inference.chains.chain_run` when it has spent a number of gradients, when there
is no room for more draws, when a mass matrix is due to be renewed, and when chains are due to be
compared.

| Device      | Chains                                                                         |
|-------------|--------------------------------------------------------------------------------|
| CPU         | a thread per core takes one batch of chains after the other; differences       |
|             | between chains are ordinary control flow                                       |
| accelerator | ``jax.vmap`` maps over all chains; they move together, each at its own place   |
"""

import dataclasses
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from inference.chains.chain import Chain, ChainPlan, stats_of
from inference.chains.chain_batch import (
    ChainBatch,
    renew_together,
    restore_windows,
    state_of_windows,
)
from inference.chains.chain_programs import compile_advance
from inference.chains.chain_run import ChainRun
from inference.chains.chain_threads import CALL_SECONDS, batch_size
from inference.chains.initial_chain import make_unplaced_chain, place_chains
from inference.chains.recorder import Recorder
from inference.chains.run_control import Monitor, finish_run
from inference.chains.samples import Samples
from inference.common.far_chains import find_lost
from inference.common.layout import Layout
from inference.common.matrices import (
    Blocks,
    default_kind,
    keep_blocks,
    kind_of,
    restrict_covariance,
)
from inference.common.state_leaves import State, restore_leaves
from inference.common.target import Target
from inference.common.warm_up import WarmUp
from inference.initialization.density_noise import warn_of_noise
from inference.initialization.initial_positions import Init, chain_seeds, parse_init
from inference.initialization.start_search import StartingPoints, find_starts
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.runtime.blas_threads import one_blas_thread
from inference.runtime.devices import Share, share_chains
from inference.warmup.adaptation import schedule, window_ends
from inference.warmup.cross_chain_pool import is_pooled, pool_windows, thin_windows
from inference.warmup.lost_chains import choose_successors, warn_of_lost
from inference.warmup.warm_up_log import join_logs, restore_logs, state_of_logs

_AXIS = "chain"

# Memory for draws between two calls: maximum of numbers in all rows of a batch, on the CPU and on
# an accelerator.
_MAX_NUMBERS = 1 << 18
_MAX_NUMBERS_MAPPED = 1 << 23
_FIRST_BUDGET = 1024  # gradients of the first call
_MIN_LOGGED_ROWS = 64  # rows of each chain on an accelerator; with fewer, a log costs time
_MAX_GROWTH = 64  # maximum factor by which the gradients of a call grow at once


def sample(
    key: jax.Array,
    target: Target,
    kernel: HamiltonianKernel,
    *,
    num_warmup: int,
    num_draws: int,
    num_chains: int,
    mass_matrix: str | Blocks = "auto",
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
        mass_matrix: Kind of the mass matrix, ``"auto"``, or the blocks of a dense one.
        target_acceptance_rate: Acceptance rate that the step size adapts to.
        init: Starting points.
        covariance: Estimate of the covariance of positions, ``(size, size)``, or of its diagonal
            ``(size,)``, or `None`; the inverse mass matrix at the start of warm-up, unless the
            kernel has one.
        mesh: Devices to spread chains over, or `None`.
        monitor: Monitor that is told how far the run is, and may end it; by default none.
        recorder: Keeper of draws and of states; if it has a state, the run goes on from there.

    Raises:
        ValueError: if a chain finds no point of finite density and gradient to start from, or the
            kernel's mass matrix is of another kind than `mass_matrix`, or not of its blocks.
    """
    layout = Layout.of(target.position_shapes)
    share = share_chains(num_chains, mesh, target)
    kernel = dataclasses.replace(kernel, axis_name=_AXIS if share.is_mapped else None)
    blocks = None if isinstance(mass_matrix, str) else mass_matrix
    kind = mass_matrix if isinstance(mass_matrix, str) else "dense"
    if kind == "auto":
        metric = kernel.inverse_mass_matrix
        kind = (
            default_kind(layout.size, share.has_accelerator) if metric is None else kind_of(metric)
        )
    if kernel.inverse_mass_matrix is None and covariance is not None and num_warmup:
        matrix = restrict_covariance(covariance, kind)
        matrix = matrix if blocks is None else keep_blocks(matrix, blocks)
        kernel = dataclasses.replace(kernel, inverse_mass_matrix=matrix)
    elif blocks is not None:
        _check_blocks(kernel.inverse_mass_matrix, blocks)
    rate = np.asarray(target_acceptance_rate, layout.dtype)
    learns_together = is_pooled(num_chains, kind, share.is_mapped)
    plan = ChainPlan(schedule(num_warmup, learns_together), rate, np.int32(num_warmup + num_draws))
    chain = make_unplaced_chain(kernel, layout, kind, num_warmup > 0)
    if num_chains > 1 and not share.is_mapped:  # chains mapped over do not wait for each other
        chain = chain._replace(is_compared=np.zeros((), bool))

    starts = parse_init(init, target, num_chains)

    run = _HamiltonianRun(kernel, target, plan, share, kind, blocks, learns_together, recorder)
    begin = run.take_over if starts.strategy == "chains" else run.begin
    run.start(partial(begin, key, chain, starts), partial(run.restore, chain))
    with nullcontext() if kind == "diagonal" else one_blas_thread():
        return finish_run(run, monitor or Monitor(), num_draws)


def _check_blocks(matrix: Any, blocks: Blocks) -> None:
    """Checks that an inverse mass matrix, if it is dense, is diagonal outside of blocks.

    Raises:
        ValueError: if it is not.
    """
    if matrix is None or kind_of(matrix) != "dense":
        return
    matrix = np.asarray(matrix)
    outside = np.argwhere(matrix != keep_blocks(matrix, blocks))
    if len(outside):
        i, j = outside[0]
        raise ValueError(
            "the kernel's inverse_mass_matrix must be diagonal outside of the groups of "
            f"mass_matrix, got {matrix[i, j]} for the coordinates {i} and {j}; set such entries to "
            "0, or leave the matrix out"
        )


def _nowhere(layout: Layout, num_chains: int) -> tuple[np.ndarray, np.ndarray]:
    """Seeds and positions with the shapes for `num_chains` chains, all zeros."""
    return np.zeros((num_chains, 2), np.uint32), np.zeros((num_chains, layout.size), layout.dtype)


class _HamiltonianRun(ChainRun):
    """Run of all chains of this process; the work of a call is a number of gradients."""

    batches: list[ChainBatch]

    def __init__(
        self,
        kernel: HamiltonianKernel,
        target: Target,
        plan: ChainPlan,
        share: Share,
        kind: str,
        blocks: Blocks | None,
        is_pooled: bool,
        recorder: Recorder | None,
    ) -> None:
        num_warmup = int(plan.schedule.num_warmup)
        num_draws = int(np.asarray(plan.num_iterations)) - num_warmup
        super().__init__(kernel, target, share, num_warmup, num_draws, recorder)
        self.host_plan, self.plan = plan, share.place(plan)
        self.kind = kind
        self.blocks = blocks
        self.is_pooled = is_pooled
        self.budget = _FIRST_BUDGET
        self.stopping: dict[int, list[Any]] = {}  # constants of calls by where they end

    def begin(self, key: jax.Array, unplaced: Chain, init: Init) -> None:
        """Makes the chains at starting points of finite density and gradient.

        Before warm-up, the mass matrix is guessed from the gradient, unless the kernel has a
        matrix.

        Args:
            key: Random key of the run.
            unplaced: A chain without a place.
            init: Initial positions.

        Raises:
            ValueError: if a chain finds no point of finite density and gradient.
        """
        size = self._chains_per_call
        chains = place_chains(unplaced, *_nowhere(self.layout, len(self.share.chains)))
        self._compile(chains, size)
        self._make_batches(chains, size)

        def evaluate(seeds: np.ndarray, positions: np.ndarray) -> StartingPoints:
            chains = place_chains(unplaced, seeds, positions)
            seconds = np.inf  # of a call with one gradient, overhead included
            for batch, part in zip(self.batches, _split_chains(chains, size), strict=True):
                batch.chains = part
                began = time.monotonic()
                self._move(batch, 1)
                seconds = min(seconds, max(time.monotonic() - began, 1e-6))
            self.budget = self.share.agree(int(np.clip(CALL_SECONDS / seconds, 1, _FIRST_BUDGET)))
            parts = zip(*[batch.start for batch in self.batches], strict=True)
            return StartingPoints(*map(np.concatenate, parts), result=seeds)

        found = find_starts(evaluate, key, self.share.chains, init, self.target, self.layout)
        warn_of_noise(lambda nearby: evaluate(found.result, nearby).log_density, found.position)
        evaluate(found.result, found.position)
        if self.num_warmup and self.kernel.inverse_mass_matrix is None:
            for batch in self.batches:
                batch.guess(self.kind)

    @property
    def _chains_per_call(self) -> int:
        num_chains = len(self.share.chains)
        is_whole = self.share.mesh is not None or self.share.is_mapped
        return num_chains if is_whole else batch_size(num_chains)

    def take_over(self, key: jax.Array, unplaced: Chain, init: Init) -> None:
        """Makes the chains where those of another run are, with all that these have learned.

        If there are more chains than in that run, they take turns.

        Args:
            key: Random key of this run.
            unplaced: A chain without a place.
            init: State of the other run.

        Raises:
            ValueError: if the state does not fit the run.
        """
        numbers = self.share.chains
        num_others = len(init.values["chain.0"])
        others = place_chains(unplaced, *_nowhere(self.layout, num_others))
        others = restore_leaves("chain", init.values, others)
        none = np.zeros(len(numbers), np.int32)
        chains = jax.tree.map(lambda x: x[numbers % num_others], others)
        chains = chains._replace(
            seed=chain_seeds(key, numbers),
            num_gradients=none,
            progress=chains.progress._replace(iteration=none),
            has_begun=np.zeros(len(numbers), bool),
        )
        self._compile(chains, self._chains_per_call)
        self._make_batches(chains, self._chains_per_call)

    def restore(self, unplaced: Chain, state: State) -> None:
        """Makes the chains as they were when a state of this run was recorded.

        Args:
            unplaced: A chain without a place.
            state: The state, as `state` gives it.

        Raises:
            ValueError: if the state does not fit the run.
        """
        size = int(state["chains_per_call"])
        num_chains = len(self.share.chains)
        chains = place_chains(unplaced, *_nowhere(self.layout, num_chains))
        self._compile(chains, size)
        self._make_batches(restore_leaves("chain", state, chains), size)
        restore_windows(self.batches, state)
        restore_logs([batch.log for batch in self.batches], state)

    def _further_state(self) -> State:
        windows = state_of_windows(self.batches, self.no_rows[0, :0])
        return windows | state_of_logs([batch.log for batch in self.batches])

    def _make_batches(self, chains: Chain, size: int) -> None:
        ends = window_ends(self.host_plan.schedule, self.kind)
        num_rows = self.no_rows.shape[1] - 1
        if self.share.is_mapped and num_rows < min(_MIN_LOGGED_ROWS, self.num_warmup):
            ends = ()
        stops = self.kind == "diagonal" and not self.share.is_mapped
        self.batches = [
            ChainBatch(part, self.host_plan, self.kinds, self.recorder, i * size, ends, stops=stops)
            for i, part in enumerate(_split_chains(chains, size))
        ]

    def _warm_up(self) -> WarmUp | None:
        for batch in self.batches:
            batch.note_last_matrices()
        kind = self.kind if self.blocks is None else "block"
        return join_logs([batch.log for batch in self.batches], kind)

    def _set_end(self, num_iterations: int) -> None:
        super()._set_end(num_iterations)
        self.constant = self._until(num_iterations)

    def _until(self, num_iterations: int) -> list[Any]:
        """Constants of calls that end at an iteration: data, which compile nothing."""
        placed = jax.device_put(np.int32(num_iterations), self.share.everywhere)
        plan = self.plan._replace(num_iterations=placed)
        return jax.tree.leaves((self.target, self.kernel, plan, self.layout))

    def _waits(self, batch: ChainBatch) -> bool:
        return bool(batch.is_due.all()) or batch.awaits_comparison

    def _meet(self) -> bool:
        """Renews mass matrices and compares chains, if all chains wait for it."""
        self.is_whole = False
        renews = self.is_pooled and all(batch.is_due.all() for batch in self.batches)
        if renews:
            self._renew_together()
        compares = all(batch.awaits_comparison for batch in self.batches)
        if compares:
            self._compare()
        self.is_whole = True
        return renews or compares

    def _learn(self, batch: ChainBatch) -> None:
        if not self.is_pooled:
            batch.renew(self._values, self.blocks)
        batch.note_diagonals(self._values)

    def _compare(self) -> None:
        """Compares the chains, and moves lost chains to the states of other chains."""
        progress = [jax.device_get(batch.chains.progress) for batch in self.batches]
        progress = jax.tree.map(lambda *x: np.concatenate(x), *progress)
        log_densities = self.share.gather(progress.state.log_density)
        is_lost = find_lost(log_densities, self.layout.size)
        if is_lost.any():
            warn_of_lost(log_densities, is_lost, int(self.host_plan.schedule.comparison))
            progress = self.share.gather(progress)
            successors = choose_successors(is_lost)
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
        renew_together(self.batches, pool, agrees[self.share.chains], self.blocks)

    def _call(self, batch: ChainBatch, rows: Any, budget: int) -> Any:
        constant = self.constant
        if (stop := batch.next_stop) is not None:
            constant = self.stopping.get(stop) or self.stopping.setdefault(stop, self._until(stop))
        batch.chains, batch.buffers.filling, num_spent = self.advance(
            batch.chains, rows, batch.first, np.int32(budget), constant
        )
        return num_spent

    def _wait(self, batch: ChainBatch, spent: Any) -> int:
        batch.iteration = np.asarray(batch.chains.progress.iteration)
        return int(np.asarray(spent).max())

    def _next_budget(self, budget: int, spent: int, seconds: float, is_alone: bool) -> int:
        """Gradients of the next call, by speed; more than usual only if no draws were copied."""
        growth = min(CALL_SECONDS / (2 * max(seconds, 1e-6)), _MAX_GROWTH)
        if is_alone and growth > 2 and spent >= budget:
            return int(min(growth * budget, 1 << 28))
        return max(1, budget // 2) if seconds > 2 * CALL_SECONDS else self.budget

    def _compile(self, chains: Chain, size: int) -> None:
        """Compiles the programs that move a batch of chains and compute values from its rows.

        They are compiled ahead of time, in this thread, as JAX's settings differ between threads.
        """
        self.kinds = stats_of(self.kernel, jax.tree.map(lambda x: x[0], chains))
        batch = next(_split_chains(chains, size))
        has_gradients = chains.progress.adaptation.has_windows
        most_numbers = _MAX_NUMBERS_MAPPED if self.share.is_mapped else _MAX_NUMBERS
        num_rows = self._num_rows(size, most_numbers)
        shape = size, num_rows + 1, (1 + has_gradients) * self.layout.size + len(self.kinds)
        self.no_rows, first = np.zeros(shape, self.layout.dtype), np.zeros(size, np.int32)
        constant = self.target, self.kernel, self.plan, self.layout
        self.constant = jax.tree.leaves(constant)  # once, not in each call
        arguments = batch, self.no_rows, first, np.int32(self.budget), *constant
        self.advance = compile_advance(*arguments, share=self.share)
        self._compile_values(self.kinds)

    def _inverse_mass_matrices(self) -> Any:
        matrices = [batch.chains.progress.adaptation.inverse_mass_matrix for batch in self.batches]
        return jax.tree.map(lambda *x: np.concatenate(x), *matrices)


def _split_chains(chains: Chain, size: int) -> Iterator[Chain]:
    """Stacked chains, split into parts of `size` chains."""
    for i in range(0, len(chains.progress.iteration), size):
        yield jax.tree.map(lambda x, i=i: x[i : i + size], chains)
