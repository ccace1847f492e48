"""Sampling with an ensemble kernel: all chains move together, in one program.

A call of the program makes some transitions of all chains, so that progress shows and an interrupt
keeps the draws. The devices of a mesh run one program together, in which a mean over chains is a
mean over the chains of all devices.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from inference.chains.ensemble_chains import (
    EnsembleChains,
    begin_ensemble,
    check_ensemble,
    evaluate_starts,
    evaluate_values,
    make_transitions,
    move_ensemble,
)
from inference.chains.recorder import Recorder
from inference.chains.run_control import Monitor, finish_run
from inference.chains.samples import Samples
from inference.chains.step_run import MAX_NUMBERS_WHOLE, StepRun
from inference.chains.step_sampling import with_density
from inference.common.state_leaves import State, restore_leaves
from inference.common.target import Target
from inference.initialization.density_noise import warn_of_noise
from inference.initialization.initial_positions import (
    STRATEGIES,
    Init,
    chain_seeds,
    parse_init,
)
from inference.initialization.start_search import StartingPoints, find_starts
from inference.kernels.ensemble.differences import DifferenceKernel
from inference.kernels.ensemble.kernel import DensityKernel, EnsembleKernel
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import check_processes, share_chains
from inference.runtime.signature import shapes_of

MAX_SUPERCHAINS = 16  # starting points of an ensemble, each shared by consecutive chains
MIN_SUBCHAINS = 4  # chains that share a start; if fewer would, each chain has its own


def sample_ensemble(
    key: jax.Array,
    target: Target,
    kernel: EnsembleKernel,
    *,
    num_warmup: int,
    num_draws: int,
    num_chains: int,
    init: str | Mapping[str, Any] = "uniform",
    mesh: Mesh | None = None,
    monitor: Monitor | None = None,
    recorder: Recorder | None = None,
) -> Samples:
    """Draws from a target with `num_chains` chains that adapt together in warm-up.

    See :func:`inference.mcmc` for the arguments.

    Raises:
        TypeError: if the kernel breaks the protocol.
        ValueError: if a chain finds no point of finite density to start from, or there are too few
            chains for the kernel.
        NotImplementedError: if `mesh` has devices of several processes.
    """
    share = share_chains(num_chains, mesh, target)
    check_processes(kernel, share)
    if share.is_partial:
        raise NotImplementedError(
            f"chains of {type(kernel).__name__} adapt together, within one process; leave out "
            "mesh, or give one of jax.local_devices()"
        )
    starts = parse_init(init, target, num_chains)
    is_uniform = starts.strategy == "uniform" and starts.values is None
    if is_uniform and num_warmup and not isinstance(kernel, DifferenceKernel):
        # One far start would rule the step size that all chains share.
        starts = dataclasses.replace(starts, strategy="bulk")
    share = dataclasses.replace(share, is_mapped=True)
    kernel = with_density(kernel, target)
    run = EnsembleRun(kernel, target, share, num_warmup, num_draws, recorder)
    numbers = np.arange(num_superchains(kernel, init, num_chains) or num_chains)
    begin = partial(run.begin, key, numbers, starts)
    if starts.strategy == "chains":
        begin = partial(run.take_over, key, starts)
    run.start(begin, run.restore)
    return finish_run(run, monitor or Monitor(), num_draws)


def num_superchains(kernel: EnsembleKernel, init: Any, num_chains: int) -> int | None:
    """Number of superchains, groups of equally many consecutive chains with one start each.

    `None` if each chain has a start of its own: if starts are given, for fewer than 32 chains, if
    no number from 8 to 16 divides the number of chains into groups of four or more, or if the
    kernel moves chains along their differences.
    """
    if isinstance(kernel, DifferenceKernel):
        return None
    if not isinstance(init, str) or init not in STRATEGIES:
        return None
    most = min(MAX_SUPERCHAINS, num_chains // MIN_SUBCHAINS)
    divisors = [number for number in range(most, 7, -1) if num_chains % number == 0]
    return divisors[0] if divisors else None


class EnsembleRun(StepRun):
    """Run of all chains, with the compiled functions that move them."""

    def begin(self, key: jax.Array, numbers: np.ndarray, init: Init) -> None:
        """Makes the chains at starting points of finite density, and gradient if it is needed.

        Args:
            key: Random key of the run.
            numbers: Numbers of the starts; if there are fewer starts than chains, consecutive
                chains share a start.
            init: Initial positions.

        Raises:
            TypeError: if the kernel breaks the protocol, or a setting of it is not a real number.
            ValueError: if a start finds no point of finite density and gradient, there are too few
                chains, or a setting of the kernel is out of range.
        """
        kernel, target = self.unplaced
        if isinstance(kernel, DensityKernel):
            kernel.check(self.layout)  # in the program to compile, settings are unknown
        num_chains = self.share.num_chains
        unspread = self.share.unspread
        empty = np.zeros((num_chains, self.layout.size), self.layout.dtype)
        begin = compile_once(begin_ensemble, kernel, self.layout, empty, share=unspread)
        has_gradient = not isinstance(kernel, DifferenceKernel)
        evaluate_density = evaluate_starts if has_gradient else evaluate_values

        def evaluate(seeds: np.ndarray, positions: np.ndarray) -> StartingPoints:
            arguments = target, self.layout, positions
            program = compile_once(evaluate_density, *arguments, share=unspread)
            return StartingPoints(positions, *jax.device_get(program(*arguments)), result=seeds)

        found = find_starts(evaluate, key, numbers, init, target, self.layout)
        seeds = found.result
        warn_of_noise(lambda nearby: evaluate(seeds, nearby).log_density, found.position)
        positions = np.repeat(found.position, num_chains // len(numbers), 0)
        if isinstance(kernel, DensityKernel):
            kernel.check_positions(positions)
        state = jax.device_get(begin(kernel, self.layout, positions))
        check_ensemble(self.kernel, self.layout, state, num_chains)
        number = np.int32(self.num_warmup)
        self._compile(EnsembleChains(seeds[0], np.int32(0), number, state))

    def restore(self, state: State) -> None:
        """Makes the chains as they were when a state of this run was recorded.

        Raises:
            ValueError: if the state does not fit the run.
        """
        self._compile(self._restore_chains(state), state["num_done"])

    def take_over(self, key: jax.Array, init: Init) -> None:
        """Makes the chains where those of another run are, with all that these have learned.

        Args:
            key: Random key of this run.
            init: State of the other run, of as many chains.

        Raises:
            ValueError: if the state does not fit the run.
        """
        seed = chain_seeds(key, np.arange(1))[0]
        number = np.int32(self.num_warmup)
        chains = self._restore_chains(init.values)
        self._compile(EnsembleChains(seed, np.int32(0), number, chains.state))

    def _restore_chains(self, state: State) -> EnsembleChains:
        kernel, _ = self.unplaced
        empty = np.zeros((self.share.num_chains, self.layout.size), self.layout.dtype)
        like = jax.eval_shape(begin_ensemble, kernel, self.layout, empty)
        chains = EnsembleChains(np.zeros(2, np.uint32), np.int32(0), np.int32(0), like)
        return restore_leaves("chain", state, chains)

    def _compile(self, chains: EnsembleChains, num_done: Any = 0) -> None:
        num_chains = self.share.num_chains
        self._make_batches([chains], num_chains, num_done)
        _, row = shapes_of(make_transitions, self.kernel, self.layout, chains)
        row = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), row)
        self._make_rows(row, num_chains, MAX_NUMBERS_WHOLE)
        self._compile_programs(move_ensemble, row, joint=num_chains)
