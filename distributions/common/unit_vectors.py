"""_unit."""

import jax.numpy as jnp

from distributions.common.arrays import align


def unit_vector(index, size, dtype):
    """The unit vectors along the given axes."""
    axes = align(jnp.arange(size), 0, index.ndim + 1)
    return (index[..., None] == axes).astype(dtype)
