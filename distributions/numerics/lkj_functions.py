"""_betas, _log_normaliser, _powers."""

import math

import jax.numpy as jnp
from jax import random

from distributions.common.arrays import align, select
from distributions.common.linear_algebra import (
    diagonal_matrix,
    per_event,
    square_sum,
)
from distributions.numerics.gamma_functions import digamma_step, log_beta
from distributions.numerics.gamma_sampler import log_gamma
from distributions.numerics.special import LOG_PI, LOG_TWO


def vine_betas(dimension, concentration):
    """`b_k` and `k / 2` for the rows but the first, along a new last axis."""
    concentration = jnp.asarray(concentration)
    half = 0.5 * jnp.arange(1, dimension, dtype=concentration.dtype)
    half = align(half, 0, concentration.ndim + 1)
    return concentration[..., None] + (0.5 * (dimension - 1) - half), half


def lkj_log_normalizer(dimension, concentration):
    b, half = vine_betas(dimension, concentration)
    constant = sum(0.5 * k * LOG_PI - math.lgamma(0.5 * k) for k in range(1, dimension))
    return jnp.sum(log_beta(b, half), -1) + constant


def vine_powers(dimension, concentration):
    """The powers of the diagonal entries but the first in the density of `L`."""
    b, _ = vine_betas(dimension, concentration)
    return 2 * b - 2


def lkj_cholesky_sample(key, shape, dtype, dimension, concentration):
    """Normal vectors, each with a chi variable for the diagonal, scaled to length 1."""
    normal_key, gamma_key = random.split(key)
    below = align(jnp.tri(dimension, k=-1, dtype=dtype), 0, len(shape))
    z = below * random.normal(normal_key, shape, dtype)
    b, _ = vine_betas(dimension, concentration)
    log_draw = log_gamma(gamma_key, b, (*shape[:-2], dimension - 1), dtype)
    chi = jnp.exp(0.5 * (LOG_TWO + log_draw))
    chi = jnp.concatenate([jnp.ones_like(chi[..., :1]), chi], -1)
    rows = z + diagonal_matrix(jnp.maximum(chi, jnp.finfo(dtype).tiny))
    return rows / jnp.sqrt(square_sum(rows))[..., None]


def square_of_entries(dimension, concentration):
    return per_event(1 / (2 * jnp.asarray(concentration) + (dimension - 1)), 2)


def lkj_cholesky_mode(dimension, concentration):
    """The identity; where a power is negative, the row with all in its first entry."""
    powers = vine_powers(dimension, concentration)
    shrunk = jnp.concatenate([jnp.zeros_like(powers[..., :1]), powers], -1)[..., None] < 0
    unit = align(jnp.eye(dimension, dtype=powers.dtype), 0, shrunk.ndim)
    return select(shrunk, unit[..., :1, :], unit)


def mean_log_squares(dimension, concentration):
    b, half = vine_betas(dimension, concentration)
    return -digamma_step(b, half)


def lkj_requirement(dimension, concentration):
    if isinstance(dimension, int) and dimension > 1:
        return None
    return f"dimension must be an integer, 2 or more; got {dimension!r}"
