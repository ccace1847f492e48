"""Chains of a kernel on a target: starts, warm-up and draws, on all cores.

One compiled function moves a chain from wherever it stands, through its start, its warm-up and its
draws. It returns to Python when it has spent a number of gradients, so that progress shows and an
interrupt keeps what has been drawn, or when there is no room for more draws.

On the CPU a chain is a program of its own, and a thread for each core takes one after the other:
where chains differ is then ordinary control flow. On an accelerator all chains are mapped over and
move together, each at its own place.
"""

import collections
import dataclasses
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from inference.chains.chain import Chain, ChainPlan, stats_of
from inference.chains.chain_batch import ChainBatch, renew_together
from inference.chains.chain_programs import compile_advance, compile_values
from inference.chains.initial_chain import make_unplaced_chain, place_chains
from inference.common.layout import Layout
from inference.common.leaf_names import named_leaves
from inference.common.matrices import Matrix, kind_of, restrict_covariance
from inference.common.target import Target
from inference.hamiltonian.kernel import HamiltonianKernel
from inference.initialization.initial_positions import MAX_ATTEMPTS, parse_init, starting_points
from inference.initialization.not_finite import start_failure
from inference.runtime.blas_threads import one_blas_thread
from inference.runtime.devices import Share, share_chains
from inference.runtime.interrupts import without_interrupts
from inference.runtime.jax_settings import numbers_of_any_kind
from inference.runtime.xla_options import may_hang
from inference.warmup.adaptation import schedule
from inference.warmup.cross_chain_pool import is_pooled, pool_windows, thin_windows

_AXIS = "chain"

_MAX_ROWS, _MAX_NUMBERS, _MAX_NUMBERS_MAPPED = 2048, 1 << 18, 1 << 23
_MIN_CHAIN_BATCHES = 16  # of chains, where there are so many; and at least two for each core
MAX_DENSE_SIZE, MAX_LOW_RANK_SIZE = (
    100,
    2000,
)  # coordinates for which such a mass matrix costs little
_FIRST_BUDGET, _MAX_GROWTH, _CALL_SECONDS = 1024, 64, 0.1


class Samples(NamedTuple):
    """What sampling gives: trees of arrays ``(chain, draw, *shape)``, and what warm-up settled."""

    draws: dict[str, Any]
    stats: dict[str, np.ndarray]
    inverse_mass_matrix: Matrix | None


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
    init: str | Mapping[str, Any] = "uniform",
    covariance: np.ndarray | None = None,
    mesh: Mesh | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Samples:
    """Runs `num_chains` chains; see :func:`inference.mcmc` for the arguments.

    `covariance` is what is known of that of positions; warm-up begins with it as a mass matrix.
    `on_progress` is told the number of finished iterations every now and then.

    Raises:
        ValueError: if a chain finds no point of finite density and gradient to start from.
    """
    layout, share = Layout.of(target.position_shapes), share_chains(num_chains, mesh, target.mesh)
    kernel = dataclasses.replace(kernel, axis_name=_AXIS if share.is_mapped else None)
    kind = mass_matrix
    if mass_matrix == "auto":
        metric = kernel.inverse_mass_matrix
        kind = _kind(layout.size, share) if metric is None else kind_of(metric)
    if kernel.inverse_mass_matrix is None and covariance is not None and num_warmup:
        kernel = dataclasses.replace(
            kernel, inverse_mass_matrix=restrict_covariance(covariance, kind)
        )
    rate = np.asarray(target_acceptance_rate, layout.dtype)
    learns_together = is_pooled(num_chains, kind, share.is_mapped)
    plan = ChainPlan(schedule(num_warmup, learns_together), rate, np.int32(num_warmup + num_draws))
    chain = make_unplaced_chain(kernel, layout, kind, num_warmup > 0)

    starts = parse_init(init, target, num_chains)

    def start(attempts: np.ndarray) -> Chain:
        points = starting_points(key, share.chains, attempts, starts, target, layout)
        return place_chains(chain, *points)

    run = _SamplingRun(kernel, target, layout, plan, share, kind, learns_together)
    with share.together():
        run.begin(start)
    try:
        with nullcontext() if kind == "diagonal" else one_blas_thread():
            run.go_on(on_progress)
    except KeyboardInterrupt:
        if not run.num_drawn:
            raise
        warnings.warn(
            f"interrupted: the result holds the {run.num_drawn} draws per chain of {num_draws} "
            "that were finished",
            RuntimeWarning,
            stacklevel=3,
        )
    with without_interrupts():
        return share.gather(run.samples(share.min_over_processes(run.num_drawn)))


