r"""Warm-up: dual averaging of the step size, and Stan's windows for the mass matrix.

Pure functions on named tuples, for one chain. The schedule is data of a fixed shape, so that
another number of warm-up iterations compiles nothing.

References:
    Hoffman and Gelman (2014), The No-U-Turn Sampler, section 3.2; Stan Development Team, Stan
    Reference Manual, HMC algorithm parameters.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from inference.hamiltonian import factorize

_MOST_WINDOWS = 32  # windows double, so this many are longer than any run
_INITIAL, _FINAL, _FIRST_WINDOW = 75, 50, 25


class Schedule(NamedTuple):
    """When warm-up does what; iterations count from 0.

    Attributes:
        num_warmup: Iterations of warm-up; the step size adapts in all of them.
        slow_start, slow_stop: The mass matrix learns from iterations in
            ``[slow_start, slow_stop)``.
        window_ends: After so many iterations the mass matrix is renewed and learning starts anew;
            padded with 0.
    """

    num_warmup: np.ndarray | np.int32
    slow_start: np.ndarray | np.int32
    slow_stop: np.ndarray | np.int32
    window_ends: np.ndarray


def schedule(num_warmup: int) -> Schedule:
    """Stan's schedule: 75 iterations, windows of 25, 50, 100, ..., and 50 iterations.

    A window that the next one could not follow takes what is left. Short of 150 iterations, the
    three parts are 15, 75 and 10 %; below 20, the mass matrix is left as it is.

    Example:
        >>> schedule(1000).window_ends[:6]
        array([100, 150, 250, 450, 950,   0], dtype=int32)
    """
    initial, final, window = _INITIAL, _FINAL, _FIRST_WINDOW
    if num_warmup < 20:
        initial, final = num_warmup, 0
    elif num_warmup < initial + window + final:
        initial, final = int(0.15 * num_warmup), int(0.1 * num_warmup)
        window = num_warmup - initial - final
    stop, end, ends = num_warmup - final, initial, []
    while end < stop:
        follows = end + window + 2 * window <= stop
        end = end + window if follows else stop
        ends.append(end)
        window *= 2
    padded = np.zeros(_MOST_WINDOWS, np.int32)
    padded[: len(ends)] = ends
    return Schedule(np.int32(num_warmup), np.int32(initial), np.int32(stop), padded)


class DualAveraging(NamedTuple):
    """State of dual averaging for the log step size; `center` is what it shrinks towards."""

    log_step_size: jax.Array
    log_average: jax.Array
    error_average: jax.Array
    count: jax.Array
    center: jax.Array


def dual_averaging_init(step_size: jax.Array) -> DualAveraging:
    """The state at `step_size`; shrinks towards ten times that, as long steps are cheaper."""
    log_step_size = jnp.log(step_size)
    zero = jnp.zeros_like(log_step_size)
    return DualAveraging(log_step_size, log_step_size, zero, zero, log_step_size + math.log(10.0))


def dual_averaging_update(
    state: DualAveraging,
    acceptance_rate: jax.Array,
    target: jax.typing.ArrayLike,
    *,
    gamma: float = 0.05,
    t0: float = 10.0,
    kappa: float = 0.75,
) -> DualAveraging:
    r"""One step of dual averaging towards the acceptance rate `target`.

    .. math::
        \bar h_t &= (1 - \tfrac{1}{t + t_0}) \bar h_{t-1} + \tfrac{1}{t + t_0}(\delta - \alpha_t) \\
        \log\epsilon_t &= \mu - \tfrac{\sqrt t}{\gamma} \bar h_t \\
        \log\bar\epsilon_t &= t^{-\kappa} \log\epsilon_t + (1 - t^{-\kappa}) \log\bar\epsilon_{t-1}

    References:
        Hoffman and Gelman (2014), The No-U-Turn Sampler, algorithm 5.
    """
    count = state.count + 1
    weight = 1 / (count + t0)
    error_average = (1 - weight) * state.error_average + weight * (target - acceptance_rate)
    log_step_size = state.center - jnp.sqrt(count) / gamma * error_average
    decay = count**-kappa
    log_average = decay * log_step_size + (1 - decay) * state.log_average
    return DualAveraging(log_step_size, log_average, error_average, count, state.center)


class Welford(NamedTuple):
    """Running count, mean, and sum of squared deviations (vector) or of their products (matrix)."""

    count: jax.Array
    mean: jax.Array
    deviations: jax.Array


def welford_init(mean: jax.Array, inverse_mass_matrix: jax.Array) -> Welford:
    """No observation yet, of the shapes of the arguments."""
    zero = jnp.zeros((), mean.dtype)
    return Welford(zero, jnp.zeros_like(mean), jnp.zeros_like(inverse_mass_matrix))


def welford_update(state: Welford, value: jax.Array) -> Welford:
    """One more observation.

    References:
        Welford (1962), Note on a method for calculating corrected sums of squares and products.
    """
    count = state.count + 1
    before = value - state.mean
    mean = state.mean + before / count
    after = value - mean
    is_diagonal = state.deviations.ndim == 1
    product = before * after if is_diagonal else jnp.outer(after, before)
    return Welford(count, mean, state.deviations + product)


def welford_covariance(state: Welford, *, regularize: bool = True) -> jax.Array:
    r"""The sample covariance :math:`S`, or its diagonal.

    Regularised as Stan does: :math:`\frac{n}{n + 5} S + 10^{-3} \frac{5}{n + 5} I`.
    """
    n, deviations = state.count, state.deviations
    covariance = deviations / jnp.maximum(n - 1, 1)
    if not regularize:
        return covariance
    ones = jnp.ones(len(deviations), deviations.dtype)
    unit = ones if deviations.ndim == 1 else jnp.diag(ones)
    return (n * covariance + 5e-3 * unit) / (n + 5)


class Adaptation(NamedTuple):
    """What warm-up adapts, and how far it has come.

    Attributes:
        step_size: Scalar, for the next iteration.
        inverse_mass_matrix: Vector (a diagonal) or matrix.
        inverse_mass_factor: Its factor, see :func:`inference.hamiltonian.factorize`.
        dual_averaging: State of the step size.
        welford: State of the mass matrix.
    """

    step_size: jax.Array
    inverse_mass_matrix: jax.Array
    inverse_mass_factor: jax.Array
    dual_averaging: DualAveraging
    welford: Welford


def adaptation_init(step_size: jax.Array, inverse_mass_matrix: jax.Array) -> Adaptation:
    """The start of warm-up; `step_size` and `inverse_mass_matrix` set the dtype."""
    mean = jnp.zeros(inverse_mass_matrix.shape[0], inverse_mass_matrix.dtype)
    return Adaptation(
        step_size,
        inverse_mass_matrix,
        factorize(inverse_mass_matrix),
        dual_averaging_init(step_size),
        welford_init(mean, inverse_mass_matrix),
    )


def adapt(
    plan: Schedule,
    iteration: jax.Array,
    state: Adaptation,
    position: jax.Array,
    acceptance_rate: jax.Array,
    target: jax.typing.ArrayLike,
) -> Adaptation:
    """What follows from the iteration that has led to `position`, a flat vector.

    After the last iteration of warm-up the step size is the average one, and stays.
    """
    averaging = dual_averaging_update(state.dual_averaging, acceptance_rate, target)
    learns = (iteration >= plan.slow_start) & (iteration < plan.slow_stop)
    welford = lax.cond(
        learns, lambda: welford_update(state.welford, position), lambda: state.welford
    )
    step_size = jnp.exp(averaging.log_step_size)
    state = state._replace(step_size=step_size, dual_averaging=averaging, welford=welford)
    state = lax.cond(jnp.any(iteration + 1 == plan.window_ends), _renew, lambda s: s, state)
    is_last = iteration + 1 == plan.num_warmup
    final = jnp.exp(state.dual_averaging.log_average)
    return state._replace(step_size=jnp.where(is_last, final, state.step_size))


def _renew(state: Adaptation) -> Adaptation:
    """The end of a window: its covariance becomes the inverse mass matrix, and all starts anew."""
    return adaptation_init(
        jnp.exp(state.dual_averaging.log_average), welford_covariance(state.welford)
    )
