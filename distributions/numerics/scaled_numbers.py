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


def scaled(x: Any) -> Scaled:
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
    """The sum `a + b`, as by `total`."""
    pairs = (jnp.stack(jnp.broadcast_arrays(*pair)) for pair in zip(a, b, strict=True))
    return total(Scaled(*pairs), 0)


def total(parts: Scaled, axis: int = -1) -> Scaled:
    """The sum along an axis.

    Beside a sum that is smaller than the scale of a part of 0 by more than the root of the
    greatest number, the derivatives of this part are too small: still far above all others.
    """
    fractions, logs = parts
    greatest = jnp.max(select(fractions > 0, logs, -jnp.inf), axis, keepdims=True)
    log_scale = select(greatest == -jnp.inf, jnp.max(logs, axis, keepdims=True), greatest)
    most = 0.5 * math.log(float(jnp.finfo(logs.dtype).max))
    sum_of_fractions = jnp.sum(fractions * jnp.exp(jnp.minimum(logs - log_scale, most)), axis)
    return _normalized(sum_of_fractions, jnp.squeeze(log_scale, axis))


def log_of(x: Scaled) -> Array:
    """The logarithm; `-inf`, with a gradient of zero, of 0."""
    return safe_log(x.fraction) + x.log_scale


def _normalized(x: Any, log_scale: Array) -> Scaled:
    size = lax.stop_gradient(select(x > 0, x, 1))
    return Scaled(x / size, log_scale + jnp.log(size))
