"""The intrinsic conditional autoregression (ICAR), an improper prior over a graph."""

from dataclasses import KW_ONLY
from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from distributions.common.linear_algebra import last_axis, per_event
from distributions.common.sparse_graph import SparseMatrix
from distributions.constraints import adjacency, positive, real_vector
from distributions.core.family import family, parameter
from distributions.core.graph_family import GraphFamily
from distributions.core.standard_form import Factor
from distributions.numerics.special import LOG_SQRT_TWO_PI, scale_by_reciprocal


def _icar_log_prob(x, scale, graph):
    edges = graph.sum_over_edges(scale_by_reciprocal(x, per_event(scale)), 1)
    rank = (graph.num_vertices - graph.count_parts()).astype(x.dtype)
    return -0.5 * edges - rank * (jnp.log(scale) + LOG_SQRT_TWO_PI)


def _stretch(z, scale, graph):
    """Deviations from the level of each part times the scale; levels have no law and stay."""
    level = graph.level(z)
    return level + per_event(scale) * (z - level)


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
    standard=Factor(
        _stretch,
        lambda x, scale, graph: _stretch(x, 1 / scale, graph),
        lambda d: {"scale": jnp.ones(np.shape(d.scale), d.dtype)},
    ),
)
class ICAR(GraphFamily):
    r"""Intrinsic conditional autoregression: an improper prior for vectors over a graph.

    `p(x) = prod_(i<j) exp(-A_ij (x_i - x_j)^2 / (2 scale^2)) / (sqrt(2 pi) scale)^(n - c)` with
    `A = adj_matrix` of `c` connected parts (1, unless there are islands), the limit of `CAR` as the
    correlation goes to 1, up to a factor that depends on the graph alone.

    The prior is improper: a constant added to the entries of a part changes nothing. It can be
    scored, but not drawn from; the data, or a prior on the sum of each part, has to settle the
    level.

    Args:
        scale: The scale of differences along edges, positive.
        adj_matrix: The weights of the edges, symmetric, of shape `(..., n, n)`. A sparse array or
            matrix of `scipy.sparse` stands for large graphs; its edges are part of the program.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> pair = jnp.array([[0, 1], [1, 0]])
    >>> round(float(dist.ICAR(scale=1.0, adj_matrix=pair).log_prob(jnp.array([5.0, 5.0]))), 4)
    -0.9189

    References:
        Besag, York and Mollie, "Bayesian image restoration, with two applications in spatial
        statistics", Annals of the Institute of Statistical Mathematics 43 (1991); for graphs of
        several parts, Hodges, Carlin and Fan, "On the precision of the conditionally autoregressive
        prior in spatial models", Biometrics 59 (2003).
    """

    _: KW_ONLY
    scale: ArrayLike = parameter(positive)
    adj_matrix: ArrayLike | SparseMatrix = parameter(adjacency)
