"""The stationary autoregression of first order, AR(1)."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax, random
from jax.typing import ArrayLike

from distributions.common.linear_algebra import (
    per_event,
    square_sum,
)
from distributions.common.pytree import static
from distributions.constraints import (
    open_interval,
    positive,
    real,
    real_vector,
)
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.special import LOG_SQRT_TWO_PI, scale_by_reciprocal


def _stationary_variance(coefficient, scale):
    return jnp.square(scale) / ((1 - coefficient) * (1 + coefficient))


def _autoregressive_log_prob(x, loc, coefficient, scale, num_steps):
    z = scale_by_reciprocal(x - per_event(loc), per_event(scale))
    steps = z[..., 1:] - per_event(coefficient) * z[..., :-1]
    first = (1 - coefficient) * (1 + coefficient)
    square = first * jnp.square(z[..., 0]) + square_sum(steps)
    normalizer = num_steps * (jnp.log(scale) + LOG_SQRT_TWO_PI) - 0.5 * jnp.log(first)
    return -0.5 * square - normalizer


def _autoregressive_path(z, loc, coefficient, scale, num_steps):
    """The path whose innovations are `z`, in units of the standard deviation of each."""
    z = jnp.moveaxis(z, -1, 0)
    first = z[0] / jnp.sqrt((1 - coefficient) * (1 + coefficient))

    def step(before, z):
        now = coefficient * before + z
        return now, now

    _, others = lax.scan(step, first, z[1:])
    path = jnp.moveaxis(jnp.concatenate([first[None], others]), 0, -1)
    return per_event(loc) + per_event(scale) * path


def _innovations(x, loc, coefficient, scale, num_steps):
    z = scale_by_reciprocal(x - per_event(loc), per_event(scale))
    first = z[..., :1] * per_event(jnp.sqrt((1 - coefficient) * (1 + coefficient)))
    return jnp.concatenate([first, z[..., 1:] - per_event(coefficient) * z[..., :-1]], -1)


def _autoregressive_entropy(loc, coefficient, scale, num_steps):
    log_first = jnp.log1p(-coefficient) + jnp.log1p(coefficient)
    return num_steps * (jnp.log(scale) + (0.5 + LOG_SQRT_TWO_PI)) - 0.5 * log_first


@family(
    support=real_vector,
    event_shape=lambda loc, coefficient, scale, num_steps: (num_steps,),
    requires=lambda loc, coefficient, scale, num_steps: (
        None
        if isinstance(num_steps, int) and num_steps > 0
        else f"num_steps must be a positive integer; got {num_steps!r}"
    ),
    log_prob=_autoregressive_log_prob,
    sample=lambda key, shape, dtype, *parameters: _autoregressive_path(
        random.normal(key, shape, dtype), *parameters
    ),
    mean=lambda loc, coefficient, scale, num_steps: per_event(loc),
    variance=lambda loc, coefficient, scale, num_steps: per_event(
        _stationary_variance(coefficient, scale)
    ),
    mode=lambda loc, coefficient, scale, num_steps: per_event(loc),
    entropy=_autoregressive_entropy,
    standard=Factor(_autoregressive_path, _innovations),
)
class AutoRegressive(Family):
    r"""Stationary autoregression of first order, AR(1).

    `x_k` is normal with mean `loc + coefficient (x_(k-1) - loc)` and standard deviation `scale` for
    `k = 2 .. num_steps`; `x_1` has the stationary distribution that all entries share, normal with
    mean `loc` and variance `scale^2 / (1 - coefficient^2)`.

    Args:
        loc: The stationary mean.
        coefficient: The correlation of neighbors, between -1 and 1.
        scale: The standard deviation of a step, positive.
        num_steps: The number of entries.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> ar = dist.AutoRegressive(0.0, 0.5, 1.0, 3)
    >>> round(float(ar.log_prob(jnp.zeros(3))), 4)
    -2.9007

    References:
        Hamilton, *Time Series Analysis* (1994), section 5.2.
    """

    loc: ArrayLike = parameter(real)
    coefficient: ArrayLike = parameter(open_interval(-1.0, 1.0))
    scale: ArrayLike = parameter(positive)
    num_steps: int = static()
