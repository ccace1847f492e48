"""The intrinsic conditional autoregression (ICAR), an improper prior over a graph."""

from typing import Any, NoReturn

import jax.numpy as jnp
from jax.typing import ArrayLike

from distributions.common.linear_algebra import (
    last_axis,
    per_event,
)
from distributions.constraints import adjacency, positive, real_vector
from distributions.core.family import Family, family
from distributions.core.row import parameter
from distributions.numerics.adjacency import sum_over_edges
from distributions.numerics.special import LOG_SQRT_TWO_PI, scale_by_reciprocal


def _icar_log_prob(x, scale, adj_matrix):
    n = adj_matrix.shape[-1]
    edges = sum_over_edges(scale_by_reciprocal(x, per_event(scale)), adj_matrix, 1)
    return -0.5 * edges - (n - 1) * (jnp.log(scale) + LOG_SQRT_TWO_PI)


def _improper(*arguments: Any) -> NoReturn:
    raise NotImplementedError(
        "ICAR is improper: a constant added to the vector leaves its density as it is, so it has "
        "no draws, mean or variance; give the value, or use CAR"
    )


@family(
    support=real_vector,
    event_shape=lambda scale, adj_matrix: last_axis(adj_matrix),
    log_prob=_icar_log_prob,
    sample=_improper,
    mean=_improper,
    variance=_improper,
    mode=_improper,
    entropy=_improper,
)
class ICAR(Family):
    r"""Intrinsic conditional autoregression: an improper prior for vectors over a graph.

    `p(x) = prod_(i<j) exp(-A_ij (x_i - x_j)^2 / (2 scale^2)) / (sqrt(2 pi) scale)^(n - 1)` with
    `A = adj_matrix`, the limit of `CAR` as the correlation goes to 1, up to a factor that depends
    on the graph alone. The graph has to be connected, or the power of `scale` is not `n - 1`.

    The prior is improper: a constant added to `x` changes nothing. It can be scored, but not drawn
    from; the data, or a prior on the sum of `x`, has to settle the level.

    Args:
        scale: The scale of differences along edges, positive.
        adj_matrix: The weights of the edges, symmetric, of shape `(..., n, n)`.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> pair = jnp.array([[0, 1], [1, 0]])
    >>> round(float(dist.ICAR(1.0, pair).log_prob(jnp.array([5.0, 5.0]))), 4)
    -0.9189

    References:
        Besag, York and Mollie, "Bayesian image restoration, with two applications in spatial
        statistics", Annals of the Institute of Statistical Mathematics 43 (1991).
    """

    scale: ArrayLike = parameter(positive)
    adj_matrix: ArrayLike = parameter(adjacency)
