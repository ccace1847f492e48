"""Helpers of families on the unit interval: the support, clipped draws, a check of modes."""

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from distributions.common.arrays import common_dtype
from distributions.constraints import open_interval

unit = open_interval(0.0, 1.0)


def clip_unit(draw: Array) -> Array:
    """Draws, brought back into the open unit interval where they were rounded to 0 or 1."""
    info = jnp.finfo(draw.dtype)
    return jnp.clip(draw, info.tiny, 1 - info.epsneg)


def peak_inside(low: ArrayLike, peak: ArrayLike, high: ArrayLike) -> str | None:
    """An error message unless `peak` lies from `low` to `high`, or None."""
    low, peak, high = (np.asarray(x, common_dtype(low, peak, high)) for x in (low, peak, high))
    if np.all((low <= peak) & (peak <= high)):
        return None
    return f"peak must lie from low to high; got {peak}, with {low} and {high}"
