"""The LKJ distribution over correlation matrices."""

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.common.arrays import align, select
from distributions.common.linear_algebra import (
    gram,
    log_diagonal,
)
from distributions.common.pytree import static
from distributions.common.triangular_factors import cholesky
from distributions.constraints import correlation, positive
from distributions.core.family import Family, family, parameter
from distributions.numerics.lkj_functions import (
    lkj_cholesky_mode,
    lkj_cholesky_sample,
    lkj_log_normalizer,
    lkj_requirement,
    mean_log_squares,
    square_of_entries,
)


def _lkj_log_prob(x, dimension, concentration):
    log_det = 2 * log_diagonal(cholesky(x))
    return (concentration - 1) * log_det - lkj_log_normalizer(dimension, concentration)


def _lkj_sample(key, shape, dtype, dimension, concentration):
    x = gram(lkj_cholesky_sample(key, shape, dtype, dimension, concentration))
    return select(align(jnp.eye(dimension, dtype=bool), 0, x.ndim), 1.0, x)


def _lkj_variance(dimension, concentration):
    each = square_of_entries(dimension, concentration)
    return select(align(jnp.eye(dimension, dtype=bool), 0, max(each.ndim, 2)), 0.0, each)


def _lkj_entropy(dimension, concentration):
    mean_log_det = jnp.sum(mean_log_squares(dimension, concentration), -1)
    return lkj_log_normalizer(dimension, concentration) - (concentration - 1) * mean_log_det


@family(
    support=correlation,
    event_shape=lambda dimension, concentration: (dimension, dimension),
    requires=lkj_requirement,
    log_prob=_lkj_log_prob,
    sample=_lkj_sample,
    mean=lambda dimension, concentration: jnp.eye(dimension),
    variance=_lkj_variance,
    mode=lambda dimension, concentration: gram(lkj_cholesky_mode(dimension, concentration)),
    entropy=_lkj_entropy,
)
class LKJ(Family):
    r"""LKJ (Lewandowski, Kurowicka and Joe) distribution over correlation matrices.

    `p(R) = det(R)^(concentration - 1) / Z` for correlation matrices `R`: a density in the entries
    below the diagonal. Each of them has a `Beta(a, a)` distribution between -1 and 1, with
    `a = concentration + n / 2 - 1`. `LKJCholesky` saves the factorization.

    Args:
        dimension: The number of rows `n`, at least 2.
        concentration: The shape, positive; 1 is the uniform distribution, and larger values bring
            the correlations nearer to zero.

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
