"""Sampling with a kernel of `init` and `step` alone: starts, iterations and draws, on all cores.

A call of a compiled program makes some transitions of some chains. On the CPU a thread for each
core takes one batch of chains after the other; on an accelerator all chains are mapped over. The
key of a transition is a hash of the run's key, the chain's number and the iteration alone.
"""

import dataclasses
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.sharding import Mesh
from jax.tree_util import Partial

from inference.chains.chain_programs import compile_values
from inference.chains.sampling import Samples, check_sites, group_size, num_cores
from inference.common.layout import Layout
from inference.common.target import Target
from inference.common.threefry import threefry
from inference.hamiltonian.kernel import Kernel
from inference.initialization.initial_positions import MAX_ATTEMPTS, parse_init, starting_points
from inference.initialization.not_finite import start_failure
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import Share, share_chains
from inference.runtime.interrupts import without_interrupts
from inference.runtime.jax_settings import numbers_of_any_kind
from inference.runtime.xla_options import may_hang

# Maximum of rows of a chain and of numbers in all rows of a batch, and seconds of a call.
MAX_ROWS, MAX_NUMBERS, CALL_SECONDS = 2048, 1 << 22, 0.1


class StepChain(NamedTuple):
    """Chain between two transitions: its own seed, the number of transitions, and its state."""

    seed: Any
    iteration: Any
    state: Any


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
    on_progress: Callable[[int], None] = lambda _: None,
) -> Samples:
    """Draws from a target with `num_chains` chains, after `num_warmup` iterations that are dropped.

    See :func:`inference.mcmc` for the arguments.

    Raises:
        TypeError: if the kernel's states change their shapes, or its statistics are not scalars.
        ValueError: if a chain finds no point of finite density to start from.
    """
    share = share_chains(num_chains, mesh, target.mesh)
    starts = parse_init(init, target, num_chains)
    kernel = _with_density(kernel, target)
    run = _Run(kernel, target, share, num_warmup, num_draws)
    with share.together():
        run.begin(
            lambda tries: starting_points(key, share.chains, tries, starts, target, run.layout)
        )
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
    with without_interrupts():
        return share.gather(run.samples(share.min_over_processes(run.num_drawn)))


def _with_density(kernel: Any, target: Target) -> Any:
    """Kernel with the target's log density, if the kernel has a field for one."""
    if not hasattr(kernel, "log_density"):
        return kernel
    return dataclasses.replace(kernel, log_density=Partial(_log_density, target))


def _log_density(target: Target, position: Any) -> jax.Array:
    return target.log_density(position)


def begin_chains(
    kernel: Kernel, target: Target, layout: Layout, positions: jax.Array
) -> tuple[Any, jax.Array]:
    """States of the kernel at flat positions ``(chain, size)``, and log densities ``(chain,)``."""

    def begin(vector: jax.Array) -> tuple[Any, jax.Array]:
        position = layout.unravel(vector)
        return jax.tree.map(jnp.asarray, kernel.init(position)), target.log_density(position)

    return lax.map(begin, positions)


def step_chains(
    chains: StepChain, rows: Any, number: jax.Array, kernel: Kernel, layout: Layout
) -> tuple[StepChain, Any]:
    """Chains after `number` transitions, and their rows; one chain after the other."""
    return lax.map(lambda state: _steps(kernel, layout, number, *state), (chains, rows))


def step_chains_mapped(
    chains: StepChain, rows: Any, number: jax.Array, kernel: Kernel, layout: Layout
) -> tuple[StepChain, Any]:
    """Chains after `number` transitions, and their rows; all side by side, for accelerators."""
    return jax.vmap(lambda *state: _steps(kernel, layout, number, *state))(chains, rows)


def _steps(
    kernel: Kernel, layout: Layout, number: jax.Array, chain: StepChain, rows: Any
) -> tuple[StepChain, Any]:
    def step(i: Any, carry: tuple[StepChain, Any]) -> tuple[StepChain, Any]:
        old, rows = carry
        new, row = _transition(kernel, layout, old)
        return new, jax.tree.map(lambda x, value: x.at[i].set(value), rows, row)

    return lax.fori_loop(0, number, step, (chain, rows))


