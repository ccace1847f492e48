"""_TERMS, poisson_terms, log_poisson_mass."""

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.numerics.loader_kernels import log_gamma_kernel

_TERMS = 200


def poisson_terms(centre: Array) -> tuple[Array, Array, Array]:
    """A centre, the distances of indices around it, and the logarithm of the step between them.

    All of these integers from 0 on, or so far apart as a sum of a smooth function is still its
    integral: along a new last axis. Large ones are no numbers of their dtype; their distances are.
    """
    centre = lax.stop_gradient(centre)
    reach = 11 * jnp.sqrt(centre + 1)
    step = jnp.maximum(2 * reach / _TERMS, 1)
    first = jnp.where(centre < 1e4, jnp.maximum(jnp.floor(centre - reach), 0) - centre, -reach)
    n = jnp.arange(_TERMS, dtype=centre.dtype).reshape((1,) * centre.ndim + (-1,))
    return centre[..., None], first[..., None] + step[..., None] * n, jnp.log(step)


def log_poisson_mass(centre: Array, offset: Array, m: Array) -> Array:
    """The logarithm of the mass of a Poisson variable of mean `m` at `centre + offset`."""
    m, j = m + 1e3 * np.finfo(m.dtype).tiny, centre + offset  # So that 0 has the right derivative.
    few, many, shift = jnp.minimum(j, 8), jnp.maximum(j, 8), (m - centre) - offset
    small = few * jnp.log(m) - m - lax.lgamma(few + 1)
    return jnp.where(j < 8, small, log_gamma_kernel(many, m, jnp.log(m), shift) - jnp.log(many))
