"""Sums over a Poisson index, for mixtures such as the noncentral chi-squared distribution."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from distributions.common.arrays import select
from distributions.numerics.loader_kernels import log_gamma_kernel
from distributions.numerics.special import log_weighted_sum
from distributions.numerics.sphere import log_sum

_TERMS = 200  # Indices of one sum.


def poisson_terms(center: Array) -> tuple[Array, Array, Array]:
    """The center, the offsets of indices from it, and the log of the step between indices.

    Indices stand along a new last axis. They are all integers within reach, from 0 on; for large
    centers they are farther apart, but so close that the sum of a smooth function is still its
    integral. Offsets are exact where indices are too large for their dtype.
    """
    center = lax.stop_gradient(center)
    reach = 11 * jnp.sqrt(center + 1)
    step = jnp.maximum(2 * reach / _TERMS, 1)
    first = jnp.where(center < 1e4, jnp.maximum(jnp.floor(center - reach), 0) - center, -reach)
    n = jnp.arange(_TERMS, dtype=center.dtype).reshape((1,) * center.ndim + (-1,))
    return center[..., None], first[..., None] + step[..., None] * n, jnp.log(step)


def log_poisson_mixture(center: Array, offset: Array, m: Array, parts: Array, y: Any) -> Array:
    """`log(sum_j exp(-m) m^j / j! exp(parts_j))` along the last axis, with `j = center + offset`.

    Parts grow about as `y^j`. For small means, 0 included, masses are products: the derivatives of
    their logarithms would overflow.
    """
    is_small = (m < 1) & (m * y < 1e-3)  # Indices are 0, 1, 2, ...
    many = log_sum(_log_poisson_mass(center, offset, select(is_small, 1, m)) + parts)
    little = select(is_small, m, 0)
    j = np.arange(24).reshape((1,) * (m.ndim - 1) + (-1,))
    masses = jnp.cumprod(select(j == 0, 1, little / np.maximum(j, 1).astype(m.dtype)), -1)
    few = log_weighted_sum(masses, parts[..., : j.size]) - little[..., 0]
    return select(is_small[..., 0], few, many)


def _log_poisson_mass(center: Array, offset: Array, m: Array) -> Array:
    """The log mass at `center + offset` of a Poisson variable of mean `m`."""
    j = center + offset
    few = jnp.minimum(j, 8)
    many = jnp.maximum(j, 8)
    shift = (m - center) - offset
    small = few * jnp.log(m) - m - lax.lgamma(few + 1)
    return jnp.where(j < 8, small, log_gamma_kernel(many, m, jnp.log(m), shift) - jnp.log(many))
