r"""Warm-up: the step size by dual averaging, the mass matrix from draws and gradients.

A diagonal is learnt from the spread of draws and of gradients, anew after every iteration; a matrix
at the end of each of some windows, which double as Stan's do, by :mod:`inference.warmup.fisher_mass_matrix`.

Pure functions on named tuples, for one chain. The schedule is data of a fixed shape, so that
another number of warm-up iterations compiles nothing.

References:
    Hoffman and Gelman (2014), The No-U-Turn Sampler, section 3.2; Seyboldt, Carlson and Carpenter
    (2025), Preconditioning Hamiltonian Monte Carlo by minimizing Fisher divergence; Stan
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
from inference.warmup.welford import Welford, welford_init, welford_update

_MAX_WINDOWS = 32  # windows double, so this many are longer than any run
_INITIAL, _FINAL, FIRST_WINDOW = 20, 50, 15
_POOLED_FIRST_WINDOW = 5
MAX_BRIEF_ITERATIONS = _INITIAL + FIRST_WINDOW  # iterations
_APPROACH, _EARLY, _LEARNING = 0.02, 0.3, 0.85  # parts of warm-up, for a diagonal
_EARLY_MEMORY, _MEMORY = 10, 80


class Schedule(NamedTuple):
    """When warm-up does what; iterations count from 0.

    Attributes:
        num_warmup: Iterations of warm-up; the step size adapts in all of them.
        learning_start: Up to here a diagonal stays as it is: of a chain that is far from where it
            will be, the spread would only tell the way there.
        early_stop: Up to here a diagonal is learnt from 10 to 20 iterations, then from 80 to 160.
        learning_stop: From here on a diagonal stays, and the step size is averaged.
        slow_start, slow_stop: A matrix is learnt from iterations in ``[slow_start, slow_stop)``.
        window_ends: After so many iterations a matrix is renewed and learning starts anew; padded
            with -1.
    """

    num_warmup: np.int32
    learning_start: np.int32
    early_stop: np.int32
    learning_stop: np.int32
    slow_start: np.int32
    slow_stop: np.int32
    window_ends: np.ndarray


def schedule(num_warmup: int, is_pooled: bool = False) -> Schedule:
    """The schedule of `num_warmup` iterations, of one chain or of many that learn together.

    For a matrix it is like Stan's, but learns sooner, as trajectories are long before: 20
    iterations, windows of 15, 30, 60, ..., and 50 iterations or a tenth, in which steps settle. A
    window that the next one could not follow takes what is left. Short of 85 iterations, the first
    part is 15 % and the last one 10 %, or 5 iterations; below 20, the matrix is left as it is.
    Where all chains learn one matrix, few iterations tell enough: windows of 5, 10, 20, ... begin
    as soon, not sooner, as what chains tell on their way to where they will be would keep some of
    them from it; short of 75 iterations they have one window.

    Until the first window ends, and for 35 iterations at most, trajectories are brief: with steps
    that fit the narrowest coordinate they would be long, and a long one tells no more of the
    scales. Those that draws and gradients tell together are right for a normal density however far
    the draws have come.

    Example:
        >>> schedule(1000).window_ends[:6]
        array([ 35,  65, 125, 245, 900,  -1], dtype=int32)
    """
    initial, window = _INITIAL, _POOLED_FIRST_WINDOW if is_pooled else FIRST_WINDOW
    final = max(_FINAL, num_warmup // 10)
    if num_warmup < 20:
        initial, final = num_warmup, 0
    elif num_warmup < initial + window + final:
        initial, final = int(0.15 * num_warmup), max(5, int(0.1 * num_warmup))
        window = num_warmup - initial - final if is_pooled else window
    stop, end, ends = num_warmup - final, initial, []
    while end < stop:
        follows = end + window + 2 * window <= stop
        end = end + window if follows else stop
        ends.append(end)
        window *= 2
    padded = np.full(_MAX_WINDOWS, -1, np.int32)
    padded[: len(ends)] = ends
    parts = [round(part * num_warmup) for part in (_APPROACH, _EARLY, _LEARNING)]
    return Schedule(*map(np.int32, (num_warmup, *parts, initial, stop)), window_ends=padded)


class Spread(NamedTuple):
    """The spread of positions and of gradients along each coordinate."""

    positions: Welford
    gradients: Welford


class Adaptation(NamedTuple):
    """What warm-up adapts, and how far it has come.

    Attributes:
        step_size: Scalar, for the next iteration.
        inverse_mass_matrix: A diagonal, a matrix of low rank or a dense one.
        inverse_mass_factor: Its factor, see :func:`inference.common.matrices.factorize`.
        dual_averaging: State of the step size.
        memory: What a diagonal is learnt from: a spread, and a younger one that will replace it.
        window: How many times a matrix has been renewed.
    """

    step_size: jax.Array
    inverse_mass_matrix: Matrix
    inverse_mass_factor: Matrix
    dual_averaging: DualAveraging
    memory: tuple[Spread, Spread] | None
    window: jax.Array | None

    @property
    def has_windows(self) -> bool:
        """Whether the mass matrix is more than a diagonal, and learnt in windows."""
        return self.memory is None


def adaptation_init(step_size: jax.Array, inverse_mass_matrix: Matrix) -> Adaptation:
    """The start of warm-up; `step_size` and `inverse_mass_matrix` set the dtype."""
    memory = None
    if kind_of(inverse_mass_matrix) == "diagonal":
        spread = Spread(*[welford_init(inverse_mass_matrix)] * 2)
        memory = spread, spread
    return Adaptation(
        step_size,
        inverse_mass_matrix,
        factorize(inverse_mass_matrix),
        dual_averaging_init(step_size),
        memory=memory,
        window=jnp.int32(0) if memory is None else None,
    )


def set_first_diagonal(state: Adaptation, gradient: np.ndarray, kind: str) -> Adaptation:
    r"""With an inverse mass matrix to begin with, where nothing but a gradient is known.

    For one chain or for many, in NumPy; the matrix is of a kind of :mod:`inference.common.matrices`.

    .. math:: \Sigma_i = 1 / \sqrt{\max(|\partial_i \log p|, 1)}

    A standard deviation or two from the mode of a normal density that is narrower than the region
    of random starts, a gradient is of the order of 1 / variance. By chance it may be far below
    that: so the root is taken, which halves all ratios on the log scale, and nothing exceeds 1.
    """
    diagonal = 1 / np.sqrt(np.maximum(np.abs(gradient), 1))
    matrix = expand_diagonal(diagonal, kind)
    factor = matrix if kind == "low_rank" else expand_diagonal(np.sqrt(diagonal), kind)
    return state._replace(inverse_mass_matrix=matrix, inverse_mass_factor=factor)


def adapt(
    plan: Schedule,
    iteration: jax.Array,
    state: Adaptation,
    position: jax.Array,
    gradient: jax.Array,
    acceptance_rate: jax.Array,
    target: jax.typing.ArrayLike,
) -> Adaptation:
    """What follows from the iteration that has led to `position`, a flat vector, and `gradient`.

    After the last iteration of warm-up the step size is the average one, and stays.
    """
    averaging = dual_averaging_update(state.dual_averaging, acceptance_rate, target)
    state = state._replace(step_size=jnp.exp(averaging.log_step_size), dual_averaging=averaging)
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
    """The diagonal from what is remembered; the end of learning starts the averaging anew."""
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
    """Both spreads with one observation more; the younger one replaces an older one in time."""
    old, young = (_observe(one, position, gradient) for one in memory)
    size = jnp.where(iteration < plan.early_stop, _EARLY_MEMORY, _MEMORY)
    forgets = young.positions.count >= size
    empty = jax.tree.map(jnp.zeros_like, young)
    return select_leaves(forgets, (young, empty), (old, young))


def fisher_diagonal(spread: Spread, default: jax.Array) -> jax.Array:
    r"""The diagonal inverse mass matrix that brings draws and gradients to the same scale.

    .. math:: \Sigma_i = \sqrt{\mathrm{var}(x_i) / \mathrm{var}(\partial_i \log p)}

    It minimises the Fisher divergence between the density and a normal one of this covariance, and
    is the variance where the density is normal and has no correlations. It is `default` where
    fewer than ten observations or none that differ are known.

    References:
        Seyboldt, Carlson and Carpenter (2025), Preconditioning Hamiltonian Monte Carlo by
        minimizing Fisher divergence, section 3.
    """
    ratio = jnp.sqrt(spread.positions.deviations / spread.gradients.deviations)
    is_known = (ratio > 0) & jnp.isfinite(ratio) & (spread.positions.count >= _EARLY_MEMORY)
    return jnp.where(is_known, ratio, default)


def is_due(plan: Schedule, iteration: Any, state: Adaptation) -> Any:
    """Whether a window has ended, after which :mod:`inference.warmup.fisher_mass_matrix` renews a matrix.

    For one chain or for many, in JAX or in NumPy.
    """
    return iteration == plan.window_ends[state.window] if state.has_windows else iteration < 0
