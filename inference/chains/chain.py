"""State machine of one chain: it starts, moves by one gradient at a time, adapts and stores draws.

Each chain of a run is at its own place: in the search for a step size, or in its own leaf of its
own transition. The random numbers of a transition depend only on the key, the chain and the
iteration.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.layout import Layout
from inference.common.lockstep import cond_or_select, select_leaves
from inference.common.matrices import Matrix
from inference.common.target import Target
from inference.common.threefry import threefry
from inference.kernels.hamiltonian.kernel import HamiltonianKernel, with_momentum
from inference.kernels.hamiltonian.leapfrog import Point, State, ValueAndGrad, flat_value_and_grad
from inference.kernels.hamiltonian.step_size_search import Search, next_position, search_step
from inference.runtime.signature import shapes_of
from inference.runtime.xla import PaddedFactor, fuse_as_loop, pad_for_cpu
from inference.warmup.adaptation import (
    MAX_BRIEF_ITERATIONS,
    Adaptation,
    Schedule,
    adapt,
    adaptation_init,
    is_due,
)
from inference.warmup.dual_averaging import dual_averaging_init


class ChainPlan(NamedTuple):
    """Settings of a run; they are data, so that other numbers compile nothing.

    Attributes:
        schedule: Phases of warm-up.
        target_acceptance_rate: Acceptance rate that the step size adapts to.
        num_iterations: Transitions of warm-up and of draws together.
    """

    schedule: Schedule
    target_acceptance_rate: jax.typing.ArrayLike
    num_iterations: jax.typing.ArrayLike


class Progress(NamedTuple):
    """State of a chain between two transitions, or between two steps of its start.

    Attributes:
        iteration: Number of complete transitions.
        state: End of the last transition, flat.
        search: State of the search for a first step size, with the initial point.
        adaptation: State of warm-up.
    """

    iteration: jax.Array
    state: State
    search: Search
    adaptation: Adaptation

    @property
    def is_starting(self) -> jax.Array:
        """Whether the chain is still evaluating its start or searching for a step size."""
        return ~(self.search.has_start & self.search.is_done)


class Chain(NamedTuple):
    """State of one chain.

    Attributes:
        seed: Two words of uint32, the chain's own.
        num_gradients: Gradients evaluated up to the last draw of the run.
        progress: State at the end of the last transition.
        trajectory: Trajectory of the current transition.
        has_begun: Whether the current transition has begun. A transition begins at the chain's next
            move, not at the end of the last transition, as the mass matrix may be renewed between
            the two.
        is_compared: Whether the chain has been compared with the others, or never will be.
    """

    seed: jax.Array
    num_gradients: jax.Array
    progress: Progress
    trajectory: Any
    has_begun: jax.Array
    is_compared: jax.Array


def empty_chain(kernel: HamiltonianKernel, layout: Layout, inverse_mass_matrix: Matrix) -> Chain:
    """Chain of zeros, without a position and before the search for a step size."""
    shapes = shapes_of(_any_chain_of, kernel, layout, inverse_mass_matrix)
    chain = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
    return chain._replace(has_begun=np.ones((), bool), is_compared=np.ones((), bool))


def _any_chain_of(kernel: HamiltonianKernel, layout: Layout, metric: Matrix) -> Chain:
    vector = jnp.zeros(layout.size, layout.dtype)
    scalar = jnp.zeros((), layout.dtype)
    count = jnp.int32(0)
    flag = jnp.zeros((), bool)
    seed = jnp.zeros(2, jnp.uint32)
    point = Point(vector, vector, vector, scalar, vector)
    search = Search(point, flag, scalar, count, count, flag)
    adaptation = adaptation_init(scalar, metric)
    trajectory = kernel.begin(adaptation.inverse_mass_factor, scalar, point, seed)
    progress = Progress(count, State(vector, scalar, vector), search, adaptation)
    return Chain(seed, count, progress, trajectory, flag, flag)


def advance_chain(
    kernel: HamiltonianKernel,
    target: Target,
    layout: Layout,
    plan: ChainPlan,
    chain: Chain,
    rows: jax.Array,
    first: jax.Array,
    budget: jax.Array,
) -> tuple[Chain, jax.Array, jax.Array]:
    """Moves a chain until it is complete or has to stop.

    A chain stops if one of these holds:

    - `rows` are full;
    - `budget` gradients are spent;
    - the mass matrix is due to be renewed;
    - the chain is due to be compared with the other chains;
    - the density or its gradient is not finite at the start.

    Args:
        kernel: The kernel.
        target: Density to draw from.
        layout: Layout of a position.
        plan: Settings of the run.
        chain: State to begin from.
        rows: Memory for draws, ``(num_rows + 1, row)``. Values that are not kept go to the last
            row. A row holds the position and the statistics, and the gradient unless the mass
            matrix is a diagonal.
        first: Iteration that is stored in the first row.
        budget: Maximum number of gradients to spend.

    Returns:
        The chain, the rows, and the number of gradients spent.
    """
    num_rows = len(rows) - 1
    value_and_grad = flat_value_and_grad(target.log_density, layout)
    padded = pad_for_cpu(chain.progress.adaptation.inverse_mass_factor)
    is_padded = isinstance(padded, PaddedFactor)

    def may_move(carry: tuple[Chain, jax.Array, jax.Array]) -> jax.Array:
        chain, _, num_spent = carry
        moves = is_on_its_way(plan, chain) & ~has_to_stop(plan, chain, first, num_rows)
        return moves & (num_spent < budget)

    def turn(carry: tuple[Chain, jax.Array, jax.Array]) -> tuple[Chain, jax.Array, jax.Array]:
        chain, rows, num_spent = carry
        factor = padded if is_padded else chain.progress.adaptation.inverse_mass_factor
        begin = partial(begin_transition, kernel, plan, factor)
        chain = lax.cond(chain.has_begun, lambda x: x, begin, chain)
        chain, last, num_moves = _move_chain(
            kernel, value_and_grad, factor, chain, budget - num_spent
        )
        chain = chain._replace(num_gradients=chain.num_gradients + num_moves)
        turned = fuse_as_loop(
            partial(advance_stage, kernel, plan, factor, last, first), (chain, rows), num_moves
        )
        return *turned, num_spent + num_moves

    return lax.while_loop(may_move, turn, (chain, rows, jnp.int32(0)))


def is_on_its_way(plan: ChainPlan, chain: Chain) -> jax.Array:
    """Whether a chain is neither complete, nor stuck at its start, nor due to be compared."""
    progress = chain.progress
    is_incomplete = progress.is_starting | (progress.iteration < plan.num_iterations)
    is_waiting = awaits_comparison(plan.schedule, progress.iteration, chain)
    return is_incomplete & ~progress.search.is_stuck & ~is_waiting


def has_to_stop(plan: ChainPlan, chain: Chain, first: jax.Array, num_rows: int) -> jax.Array:
    """Whether there is no row for a chain's next draw, or its mass matrix is to be renewed."""
    progress = chain.progress
    is_full = (progress.iteration - first >= num_rows) & (progress.iteration < plan.num_iterations)
    return is_full | is_due(plan.schedule, progress.iteration, progress.adaptation)


