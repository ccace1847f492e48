"""Sampling with a kernel that moves each chain by `step`: starts and draws, on all cores.

A call of a compiled program makes some transitions of a batch of chains. On the CPU a thread for
each core takes the batches in turn, so that an interrupt finds draws of every chain; on an
accelerator all chains are mapped over.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jax.tree_util import Partial

from inference.chains.batch import Batch
from inference.chains.chain_threads import batch_size
from inference.chains.recorder import Recorder
from inference.chains.run_control import Monitor, finish_run
from inference.chains.samples import Samples
from inference.chains.step_chains import (
    StepChain,
    begin_chains,
    check_protocol,
    make_transition,
    step_chains,
    step_chains_mapped,
)
from inference.chains.step_run import MAX_NUMBERS, MAX_NUMBERS_WHOLE, StepRun
from inference.common.layout import Layout
from inference.common.state_leaves import State, restore_leaves
from inference.common.target import Target
from inference.initialization.density_noise import warn_of_noise
from inference.initialization.initial_positions import Init, chain_seeds, parse_init
from inference.initialization.start_search import StartingPoints, find_starts
from inference.kernels.gibbs.sweep import Sweep
from inference.kernels.gradient_free.kernel import GradientFreeKernel
from inference.kernels.hamiltonian.kernel import Kernel
from inference.kernels.tempering.parallel_tempering import ParallelTempering
from inference.kernels.tempering.reference import PriorReference
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import check_processes, share_chains
from inference.runtime.signature import shapes_of


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
    share = share_chains(num_chains, mesh, target)
    check_processes(kernel, share)
    starts = parse_init(init, target, num_chains)
    kernel = with_density(kernel, target)
    if isinstance(kernel, GradientFreeKernel | ParallelTempering):
        kernel.check(Layout.of(target.position_shapes))
    run = PlainRun(kernel, target, share, num_warmup, num_draws, recorder)
    begin = run.take_over if starts.strategy == "chains" else run.begin
    run.start(partial(begin, key, starts), run.restore)
    return finish_run(run, monitor or Monitor(), num_draws)


def with_density(kernel: Any, target: Target) -> Any:
    """Kernel with the log density of the target, if it has a field for one, or sweep of the target.

    Parallel tempering starts at the target's prior, unless it has a reference of its own.
    """
    if isinstance(kernel, Sweep):
        return dataclasses.replace(kernel, target=target)
    if not hasattr(kernel, "log_density"):
        return kernel
    kernel = dataclasses.replace(kernel, log_density=Partial(_log_density, target))
    if isinstance(kernel, ParallelTempering) and kernel.reference is None:
        kernel = dataclasses.replace(kernel, reference=PriorReference.of(target))
    return kernel


def _log_density(target: Target, position: Any) -> jax.Array:
    return target.log_density(position)


class PlainRun(StepRun):
    """Run of independent chains."""

    def begin(self, key: jax.Array, init: Init) -> None:
        """Makes the chains at starting points of finite density.

        Args:
            key: Random key of the run.
            init: Initial positions.

        Raises:
            TypeError: if the kernel breaks the protocol.
            ValueError: if a chain finds no point of finite density.
        """
        seeds, states = self._find_starts(key, init)
        chains = StepChain(seeds, *self._numbers(len(seeds)), states)
        check_protocol(self.kernel, self.layout, jax.tree.map(lambda x: x[0], states))
        self._compile(chains)

    def restore(self, state: State) -> None:
        """Makes the chains as they were when a state of this run was recorded.

        Raises:
            ValueError: if the state does not fit the run.
        """
        chains = self._restore_chains(state, len(self.share.chains))
        self._compile(chains, int(state["chains_per_call"]), state["num_done"])

    def take_over(self, key: jax.Array, init: Init) -> None:
        """Makes the chains where those of another run are, with all that these have learned.

        If there are more chains than in that run, they take turns.

        Args:
            key: Random key of this run.
            init: State of the other run.

        Raises:
            ValueError: if the state does not fit the run.
        """
        numbers = self.share.chains
        num_others = len(init.values["chain.0"])
        others = self._restore_chains(init.values, num_others)
        states = jax.tree.map(lambda x: x[numbers % num_others], others.state)
        seeds = chain_seeds(key, numbers)
        self._compile(StepChain(seeds, *self._numbers(len(numbers)), states))

    def _restore_chains(self, state: State, num_chains: int) -> StepChain:
        empty = np.zeros((num_chains, self.layout.size), self.layout.dtype)
        states, _ = jax.eval_shape(begin_chains, *self.unplaced, self.layout, empty)
        words = np.zeros((num_chains, 2), np.uint32)
        empty = StepChain(words, *self._numbers(num_chains), states)
        return restore_leaves("chain", state, empty)

    def _wait(self, batch: Batch, spent: int) -> int:
        """Waits for a call; a kernel may check states of warm-up, and after the first transition.

        Raises:
            ValueError: if states are such that the chains cannot go on.
        """
        spent = super()._wait(batch, spent)
        num_done = int(batch.iteration[0])
        if num_done <= max(self.num_warmup, 1) and hasattr(self.kernel, "check_states"):
            self.kernel.check_states(jax.device_get(batch.chains.state))
        return spent

    def _numbers(self, num_chains: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of transitions before a run, and of those of warm-up, by chain."""
        return np.zeros(num_chains, np.int32), np.full(num_chains, self.num_warmup, np.int32)

    def _find_starts(self, key: jax.Array, init: Init) -> tuple[np.ndarray, Any]:
        """Seeds, and states of the kernel at points of finite density; see :meth:`begin`."""
        unspread = self.share.unspread

        def evaluate(seeds: np.ndarray, positions: np.ndarray) -> StartingPoints:
            arguments = *self.unplaced, self.layout, positions
            begun = compile_once(begin_chains, *arguments, share=unspread)(*arguments)
            states, log_densities = jax.device_get(begun)
            return StartingPoints(positions, log_densities, result=(seeds, states))

        target = self.unplaced[1]
        found = find_starts(evaluate, key, self.share.chains, init, target, self.layout)
        seeds, _ = found.result
        if self.layout.is_floating:
            warn_of_noise(lambda nearby: evaluate(seeds, nearby).log_density, found.position)
        return found.result

    def _compile(
        self, chains: StepChain, chains_per_call: int | None = None, num_done: Any = 0
    ) -> None:
        num_chains = len(chains.seed)
        is_mapped = self.share.is_mapped
        is_whole = self.share.mesh is not None or is_mapped
        size = chains_per_call or (num_chains if is_whole else batch_size(num_chains))
        parts = [
            jax.tree.map(lambda x, i=i: x[i : i + size], chains) for i in range(0, num_chains, size)
        ]
        self._make_batches(parts, size, num_done)
        chain = jax.tree.map(lambda x: x[0], chains)
        _, row = shapes_of(make_transition, self.kernel, self.layout, chain)
        self._make_rows(row, size, MAX_NUMBERS_WHOLE if is_whole else MAX_NUMBERS)
        self._compile_programs(step_chains_mapped if is_mapped else step_chains, row)
