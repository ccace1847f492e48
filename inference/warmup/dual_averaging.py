"""Dual averaging: a step size adapted until the acceptance rate is the target rate.

References:
    Hoffman and Gelman (2014), The No-U-Turn Sampler, section 3.2.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

# Shrinkage gamma of the log step size toward its center, without unit: a larger one moves it less.
# 0.05 is Hoffman and Gelman's value, for a step size of unknown order. The others are for restarts
# from the average over a few updates, and over 100 or more (see `dual_averaging_restart`).
_FIRST_SHRINKAGE = 0.05
_SHRINKAGE = 0.15
_LATE_SHRINKAGE = 0.5
_LATE = 100
# Hoffman and Gelman's values: the first updates count less, and late step sizes more.
_T0 = 10.0
_KAPPA = 0.75


class DualAveraging(NamedTuple):
    """State of dual averaging for the log step size.

    Attributes:
        log_step_size: Log step size of the next iteration.
        log_average: Weighted average of log step sizes; later ones weigh more.
        error_average: Weighted average of the target less the acceptance rate.
        count: Updates so far.
        center: Log step size toward which steps shrink.
        shrinkage: Strength of the shrinkage; a larger one moves the step size less.
    """

    log_step_size: jax.Array
    log_average: jax.Array
    error_average: jax.Array
    count: jax.Array
    center: jax.Array
    shrinkage: jax.Array


def dual_averaging_init(step_size: jax.Array) -> DualAveraging:
    """Initial state; steps shrink toward ten times `step_size`, as long steps are cheaper."""
    log_step_size = jnp.log(step_size)
    zero = jnp.zeros_like(log_step_size)
    center = log_step_size + math.log(10.0)
    return DualAveraging(log_step_size, log_step_size, zero, zero, center, zero + _FIRST_SHRINKAGE)


def dual_averaging_restart(state: DualAveraging, gain: Any = 0.0) -> DualAveraging:
    """State restarted at the averaged step size, with stronger shrinkage toward it.

    The acceptance rate falls faster with longer steps than it rises with shorter ones. So an
    average over steps that vary much is too short for the target rate: with the first shrinkage it
    has a rate of 0.9 for a target of 0.8, at up to twice the gradients. Where the curvature varies,
    a step size that varies much also frees a chain that is stuck, so that the rate seems higher
    than it is at the fixed step size of the draws. Stronger shrinkage makes step sizes vary less:
    most of all after 100 updates, when the average is nearly right. After 100 more updates, the
    mean rate is still within 0.02 of the target.

    Args:
        state: State so far, of NumPy or JAX arrays.
        gain: Number to add to the logarithm of the averaged step size.
    """
    average = state.log_average + gain
    zero = 0 * state.count
    is_late = (state.count >= _LATE).astype(state.count.dtype)
    shrinkage = _SHRINKAGE + is_late * (_LATE_SHRINKAGE - _SHRINKAGE)
    return DualAveraging(average, average, zero, zero, average, zero + shrinkage)


def dual_averaging_update(
    state: DualAveraging, acceptance_rate: jax.Array, target: jax.typing.ArrayLike
) -> DualAveraging:
    r"""State after one step of dual averaging toward the acceptance rate `target`.

    .. math::
        \bar h_t &= (1 - \tfrac{1}{t + t_0}) \bar h_{t-1} + \tfrac{1}{t + t_0}(\delta - \alpha_t) \\
        \log\epsilon_t &= \mu - \tfrac{\sqrt t}{\gamma} \bar h_t \\
        \log\bar\epsilon_t &= t^{-\kappa} \log\epsilon_t + (1 - t^{-\kappa}) \log\bar\epsilon_{t-1}

    with the center for :math:`\mu`, the shrinkage for :math:`\gamma`, :math:`t_0 = 10` and
    :math:`\kappa = 0.75`.

    References:
        Hoffman and Gelman (2014), The No-U-Turn Sampler, algorithm 5.
    """
    count = state.count + 1
    weight = 1 / (count + _T0)
    error_average = (1 - weight) * state.error_average + weight * (target - acceptance_rate)
    log_step_size = state.center - jnp.sqrt(count) / state.shrinkage * error_average
    decay = count**-_KAPPA
    log_average = decay * log_step_size + (1 - decay) * state.log_average
    return DualAveraging(
        log_step_size, log_average, error_average, count, state.center, state.shrinkage
    )