def awaits_comparison(schedule: Schedule, iteration: Any, chain: Chain) -> Any:
    """Whether a chain waits to be compared with the other chains; in JAX or in NumPy."""
    return ~chain.is_compared & (iteration >= schedule.comparison)


def _move_chain(
    kernel: HamiltonianKernel,
    value_and_grad: ValueAndGrad,
    factor: Matrix,
    chain: Chain,
    budget: jax.Array,
) -> tuple[Chain, State, jax.Array]:
    """Chain moved to the end of its transition or of the budget; while it starts, by one gradient.

    Returns:
        The chain, the last position with log density and gradient, and the number of evaluations.
    """
    is_starting = chain.progress.is_starting

    def goes_on(carry: tuple[Any, State, jax.Array]) -> jax.Array:
        trajectory, _, number = carry
        return (number == 0) | (~(is_starting | trajectory.is_done) & (number < budget))

    def move(carry: tuple[Any, State, jax.Array]) -> tuple[Any, State, jax.Array]:
        trajectory, _, number = carry
        here = State(trajectory.position, *value_and_grad(trajectory.position))

        def advance(trajectory):
            return kernel.advance(factor, trajectory, *here[1:])

        return fuse_as_loop(advance, trajectory, number), here, number + 1

    start = chain.trajectory, chain.progress.state, jnp.int32(0)
    trajectory, last, number = lax.while_loop(goes_on, move, start)
    return chain._replace(trajectory=trajectory), last, number


