"""Unit vectors along the coordinate axes."""

from typing import Any

import jax.numpy as jnp
from jax import Array

from distributions.common.arrays import align


def unit_vector(index: Array, size: int, dtype: Any) -> Array:
    """The unit vectors `e_index` with `size` entries, along a new last axis."""
    axes = align(jnp.arange(size), 0, index.ndim + 1)
    return (index[..., None] == axes).astype(dtype)
