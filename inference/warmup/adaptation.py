r"""Warm-up: the step size by dual averaging, the mass matrix from draws and gradients.

| Mass matrix       | Learned                                                                    |
|-------------------|----------------------------------------------------------------------------|
| diagonal          | in every iteration, from the variances of draws and gradients              |
| low rank or dense | at the end of each window, by :mod:`inference.warmup.fisher_mass_matrix`;  |
|                   | windows double in length, as in Stan                                       |

The functions are pure, and act on named tuples of one chain. The schedule is data of a fixed shape,
so that another number of warm-up iterations needs no new compilation.

References:
    Hoffman and Gelman (2014), The No-U-Turn Sampler, section 3.2; Seyboldt, Carlson and Carpenter
    (2026), Preconditioning Hamiltonian Monte Carlo by minimizing Fisher divergence; Stan
    Development Team, Stan Reference Manual, HMC algorithm parameters.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.common.lockstep import select_leaves
from inference.common.matrices import Matrix, expand_diagonal, factorize, kind_of
from inference.warmup.dual_averaging import (
    DualAveraging,
    dual_averaging_init,
    dual_averaging_restart,
    dual_averaging_update,
)
from inference.warmup.target_rate import (
    estimate_gain,
    failure_share,
    is_failure,
    raise_target,
)
from inference.warmup.welford import Welford, welford_init, welford_update

_MAX_WINDOWS = 32  # windows; they double, so that 32 are longer than any run
# iterations, see `schedule`
_INITIAL = 20
_FINAL = 50
FIRST_WINDOW = 15
_POOLED_FIRST_WINDOW = 5  # iterations; 32 or more chains then have 160 or more draws
MAX_BRIEF_ITERATIONS = _INITIAL + FIRST_WINDOW  # iterations
# ends of a diagonal's phases, shares of warm-up
_APPROACH = 0.02
_EARLY = 0.3
_LEARNING = 0.85
_COMPARISON = 0.15  # latest share of warm-up after which chains are compared, at a window's end
NEVER = np.iinfo(np.int32).max
_MEMORY = 80  # observations after which a younger spread replaces the older one
_EARLY_MEMORY = 10  # number of such observations early in warm-up


class Schedule(NamedTuple):
    """Phases of warm-up; iterations count from 0, and the step size adapts in all of them.

    | Phase of a diagonal            | Share of warm-up | Diagonal                              |
    |--------------------------------|------------------|---------------------------------------|
    | before `learning_start`        | 0 % to 2 %       | fixed: the chain is still on its way  |
    |                                |                  | to the typical set                    |
    | ``learning_start..early_stop`` | 2 % to 30 %      | from the last 10 to 20 iterations     |
    | ``early_stop..learning_stop``  | 30 % to 85 %     | from the last 80 to 160 iterations    |
    | after `learning_stop`          | 85 % to 100 %    | fixed; averaging of steps restarts    |

    Attributes:
        num_warmup: Iterations of warm-up.
        learning_start: First iteration that a diagonal is learned from.
        early_stop: First iteration of the long memory of a diagonal.
        learning_stop: First iteration in which a diagonal is fixed again.
        slow_start, slow_stop: Low-rank and dense matrices are learned from iterations in
            ``[slow_start, slow_stop)``, the windows of :func:`schedule`.
        last_start: First iteration of the last window.
        comparison: Completed iterations after which chains are compared, see
            :mod:`inference.warmup.lost_chains`; :data:`NEVER` if they are not.
        window_ends: Completed iterations at the end of each window, padded with -1. A matrix is
            renewed there, and the next window begins without draws.
    """

    num_warmup: np.int32
    learning_start: np.int32
    early_stop: np.int32
    learning_stop: np.int32
    slow_start: np.int32
    slow_stop: np.int32
    last_start: np.int32
    comparison: np.int32
    window_ends: np.ndarray


def schedule(num_warmup: int, is_pooled: bool = False) -> Schedule:
    """Warm-up schedule of three phases, as Stan's, for dense and low-rank mass matrices.

    | Phase   | Iterations           | Mass matrix                       |
    |---------|----------------------|-----------------------------------|
    | initial | 20                   | fixed                             |
    | windows | 15, 30, 60, ...      | renewed at the end of each window |
    | final   | 50, or 10 % if more  | fixed                             |

    The step size adapts in all phases. A diagonal has phases of its own, see :class:`Schedule`.
    The last window takes all iterations up to the final phase: a window is the last one if the
    next, of twice its length, does not fit. Stan's initial phase takes 75 iterations. This one
    takes 20, so that a matrix is learned early: without one, an iteration takes many steps.

    Short runs, and chains that pool their draws to learn one matrix (`is_pooled`), differ:

    | `num_warmup`     | Pooled | Initial | Windows           | Final                      |
    |------------------|--------|---------|-------------------|----------------------------|
    | less than 20     | either | all     | none              | 0                          |
    | 20 to 84         | no     | 15 %    | 15, 30, ...       | 10 %, but 5 at least       |
    | 85 and more      | no     | 20      | 15, 30, 60, ...   | 50, or 10 % if more        |
    | 20 to 74         | yes    | 15 %    | one               | 10 %, but 5 at least       |
    | 75 and more      | yes    | 20      | 5, 10, 20, ...    | 50, or 10 % if more        |

    Pooled windows are short, as many chains need few iterations each. They do not begin sooner: a
    matrix learned from chains on their way to the typical set would keep some from reaching it.

    Until the first window ends, and in the first 35 iterations at most, NUTS doubles a trajectory
    five times at most. The step size fits the narrowest coordinate then, so that full trajectories
    would be long. They would tell no more about the scales: for a normal density, the draws and
    gradients of a small part of it give the right scales.

    Example:
        >>> schedule(1000).window_ends[:6]
        array([ 35,  65, 125, 245, 900,  -1], dtype=int32)
    """
    initial = _INITIAL
    window = _POOLED_FIRST_WINDOW if is_pooled else FIRST_WINDOW
    final = max(_FINAL, num_warmup // 10)
    if num_warmup < 20:
        initial = num_warmup
        final = 0
    elif num_warmup < initial + window + final:
        initial = int(0.15 * num_warmup)
        final = max(5, int(0.1 * num_warmup))
        window = num_warmup - initial - final if is_pooled else window
    stop = num_warmup - final
    end = initial
    ends = []
    while end < stop:
        follows = end + window + 2 * window <= stop
        end = end + window if follows else stop
        ends.append(end)
        window *= 2
    padded = np.full(_MAX_WINDOWS, -1, np.int32)
    padded[: len(ends)] = ends
    parts = [round(part * num_warmup) for part in (_APPROACH, _EARLY, _LEARNING)]
    last_start = ends[-2] if len(ends) > 1 else initial
    early = [end for end in ends if end <= _COMPARISON * num_warmup]
    numbers = num_warmup, *parts, initial, stop, last_start, early[-1] if early else NEVER
    return Schedule(*map(np.int32, numbers), window_ends=padded)


def window_ends(plan: Schedule, kind: str) -> tuple[int, ...]:
    """Iterations at the ends of the windows into which the schedule divides all of warm-up.

    A dense or low-rank matrix has the initial phase, the windows and the final phase of
    :func:`schedule`. A diagonal has the phases of :class:`Schedule`; the long one is halved, so
    that diagonals at its middle and at its end, which have memories of one length, can be compared.

    Example:
        >>> window_ends(schedule(1000), "dense")
        (20, 35, 65, 125, 245, 900, 1000)
        >>> window_ends(schedule(1000), "diagonal")
        (20, 300, 575, 850, 1000)
    """
    ends = [plan.slow_start, *plan.window_ends, plan.num_warmup]
    if kind == "diagonal":
        middle = (plan.early_stop + plan.learning_stop) // 2
        ends = [plan.learning_start, plan.early_stop, middle, plan.learning_stop, plan.num_warmup]
    return tuple(sorted({int(end) for end in ends if end > 0}))


class Spread(NamedTuple):
    """Running variances of positions and of gradients, by coordinate."""

    positions: Welford
    gradients: Welford


class Adaptation(NamedTuple):
    """State of warm-up: step size, inverse mass matrix, and the statistics they are learned from.

    Attributes:
        step_size: Scalar, for the next iteration.
        inverse_mass_matrix: A diagonal, a matrix of low rank or a dense one.
        inverse_mass_factor: Its factor, see :func:`inference.common.matrices.factorize`.
        dual_averaging: State of the step size.
        num_failures: Number of transitions that failed, see :mod:`inference.warmup.target_rate`.
        memory: Two estimates of spread for a diagonal. The diagonal is learned from the older one;
            the younger one will replace it. `None` for other matrices.
        window: Number of times that a matrix has been renewed; `None` for a diagonal.
    """

    step_size: jax.Array
    inverse_mass_matrix: Matrix
    inverse_mass_factor: Matrix
    dual_averaging: DualAveraging
    num_failures: jax.Array
    memory: tuple[Spread, Spread] | None
    window: jax.Array | None

    @property
    def has_windows(self) -> bool:
        """Whether the mass matrix is learned in windows, as all but diagonals are."""
        return self.memory is None


def adaptation_init(step_size: jax.Array, inverse_mass_matrix: Matrix) -> Adaptation:
    """State at the start of warm-up; `step_size` and `inverse_mass_matrix` set the dtype."""
    memory = None
    if kind_of(inverse_mass_matrix) == "diagonal":
        spread = Spread(*[welford_init(inverse_mass_matrix)] * 2)
        memory = spread, spread
    return Adaptation(
        step_size,
        inverse_mass_matrix,
        factorize(inverse_mass_matrix),
        dual_averaging_init(step_size),
        num_failures=jnp.zeros_like(step_size),
        memory=memory,
        window=jnp.int32(0) if memory is None else None,
    )


def set_first_diagonal(state: Adaptation, gradient: Any, kind: str, xp: Any = np) -> Adaptation:
    r"""State with a first inverse mass matrix, guessed from the gradient at the start.

    .. math:: \Sigma_i = 1 / \sqrt{\max(|\partial_i \log p|, 1)}

    A random start is at a distance of about 1 from the mode of a density that is narrower than the
    region of starts. For a normal density, the gradient there is of the order of 1 / variance, but
    may by chance be far smaller. Two measures limit the harm: the square root halves all ratios on
    the log scale, and no entry exceeds 1.

    Args:
        state: State of one chain, or of many with the chains in front.
        gradient: Gradient of the log density, ``(..., size)``.
        kind: Kind of the matrix, see :func:`inference.common.matrices.kind_of`.
        xp: Array library, NumPy, or ``jax.numpy`` for a diagonal.
    """
    diagonal = 1 / xp.sqrt(xp.maximum(xp.abs(gradient), 1))
    matrix = expand_diagonal(diagonal, kind)
    factor = matrix if kind == "low_rank" else expand_diagonal(xp.sqrt(diagonal), kind)
    return state._replace(inverse_mass_matrix=matrix, inverse_mass_factor=factor)


def adapt(
    plan: Schedule,
    iteration: jax.Array,
    state: Adaptation,
    position: jax.Array,
    gradient: jax.Array,
    acceptance_rate: jax.Array,
    target: jax.typing.ArrayLike,
    raises_target: bool = True,
) -> Adaptation:
    """State of warm-up after an iteration of a chain.

    After the last iteration of warm-up, the step size is the averaged one and no longer changes.

    Args:
        plan: Phases of warm-up.
        iteration: Number of the iteration, from 0.
        state: State before the iteration.
        position: Flat vector, the position at which the iteration ended.
        gradient: Flat vector, the gradient of the log density there.
        acceptance_rate: Acceptance rate of the iteration.
        target: Target of the acceptance rate.
        raises_target: Whether the target is raised where many transitions fail.
    """
    start = plan.last_start
    stop = plan.slow_stop
    if not state.has_windows:
        start = plan.early_stop
        stop = plan.learning_stop
    is_counted = (iteration >= start) & (iteration < stop) & is_failure(acceptance_rate, target)
    is_counted = is_counted & raises_target
    num_failures = state.num_failures + is_counted.astype(state.num_failures.dtype)
    length = (stop - start).astype(num_failures.dtype)
    share = failure_share(num_failures, length)
    goal = jnp.where(iteration < stop, target, raise_target(target, share))
    averaging = dual_averaging_update(state.dual_averaging, acceptance_rate, goal)
    gain = jnp.where(iteration + 1 == stop, estimate_gain(share), 0.0)
    averaging = averaging._replace(log_average=averaging.log_average + gain)
    state = state._replace(
        step_size=jnp.exp(averaging.log_step_size),
        dual_averaging=averaging,
        num_failures=num_failures,
    )
    if state.memory is not None:
        state = _learn_diagonal(plan, iteration, state, state.memory, position, gradient)
    is_last = iteration + 1 == plan.num_warmup
    final = jnp.exp(state.dual_averaging.log_average)
    return state._replace(step_size=jnp.where(is_last, final, state.step_size))


def _learn_diagonal(
    plan: Schedule,
    iteration: jax.Array,
    state: Adaptation,
    memory: tuple[Spread, Spread],
    position: jax.Array,
    gradient: jax.Array,
) -> Adaptation:
    """State with a diagonal learned from memory; dual averaging restarts when learning ends."""
    averaging = state.dual_averaging
    is_end = iteration + 1 == plan.learning_stop
    averaging = select_leaves(is_end, dual_averaging_restart(averaging), averaging)
    state = state._replace(dual_averaging=averaging)

    def learn(state: Adaptation) -> Adaptation:
        new = _remember(plan, iteration, memory, position, gradient)
        diagonal = fisher_diagonal(new[0], state.inverse_mass_matrix)
        return state._replace(
            inverse_mass_matrix=diagonal, inverse_mass_factor=factorize(diagonal), memory=new
        )

    learns = (iteration >= plan.learning_start) & (iteration < plan.learning_stop)
    return lax.cond(learns, learn, lambda state: state, state)


def _observe(spread: Spread, position: jax.Array, gradient: jax.Array) -> Spread:
    return Spread(
        welford_update(spread.positions, position), welford_update(spread.gradients, gradient)
    )


def _remember(
    plan: Schedule,
    iteration: jax.Array,
    memory: tuple[Spread, Spread],
    position: jax.Array,
    gradient: jax.Array,
) -> tuple[Spread, Spread]:
    """Both spreads with one more observation; a full younger spread replaces the older one."""
    old, young = (_observe(one, position, gradient) for one in memory)
    size = jnp.where(iteration < plan.early_stop, _EARLY_MEMORY, _MEMORY)
    forgets = young.positions.count >= size
    empty = jax.tree.map(jnp.zeros_like, young)
    return select_leaves(forgets, (young, empty), (old, young))


def fisher_diagonal(spread: Spread, default: jax.Array) -> jax.Array:
    r"""Diagonal inverse mass matrix that brings draws and gradients to the same scale.

    .. math:: \Sigma_i = \sqrt{\mathrm{var}(x_i) / \mathrm{var}(\partial_i \log p)}

    It minimizes the Fisher divergence between the density and a normal one of this covariance, and
    is the variance where the density is normal and has no correlations. It is `default` while
    there are fewer than ten observations, and for coordinates whose observations are all equal.

    References:
        Seyboldt, Carlson and Carpenter (2026), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 3.
    """
    ratio = jnp.sqrt(spread.positions.deviations / spread.gradients.deviations)
    is_known = (ratio > 0) & jnp.isfinite(ratio) & (spread.positions.count >= _EARLY_MEMORY)
    return jnp.where(is_known, ratio, default)


def is_due(plan: Schedule, iteration: Any, state: Adaptation) -> Any:
    """Whether a window has ended, so that the mass matrix is to be renewed.

    :mod:`inference.warmup.fisher_mass_matrix` renews it. The test is for one chain or for many, in
    JAX or in NumPy.
    """
    return iteration == plan.window_ends[state.window] if state.has_windows else iteration < 0
