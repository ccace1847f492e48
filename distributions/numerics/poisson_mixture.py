"""_TERMS, poisson_terms, log_poisson_mass."""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.numerics.loader_kernels import log_gamma_kernel

_TERMS = 200


def poisson_terms(center: Array) -> tuple[Array, Array, Array]:
    """A center, the distances of indices around it, and the logarithm of the step between them.

    All of these integers from 0 on, or so far apart as a sum of a smooth function is still its
    integral: along a new last axis. Large ones are no numbers of their dtype; their distances are.
    """
    center = lax.stop_gradient(center)
    reach = 11 * jnp.sqrt(center + 1)
    step = jnp.maximum(2 * reach / _TERMS, 1)
    first = jnp.where(center < 1e4, jnp.maximum(jnp.floor(center - reach), 0) - center, -reach)
    n = jnp.arange(_TERMS, dtype=center.dtype).reshape((1,) * center.ndim + (-1,))
    return center[..., None], first[..., None] + step[..., None] * n, jnp.log(step)


def log_poisson_mass(center: Array, offset: Array, m: Array) -> Array:
    """The logarithm of the mass of a Poisson variable of mean `m` at `center + offset`."""
    m, j = m + 1e3 * np.finfo(m.dtype).tiny, center + offset  # So that 0 has the right derivative.
    few, many, shift = jnp.minimum(j, 8), jnp.maximum(j, 8), (m - center) - offset
    small = few * jnp.log(m) - m - lax.lgamma(few + 1)
    return jnp.where(j < 8, small, log_gamma_kernel(many, m, jnp.log(m), shift) - jnp.log(many))
