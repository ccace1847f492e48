"""Pool of the chains of many targets, in batches: a program makes the whole chains of a batch.

On the CPU a call makes the chains of a batch one after the other, each with its own data, so that
no chain waits for another. Batches depend neither on each other nor on the number of cores. They
are made by threads, one for each core, or by other processes.
"""

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.chains.chain_threads import ChainThreads
from inference.chains.traced_run import RunDraws, TracedRun
from inference.chains.traced_steps import TracedSteps
from inference.common.target import Target
from inference.common.threefry import threefry
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import share_chains
from inference.runtime.jax_settings import numbers_of_any_kind
from inference.runtime.xla_options import may_hang
from ppl.harvest.pytrees import register_dataclass

_MAX_BATCH = 64  # chains of a call, on the CPU
_MAX_BATCH_MAPPED = 4096  # on an accelerator
_NUM_BATCHES = 128  # at least, on the CPU, if there are so many chains
# Calls that may hang if all cores make them at the same time make them in turn.
_in_turn = threading.Lock()


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Targets:
    """Targets of one structure: the leaves that differ are stacked, the others shared.

    Attributes:
        stacked: Leaves with the targets in front; `None` in place of a shared leaf.
        shared: Leaves that all targets have; `None` in place of a stacked leaf.
        structure: Structure of a target.
    """

    stacked: list[Any]
    shared: list[Any]
    structure: Any = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(cls, first: Target, leaves: list[Any]) -> "Targets":
        """Targets with the structure of `first`, from their leaves.

        A leaf with one axis more than the leaf of `first` differs between targets and is stacked.
        All others are shared.
        """
        pairs = zip(leaves, jax.tree.leaves(first), strict=True)
        differs = [np.ndim(x) > np.ndim(one) for x, one in pairs]
        stacked = [x if d else None for x, d in zip(leaves, differs, strict=True)]
        shared = [None if d else x for x, d in zip(leaves, differs, strict=True)]
        return cls(stacked, shared, jax.tree.structure(first))

    def some(self, start: int, stop: int) -> "Targets":
        """Targets of consecutive numbers."""
        stacked = [None if x is None else _rows(x, start, stop) for x in self.stacked]
        return Targets(stacked, self.shared, self.structure)

    def take(self, which: jax.Array) -> tuple[Any, Any]:
        """Target at an index, or targets at indices, and the axis over indices of each leaf."""
        pairs = list(zip(self.stacked, self.shared, strict=True))
        leaves = [shared if x is None else x[which] for x, shared in pairs]
        axes = [None if x is None else 0 for x, _ in pairs]
        return jax.tree.unflatten(self.structure, leaves), jax.tree.unflatten(self.structure, axes)


def _rows(x: Any, start: int, stop: int) -> Any:
    """Rows of an array; on the host, where arrays of NumPy can hold them."""
    if isinstance(x, jax.Array):
        is_of_jax = jnp.issubdtype(x.dtype, jax.dtypes.extended) or x.weak_type
        x = x if is_of_jax else np.asarray(x)
    return x[start:stop]


class PoolBatch(NamedTuple):
    """Chains of a pool that one call makes, with all that they need.

    Attributes:
        places: Place in `targets` of the target of each chain.
        of_target: Number of the target of each chain.
        of_chain: Number of each chain among those of its target.
        seed: Two words of the key.
        targets: Targets of these chains.
        run: Settings of each chain.
    """

    places: np.ndarray
    of_target: np.ndarray
    of_chain: np.ndarray
    seed: np.ndarray
    targets: Targets
    run: TracedRun | TracedSteps


