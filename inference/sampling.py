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
import functools
import os
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh

from inference.adaptation import is_due, schedule
from inference.chain import Chain, Plan, stats_of
from inference.dense import renewed
from inference.devices import Share, share_of
from inference.flat import Layout
from inference.hamiltonian import Point
from inference.kernel import HamiltonianKernel
from inference.programs import advance_chains, program, values
from inference.start_failure import start_failure
from inference.starting import (
    MOST_ATTEMPTS,
    init_of,
    placed,
    starting_points,
    unplaced_chain,
)
from inference.target import Target

_AXIS = "chain"

_MOST_ROWS, _MOST_NUMBERS = 256, 1 << 23
_MOST_GROUPS = 64
MOST_DENSE = 32  # coordinates for which a dense mass matrix costs little
_FIRST_BUDGET, _CALL_SECONDS = 256, 0.1


class Samples(NamedTuple):
    """What sampling gives: trees of arrays ``(chain, draw, *shape)``, and what warm-up settled."""

    draws: dict[str, Any]
    stats: dict[str, np.ndarray]
    inverse_mass_matrix: np.ndarray


def sample(
    key: jax.Array,
    target: Target,
    kernel: HamiltonianKernel,
    *,
    num_warmup: int,
    num_draws: int,
    num_chains: int,
    is_dense: bool | None,
    target_acceptance_rate: float,
    init: str | Mapping[str, Any] = "uniform",
    mesh: Mesh | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Samples:
    """Runs `num_chains` chains; see :func:`inference.mcmc` for the arguments.

    `on_progress` is told the number of finished iterations every now and then.

    Raises:
        ValueError: if a chain finds no point of finite density and gradient to start from.
    """
    layout, share = Layout.of(jax.eval_shape(target.initial, key)), share_of(num_chains, mesh)
    kernel = dataclasses.replace(kernel, axis_name=_AXIS if share.is_mapped else None)
    if is_dense is None:
        metric = kernel.inverse_mass_matrix
        is_small = layout.size <= MOST_DENSE and not share.is_mapped
        is_dense = is_small if metric is None else np.ndim(metric) == 2
    rate = np.asarray(target_acceptance_rate, layout.dtype)
    plan = Plan(schedule(num_warmup), rate, np.int32(num_warmup + num_draws))
    chain = unplaced_chain(kernel, layout, is_dense, num_warmup > 0)

    starts = init_of(init, target, num_chains)

    def start(attempts: np.ndarray) -> Chain:
        points = starting_points(key, share.chains, attempts, starts, target, layout)
        return placed(chain, *jax.device_get(points))

    run = _Run(kernel, target, layout, plan, share)
    with share.together():
        run.begin(start)
    try:
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
    return share.gather(run.samples(share.least(run.num_drawn)))


class _Group:
    """Some chains that are moved by one call, stacked: where they stand and what they drew.

    Attributes:
        chains: The chains; while a call moves them, they are gone.
        iteration: Transitions that are complete, of each chain.
        rows: Room for their draws; `None` while it is all unused.
        first: The iteration that the first row is for, of each chain.
        parts: What has been taken from the rows: per chain, pieces of draws and statistics.
    """

    def __init__(self, chains: Chain, num_warmup: int) -> None:
        self.chains, self.rows, self.iteration = chains, None, np.asarray(chains.progress.iteration)
        self.first = np.full(len(chains.progress.iteration), num_warmup, np.int32)
        self.parts: list[list[tuple[Any, Any]]] = [[] for _ in self.first]

    def start(self, chain: int) -> Point:
        """Where one of the chains starts."""
        return jax.tree.map(lambda x: x[chain], self.chains.progress.search.start)

    @property
    def is_stuck(self) -> np.ndarray:
        """Which chains stand where the density or its gradient is not finite."""
        start = jax.device_get(self.chains.progress.search.start)
        return ~np.isfinite(start.log_density) | ~np.all(np.isfinite(start.gradient), -1)


class _Run:
    """All chains of a run, and the compiled functions that move them."""

    def __init__(
        self,
        kernel: HamiltonianKernel,
        target: Target,
        layout: Layout,
        plan: Plan,
        share: Share,
    ) -> None:
        # As arrays: in other threads, JAX might take numbers to have other dtypes.
        constant = kernel, target, plan
        self.kernel, self.target, self.plan = jax.device_put(constant, share.everywhere)
        self.layout, self.share, self.schedule = layout, share, plan.schedule
        self.has_doubles = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
        self.groups: list[_Group] = []
        self.is_stopping = threading.Event()
        self.budget = np.int32(_FIRST_BUDGET)

    def begin(self, start: Callable[[np.ndarray], Chain]) -> None:
        """Makes the chains, and evaluates the density where they are to start until it is finite.

        Raises:
            ValueError: if a chain finds no such point.
        """
        num_chains = len(self.share.chains)
        attempts, size = np.zeros(num_chains, np.int32), num_chains
        if self.share.mesh is None and not self.share.is_mapped:
            size = _group_size(num_chains)
        self.groups = self._split(start(attempts), size)
        self._compile(self.groups[0])
        while True:
            for group in self.groups:
                self._move(group, np.int32(1))
            is_stuck = np.concatenate([group.is_stuck for group in self.groups])
            if not is_stuck.any():
                return
            attempts += is_stuck
            chain, num_attempts = int(np.argmax(is_stuck)), int(attempts.max())
            group = self.groups[chain // len(self.groups[0].first)]
            point = group.start(chain % len(group.first))
            chains = start(attempts)
            is_same = np.array_equal(point.position, chains.trajectory.position[chain])
            if is_same or num_attempts == MOST_ATTEMPTS:
                number = int(self.share.chains[chain])
                message = start_failure(self.target, self.layout, number, point, num_attempts)
                raise ValueError(message)
            for old, new in zip(self.groups, self._split(chains, size), strict=True):
                replace = functools.partial(_replace, old.is_stuck)
                old.chains = jax.tree.map(replace, old.chains, new.chains)

    def _split(self, chains: Chain, size: int) -> list[_Group]:
        stop, num_warmup = len(chains.progress.iteration), int(self.plan.schedule.num_warmup)
        return [
            _Group(jax.tree.map(lambda x, i=i: x[i : i + size], chains), num_warmup)
            for i in range(0, stop, size)
        ]

    def go_on(self, on_progress: Callable[[int], None]) -> None:
        """Moves all chains until they are complete, a thread for each core."""
        waiting = collections.deque(self.groups)
        with ThreadPoolExecutor(min(_num_cores(), len(waiting))) as pool:
            try:
                workers = [pool.submit(self._work, waiting) for _ in range(pool._max_workers)]
                while wait(workers, timeout=_CALL_SECONDS).not_done:
                    on_progress(self.num_done)
                for worker in workers:
                    worker.result()
                on_progress(self.num_done)
            finally:
                self.is_stopping.set()

    def _work(self, waiting: "collections.deque[_Group]") -> None:
        """Takes one group of chains after the other, and moves each for a while."""
        with jax.enable_x64(self.has_doubles):  # which holds for one thread alone
            self._work_on(waiting)

    def _work_on(self, waiting: "collections.deque[_Group]") -> None:
        while not self.is_stopping.is_set():
            try:
                group = waiting.popleft()
            except IndexError:
                return
            began = time.monotonic()
            num_spent = self._move(group, self.budget)
            seconds = time.monotonic() - began
            # A call takes about as long as one should wait for a sign of life.
            if seconds < _CALL_SECONDS / 4 and num_spent >= self.budget:
                self.budget = np.int32(min(4 * int(self.budget), 1 << 28))
            elif seconds > 2 * _CALL_SECONDS:
                self.budget = np.int32(max(1, int(self.budget) // 2))
            if np.any(group.iteration < self.plan.num_iterations):
                waiting.append(group)

    def _compile(self, group: _Group) -> None:
        """Compiles what moves a group and what reads its rows.

        Ahead of time and here, as JAX's settings are others in other threads.
        """
        chain = jax.tree.map(lambda x: x[0], group.chains)
        self.kinds = stats_of(self.kernel, chain)
        size, num_chains = self.layout.size, len(group.first)
        num_rows = max(1, min(_MOST_ROWS, _MOST_NUMBERS // (size * num_chains)))
        shape = num_chains, num_rows + 1, size + len(self.kinds)
        self.no_rows = np.zeros(shape, self.layout.dtype)
        constant = self.target, self.kernel, self.plan, self.layout
        arguments = group.chains, self.no_rows, group.first, self.budget, *constant
        self.advance = program(advance_chains, *arguments, mesh=self.share.mesh)
        arguments = self.target, self.layout, self.no_rows
        self.values = program(values, *arguments, mesh=self.share.mesh)

    def _move(self, group: _Group, budget: np.int32) -> int:
        """Moves the chains of `group`, and takes their draws when there is no room for more."""
        rows = self.no_rows.copy() if group.rows is None else group.rows
        constant = self.target, self.kernel, self.plan, self.layout
        group.chains, group.rows, num_spent = self.advance(
            group.chains, rows, group.first, budget, *constant
        )
        group.iteration = np.asarray(group.chains.progress.iteration)
        self._renew(group)
        is_complete = group.iteration >= self.plan.num_iterations
        if np.any(group.iteration - group.first >= rows.shape[1] - 1) or np.all(is_complete):
            self._take(group)
        return int(np.max(num_spent))

    def _renew(self, group: _Group) -> None:
        """Renews the mass matrices of chains that wait for it."""
        progress = group.chains.progress
        count = np.asarray(progress.adaptation.window_count)
        which = is_due(self.schedule, group.iteration, count)
        if which.any():
            state = renewed(which, progress.adaptation)
            group.chains = group.chains._replace(progress=progress._replace(adaptation=state))

    def _take(self, group: _Group) -> None:
        """Takes from the rows what they hold."""
        stops = np.minimum(group.iteration, self.plan.num_iterations)
        if group.rows is None or np.all(stops <= group.first):
            return
        values = jax.device_get(self.values(self.target, self.layout, group.rows))
        numbers = np.asarray(group.rows)[:, :, self.layout.size :]
        for chain, (first, stop) in enumerate(zip(group.first, stops, strict=True)):
            kept = slice(0, max(0, stop - first))
            draws = jax.tree.map(lambda x, c=chain, kept=kept: x[c, kept].copy(), values)
            stats = {
                name: numbers[chain, kept, i].astype(kind.dtype)
                for i, (name, kind) in enumerate(self.kinds.items())
            }
            group.parts[chain].append((draws, stats))
        group.first = np.maximum(group.first, stops).astype(np.int32)

    @property
    def num_done(self) -> int:
        """Iterations that are complete, on the average over chains."""
        iterations = np.concatenate([group.iteration for group in self.groups])
        return int(np.mean(np.minimum(iterations, self.plan.num_iterations)))

    @property
    def num_drawn(self) -> int:
        """Draws that every chain has made."""
        fewest = min(int(np.min(group.iteration)) for group in self.groups)
        return max(
            0, min(fewest, int(self.plan.num_iterations)) - int(self.plan.schedule.num_warmup)
        )

    def samples(self, num_drawn: int) -> Samples:
        """The first `num_drawn` draws of each chain."""
        for group in self.groups:
            self._take(group)
        chains = [
            jax.tree.map(lambda *x: np.concatenate(x)[:num_drawn], *parts)
            for group in self.groups
            for parts in group.parts
        ]
        draws, stats = jax.tree.map(lambda *x: np.stack(x), *chains)
        metrics = [group.chains.progress.adaptation.inverse_mass_matrix for group in self.groups]
        return Samples(draws, stats, np.concatenate(metrics))


def _replace(which: np.ndarray, old: Any, new: Any) -> np.ndarray:
    """`new` for the chains that are `which`, else `old`."""
    return np.where(which.reshape(-1, *[1] * (np.ndim(new) - 1)), new, old)


def _group_size(num_chains: int) -> int:
    """How many chains one call moves: a divisor, so that all groups share a compiled function."""
    least = -(-num_chains // _MOST_GROUPS)
    return next(size for size in range(least, num_chains + 1) if num_chains % size == 0)


def _num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
