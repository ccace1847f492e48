"""Pool of the chains of many targets: a program makes whole chains, on all cores or an accelerator.

On the CPU a call makes a batch of chains one after the other, each with its own data, so that no
chain waits for another; a thread for each core takes one batch after the other.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.chains.chain_threads import ChainThreads, num_cores
from inference.chains.samples import check_sites
from inference.chains.traced_run import RunDraws, TracedRun
from inference.chains.traced_steps import TracedSteps
from inference.common.target import Target
from inference.common.threefry import seed_of, threefry
from inference.runtime.compiled_program import compile_once
from inference.runtime.devices import share_chains
from ppl.harvest.pytrees import register_dataclass

_MAX_BATCH = 64  # chains of a call, on the CPU
_MAX_BATCH_MAPPED = 4096  # on an accelerator


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

    def take(self, which: jax.Array) -> tuple[Any, Any]:
        """Target at an index, or targets at indices, and the axis over indices of each leaf."""
        pairs = list(zip(self.stacked, self.shared, strict=True))
        leaves = [shared if x is None else x[which] for x, shared in pairs]
        axes = [None if x is None else 0 for x, _ in pairs]
        return jax.tree.unflatten(self.structure, leaves), jax.tree.unflatten(self.structure, axes)


def sample_pool(
    key: jax.Array,
    run: TracedRun | TracedSteps,
    targets: Targets,
    num_targets: int,
    num_chains: int,
    on_progress: Callable[[int], None] | None,
) -> RunDraws:
    """Draws of chains of all targets, ``(target, chain, draw, ...)``, on the host.

    Args:
        key: Random key; chains of a target depend only on it and on the target's number.
        run: Settings of each chain.
        targets: The targets.
        num_targets: Number of targets.
        num_chains: Number of chains of each target.
        on_progress: Function called now and then with the number of finished chains, or `None`.
    """
    size = num_targets * num_chains
    is_mapped = run.is_mapped
    most = _MAX_BATCH_MAPPED if is_mapped else _MAX_BATCH
    each = max(1, min(most, size if is_mapped else -(-size // (4 * num_cores()))))
    seed = np.asarray(seed_of(key))
    targets, run = jax.device_put((targets, run))
    numbers = np.arange(-(-size // each) * each, dtype=np.int32) % size  # the last batch is full
    batches = list(numbers.reshape(-1, each))
    chains = np.int32(num_chains)
    program = compile_once(_make_chains, batches[0], chains, seed, targets, run)
    check_sites(program.out_info.draws)
    kept = jax.tree.map(lambda x: np.empty((size, *x.shape[1:]), x.dtype), program.out_info)
    num_done = 0

    def move(batch: np.ndarray) -> bool:
        nonlocal num_done
        made = jax.device_get(program(batch, chains, seed, targets, run))
        for whole, part in zip(jax.tree.leaves(kept), jax.tree.leaves(made), strict=True):
            whole[batch] = part
        num_done += each
        return False

    def report() -> None:
        if on_progress is not None:
            on_progress(min(num_done, size))

    with ChainThreads(len(batches), [program], share_chains(1, None)) as threads:
        threads.finish(batches, move, report)
    return jax.tree.map(lambda x: x.reshape(num_targets, num_chains, *x.shape[1:]), kept)


def _make_chains(
    numbers: jax.Array, num_chains: jax.Array, seed: jax.Array, targets: Targets, run: Any
) -> RunDraws:
    """Whole chains, by their numbers in the pool."""
    which = numbers // num_chains
    chains = numbers % num_chains

    def seed_of_chain(target: jax.Array, chain: jax.Array) -> jax.Array:
        of_target = jnp.stack(threefry(seed, target))
        return jnp.stack(threefry(of_target, chain))

    seeds = jax.vmap(seed_of_chain)(which, chains)
    if run.is_mapped:
        return run.map_chains(seeds, *targets.take(which))
    return lax.map(lambda x: run.one_chain(x[0], targets.take(x[1])[0]), (seeds, which))
