"""Draws that rounding has put at or over an end of an interval, moved inside of it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.common.arrays import as_host_array, convert, select
from distributions.constraints.base import Constraint, bounds
from distributions.constraints.scalar import GreaterThan, Interval, LessThan


def move_inside(draws: Array, support: Constraint) -> Array:
    """Finite draws within an interval: those beyond an end are that end, or the number next to it.

    Infinite draws and NaN stay as they are, as these are no matter of rounding; so do draws of
    other supports.
    """
    if not isinstance(support, GreaterThan | LessThan | Interval):
        return draws
    is_closed = getattr(support, "closed", False)
    for end, inward in zip(bounds(support), (np.inf, -np.inf), strict=True):
        host = as_host_array(end)
        if host is None or not np.isinf(host).all():
            draws = _move_to(draws, convert(end, draws.dtype), inward, is_closed)
    return draws


def _move_to(draws: Array, end: Any, inward: float, is_closed: bool) -> Array:
    """Draws of which the finite ones beyond an end, or at one that is open, are moved inward."""
    if is_closed:
        is_beyond = draws < end if inward > 0 else draws > end
        edge = end
    else:
        is_beyond = draws <= end if inward > 0 else draws >= end
        edge = _next(end, inward)
    shape = np.broadcast_shapes(draws.shape, np.shape(end))
    is_moved = jnp.broadcast_to(is_beyond & lax.is_finite(draws), shape)
    return select(is_moved, edge, draws)


def _next(end: Any, inward: float) -> Any:
    """The next normal number, or zero, inward of an end; its slope in the end is 1."""
    tiny = jnp.finfo(jnp.result_type(end)).tiny
    is_array = isinstance(end, Array)
    fixed = lax.stop_gradient(end) if is_array else end
    where, after = (jnp.where, jnp.nextafter) if is_array else (np.where, np.nextafter)
    number = after(fixed, convert(inward, fixed.dtype))
    sign = np.sign(inward)
    beside_zero = where(sign * fixed <= -tiny, 0, convert(sign * tiny, fixed.dtype))
    number = where(abs(number) < tiny, beside_zero, number)
    return number + (end - fixed) if is_array else number
