"""Families of correlation matrices: LKJ and LKJCholesky."""

import math

import jax.numpy as jnp
from jax import random
from jax.typing import ArrayLike

from distributions._arrays import align, select
from distributions._gamma_draw import log_gamma
from distributions._linalg import (
    diagonal,
    diagonal_matrix,
    gram,
    log_diagonal,
    per_event,
    square_sum,
)
from distributions._pytree import static
from distributions.constraints import correlation, correlation_cholesky, positive
from distributions.family import Family, family
from distributions.gamma_functions import digamma_step, log_beta
from distributions.row import parameter
from distributions.special import LOG_PI, LOG_TWO

# In row k = 0 .. n - 1 of a factor L, the square of the diagonal entry has the distribution
# Beta(b_k, k / 2) with b_k = concentration + (n - 1 - k) / 2, and the others are in all directions.


def _betas(dimension, concentration):
    """`b_k` and `k / 2` for the rows but the first, along a new last axis."""
    concentration = jnp.asarray(concentration)
    half = 0.5 * jnp.arange(1, dimension, dtype=concentration.dtype)
    half = align(half, 0, concentration.ndim + 1)
    return concentration[..., None] + (0.5 * (dimension - 1) - half), half


def _log_normaliser(dimension, concentration):
    b, half = _betas(dimension, concentration)
    constant = sum(0.5 * k * LOG_PI - math.lgamma(0.5 * k) for k in range(1, dimension))
    return jnp.sum(log_beta(b, half), -1) + constant


def _powers(dimension, concentration):
    """The powers of the diagonal entries but the first in the density of `L`."""
    b, _ = _betas(dimension, concentration)
    return 2 * b - 2


def _cholesky_log_prob(x, dimension, concentration):
    log_entries = jnp.log(diagonal(x)[..., 1:])
    powers = align(_powers(dimension, concentration), 1, log_entries.ndim - 1)
    total = jnp.sum(powers * log_entries, -1)
    return total - _log_normaliser(dimension, concentration)


def _cholesky_sample(key, shape, dtype, dimension, concentration):
    """Normal vectors, each with a chi variable for the diagonal, scaled to length 1."""
    normal_key, gamma_key = random.split(key)
    below = align(jnp.tri(dimension, k=-1, dtype=dtype), 0, len(shape))
    z = below * random.normal(normal_key, shape, dtype)
    b, _ = _betas(dimension, concentration)
    log_draw = log_gamma(gamma_key, b, (*shape[:-2], dimension - 1), dtype)
    chi = jnp.exp(0.5 * (LOG_TWO + log_draw))
    chi = jnp.concatenate([jnp.ones_like(chi[..., :1]), chi], -1)
    rows = z + diagonal_matrix(jnp.maximum(chi, jnp.finfo(dtype).tiny))
    return rows / jnp.sqrt(square_sum(rows))[..., None]


def _mean_diagonal(dimension, concentration):
    b, half = _betas(dimension, concentration)
    mean = jnp.exp(log_beta(b + 0.5, half) - log_beta(b, half))
    return jnp.concatenate([jnp.ones_like(mean[..., :1]), mean], -1)


def _square_of_entries(dimension, concentration):
    return per_event(1 / (2 * jnp.asarray(concentration) + (dimension - 1)), 2)


def _cholesky_variance(dimension, concentration):
    b, half = _betas(dimension, concentration)
    variance = b / (b + half) - jnp.square(_mean_diagonal(dimension, concentration)[..., 1:])
    on_diagonal = jnp.concatenate([jnp.zeros_like(variance[..., :1]), variance], -1)
    result = diagonal_matrix(on_diagonal)
    below = align(jnp.tri(dimension, k=-1, dtype=result.dtype), 0, result.ndim)
    return result + below * align(_square_of_entries(dimension, concentration), 0, result.ndim)


def _cholesky_mode(dimension, concentration):
    """The identity; where a power is negative, the row with all in its first entry."""
    powers = _powers(dimension, concentration)
    shrunk = jnp.concatenate([jnp.zeros_like(powers[..., :1]), powers], -1)[..., None] < 0
    unit = align(jnp.eye(dimension, dtype=powers.dtype), 0, shrunk.ndim)
    return select(shrunk, unit[..., :1, :], unit)