def advance_stage(
    kernel: HamiltonianKernel,
    plan: ChainPlan,
    factor: Matrix,
    last: State,
    first: jax.Array,
    state: tuple[Chain, jax.Array],
) -> tuple[Chain, jax.Array]:
    """Chain and rows after a move, in one of four cases.

    | Chain                  | Change                                                             |
    |------------------------|--------------------------------------------------------------------|
    | made a step of start   | the search for a step size goes one step further                   |
    | ended a transition     | its row is stored, warm-up learns, the next transition may begin   |
    | is within a transition | none                                                               |
    | has not begun          | none                                                               |
    """
    (chain, rows), axis_name = state, kernel.axis_name
    progress = chain.progress
    trajectory = chain.trajectory
    is_starting = chain.has_begun & progress.is_starting
    is_done = chain.has_begun & trajectory.is_done & ~progress.is_starting
    is_kept = is_done & (progress.iteration >= first) & (progress.iteration < plan.num_iterations)
    row = jnp.where(is_kept, progress.iteration - first, len(rows) - 1)
    rows = rows.at[row].set(_row(kernel, chain), mode="promise_in_bounds")

    def start(old):
        return step_start(factor, old, last)

    finish = partial(_finish_transition, kernel, plan, trajectory)
    progress = cond_or_select(is_starting, start, progress, axis_name)
    progress = cond_or_select(is_done, finish, progress, axis_name)
    return chain._replace(
        progress=progress, has_begun=chain.has_begun & ~(is_starting | is_done)
    ), rows


def stats_of(kernel: HamiltonianKernel, chain: Chain) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes and dtypes of the statistics in a row of `chain`, by name and in order."""
    return shapes_of(_stats, kernel, chain)


def _stats(kernel: HamiltonianKernel, chain: Chain) -> dict[str, jax.Array]:
    proposal, info = kernel.end(chain.trajectory)
    stats = info._asdict() | {
        "log_density": proposal.log_density,
        "step_size": chain.progress.adaptation.step_size,
    }
    return dict(sorted(stats.items()))  # the order in which JAX lists a dict


def _row(kernel: HamiltonianKernel, chain: Chain) -> jax.Array:
    proposal, _ = kernel.end(chain.trajectory)
    stats = [jnp.asarray(x, proposal.position.dtype) for x in _stats(kernel, chain).values()]
    has_gradient = chain.progress.adaptation.has_windows
    gradient = [proposal.gradient] * has_gradient
    return jnp.concatenate([proposal.position, jnp.stack(stats), *gradient])


def step_start(factor: Matrix, old: Progress, last: State) -> Progress:
    """Progress after one more step of the start, which evaluated the density at `last`."""
    search = search_step(old.search, factor, *last)
    adaptation = old.adaptation._replace(
        step_size=search.step_size, dual_averaging=dual_averaging_init(search.step_size)
    )
    return old._replace(state=search.state, search=search, adaptation=adaptation)


def _finish_transition(
    kernel: HamiltonianKernel, plan: ChainPlan, trajectory: Any, old: Progress
) -> Progress:
    """Progress after one more transition, with the updates of warm-up."""
    proposal, info = kernel.end(trajectory)
    learns = old.iteration < plan.schedule.num_warmup

    def learn(adaptation: Adaptation) -> Adaptation:
        return adapt(
            plan.schedule,
            old.iteration,
            adaptation,
            proposal.position,
            proposal.gradient,
            info.acceptance_rate,
            plan.target_acceptance_rate,
            kernel.raises_target,
        )

    return Progress(
        old.iteration + 1,
        State(proposal.position, proposal.log_density, proposal.gradient),
        old.search,
        cond_or_select(learns, learn, old.adaptation, kernel.axis_name),
    )


def begin_transition(
    kernel: HamiltonianKernel, plan: ChainPlan, factor: Matrix, chain: Chain
) -> Chain:
    """Chain at the beginning of its next transition, or of the next step of its start."""
    progress = chain.progress
    search = progress.search
    step_size = progress.adaptation.step_size
    seed = jnp.stack(threefry(chain.seed, progress.iteration))
    point = with_momentum(factor, seed, *progress.state)
    is_brief = progress.iteration < jnp.minimum(plan.schedule.window_ends[0], MAX_BRIEF_ITERATIONS)
    trajectory = kernel.begin(factor, step_size, point, seed, chain.trajectory, is_brief)
    search = search._replace(start=select_leaves(progress.is_starting, point, search.start))
    position = select_leaves(
        progress.is_starting, next_position(search, factor), trajectory.position
    )
    return chain._replace(
        progress=progress._replace(search=search),
        trajectory=trajectory._replace(position=position),
        has_begun=jnp.ones((), bool),
    )
