"""Density, draws and moments shared by LKJ and LKJCholesky; `L` is the factor, with `n` rows."""

import math
from typing import Any

import jax.numpy as jnp
from jax import Array, random
from jax.typing import ArrayLike

from distributions.common.arrays import align, select
from distributions.common.linear_algebra import (
    diagonal_matrix,
    per_event,
)
from distributions.numerics.gamma_functions import digamma_step, log_beta
from distributions.numerics.gamma_sampler import log_gamma
from distributions.numerics.special import LOG_PI, LOG_TWO
from distributions.numerics.sphere import normalize


def vine_betas(dimension: int, concentration: ArrayLike) -> tuple[Array, Array]:
    """`b_k = concentration + (n - 1 - k) / 2` and `k / 2`, `k = 1 .. n - 1`, on a new last axis.

    The square of the diagonal entry of row `k + 1` has a beta distribution with these parameters.
    """
    concentration = jnp.asarray(concentration)
    half = 0.5 * jnp.arange(1, dimension, dtype=concentration.dtype)
    half = align(half, 0, concentration.ndim + 1)
    return concentration[..., None] + (0.5 * (dimension - 1) - half), half


def lkj_log_normalizer(dimension: int, concentration: ArrayLike) -> Array:
    """`sum_k log B(b_k, k / 2) + k log(pi) / 2 - log Gamma(k / 2)`."""
    b, half = vine_betas(dimension, concentration)
    constant = sum(0.5 * k * LOG_PI - math.lgamma(0.5 * k) for k in range(1, dimension))
    return jnp.sum(log_beta(b, half), -1) + constant


def vine_powers(dimension: int, concentration: ArrayLike) -> Array:
    """`2 b_k - 2`, the powers of the diagonal entries of `L`, but the first, in its density."""
    b, _ = vine_betas(dimension, concentration)
    return 2 * b - 2


def lkj_cholesky_sample(
    key: Array, shape: tuple[int, ...], dtype: Any, dimension: int, concentration: ArrayLike
) -> Array:
    """Draws of `L`: rows of normal variables and a chi variable on the diagonal, of length 1."""
    normal_key, gamma_key = random.split(key)
    below = align(jnp.tri(dimension, k=-1, dtype=dtype), 0, len(shape))
    z = below * random.normal(normal_key, shape, dtype)
    b, _ = vine_betas(dimension, concentration)
    log_draw = log_gamma(gamma_key, b, (*shape[:-2], dimension - 1), dtype)
    chi = jnp.exp(0.5 * (LOG_TWO + log_draw))
    chi = jnp.concatenate([jnp.ones_like(chi[..., :1]), chi], -1)
    rows = z + diagonal_matrix(jnp.maximum(chi, jnp.finfo(dtype).tiny))
    return normalize(rows)


def square_of_entries(dimension: int, concentration: ArrayLike) -> Array:
    """`1 / (2 concentration + n - 1)`, the mean square of an entry below the diagonal."""
    return per_event(1 / (2 * jnp.asarray(concentration) + (dimension - 1)), 2)


def lkj_cholesky_mode(dimension: int, concentration: ArrayLike) -> Array:
    """The identity, with rows `(1, 0, ..., 0)` where the power of the diagonal is negative."""
    powers = vine_powers(dimension, concentration)
    shrunk = jnp.concatenate([jnp.zeros_like(powers[..., :1]), powers], -1)[..., None] < 0
    unit = align(jnp.eye(dimension, dtype=powers.dtype), 0, shrunk.ndim)
    return select(shrunk, unit[..., :1, :], unit)


def mean_log_squares(dimension: int, concentration: ArrayLike) -> Array:
    """`digamma(b_k) - digamma(b_k + k / 2)`, the mean log squares of the diagonal of `L`."""
    b, half = vine_betas(dimension, concentration)
    return -digamma_step(b, half)


def lkj_requirement(dimension: Any, concentration: Any) -> str | None:
    """The fault of a dimension that is not an integer of 2 or more, or None."""
    if isinstance(dimension, int) and dimension > 1:
        return None
    return f"dimension must be an integer, 2 or more; got {dimension!r}"