def _transition(
    kernel: Kernel, layout: Layout, chain: StepChain
) -> tuple[StepChain, tuple[jax.Array, dict[str, jax.Array]]]:
    """Chain after a transition, its flat position, and statistics by name."""
    words = jnp.stack(threefry(chain.seed, chain.iteration))
    key = random.wrap_key_data(words, impl="threefry2x32")
    state, info = kernel.step(key, chain.state)
    stats = dict(info._asdict())
    if hasattr(state, "log_density"):
        stats["log_density"] = state.log_density
    state, stats = jax.tree.map(jnp.asarray, (state, dict(sorted(stats.items()))))
    new = StepChain(chain.seed, chain.iteration + 1, state)
    return new, (layout.ravel(state.position), stats)


def _check(kernel: Any, layout: Layout, state: Any) -> None:
    """Checks that `step` keeps the protocol of :class:`Kernel`.

    Raises:
        TypeError: if the state changes its form or has no position, or the info is not a NamedTuple
            of scalars.
    """
    name, key = type(kernel).__name__, jax.eval_shape(lambda: random.key(0))
    after, info = jax.eval_shape(lambda key, state: kernel.step(key, state), key, state)
    before, after = (
        (jax.tree.structure(x), [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(x)])
        for x in (state, after)
    )
    if before != after:
        raise TypeError(
            f"{name}.step must return a state like that of {name}.init: it has {after}, and that "
            f"of init {before}"
        )
    if not hasattr(state, "position"):
        raise TypeError(f"the state of {name} must be a NamedTuple with a position, got {state}")
    if not hasattr(info, "_asdict") or any(np.shape(x) for x in info):
        raise TypeError(f"the info of {name}.step must be a NamedTuple of scalars, got {info}")
    if Layout.of(state.position) != layout:
        raise TypeError(
            f"the position of {name} must stay as init has got it, {layout}, got {state.position}"
        )


class _Group:
    """Batch of chains that one call moves, with the pieces of their draws."""

    def __init__(self, chains: StepChain) -> None:
        self.chains, self.num_done = chains, 0
        self.pieces: list[Any] = []


