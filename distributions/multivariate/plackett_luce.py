"""The Plackett-Luce distribution over orders."""

import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.typing import ArrayLike

from distributions.constraints import independent, permutation, positive
from distributions.core.family import Family, family, parameter


def _plackett_luce_log_prob(y, scores):
    log_scores = jnp.log(scores)
    shape = np.broadcast_shapes(y.shape, log_scores.shape)
    chosen = jnp.take_along_axis(
        jnp.broadcast_to(log_scores, shape), jnp.broadcast_to(y.astype(int), shape), axis=-1
    )
    return jnp.sum(chosen - lax.cumlogsumexp(chosen, len(shape) - 1, reverse=True), axis=-1)


def _plackett_luce_sample(key, shape, dtype, scores):
    return jnp.argsort(-(jnp.log(scores) + random.gumbel(key, shape, dtype)), axis=-1)


@family(
    support=permutation,
    log_prob=_plackett_luce_log_prob,
    sample=_plackett_luce_sample,
    mode=lambda scores: jnp.argsort(-scores, axis=-1),
)
class PlackettLuce(Family):
    r"""Plackett-Luce distribution over orders of `n` things, drawn one by one by their scores.

    `p(y) = prod_i scores[y[i]] / sum_{j >= i} scores[y[j]]` for orders `y` of `0, 1, ..., n - 1`.

    Args:
        scores: Positive weights, of shape `(..., n)`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> order = dist.PlackettLuce(jnp.array([1.0, 3.0]))
    >>> print(order.log_prob(jnp.array([[0, 1], [1, 0], [1, 1]])).round(4))
    [-1.3863 -0.2877    -inf]

    References:
        R. L. Plackett, "The analysis of permutations", Applied Statistics 24 (1975), 193-202.
    """

    scores: ArrayLike = parameter(independent(positive, 1))