@dataclasses.dataclass(frozen=True)
class TargetPool:
    """Chains of all targets, in batches of equal shapes.

    Attributes:
        seed: Two words of the key. Chains of a target depend only on them, on the target and on its
            number.
        run: Settings of each chain.
        targets: The targets.
        num_targets: Number of targets.
        num_chains: Number of chains of each target.
    """

    seed: np.ndarray
    run: TracedRun | TracedSteps
    targets: Targets
    num_targets: int
    num_chains: int

    @property
    def size(self) -> int:
        """Number of chains."""
        return self.num_targets * self.num_chains

    @property
    def batch_size(self) -> int:
        """Number of chains of a batch."""
        if self.run.is_mapped:
            return min(_MAX_BATCH_MAPPED, self.size)
        return max(1, min(_MAX_BATCH, self.size // _NUM_BATCHES))

    @property
    def num_batches(self) -> int:
        """Number of batches; the last one may repeat the last chain."""
        return -(-self.size // self.batch_size)

    def chains_of(self, i: int) -> range:
        """Chains of a batch, numbered through all targets."""
        start = i * self.batch_size
        return range(start, min(start + self.batch_size, self.size))

    def batch(self, i: int) -> PoolBatch:
        """A batch by its number."""
        start = i * self.batch_size
        numbers = np.arange(start, start + self.batch_size, dtype=np.int32)
        numbers = np.minimum(numbers, np.int32(self.size - 1))
        of_target, of_chain = np.divmod(numbers, np.int32(self.num_chains))
        # The most targets that a batch can have, so that all batches have the same shapes.
        most = (self.batch_size + self.num_chains - 2) // self.num_chains + 1
        most = min(most, self.num_targets)
        first = min(of_target[0], np.int32(self.num_targets - most))
        targets = self.targets.some(int(first), int(first) + most)
        return PoolBatch(of_target - first, of_target, of_chain, self.seed, targets, self.run)

    def on_device(self) -> "TargetPool":
        """Pool whose settings and shared leaves are on the device."""
        shared, run = jax.device_put((self.targets.shared, self.run))
        targets = dataclasses.replace(self.targets, shared=shared)
        return dataclasses.replace(self, targets=targets, run=run)


class PoolDraws:
    """Draws of all chains of a pool on the host, put in by batches."""

    def __init__(self, pool: TargetPool) -> None:
        self._pool = pool
        self._whole: Any = None

    def put(self, i: int, made: RunDraws) -> None:
        """Puts in the draws of a batch by its number."""
        size = self._pool.size
        if self._whole is None:
            self._whole = jax.tree.map(lambda x: np.empty((size, *x.shape[1:]), x.dtype), made)
        chains = self._pool.chains_of(i)
        for whole, part in zip(jax.tree.leaves(self._whole), jax.tree.leaves(made), strict=True):
            whole[chains.start : chains.stop] = part[: len(chains)]

    def by_target(self) -> RunDraws:
        """Draws of all chains, ``(target, chain, draw, ...)``."""
        shape = self._pool.num_targets, self._pool.num_chains
        return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), self._whole)


def sample_batches(
    pool: TargetPool,
    numbers: Sequence[int],
    take: Callable[[int, RunDraws], None],
    on_progress: Callable[[], None],
) -> None:
    """Makes batches of a pool on all cores, or on an accelerator.

    Args:
        pool: The pool.
        numbers: Numbers of the batches.
        take: Function called with the number and the draws of each batch that is finished, in any
            order, also after an interrupt.
        on_progress: Function called now and then, and at the end.
    """
    if not numbers:
        return
    pool = pool.on_device()
    program = compile_once(_make_chains, *pool.batch(numbers[0]))
    made: collections.deque[tuple[int, RunDraws]] = collections.deque()

    def move(i: int) -> bool:
        made.append((i, jax.device_get(program(*pool.batch(i)))))
        return False

    def hand_over() -> None:
        while made:
            take(*made.popleft())

    def look() -> None:
        hand_over()
        on_progress()

    try:
        with ChainThreads(len(numbers), [program], share_chains(1, None)) as threads:
            threads.finish(numbers, move, look)
    finally:
        hand_over()


def make_batch(batch: PoolBatch) -> dict[str, Any]:
    """Draws of a batch, the fields of a :class:`RunDraws`, on the host; for other processes."""
    with numbers_of_any_kind():
        program = compile_once(_make_chains, *batch)
        with _in_turn if may_hang(program) else contextlib.nullcontext():
            return jax.device_get(program(*batch))._asdict()


def _make_chains(
    places: jax.Array,
    of_target: jax.Array,
    of_chain: jax.Array,
    seed: jax.Array,
    targets: Targets,
    run: Any,
) -> RunDraws:
    """Whole chains, by their numbers in the pool."""

    def seed_of_chain(target: jax.Array, chain: jax.Array) -> jax.Array:
        own = jnp.stack(threefry(seed, target))
        return jnp.stack(threefry(own, chain))

    seeds = jax.vmap(seed_of_chain)(of_target, of_chain)
    if run.is_mapped:
        return run.map_chains(seeds, *targets.take(places))
    return lax.map(lambda x: run.one_chain(x[0], targets.take(x[1])[0]), (seeds, places))