class _Run:
    """Run of all chains of this process, with the compiled functions that move them."""

    def __init__(
        self, kernel: Any, target: Target, share: Share, num_warmup: int, num_draws: int
    ) -> None:
        self.unplaced = kernel, target
        self.kernel, self.target = jax.device_put((kernel, target), share.everywhere)
        self.layout, self.share = Layout.of(target.position_shapes), share
        self.num_warmup, self.num_iterations = num_warmup, num_warmup + num_draws
        self.has_doubles = jax.dtypes.canonicalize_dtype(np.float64) == np.float64
        self.number, self.is_stopping = 1, threading.Event()
        self.groups: list[_Group] = []

    def begin(self, start: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> None:
        """Makes the chains at starting points of finite density.

        Args:
            start: Function from the number of the attempt of each chain to seeds and positions.

        Raises:
            TypeError: if the kernel breaks the protocol.
            ValueError: if a chain finds no such point.
        """
        tries, last = np.zeros(len(self.share.chains), np.int32), None
        here = dataclasses.replace(self.share, mesh=None)
        while True:
            seeds, positions = start(tries)
            arguments = *self.unplaced, self.layout, positions
            begun = compile_once(begin_chains, *arguments, share=here)(*arguments)
            states, log_densities = jax.device_get(begun)
            is_stuck = ~np.isfinite(log_densities)
            if not is_stuck.any():
                break
            tries += is_stuck
            chain = int(np.argmax(is_stuck))
            is_same = last is not None and np.array_equal(last, positions[chain])
            if is_same or tries.max() == MAX_ATTEMPTS:
                number, here = int(self.share.chains[chain]), positions[chain]
                at = here, log_densities[chain], np.zeros_like(here)
                raise ValueError(
                    start_failure(self.target, self.layout, number, int(tries.max()), *at)
                )
            last = positions[chain]
        chains = StepChain(seeds, np.zeros(len(seeds), np.int32), states)
        _check(self.kernel, self.layout, jax.tree.map(lambda x: x[0], states))
        self._compile(chains)

    def _compile(self, chains: StepChain) -> None:
        num_chains, is_mapped = len(chains.seed), self.share.is_mapped
        is_whole = self.share.mesh is not None or is_mapped
        size = num_chains if is_whole else group_size(num_chains)
        parts = [
            jax.tree.map(lambda x, i=i: x[i : i + size], chains) for i in range(0, num_chains, size)
        ]
        self.groups = [_Group(part) for part in parts]
        chain = jax.tree.map(lambda x: x[0], chains)
        _, row = jax.eval_shape(
            lambda kernel, chain: _transition(kernel, self.layout, chain), self.kernel, chain
        )
        self.num_rows = max(1, min(MAX_ROWS, MAX_NUMBERS // (size * max(1, self.layout.size))))
        # One row more, which `values` leaves out.
        shape = size, self.num_rows + 1
        self.no_rows = jax.tree.map(lambda x: np.zeros((*shape, *x.shape), x.dtype), row)
        arguments = parts[0], self.no_rows, np.int32(1), self.kernel, self.layout
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

    def go_on(self, on_progress: Callable[[int], None]) -> None:
        """Moves all chains until they are complete, on a thread for each core.

        One core stays idle where calls on all cores may hang.
        """
        num_idle = any(map(may_hang, (self.advance, self.values)))
        num_threads = max(1, min(num_cores() - num_idle, len(self.groups)))
        pool = ThreadPoolExecutor(1 if self.share.own is not None else num_threads)
        try:
            workers = [pool.submit(self._work, group) for group in self.groups]
            while (now := wait(workers, timeout=CALL_SECONDS)).not_done:
                on_progress(self.num_done)
                for worker in now.done:
                    worker.result()
            for worker in workers:
                worker.result()
            on_progress(self.num_done)
        finally:
            self.is_stopping.set()
            with without_interrupts():  # no thread can be stopped within a call
                pool.shutdown(cancel_futures=True)

    def _work(self, group: _Group) -> None:
        with jax.enable_x64(self.has_doubles), numbers_of_any_kind():  # for one thread alone
            while group.num_done < self.num_iterations and not self.is_stopping.is_set():
                self._move(group)

    def _move(self, group: _Group) -> None:
        """Makes as many transitions of a batch as take about `CALL_SECONDS`."""
        to_end = self.num_iterations - group.num_done
        if group.num_done < self.num_warmup:
            to_end = self.num_warmup - group.num_done
        number = min(self.number, self.num_rows, to_end)
        began, rows = time.monotonic(), jax.tree.map(np.copy, self.no_rows)
        arguments = group.chains, rows, np.int32(number), self.kernel, self.layout
        group.chains, (positions, stats) = self.advance(*arguments)
        if group.num_done >= self.num_warmup:
            draws = self.values(self.target, self.layout, positions)
            piece = jax.device_get((draws, stats))
            group.pieces.append(jax.tree.map(lambda x: x[:, :number].copy(), piece))
        jax.block_until_ready(group.chains)
        group.num_done += number
        each = (time.monotonic() - began) / number
        self.number = int(np.clip(CALL_SECONDS / max(each, 1e-9), 1, 2 * number + 1))

    @property
    def num_done(self) -> int:
        """Number of complete iterations, the average over batches."""
        return int(np.mean([group.num_done for group in self.groups]))

    @property
    def num_drawn(self) -> int:
        """Number of draws that every chain has made."""
        return max(0, min(group.num_done for group in self.groups) - self.num_warmup)

    def samples(self, num_drawn: int) -> Samples:
        """The first `num_drawn` draws of each chain."""
        parts = [
            jax.tree.map(lambda *x: np.concatenate(x, 1)[:, :num_drawn], *group.pieces)
            for group in self.groups
        ]
        whole: Any = jax.tree.map(lambda *x: np.concatenate(x), *parts)
        draws, stats = whole
        return Samples(draws, stats, None)
