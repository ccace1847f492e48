"""Whole runs as pure functions: starts, warm-up and draws in one program, without the host.

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
from inference.initialization.start_search import trace_start
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.hamiltonian.leapfrog import State, flat_value_and_grad
from inference.warmup.adaptation import schedule, set_first_diagonal
from inference.warmup.centering_weights import NUM_ROUNDS, best_weights, round_lengths
from ppl.harvest.pytrees import register_dataclass

_AXIS = "chain"


class RunDraws(NamedTuple):
    """Draws of a chain, or of several stacked.

    Attributes:
        draws: Values of sites, ``(draw, *shape)``; NaN if the chain found no start.
        stats: Statistics of transitions by name, ``(draw,)``; without a start, floating-point ones
            are NaN and flags are True.
        inverse_mass_matrix: Matrix at the end of warm-up.
        centering: Weights that warm-up learned, by site with learned centering.
    """

    draws: dict[str, Any]
    stats: dict[str, jax.Array]
    inverse_mass_matrix: Any
    centering: dict[str, Any]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TracedRun:
    """Settings of a whole run.

    Attributes:
        kernel: Kernel, without a log density.
        chain: Chain without a position, with a step size and a mass matrix.
        plan: Schedule, target acceptance rate and number of iterations of each part of the run, the
            parts in front: rounds that learn coordinates, if there are any, and the run itself.
        layout: Layout of a position.
        num_draws: Draws of each chain.
        keep: Names of the sites whose draws are kept; `None` for all.
        num_learned: Draws of each round that learns coordinates; 0 without rounds.
    """

    kernel: HamiltonianKernel
    chain: Chain
    plan: ChainPlan
    layout: Layout = dataclasses.field(metadata={"static": True})
    num_draws: int = dataclasses.field(metadata={"static": True})
    keep: tuple[str, ...] | None = dataclasses.field(metadata={"static": True})
    num_learned: int = dataclasses.field(metadata={"static": True})

    @property
    def is_mapped(self) -> bool:
        """Whether all chains move side by side, as on an accelerator."""
        return self.kernel.axis_name is not None

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
        """Settings for targets with the sites and shapes of `target`.

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
        lengths = round_lengths(target, num_warmup)
        parts = [(num_warmup, num_draws)]
        if lengths is not None:
            rounds = [(lengths.num_warmup, lengths.num_draws)] * NUM_ROUNDS
            parts = [*rounds, (num_warmup - lengths.num_before, num_draws)]
        plans = [ChainPlan(schedule(n), rate, np.int32(n + m)) for n, m in parts]
        plan = jax.tree.map(lambda *x: np.stack(x), *plans)
        num_learned = 0 if lengths is None else lengths.num_draws
        return cls(kernel, chain, plan, layout, num_draws, keep, num_learned)

    def chains(self, key: jax.Array, target: Target, num_chains: int) -> RunDraws:
        """Draws of chains of one target, with the chains in front; traceable."""
        seeds = jnp.stack(threefry(seed_of(key), jnp.arange(num_chains)), -1)
        if self.is_mapped:
            return self.map_chains(seeds, target, None)
        one = custom_batching.sequential_vmap(TracedRun.one_chain)
        return lax.map(lambda seed: one(self, seed, target), seeds)

    def map_chains(self, seeds: jax.Array, targets: Target, axes: Any) -> RunDraws:
        """Draws of chains by `vmap`; `axes` says which leaves of `targets` it maps over."""
        one = jax.vmap(self.one_chain, in_axes=(0, axes), axis_name=self.kernel.axis_name)
        return one(seeds, targets)

    def one_chain(self, seed: jax.Array, target: Any) -> RunDraws:
        """Draws of one chain, from its two words of seed."""
        if self.num_learned:
            target = target.with_centering(jax.tree.map(jnp.ones_like, target.weights))
        value_and_grad = flat_value_and_grad(target.log_density, self.layout)
        start = State(*trace_start(seed, target, self.layout, value_and_grad))
        if self.num_learned:
            target, chain, rows = self._learn_and_move(seed, target, start)
        else:
            plan = jax.tree.map(lambda x: x[0], self.plan)
            chain, rows = self._move(seed, target, start, plan, self.num_draws)
        size = self.layout.size
        kinds = stats_of(self.kernel, chain)
        rows = rows[: self.num_draws + 1]
        draws = jax.tree.map(
            lambda x: x[0], constrain_rows(KeptSites(target, self.keep), self.layout, rows[None])
        )
        stats = {
            name: rows[:-1, size + i].astype(kind.dtype)
            for i, (name, kind) in enumerate(kinds.items())
        }
        found = draws, stats, chain.progress.adaptation.inverse_mass_matrix
        found = *found, target.weights if self.num_learned else {}
        return RunDraws(*jax.tree.map(partial(spoil, ~jnp.isfinite(start.log_density)), found))

    def _move(
        self, seed: jax.Array, target: Target, start: State, plan: ChainPlan, num_rows: int
    ) -> tuple[Chain, jax.Array]:
        """A chain at the end of a part of the run, and the rows of its draws."""
        chain = self._place(seed, start, plan)
        advance = advance_mapped_chain if self.is_mapped else advance_chain
        has_gradients = chain.progress.adaptation.has_windows
        width = (1 + has_gradients) * self.layout.size + len(stats_of(self.kernel, chain))
        rows = jnp.zeros((num_rows + 1, width), self.layout.dtype)
        first = jnp.asarray(plan.schedule.num_warmup)
        budget = jnp.int32(np.iinfo(np.int32).max)
        constant = self.kernel, target, self.layout, plan
        chain, rows, _ = advance(*constant, chain, rows, first, budget)
        return chain, rows

    def _learn_and_move(
        self, seed: jax.Array, target: Any, start: State
    ) -> tuple[Any, Chain, jax.Array]:
        """Moves a chain through all parts of its run; all but the last part learn coordinates.

        A scan over the parts compiles one program for all of them.

        Returns:
            The target in the learned coordinates, the chain at the end, and the rows of its draws.
        """
        num_rows = max(self.num_draws, self.num_learned)

        def part(carry: tuple[Any, State], inputs: Any) -> tuple[Any, Any]:
            weights, start = carry
            number, plan = inputs
            here = target.with_centering(weights)
            own = jnp.stack(threefry(seed, number))
            chain, rows = self._move(own, here, start, plan, num_rows)
            state = chain.progress.state
            learn = partial(self._learn, here, rows[: self.num_learned, : self.layout.size])
            learned = lax.cond(number < NUM_ROUNDS, learn, lambda state: (weights, state), state)
            return learned, (weights, chain, rows)

        numbers = jnp.arange(NUM_ROUNDS + 1)
        _, parts = lax.scan(part, (target.weights, start), (numbers, self.plan))
        weights, chain, rows = jax.tree.map(lambda x: x[-1], parts)
        return target.with_centering(weights), chain, rows

    def _learn(self, target: Any, positions: jax.Array, state: State) -> tuple[Any, State]:
        """Weights learned from the draws of a round, and the chain's state in the new coordinates.

        Both stay as they are if the density or its gradient is not finite in the new coordinates.
        """

        def look(position: jax.Array) -> Any:
            return target.frames_and_slopes(self.layout.unravel(position))

        frames, slopes, is_finite = lax.map(look, positions)
        found = [
            best_weights(frames[path], slopes[path], weight, is_finite, jnp).astype(weight.dtype)
            for path, weight in target.centering.items()
        ]
        centering = jax.tree.unflatten(jax.tree.structure(target.centering), found)
        other = dataclasses.replace(target, centering=centering)
        moved = target.recenter(self.layout.unravel(state.position), other.weights)
        position = self.layout.ravel(moved)
        value_and_grad = flat_value_and_grad(other.log_density, self.layout)
        moved = State(position, *value_and_grad(position))
        is_right = jnp.isfinite(moved.log_density) & jnp.isfinite(moved.gradient).all()
        both = (other.weights, moved), (target.weights, state)
        return jax.tree.map(partial(jnp.where, is_right), *both)

    def _place(self, seed: jax.Array, start: State, plan: ChainPlan) -> Chain:
        """Chain whose density has been evaluated at its start, as after a first move."""
        chain = jax.tree.map(jnp.asarray, self.chain)
        progress = chain.progress
        factor = progress.adaptation.inverse_mass_factor
        progress = step_start(factor, progress, start)
        if self.kernel.inverse_mass_matrix is None:
            guessed = set_first_diagonal(progress.adaptation, start.gradient, "diagonal", jnp)
            learns = plan.schedule.num_warmup > 0
            adaptation = jax.tree.map(partial(jnp.where, learns), guessed, progress.adaptation)
            progress = progress._replace(adaptation=adaptation)
        has_begun = jnp.zeros((), bool)
        return chain._replace(seed=seed, progress=progress, has_begun=has_begun)


def spoil(is_spoilt: jax.Array, x: jax.Array) -> jax.Array:
    """The array `x`; if the chain found no start, NaN in place of floats, and True of flags."""
    if x.dtype == bool:
        return x | is_spoilt
    return jnp.where(is_spoilt, jnp.nan, x) if jnp.issubdtype(x.dtype, jnp.floating) else x
