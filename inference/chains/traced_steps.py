"""Whole runs of kernels with `init`, `step` and perhaps `adapt`, as pure functions.

The counterpart of :mod:`inference.chains.traced_run` for kernels that are not Hamiltonian: starts,
warm-up and draws in one program, without the host.
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import custom_batching, lax

from inference.chains.recorder import KeptSites
from inference.chains.step_chains import (
    StepChain,
    check_protocol,
    initial_state,
    make_transition,
)
from inference.chains.step_sampling import with_density
from inference.chains.traced_run import RunDraws, spoil
from inference.common.layout import Layout
from inference.common.target import Target
from inference.common.threefry import seed_of, threefry
from inference.initialization.start_search import trace_start
from inference.kernels.gradient_free.kernel import GradientFreeKernel
from inference.kernels.hamiltonian.kernel import Kernel
from inference.kernels.tempering.parallel_tempering import ParallelTempering
from ppl.harvest.pytrees import register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TracedSteps:
    """Settings of a whole run.

    Attributes:
        kernel: Kernel, without a log density.
        layout: Layout of a position.
        num_warmup: Iterations of warm-up.
        num_draws: Draws of each chain.
        keep: Names of the sites whose draws are kept; `None` for all.
        is_mapped: Whether all chains move side by side, as on an accelerator.
    """

    kernel: Kernel
    layout: Layout = dataclasses.field(metadata={"static": True})
    num_warmup: int = dataclasses.field(metadata={"static": True})
    num_draws: int = dataclasses.field(metadata={"static": True})
    keep: tuple[str, ...] | None = dataclasses.field(metadata={"static": True})
    is_mapped: bool = dataclasses.field(metadata={"static": True})

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        target: Any,
        num_warmup: int,
        num_draws: int,
        keep: tuple[str, ...] | None = None,
    ) -> "TracedSteps":
        """Settings for targets with the sites and shapes of `target`.

        Raises:
            TypeError: if the kernel breaks its protocol.
            NotImplementedError: if parallel tempering cannot start at the prior.
        """
        layout = Layout.of_numbers(target.position_shapes)

        def begin(target: Any) -> Any:
            position = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), target.position_shapes)
            return initial_state(with_density(kernel, target), position)

        ready = with_density(kernel, target)
        if isinstance(ready, GradientFreeKernel | ParallelTempering):
            with jax.ensure_compile_time_eval():  # the checks of a kernel look at its numbers
                ready.check(layout)
        check_protocol(ready, layout, jax.eval_shape(begin, target))
        is_mapped = jax.default_backend() != "cpu"
        return cls(kernel, layout, num_warmup, num_draws, keep, is_mapped)

    def chains(self, key: jax.Array, target: Any, num_chains: int) -> RunDraws:
        """Draws of chains of one target, with the chains in front; traceable."""
        seeds = jnp.stack(threefry(seed_of(key), jnp.arange(num_chains)), -1)
        if self.is_mapped:
            return self.map_chains(seeds, target, None)
        one = custom_batching.sequential_vmap(TracedSteps.one_chain)
        return lax.map(lambda seed: one(self, seed, target), seeds)

    def map_chains(self, seeds: jax.Array, targets: Target, axes: Any) -> RunDraws:
        """Draws of chains by `vmap`; `axes` says which leaves of `targets` it maps over."""
        return jax.vmap(self.one_chain, in_axes=(0, axes))(seeds, targets)

    def one_chain(self, seed: jax.Array, target: Any) -> RunDraws:
        """Draws of one chain, from its two words of seed."""
        kernel = with_density(self.kernel, target)

        def height(vector: jax.Array) -> tuple[jax.Array, jax.Array]:
            """The log density, and no slope: there may be none."""
            return target.log_density(self.layout.unravel(vector)), jnp.zeros_like(vector)

        start, log_density, _ = trace_start(seed, target, self.layout, height)
        state = initial_state(kernel, self.layout.unravel(start))
        chain = StepChain(seed, jnp.int32(0), jnp.int32(self.num_warmup), state)
        advance = partial(make_transition, kernel, self.layout)
        chain = lax.fori_loop(0, self.num_warmup, lambda _, chain: advance(chain)[0], chain)
        _, (rows, stats) = lax.scan(lambda chain, _: advance(chain), chain, length=self.num_draws)
        kept = KeptSites(target, self.keep)
        is_flat = self.layout.is_floating  # a vector would round integers
        unravel = self.layout.unravel if is_flat else lambda row: row
        draws = lax.map(lambda row: kept.constrain(unravel(row)), rows)
        found = jax.tree.map(partial(spoil, ~jnp.isfinite(log_density)), (draws, stats))
        return RunDraws(*found, inverse_mass_matrix=None, centering={})
