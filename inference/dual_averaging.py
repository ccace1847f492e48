"""Dual averaging: a step size of which the acceptance rate is the one asked for.

References:
    Hoffman and Gelman (2014), The No-U-Turn Sampler, section 3.2.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp


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
