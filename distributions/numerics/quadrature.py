"""Integrals by trapezoidal rules, and maxima by grids, where there are no closed forms."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

_NORMAL_NODES = np.linspace(-14, 14, 561)


def normal_expectation(f: Any, loc: Array, scale: Array) -> Array:
    """`E[f(x)]` for a normal variable and an analytic function, by the trapezoidal rule."""
    loc, scale = jnp.broadcast_arrays(loc, scale)
    nodes = jnp.asarray(_NORMAL_NODES, loc.dtype).reshape((1,) * loc.ndim + (-1,))
    weights = jnp.exp(-0.5 * jnp.square(nodes))
    values = f(loc[..., None] + scale[..., None] * nodes)
    return jnp.sum(values * weights, axis=-1) / jnp.sum(weights, axis=-1)


def argmax(f: Any, low: Array, high: Array) -> Array:
    """The point between `low` and `high` at which a unimodal `f` is greatest, by finer grids."""
    low, high = jnp.broadcast_arrays(low, high)
    places = jnp.linspace(0, 1, 33, dtype=low.dtype).reshape((1,) * low.ndim + (-1,))

    def narrow(_, ends):
        low, high = ends
        best = jnp.argmax(f(low[..., None] + (high - low)[..., None] * places), axis=-1)
        step = (high - low) / 32
        place = best.astype(low.dtype)
        return low + step * jnp.maximum(place - 1, 0), low + step * jnp.minimum(place + 1, 32)

    low, high = lax.fori_loop(0, 10, narrow, (low, high))
    return 0.5 * (low + high)


_LOG_NODES = np.linspace(-45, 5, 501)


def exponential_expectation(f: Any, parameter: Array) -> Array:
    """`E[f(x, parameter)]` for a standard exponential variable, by the trapezoidal rule in `log x`.

    `f` must be analytic for `x >= 0`.
    """
    parameter = jnp.asarray(parameter)
    w = jnp.asarray(_LOG_NODES, parameter.dtype).reshape((1,) * parameter.ndim + (-1,))
    values = f(jnp.exp(w), parameter[..., None]) * jnp.exp(w - jnp.exp(w))
    return jnp.sum(values, axis=-1) * (_LOG_NODES[1] - _LOG_NODES[0]).item()


# Tanh-sinh rule: nodes as shares of the interval, and weights.
_STEP = 0.04
_SHIFTS = np.pi * np.sinh(_STEP * np.arange(-130, 131))
_SHARES = 1 / (1 + np.exp(-_SHIFTS))
_WEIGHTS = _STEP * np.hypot(_SHIFTS, np.pi) * _SHARES / (1 + np.exp(_SHIFTS))


def integral(f: Any, low: Array, high: Array) -> Array:
    """The integral of an analytic function, by the tanh-sinh rule.

    Values and derivatives may be singular at either end.
    """
    low, high = (x[..., None] for x in jnp.broadcast_arrays(low, high))
    shape = (1,) * (low.ndim - 1) + (-1,)
    shares, weights = (jnp.asarray(x, low.dtype).reshape(shape) for x in (_SHARES, _WEIGHTS))
    return jnp.sum(f(low + (high - low) * shares) * weights, axis=-1) * (high - low)[..., 0]
