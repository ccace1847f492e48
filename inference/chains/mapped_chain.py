"""State machine without branches for one of many chains that an accelerator maps over.

An accelerator is fast if few large operations follow one another and the host decides nothing
between them. At a branch, or in a loop of unknown length, the host waits for a value of the device,
and the device for the host. So a step evaluates all cases for all chains and selects, and the loop
over steps checks only once in :data:`STEPS_PER_TURN` steps whether to go on.

:mod:`inference.chains.chain` has the same state machine with branches, for a core of the CPU. Draws
are the same up to rounding.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from inference.chains.chain import (
    Chain,
    ChainPlan,
    advance_stage,
    begin_transition,
    has_to_stop,
    is_on_its_way,
)
from inference.common.layout import Layout
from inference.common.lockstep import any_chain, select_leaves
from inference.common.target import Target
from inference.kernels.hamiltonian.kernel import HamiltonianKernel
from inference.kernels.hamiltonian.leapfrog import State, flat_value_and_grad

STEPS_PER_TURN = 16
"""Steps between two looks at whether any chain has to go on, or has to stop."""


def advance_mapped_chain(
    kernel: HamiltonianKernel,
    target: Target,
    layout: Layout,
    plan: ChainPlan,
    chain: Chain,
    rows: jax.Array,
    first: jax.Array,
    budget: jax.Array,
) -> tuple[Chain, jax.Array, jax.Array]:
    """Moves a chain until all chains are complete, a chain has to stop, or the budget is spent.

    See :func:`inference.chains.chain.advance_chain` for arguments and results; `kernel` also has
    the name of the axis over chains. Calls end with a turn of :data:`STEPS_PER_TURN` steps. Until
    then, chains within a transition go on, and chains that may not begin another one wait.
    """
    axis_name = kernel.axis_name
    num_rows = len(rows) - 1
    value_and_grad = flat_value_and_grad(target.log_density, layout)

    def may_turn(carry: tuple[Chain, jax.Array, jax.Array]) -> jax.Array:
        chain, _, num_spent = carry
        moves = any_chain(is_on_its_way(plan, chain), axis_name)
        stops = any_chain(has_to_stop(plan, chain, first, num_rows), axis_name)
        return moves & ~stops & (num_spent < budget)

    def step(
        _: jax.Array, carry: tuple[Chain, jax.Array, jax.Array]
    ) -> tuple[Chain, jax.Array, jax.Array]:
        chain, rows, num_spent = carry
        factor = chain.progress.adaptation.inverse_mass_factor
        may_begin = is_on_its_way(plan, chain) & ~has_to_stop(plan, chain, first, num_rows)
        begins = ~chain.has_begun & may_begin & (num_spent < budget)
        chain = select_leaves(begins, begin_transition(kernel, plan, factor, chain), chain)
        last = State(chain.trajectory.position, *value_and_grad(chain.trajectory.position))
        chain = chain._replace(
            trajectory=kernel.advance(factor, chain.trajectory, *last[1:]),
            num_gradients=chain.num_gradients + chain.has_begun.astype(jnp.int32),
        )
        chain, rows = advance_stage(kernel, plan, factor, last, first, (chain, rows))
        return chain, rows, num_spent + 1

    turn = partial(lax.fori_loop, 0, STEPS_PER_TURN, step)
    return lax.while_loop(may_turn, turn, (chain, rows, jnp.int32(0)))
