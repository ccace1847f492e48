"""unit, clip_unit, _peak_inside."""

import jax.numpy as jnp
import numpy as np
from jax import Array

from distributions.common.arrays import common_dtype
from distributions.constraints import open_interval

unit = open_interval(0.0, 1.0)


def clip_unit(draw: Array) -> Array:
    """Draws that were rounded to 0 or 1, brought back between them."""
    info = jnp.finfo(draw.dtype)
    return jnp.clip(draw, info.tiny, 1 - info.epsneg)


def peak_inside(low, peak, high):
    low, peak, high = (np.asarray(x, common_dtype(low, peak, high)) for x in (low, peak, high))
    if np.all((low <= peak) & (peak <= high)):
        return None
    return f"peak must lie from low to high; got {peak}, with {low} and {high}"
