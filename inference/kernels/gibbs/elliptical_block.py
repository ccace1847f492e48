"""Elliptical slice sampling of a block, whose normal prior other blocks may change."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.tree_util import Partial

from inference.common.layout import Layout
from inference.kernels.gibbs.block_density import block_density
from inference.kernels.gradient_free.elliptical_slice import EllipticalSlice, log_normal

_NUM_ROUNDS = 2  # the second mends what rounding in the dtype left of the first


def elliptical_kernel(
    log_prior: Callable[[Any], jax.Array], log_density: Partial, position: Any
) -> EllipticalSlice:
    """Kernel of a block, given the present values of all others.

    The likelihood is the density of the block over a normal density, which is the prior but for
    rounding. So draws are exact even where a covariance hardly fits the dtype.

    Args:
        log_prior: Log prior density of a position of the block, a quadratic function.
        log_density: Log density of a position, up to a constant.
        position: A position, of which only the shapes matter.
    """
    layout = Layout.of(position)
    prior = block_density(log_prior, position)
    mean, factor = _moments(lambda flat: prior(layout.unravel(flat)), layout)
    likelihood = Partial(_log_likelihood, log_density, mean, factor)
    return EllipticalSlice(likelihood, mean=mean, factor=factor)


def _log_likelihood(
    log_density: Partial, mean: jax.Array, factor: jax.Array, position: Any
) -> jax.Array:
    vector = Layout.of(position).ravel(position)
    return log_density(position) - log_normal(factor, vector - mean)


def _moments(
    log_prior: Callable[[jax.Array], jax.Array], layout: Layout
) -> tuple[jax.Array, jax.Array]:
    """Mean and lower triangular factor of the covariance of a normal density.

    The precision of a smooth Gaussian process may not fit the dtype. A second Hessian, in
    coordinates that are standard normal but for rounding, refines its inverse.
    """
    eps = jnp.finfo(layout.dtype).eps
    zeros = jnp.zeros(layout.size, layout.dtype)

    def refine(_: Any, moments: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        mean, factor = moments
        slope = jax.grad(lambda x: log_prior(mean + factor @ x))
        precision = -jax.jacfwd(slope)(zeros)
        values, vectors = jnp.linalg.eigh(0.5 * (precision + precision.T))
        kept = jnp.maximum(values, eps * values[-1])
        mean = mean + factor @ (vectors @ ((slope(zeros) @ vectors) / kept))
        return mean, factor @ (vectors / jnp.sqrt(kept)[None])

    start = zeros, jnp.eye(layout.size, dtype=layout.dtype)
    mean, factor = lax.fori_loop(0, _NUM_ROUNDS, refine, start)
    upper = jnp.linalg.qr(factor.T)[1]
    return mean, (upper * jnp.sign(jnp.diagonal(upper))[:, None]).T
