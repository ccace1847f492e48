"""One chain as a state machine: it starts, moves by one gradient at a time, adapts and stores.

The chains of a run stand each at their own place: in the search for a step size, or in their own
leaf of their own transition. What a transition draws depends on the key, the chain and the
iteration, and on nothing else.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from inference.adaptation import Adaptation, Schedule, adapt, adaptation_init
from inference.control import any_chain, as_one_kernel, select, when
from inference.flat import Layout
from inference.hamiltonian import State, ValueAndGrad, flat_value_and_grad
from inference.kernel import HamiltonianKernel, with_momentum
from inference.randomness import normal, threefry
from inference.starting import Search, next_position, search_init, search_step
from inference.target import Target

_START = 1 << 31  # folded into a chain's seed for its start, as iterations are for theirs


class Plan(NamedTuple):
    """What a run is to do: numbers, so that other ones compile nothing."""

    schedule: Schedule
    target_acceptance_rate: jax.typing.ArrayLike
    num_iterations: jax.typing.ArrayLike


class Chain(NamedTuple):
    """Where a chain stands; everything is flat.

    Attributes:
        seed: Two words, the chain's own.
        iteration: Transitions that are complete.
        num_gradients: Gradients evaluated up to the last draw that was asked for.
        state: The end of the last transition.
        search: How the chain starts.
        trajectory: The transition on its way.
        adaptation: What warm-up has learnt.
    """

    seed: jax.Array
    iteration: jax.Array
    num_gradients: jax.Array
    state: State
    search: Search
    trajectory: Any
    adaptation: Adaptation

    @property
    def is_starting(self) -> jax.Array:
        """Whether the chain has not begun its first transition."""
        return ~(self.search.has_start & self.search.is_done)


def chain_init(
    kernel: HamiltonianKernel,
    seed: jax.Array,
    position: jax.Array,
    inverse_mass_matrix: jax.Array,
    step_size: jax.Array,
    tune: jax.typing.ArrayLike,
) -> Chain:
    """A chain that is to start at `position`, and to look for a step size there if it is to `tune`."""
    momentum = normal(_seed(seed, jnp.uint32(_START)), position.size, position.dtype)
    search = search_init(position, momentum, step_size, tune)
    adaptation = adaptation_init(step_size, inverse_mass_matrix)
    count = jnp.int32(0)
    trajectory = kernel.begin(adaptation.inverse_mass_factor, step_size, search.start, seed)
    trajectory = trajectory._replace(position=position)
    return Chain(seed, count, count, search.state, search, trajectory, adaptation)


def advance(
    kernel: HamiltonianKernel,
    target: Target,
    layout: Layout,
    plan: Plan,
    chain: Chain,
    rows: jax.Array,
    first: jax.Array,
    budget: jax.typing.ArrayLike,
) -> tuple[Chain, jax.Array, jax.Array]:
    """Moves `chain` until it is complete, `rows` are full, or `budget` gradients are spent.

    Chains mapped over move together; those that are complete move on, and store nothing, until all
    are.

    Args:
        kernel: How to move, with the name of the axis over chains if there is one.
        target: What to draw from.
        layout: The layout of a position.
        plan: What the run is to do.
        chain: Where to begin.
        rows: Where to store draws, ``(num_rows + 1, row)``; the last one takes what is not kept.
        first: The iteration that is to be stored in the first row.
        budget: Gradients that may be spent.

    Returns:
        The chain, the rows, and the gradients spent.
    """
    axis_name, trash = kernel.axis_name, len(rows) - 1
    value_and_grad = flat_value_and_grad(target.log_density, layout)

    def may_move(chain: Chain, num_spent: jax.Array) -> jax.Array:
        is_wanted = ~chain.search.is_stuck & (
            chain.is_starting | (chain.iteration < plan.num_iterations)
        )
        is_full = is_wanted & (chain.iteration - first >= trash)
        return (
            any_chain(is_wanted, axis_name) & ~any_chain(is_full, axis_name) & (num_spent < budget)
        )

    def turn(carry: tuple[Chain, jax.Array, jax.Array]) -> tuple[Chain, jax.Array, jax.Array]:
        chain, rows, num_spent = carry
        chain, density, num_moves = _moved(kernel, value_and_grad, chain, budget - num_spent)
        is_counted = chain.iteration < plan.num_iterations
        chain = chain._replace(
            num_gradients=chain.num_gradients + jnp.where(is_counted, num_moves, 0)
        )
        end = partial(_turned, kernel, plan, density, first)
        return *as_one_kernel(end, (chain, rows), num_moves, axis_name), num_spent + num_moves

    return lax.while_loop(
        lambda carry: may_move(carry[0], carry[2]), turn, (chain, rows, jnp.int32(0))
    )


def stats_of(kernel: HamiltonianKernel, chains: Chain) -> dict[str, jax.ShapeDtypeStruct]:
    """What a row of stacked `chains` holds after the position, by name and in order."""
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), chains)
    return jax.eval_shape(lambda chain: _stats(kernel, chain), one)


def _stats(kernel: HamiltonianKernel, chain: Chain) -> dict[str, jax.Array]:
    proposal, info = kernel.end(chain.trajectory)
    stats = info._asdict() | {
        "log_density": proposal.log_density,
        "step_size": chain.adaptation.step_size,
    }
    return dict(sorted(stats.items()))  # the order in which JAX lists a dict


def _row(kernel: HamiltonianKernel, chain: Chain) -> jax.Array:
    position = kernel.end(chain.trajectory)[0].position
    stats = [jnp.asarray(x, position.dtype) for x in _stats(kernel, chain).values()]
    return jnp.concatenate([position, jnp.stack(stats)])


def _seed(seed: jax.Array, iteration: jax.Array) -> jax.Array:
    return jnp.stack(threefry(seed, iteration))


def _moved(
    kernel: HamiltonianKernel, value_and_grad: ValueAndGrad, chain: Chain, budget: jax.Array
) -> tuple[Chain, tuple[jax.Array, jax.Array], jax.Array]:
    """The chain at the end of its transition, or one gradient on while it starts.

    Returns:
        The chain, the density where it was evaluated last, and the number of evaluations.
    """
    factor, axis_name = chain.adaptation.inverse_mass_factor, kernel.axis_name
    any_starting = any_chain(chain.is_starting, axis_name)

    def goes_on(carry: tuple[Any, Any, jax.Array]) -> jax.Array:
        trajectory, _, number = carry
        ends = any_starting | any_chain(trajectory.is_done, axis_name)
        return (number == 0) | (~ends & (number < budget))

    def move(carry: tuple[Any, Any, jax.Array]) -> tuple[Any, Any, jax.Array]:
        trajectory, _, number = carry
        density = value_and_grad(trajectory.position)
        advance = lambda trajectory: kernel.advance(factor, trajectory, *density)  # noqa: E731
        return as_one_kernel(advance, trajectory, number, axis_name), density, number + 1

    density = jax.tree.map(jnp.zeros_like, (chain.state.log_density, chain.state.gradient))
    start = chain.trajectory, density, jnp.int32(0)
    trajectory, density, number = lax.while_loop(goes_on, move, start)
    return chain._replace(trajectory=trajectory), density, number


def _turned(
    kernel: HamiltonianKernel,
    plan: Plan,
    density: tuple[jax.Array, jax.Array],
    first: jax.Array,
    state: tuple[Chain, jax.Array],
) -> tuple[Chain, jax.Array]:
    """What follows where a chain has come to: a step of its start, or the end of a transition."""
    (chain, rows), axis_name = state, kernel.axis_name
    is_starting = chain.is_starting
    is_done = chain.trajectory.is_done & ~is_starting
    is_kept = is_done & (chain.iteration >= first) & (chain.iteration < plan.num_iterations)
    row = jnp.where(is_kept, chain.iteration - first, len(rows) - 1)
    rows = rows.at[row].set(_row(kernel, chain), mode="promise_in_bounds")

    def start(chain: Chain) -> Chain:
        return where(is_starting, _started(kernel, chain, *density), chain)

    def finish(chain: Chain) -> Chain:
        return where(is_done, _finished(kernel, plan, chain), chain)

    where = select if axis_name is not None else lambda _, new, old: new
    chain = when(is_starting, start, chain, axis_name)
    return when(is_done, finish, chain, axis_name), rows


def _started(
    kernel: HamiltonianKernel, chain: Chain, log_density: jax.Array, gradient: jax.Array
) -> Chain:
    """The chain one step further in its start, and at the end of it in its first transition."""
    old = chain.adaptation
    search = search_step(chain.search, old.inverse_mass_factor, log_density, gradient)
    adaptation = adaptation_init(search.step_size, old.inverse_mass_matrix)
    searching = chain._replace(
        search=search,
        trajectory=chain.trajectory._replace(
            position=next_position(search, old.inverse_mass_factor)
        ),
    )
    begun = _begun(kernel, searching._replace(state=search.state, adaptation=adaptation))
    return select(begun.is_starting | search.is_stuck, searching, begun)


def _begun(kernel: HamiltonianKernel, chain: Chain) -> Chain:
    """The chain at the beginning of the transition that is next."""
    seed = _seed(chain.seed, chain.iteration.astype(jnp.uint32))
    factor = chain.adaptation.inverse_mass_factor
    point = with_momentum(factor, seed, *chain.state)
    trajectory = kernel.begin(factor, chain.adaptation.step_size, point, seed, chain.trajectory)
    return chain._replace(trajectory=trajectory)


def _finished(kernel: HamiltonianKernel, plan: Plan, chain: Chain) -> Chain:
    """The chain with its transition taken, and in the next one."""
    proposal, info = kernel.end(chain.trajectory)

    def warm_up(adaptation: Adaptation) -> Adaptation:
        return adapt(
            plan.schedule,
            chain.iteration,
            adaptation,
            proposal.position,
            info.acceptance_rate,
            plan.target_acceptance_rate,
        )

    learns = chain.iteration < plan.schedule.num_warmup
    adaptation = chain.adaptation
    if kernel.axis_name is None:
        adaptation = when(learns, warm_up, adaptation, None)
    else:
        learn = lambda old: select(learns, warm_up(old), old)  # noqa: E731
        adaptation = when(learns, learn, adaptation, kernel.axis_name)
    return _begun(
        kernel,
        chain._replace(
            state=State(proposal.position, proposal.log_density, proposal.gradient),
            iteration=chain.iteration + 1,
            adaptation=adaptation,
        ),
    )