def check_sites(sites: Mapping[str, Any]) -> None:
    """Raises TypeError for a site whose values no array of NumPy can hold."""
    for name, leaf in named_leaves(sites):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.extended):
            raise TypeError(
                f"site {name!r} has random keys as its values, {leaf.dtype}, of which no draws are "
                "kept; record jax.random.key_data(key)"
            )


class _SamplingRun:
    """All chains of a run, and the compiled functions that move them."""

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
        # As arrays: in other threads, JAX might take numbers to have other dtypes.
        constant = kernel, target, plan
        self.kernel, self.target, self.plan = jax.device_put(constant, share.everywhere)
        self.layout, self.share, self.kind, self.is_pooled = layout, share, kind, is_pooled
        self.num_warmup = int(plan.schedule.num_warmup)
        self.host_plan, self.num_iterations = plan, int(np.asarray(plan.num_iterations))
        self.has_doubles = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
        self.groups: list[ChainBatch] = []
        self.is_stopping = threading.Event()
        self.budget = np.int32(_FIRST_BUDGET)

    def begin(self, start: Callable[[np.ndarray], Chain]) -> None:
        """Makes the chains, and evaluates the density where they are to start until it is finite.

        Chains that are to adapt, and have no mass matrix, get one that the gradient there tells.

        Raises:
            ValueError: if a chain finds no such point.
        """
        num_chains = len(self.share.chains)
        attempts, size = np.zeros(num_chains, np.int32), num_chains
        if self.share.mesh is None and not self.share.is_mapped:
            size = group_size(num_chains)
        self._compile(chains := start(attempts), size)
        self.groups = [
            ChainBatch(part, self.host_plan, self.kinds) for part in _split_chains(chains, size)
        ]
        while True:
            seconds = np.inf  # for a gradient, and for what a call is beside it
            for group in self.groups:
                began = time.monotonic()
                self._move(group, np.int32(1))
                seconds = min(seconds, max(time.monotonic() - began, 1e-6))
            self.budget = np.int32(np.clip(_CALL_SECONDS / seconds, 1, _FIRST_BUDGET))
            is_stuck = np.concatenate([group.is_stuck for group in self.groups])
            if not is_stuck.any():
                break
            attempts += is_stuck
            chain, num_attempts = int(np.argmax(is_stuck)), int(attempts.max())
            group = self.groups[chain // len(self.groups[0].first)]
            point = group.start(chain % len(group.first))
            chains = start(attempts)
            is_same = np.array_equal(point.position, chains.trajectory.position[chain])
            if is_same or num_attempts == MAX_ATTEMPTS:
                number = int(self.share.chains[chain])
                here = point.position, point.log_density, point.gradient
                message = start_failure(self.target, self.layout, number, num_attempts, *here)
                raise ValueError(message)
            # Those that are not stuck too, which have gone on: what they do depends on no other.
            for group, part in zip(self.groups, _split_chains(chains, size), strict=True):
                group.chains = part
        if self.num_warmup and self.kernel.inverse_mass_matrix is None:
            for group in self.groups:
                group.guess(self.kind)

    def go_on(self, on_progress: Callable[[int], None]) -> None:
        """Moves all chains until they are complete, a thread for each core that may have one."""
        num_idle = any(map(may_hang, (self.advance, self.values)))
        num_threads = max(1, min(num_cores() - num_idle, len(self.groups)))
        if self.share.own is not None:
            num_threads = 1  # a call waits until all devices have come to it
        pool = ThreadPoolExecutor(num_threads)
        try:
            while not all(group.is_complete for group in self.groups):
                waiting = collections.deque(self.groups)
                workers = [pool.submit(self._work, waiting) for _ in range(num_threads)]
                while (now := wait(workers, timeout=_CALL_SECONDS)).not_done:
                    on_progress(self.num_done)
                    for worker in now.done:
                        worker.result()
                for worker in workers:
                    worker.result()
                on_progress(self.num_done)
                if self.is_pooled and not self.groups[0].is_complete:
                    self._renew_together()
        finally:
            self.is_stopping.set()
            with without_interrupts():  # no thread can be stopped within a call
                pool.shutdown()

    def _renew_together(self) -> None:
        """Renews the mass matrices of all chains, which wait for it, of all processes."""
        for group in self.groups:
            group.take(self._values)
        windows = [np.concatenate(pieces) for group in self.groups for pieces in group.windows]
        whole = self.share.gather(np.stack(thin_windows(windows, self.share.num_chains)))
        pool, agrees = pool_windows(*self.groups[0].split(whole))
        renew_together(self.groups, pool, agrees[self.share.chains])

    def _work(self, waiting: "collections.deque[ChainBatch]") -> None:
        """Takes one group of chains after the other, and moves each for a while."""
        with jax.enable_x64(self.has_doubles), numbers_of_any_kind():  # for one thread alone
            self._work_on(waiting)

    def _work_on(self, waiting: "collections.deque[ChainBatch]") -> None:
        while not self.is_stopping.is_set():
            try:
                group = waiting.popleft()
            except IndexError:
                return
            began, budget = time.monotonic(), self.budget
            num_spent = self._move(group, budget)
            seconds = time.monotonic() - began
            # A call takes about as long as one should wait for a sign of life.
            growth = min(_CALL_SECONDS / (2 * max(seconds, 1e-6)), _MAX_GROWTH)
            if growth > 2 and num_spent >= budget:
                self.budget = np.int32(min(growth * int(budget), 1 << 28))
            elif seconds > 2 * _CALL_SECONDS:
                self.budget = np.int32(max(1, int(budget) // 2))
            if not (group.is_complete or group.is_due.all()):
                waiting.append(group)

    def _compile(self, chains: Chain, group_size: int) -> None:
        """Compiles what moves so many of the chains and what reads their rows.

        Ahead of time and here, as JAX's settings are others in other threads.
        """
        self.kinds = stats_of(self.kernel, jax.tree.map(lambda x: x[0], chains))
        group, size = next(_split_chains(chains, group_size)), self.layout.size
        has_gradients = chains.progress.adaptation.has_windows
        most_numbers = _MAX_NUMBERS_MAPPED if self.share.is_mapped else _MAX_NUMBERS
        num_rows = max(1, min(_MAX_ROWS, most_numbers // (size * group_size)))
        shape = group_size, num_rows + 1, size + len(self.kinds) + has_gradients * size
        self.no_rows, first = np.zeros(shape, self.layout.dtype), np.zeros(group_size, np.int32)
        constant = self.target, self.kernel, self.plan, self.layout
        self.constant = jax.tree.leaves(constant)  # once, not in each call
        arguments = group, self.no_rows, first, self.budget, *constant
        self.advance = compile_advance(*arguments, share=self.share)
        arguments = self.target, self.layout, self.no_rows
        self.values = compile_values(*arguments, share=self.share)
        check_sites(self.values.out_info)

    def _move(self, group: ChainBatch, budget: np.int32) -> int:
        """Moves the chains of `group`, and takes their draws when there is no room for more."""
        rows = self.no_rows.copy() if group.rows is None else group.rows
        group.chains, group.rows, num_spent = self.advance(
            group.chains, rows, group.first, budget, self.constant
        )
        group.iteration = np.asarray(group.chains.progress.iteration)
        if not self.is_pooled:
            group.renew(self._values)
        if np.any(group.iteration - group.first >= rows.shape[1] - 1) or group.is_complete:
            group.take(self._values)
        return int(np.asarray(num_spent).max())

    def _values(self, rows: Any) -> Any:
        return self.values(self.target, self.layout, rows)

    @property
    def num_done(self) -> int:
        """Iterations that are complete, on the average over chains."""
        iterations = np.concatenate([group.iteration for group in self.groups])
        return int(np.mean(np.minimum(iterations, self.num_iterations)))

    @property
    def num_drawn(self) -> int:
        """Draws that every chain has made."""
        fewest = min(int(np.min(group.iteration)) for group in self.groups)
        return max(0, min(fewest, self.num_iterations) - self.num_warmup)

    def samples(self, num_drawn: int) -> Samples:
        """The first `num_drawn` draws of each chain."""
        for group in self.groups:
            group.take(self._values)
        chains = [
            jax.tree.map(lambda *x: np.concatenate(x)[:num_drawn], *parts)
            for group in self.groups
            for parts in group.parts
        ]
        draws, numbers = jax.tree.map(lambda *x: np.stack(x), *chains)
        stats = {
            name: numbers[..., i].astype(kind.dtype)
            for i, (name, kind) in enumerate(self.kinds.items())
        }
        metrics = [group.chains.progress.adaptation.inverse_mass_matrix for group in self.groups]
        return Samples(draws, stats, jax.tree.map(lambda *x: np.concatenate(x), *metrics))


def _kind(size: int, share: Share) -> str:
    """The kind of mass matrix that is learnt by default."""
    if share.is_mapped or size > MAX_LOW_RANK_SIZE:
        return "diagonal"
    return "dense" if size <= MAX_DENSE_SIZE else "low_rank"


def _split_chains(chains: Chain, size: int) -> Iterator[Chain]:
    """Parts of the chains, of so many each."""
    for i in range(0, len(chains.progress.iteration), size):
        yield jax.tree.map(lambda x, i=i: x[i : i + size], chains)


def group_size(num_chains: int) -> int:
    """How many chains one call moves: a divisor, so that all groups share a compiled function."""
    most = max(1, num_chains // max(_MIN_CHAIN_BATCHES, 2 * num_cores()))
    return next(size for size in range(most, 0, -1) if num_chains % size == 0)


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