def _mean_log_squares(dimension, concentration):
    b, half = _betas(dimension, concentration)
    return -digamma_step(b, half)


def _cholesky_entropy(dimension, concentration):
    powers = _powers(dimension, concentration)
    mean_log = 0.5 * _mean_log_squares(dimension, concentration)
    return _log_normaliser(dimension, concentration) - jnp.sum(powers * mean_log, -1)


def _requires(dimension, concentration):
    if isinstance(dimension, int) and dimension > 1:
        return None
    return f"dimension must be an integer, 2 or more; got {dimension!r}"


@family(
    support=correlation_cholesky,
    event_shape=lambda dimension, concentration: (dimension, dimension),
    requires=_requires,
    log_prob=_cholesky_log_prob,
    sample=_cholesky_sample,
    mean=lambda dimension, concentration: diagonal_matrix(_mean_diagonal(dimension, concentration)),
    variance=_cholesky_variance,
    mode=_cholesky_mode,
    entropy=_cholesky_entropy,
)
class LKJCholesky(Family):
    r"""Distribution of the Cholesky factor `L` of a correlation matrix with an `LKJ` distribution.

    `p(L) = prod_(k=2..n) L_kk^(n - k + 2 concentration - 2) / Z` for lower-triangular `L` with a
    positive diagonal and rows of length 1: a density in the entries below the diagonal. With
    `concentration = 1` the correlation matrix is uniform.

    Args:
        dimension: The number of rows `n`, at least 2.
        concentration: Positive; the larger, the nearer are the correlations to zero.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.LKJCholesky(2, 1.0).log_prob(jnp.eye(2))), 4)
    -0.6931

    References:
        Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and
        extended onion method", Journal of Multivariate Analysis 100 (2009), section 3.2.
    """

    dimension: int = static()
    concentration: ArrayLike = parameter(positive)


def _lkj_log_prob(x, dimension, concentration):
    log_det = 2 * log_diagonal(jnp.linalg.cholesky(x))
    return (concentration - 1) * log_det - _log_normaliser(dimension, concentration)


def _lkj_sample(key, shape, dtype, dimension, concentration):
    x = gram(_cholesky_sample(key, shape, dtype, dimension, concentration))
    return select(align(jnp.eye(dimension, dtype=bool), 0, x.ndim), 1.0, x)


def _lkj_variance(dimension, concentration):
    each = _square_of_entries(dimension, concentration)
    return select(align(jnp.eye(dimension, dtype=bool), 0, max(each.ndim, 2)), 0.0, each)


def _lkj_entropy(dimension, concentration):
    mean_log_det = jnp.sum(_mean_log_squares(dimension, concentration), -1)
    return _log_normaliser(dimension, concentration) - (concentration - 1) * mean_log_det


@family(
    support=correlation,
    event_shape=lambda dimension, concentration: (dimension, dimension),
    requires=_requires,
    log_prob=_lkj_log_prob,
    sample=_lkj_sample,
    mean=lambda dimension, concentration: jnp.eye(dimension),
    variance=_lkj_variance,
    mode=lambda dimension, concentration: gram(_cholesky_mode(dimension, concentration)),
    entropy=_lkj_entropy,
)
class LKJ(Family):
    r"""Distribution over correlation matrices, of Lewandowski, Kurowicka and Joe.

    `p(R) = det(R)^(concentration - 1) / Z` for correlation matrices `R`: a density in the entries
    below the diagonal. Each of them has a `Beta(a, a)` distribution between -1 and 1, with
    `a = concentration + n / 2 - 1`. `LKJCholesky` saves the factorisation.

    Args:
        dimension: The number of rows `n`, at least 2.
        concentration: Positive; 1 is the uniform distribution, and the larger, the nearer are the
            correlations to zero.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> round(float(dist.LKJ(3, 1.0).log_prob(jnp.eye(3))), 4)
    -1.5963

    References:
        Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and
        extended onion method", Journal of Multivariate Analysis 100 (2009), equations 16 and 17.
    """

    dimension: int = static()
    concentration: ArrayLike = parameter(positive)
