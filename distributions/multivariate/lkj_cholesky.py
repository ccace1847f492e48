"""The LKJ distribution over Cholesky factors of correlation matrices."""

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.common.arrays import align
from distributions.common.linear_algebra import (
    diagonal,
    diagonal_matrix,
)
from distributions.common.pytree import static
from distributions.constraints import correlation_cholesky, positive
from distributions.core.family import Family, family, parameter
from distributions.numerics.gamma_functions import log_beta
from distributions.numerics.lkj_functions import (
    lkj_cholesky_mode,
    lkj_cholesky_sample,
    lkj_log_normalizer,
    lkj_requirement,
    mean_log_squares,
    square_of_entries,
    vine_betas,
    vine_powers,
)


def _cholesky_log_prob(x, dimension, concentration):
    log_entries = jnp.log(diagonal(x)[..., 1:])
    powers = align(vine_powers(dimension, concentration), 1, log_entries.ndim - 1)
    total = jnp.sum(powers * log_entries, -1)
    return total - lkj_log_normalizer(dimension, concentration)


def _mean_diagonal(dimension, concentration):
    b, half = vine_betas(dimension, concentration)
    mean = jnp.exp(log_beta(b + 0.5, half) - log_beta(b, half))
    return jnp.concatenate([jnp.ones_like(mean[..., :1]), mean], -1)


def _cholesky_variance(dimension, concentration):
    b, half = vine_betas(dimension, concentration)
    variance = b / (b + half) - jnp.square(_mean_diagonal(dimension, concentration)[..., 1:])
    on_diagonal = jnp.concatenate([jnp.zeros_like(variance[..., :1]), variance], -1)
    result = diagonal_matrix(on_diagonal)
    below = align(jnp.tri(dimension, k=-1, dtype=result.dtype), 0, result.ndim)
    return result + below * align(square_of_entries(dimension, concentration), 0, result.ndim)


def _cholesky_entropy(dimension, concentration):
    powers = vine_powers(dimension, concentration)
    mean_log = 0.5 * mean_log_squares(dimension, concentration)
    return lkj_log_normalizer(dimension, concentration) - jnp.sum(powers * mean_log, -1)


@family(
    support=correlation_cholesky,
    event_shape=lambda dimension, concentration: (dimension, dimension),
    requires=lkj_requirement,
    log_prob=_cholesky_log_prob,
    sample=lkj_cholesky_sample,
    mean=lambda dimension, concentration: diagonal_matrix(_mean_diagonal(dimension, concentration)),
    variance=_cholesky_variance,
    mode=lkj_cholesky_mode,
    entropy=_cholesky_entropy,
)
class LKJCholesky(Family):
    r"""Distribution of the Cholesky factor `L` of a correlation matrix with an `LKJ` distribution.

    `p(L) = prod_(k=2..n) L_kk^(n - k + 2 concentration - 2) / Z` for lower-triangular `L` with a
    positive diagonal and rows of length 1: a density in the entries below the diagonal. With
    `concentration = 1` the correlation matrix is uniform.

    Args:
        dimension: The number of rows `n`, at least 2.
        concentration: The shape, positive: the larger, the nearer are the correlations to zero.

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
