"""Adaptation over chains of step size, trajectory length and diagonal mass matrix.

| What              | Learned from                                                                 |
|-------------------|------------------------------------------------------------------------------|
| step size         | harmonic mean of acceptance rates over chains, by dual averaging             |
| trajectory length | gradient of the ChEES criterion, by Adam on its logarithm                    |
| mass matrix       | variance of positions over chains and iterations; a late one weighs more     |

| Part of warm-up   | Does                                                                         |
|-------------------|------------------------------------------------------------------------------|
| first tenth       | trajectories of at most 16 steps                                             |
| to three quarters | all is adapted in every iteration; the mass matrix is learned anew after a   |
|                   | tenth and after three tenths, as chains come from afar                       |
| last quarter      | the mass matrix is kept, and the step size goes on from its average          |
| last iteration    | step size and trajectory length become their averages                        |

A warm-up of fewer than five iterations keeps the step size: it would end with one never tried.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from inference.warmup.dual_averaging import (
    DualAveraging,
    dual_averaging_init,
    dual_averaging_restart,
    dual_averaging_update,
)

_MIN_RATE = 0.01  # of a chain in the harmonic mean, which one stuck chain would else rule
# of Adam without momentum (Hoffman et al. 2021)
_LEARNING_RATE = 0.025
_DECAY = 0.95
_MAX_CHANGE = 0.35  # of the log trajectory length in an iteration
_LEAST_WARMUP = 5  # iterations to adapt the step size in
_GIVEN = 5  # iterations that a given mass matrix counts for, or one learned before a restart
_BRIEF_STEPS = 16  # leapfrog steps, in the first tenth of warm-up


class Tuning(NamedTuple):
    """Parameters that all chains share, and what their adaptation remembers.

    Attributes:
        step_size: Scalar, of positions in units of their standard deviations.
        trajectory_length: Scalar, in the same units; trajectories have up to this length.
        mean: Mean of positions, ``(size,)``.
        variance: Variance of positions, ``(size,)``: the diagonal of the inverse mass matrix.
        averaging: Dual averaging of the log step size.
        log_length: Log trajectory length, before bounds.
        log_length_average: Its average; later iterations weigh more.
        square: Average of squared gradients of the criterion (Adam's second moment).
    """

    step_size: jax.Array
    trajectory_length: jax.Array
    mean: jax.Array
    variance: jax.Array
    averaging: DualAveraging
    log_length: jax.Array
    log_length_average: jax.Array
    square: jax.Array


def init_tuning(step_size: jax.Array, trajectory_length: jax.Array, variance: jax.Array) -> Tuning:
    """Parameters before warm-up."""
    log_length = jnp.log(trajectory_length)
    return Tuning(
        step_size=step_size,
        trajectory_length=trajectory_length,
        mean=jnp.zeros_like(variance),
        variance=variance,
        averaging=dual_averaging_init(step_size),
        log_length=log_length,
        log_length_average=log_length,
        square=jnp.zeros_like(log_length),
    )


def adapt_tuning(
    tuning: Tuning,
    positions: jax.Array,
    acceptance_rate: jax.Array,
    length_gradient: jax.Array,
    iteration: jax.Array,
    num_warmup: jax.Array,
    target: jax.typing.ArrayLike,
    max_num_steps: jax.typing.ArrayLike,
    is_given: bool,
) -> Tuning:
    """Parameters after a transition of warm-up.

    Args:
        tuning: Parameters so far.
        positions: Positions after the transition, ``(chain, size)``.
        acceptance_rate: Acceptance rates of the transition, ``(chain,)``.
        length_gradient: Derivative of the criterion with respect to the log trajectory length.
        iteration: Number of transitions before this one.
        num_warmup: Number of transitions of warm-up.
        target: Harmonic mean of acceptance rates to adapt to.
        max_num_steps: Maximum number of leapfrog steps of a trajectory.
        is_given: Whether the variance before warm-up is a user's, and counts for some iterations.
    """
    count = (iteration + 1).astype(positions.dtype)
    freeze = (3 * num_warmup) // 4
    averaging = _adapt_step_size(tuning.averaging, acceptance_rate, target, iteration == freeze)
    square = _DECAY * tuning.square + (1 - _DECAY) * length_gradient**2
    root = jnp.sqrt(square / (1 - _DECAY**count))
    change = _LEARNING_RATE * length_gradient / jnp.where(root > 0, root, 1)
    log_length = tuning.log_length + jnp.clip(change, -_MAX_CHANGE, _MAX_CHANGE)
    most_steps = jnp.asarray(max_num_steps, positions.dtype)
    keeps_step = num_warmup < _LEAST_WARMUP
    log_step_size = jnp.where(keeps_step, jnp.log(tuning.step_size), averaging.log_step_size)
    log_length = jnp.clip(log_length, log_step_size, log_step_size + jnp.log(most_steps))
    weight = count**-0.5
    average = (1 - weight) * tuning.log_length_average + weight * log_length

    is_last = iteration + 1 >= num_warmup
    step_size = jnp.exp(jnp.where(is_last & ~keeps_step, averaging.log_average, log_step_size))
    most = jnp.where(
        iteration < num_warmup // 10, jnp.minimum(_BRIEF_STEPS, most_steps), most_steps
    )
    length = jnp.exp(jnp.where(is_last, average, log_length))
    # Starts may be far apart, and squares remember them long: the mass matrix restarts twice.
    restart = jnp.where(
        iteration < (3 * num_warmup) // 10, num_warmup // 10, (3 * num_warmup) // 10
    )
    restart = jnp.where(iteration < num_warmup // 10, 0, restart)
    num_given = jnp.where(restart > 0, _GIVEN, _GIVEN if is_given else 0)
    of_part = (iteration - restart + 1).astype(positions.dtype)
    mean, variance = _adapt_variance(tuning, positions, of_part, num_given)
    is_kept = iteration >= freeze
    return Tuning(
        step_size=step_size,
        trajectory_length=jnp.clip(length, step_size, most * step_size),
        mean=jnp.where(is_kept, tuning.mean, mean),
        variance=jnp.where(is_kept, tuning.variance, variance),
        averaging=averaging,
        log_length=log_length,
        log_length_average=average,
        square=square,
    )


def _adapt_step_size(
    averaging: DualAveraging,
    acceptance_rate: jax.Array,
    target: jax.typing.ArrayLike,
    restarts: jax.Array,
) -> DualAveraging:
    target = jnp.asarray(target, acceptance_rate.dtype)
    harmonic_mean = 1 / jnp.mean(1 / jnp.maximum(acceptance_rate, _MIN_RATE))
    updated = dual_averaging_update(averaging, harmonic_mean, target)
    return jax.tree.map(
        lambda a, b: jnp.where(restarts, a, b), dual_averaging_restart(updated), updated
    )


def _adapt_variance(
    tuning: Tuning, positions: jax.Array, count: jax.Array, num_given: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Weighted mean and variance of positions of all iterations; weights grow as their square.

    The variance before warm-up is that of `num_given` iterations.
    """
    weight = 3 / (count + 2)
    mean = tuning.mean + weight * (jnp.mean(positions, 0) - tuning.mean)
    spread = jnp.mean((positions - tuning.mean[None]) * (positions - mean[None]), 0)
    weight = 3 / (count + num_given + 2)
    variance = (1 - weight) * tuning.variance + weight * spread
    tiny = jnp.finfo(positions.dtype).tiny
    is_known = (variance > tiny) & jnp.isfinite(variance)
    return mean, jnp.where(is_known, variance, tuning.variance)


def chees_gradient(
    start: jax.Array,
    end: jax.Array,
    velocity: jax.Array,
    acceptance_rate: jax.Array,
    time: jax.Array,
) -> jax.Array:
    r"""Derivative of the ChEES criterion with respect to the log trajectory length.

    ChEES is the change in the estimator of the expected square,
    :math:`\frac14 E[(|x' - E x'|^2 - |x - E x|^2)^2]`, for a trajectory from :math:`x` to
    :math:`x'`. It is large if the lag-one autocorrelation of the squared distance from the mean is
    low. Its derivative is the mean over chains, weighted by acceptance rates, of

    .. math::
        t \, (|x' - E x'|^2 - |x - E x|^2) \, (x' - E x')^T v',

    with the velocity :math:`v'` at the end and the time :math:`t` of the trajectory.

    Args:
        start: Positions at the start in units of their standard deviations, ``(chain, size)``.
        end: Proposals; they are ignored where the acceptance rate is 0.
        velocity: Velocities at the end.
        acceptance_rate: Acceptance rates, ``(chain,)``.
        time: Length of the trajectory.

    References:
        Hoffman, Radul and Sountsov (2021), An adaptive-MCMC scheme for setting trajectory lengths
        in Hamiltonian Monte Carlo, section 3, equation 5 and algorithm 1.
    """
    counts = (acceptance_rate > 0)[:, None]
    end = jnp.where(counts, end, start)
    velocity = jnp.where(counts, velocity, 0)
    total = jnp.maximum(jnp.sum(acceptance_rate), jnp.finfo(start.dtype).tiny)
    weight = acceptance_rate / total
    before = start - jnp.mean(start, 0, keepdims=True)
    after = end - jnp.sum(weight[:, None] * end, 0, keepdims=True)
    change = jnp.sum(after**2, 1) - jnp.sum(before**2, 1)
    gradient = time * jnp.sum(weight * change * jnp.sum(after * velocity, 1))
    return jnp.where(jnp.isfinite(gradient), gradient, 0)


def halton(index: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Number in (0, 1) at place `index` of the Halton sequence in base 2 (van der Corput).

    Example:
        >>> [round(float(halton(jnp.uint32(i), jnp.float32)), 6) for i in (1, 2, 3)]
        [0.5, 0.25, 0.75]
    """
    word = index.astype(jnp.uint32)
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        bits = jnp.uint32(mask)
        word = ((word >> shift) & bits) | ((word & bits) << shift)
    word = (word >> 16) | (word << 16)
    return ((word >> 8).astype(dtype) + 0.5) * 2.0**-24
