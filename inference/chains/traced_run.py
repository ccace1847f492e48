"""Whole runs as pure functions: starts, warm-up and draws of chains in one program, without a host.

A chain is the state machine of :mod:`inference.chains.chain`, or of
:mod:`inference.chains.mapped_chain` on an accelerator. Its mass matrix is a diagonal, which is
learned within the program.

| Device      | Chains of a program, and of ``jax.vmap`` over the program                      |
|-------------|--------------------------------------------------------------------------------|
| CPU         | one after the other: no chain waits for another, and branches stay branches    |
| accelerator | ``jax.vmap`` maps over all chains                                              |
"""

import dataclasses
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import custom_batching, lax

from inference.chains.chain import Chain, ChainPlan, advance_chain, stats_of, step_start
from inference.chains.chain_programs import constrain_rows
from inference.chains.initial_chain import make_unplaced_chain
from inference.chains.mapped_chain import advance_mapped_chain
from inference.chains.recorder import KeptSites
from inference.common.layout import Layout
from inference.common.matrices import kind_of
from inference.common.target import Target
from inference.common.threefry import seed_of, threefry
from inference.hamiltonian.kernel import HamiltonianKernel
from inference.hamiltonian.leapfrog import State, flat_value_and_grad
from inference.initialization.start_search import trace_start
from inference.warmup.adaptation import schedule, set_first_diagonal
from ppl.harvest.pytrees import register_dataclass

_AXIS = "chain"


class RunDraws(NamedTuple):
    """Draws of a chain, or of several stacked.

    Attributes:
        draws: Values of sites, ``(draw, *shape)``; NaN if the chain found no start.
        stats: Statistics of transitions by name, ``(draw,)``; without a start, NaN, and divergent.
        inverse_mass_matrix: Matrix at the end of warm-up.
    """

    draws: dict[str, Any]
    stats: dict[str, jax.Array]
    inverse_mass_matrix: Any


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TracedRun:
    """Settings of a whole run.

    Attributes:
        kernel: Kernel, without a log density.
        chain: Chain without a position, with a step size and a mass matrix.
        plan: Schedule, target acceptance rate and number of iterations.
        layout: Layout of a position.
        num_draws: Draws of each chain.
        keep: Names of the sites whose draws are kept; `None` for all.
    """

    kernel: HamiltonianKernel
    chain: Chain
    plan: ChainPlan
    layout: Layout = dataclasses.field(metadata={"static": True})
    num_draws: int = dataclasses.field(metadata={"static": True})
    keep: tuple[str, ...] | None = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(
        cls,
        kernel: HamiltonianKernel,
        target: Target,
        num_warmup: int,
        num_draws: int,
        target_acceptance_rate: float,
        keep: tuple[str, ...] | None = None,
    ) -> "TracedRun":
        """Settings for targets of the shapes of `target`.

        Raises:
            ValueError: if warm-up would learn the kernel's mass matrix, and it is not a diagonal.
        """
        layout = Layout.of(target.position_shapes)
        matrix = kernel.inverse_mass_matrix
        kind = "diagonal" if matrix is None else kind_of(matrix)
        if kind != "diagonal" and num_warmup:
            raise ValueError(
                "kernel: within a program warm-up learns a diagonal mass matrix alone, got an "
                f"inverse_mass_matrix of the kind {kind!r}; pass a vector, or num_warmup=0"
            )
        is_mapped = jax.default_backend() != "cpu"
        kernel = dataclasses.replace(kernel, axis_name=_AXIS if is_mapped else None)
        with jax.ensure_compile_time_eval():  # the checks of a kernel look at its numbers
            chain = make_unplaced_chain(kernel, layout, kind, num_warmup > 0)
        rate = np.asarray(target_acceptance_rate, layout.dtype)
        plan = ChainPlan(schedule(num_warmup), rate, np.int32(num_warmup + num_draws))
        return cls(kernel, chain, plan, layout, num_draws, keep)

    def chains(self, key: jax.Array, target: Target, num_chains: int) -> RunDraws:
        """Draws of chains of one target, with the chains in front; traceable."""
        seeds = jnp.stack(threefry(seed_of(key), jnp.arange(num_chains)), -1)
        if self.kernel.axis_name is not None:
            return self.map_chains(seeds, target, None)
        one = custom_batching.sequential_vmap(TracedRun.one_chain)
        return lax.map(lambda seed: one(self, seed, target), seeds)

    def map_chains(self, seeds: jax.Array, targets: Target, axes: Any) -> RunDraws:
        """Draws of chains by `vmap`; `axes` says which leaves of `targets` it maps over."""
        one = jax.vmap(self.one_chain, in_axes=(0, axes), axis_name=self.kernel.axis_name)
        return one(seeds, targets)

    def one_chain(self, seed: jax.Array, target: Target) -> RunDraws:
        """Draws of one chain, from its two words of seed."""
        value_and_grad = flat_value_and_grad(target.log_density, self.layout)
        start = State(*trace_start(seed, target, self.layout, value_and_grad))
        chain = self._place(seed, start)
        is_mapped = self.kernel.axis_name is not None
        advance = advance_mapped_chain if is_mapped else advance_chain
        size = self.layout.size
        kinds = stats_of(self.kernel, chain)
        has_gradients = chain.progress.adaptation.has_windows
        width = (1 + has_gradients) * size + len(kinds)
        rows = jnp.zeros((self.num_draws + 1, width), self.layout.dtype)
        first = self.plan.schedule.num_warmup
        budget = jnp.int32(np.iinfo(np.int32).max)
        constant = self.kernel, target, self.layout, self.plan
        chain, rows, _ = advance(*constant, chain, rows, jnp.asarray(first), budget)
        draws = jax.tree.map(
            lambda x: x[0], constrain_rows(KeptSites(target, self.keep), self.layout, rows[None])
        )
        stats = {
            name: rows[:-1, size + i].astype(kind.dtype)
            for i, (name, kind) in enumerate(kinds.items())
        }
        found = draws, stats, chain.progress.adaptation.inverse_mass_matrix
        return RunDraws(*jax.tree.map(partial(_spoil, ~jnp.isfinite(start.log_density)), found))

    def _place(self, seed: jax.Array, start: State) -> Chain:
        """Chain whose density has been evaluated at its start, as after a first move."""
        chain = jax.tree.map(jnp.asarray, self.chain)
        progress = chain.progress
        factor = progress.adaptation.inverse_mass_factor
        progress = step_start(factor, progress, start)
        if self.kernel.inverse_mass_matrix is None:
            guessed = set_first_diagonal(progress.adaptation, start.gradient, "diagonal", jnp)
            learns = self.plan.schedule.num_warmup > 0
            adaptation = jax.tree.map(partial(jnp.where, learns), guessed, progress.adaptation)
            progress = progress._replace(adaptation=adaptation)
        has_begun = jnp.zeros((), bool)
        return chain._replace(seed=seed, progress=progress, has_begun=has_begun)


def _spoil(is_spoilt: jax.Array, x: jax.Array) -> jax.Array:
    """The leaves of a chain, but NaN or True if the chain found no start."""
    if x.dtype == bool:
        return x | is_spoilt
    return jnp.where(is_spoilt, jnp.nan, x) if jnp.issubdtype(x.dtype, jnp.floating) else x
