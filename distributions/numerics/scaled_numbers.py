"""Sums and products of nonnegative numbers of any size that keep their derivatives at 0."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from distributions.common.arrays import select
from distributions.numerics.special import safe_log


class Scaled(NamedTuple):
    """The number `fraction exp(log_scale)`, with a fraction of 0 or 1 that has the derivatives.

    A logarithm of 0 has no slope, so that a recursion over logarithms loses the derivatives of
    all that begins with 0. A fraction of 0 has one, on the scale of what it is added to.
    """

    fraction: Array
    log_scale: Array


def scaled(x: Array) -> Scaled:
    """A nonnegative number."""
    return _normalized(x, jnp.zeros_like(x))


def scaled_exp(log_x: Array) -> Scaled:
    """The exponential, without overflow and underflow."""
    log_scale = lax.stop_gradient(log_x)
    return Scaled(jnp.exp(log_x - log_scale), log_scale)


def scaled_zeros(shape: tuple[int, ...], dtype: Any) -> Scaled:
    """Zeros without derivatives, on a scale below all others."""
    return Scaled(
        jnp.zeros(shape, dtype), jnp.full(shape, 0.5 * float(jnp.finfo(dtype).min), dtype)
    )


def multiply(a: Scaled, b: Scaled) -> Scaled:
    """The product `a b`."""
    return Scaled(a.fraction * b.fraction, a.log_scale + b.log_scale)


def add(a: Scaled, b: Scaled) -> Scaled:
    """The sum `a + b`.

    Where 0 is added to a number that is smaller by more than the root of the greatest number, its
    derivatives are too small; they are far above all others.
    """
    logs = [select(x.fraction > 0, x.log_scale, -jnp.inf) for x in (a, b)]
    log_scale = jnp.maximum(*logs)
    log_scale = select(log_scale == -jnp.inf, jnp.maximum(a.log_scale, b.log_scale), log_scale)
    most = 0.5 * math.log(float(jnp.finfo(log_scale.dtype).max))
    parts = (x.fraction * jnp.exp(jnp.minimum(x.log_scale - log_scale, most)) for x in (a, b))
    return _normalized(sum(parts), log_scale)


def log_of(x: Scaled) -> Array:
    """The logarithm; `-inf`, with a gradient of zero, of 0."""
    return safe_log(x.fraction) + x.log_scale


def _normalized(x: Any, log_scale: Array) -> Scaled:
    size = lax.stop_gradient(select(x > 0, x, 1))
    return Scaled(x / size, log_scale + jnp.log(size))
