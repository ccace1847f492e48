"""The conditional autoregression (CAR) over the vertices of a graph."""

from dataclasses import KW_ONLY
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, random
from jax.typing import ArrayLike

from distributions.common.arrays import align, as_host_array
from distributions.common.eigenvectors import eigh
from distributions.common.linear_algebra import (
    diagonal_matrix,
    inverse_diagonal,
    last_axis,
    multiply,
    per_event,
    solve,
)
from distributions.common.triangular_factors import cholesky
from distributions.constraints import adjacency, open_interval, positive, real, real_vector
from distributions.core.family import Family, family, parameter
from distributions.core.standard_form import Factor
from distributions.numerics.adjacency import sum_over_edges
from distributions.numerics.special import LOG_SQRT_TWO_PI


def _normalized(xp: Any, adjacency: Any) -> Any:
    """`D^(-1/2) A D^(-1/2)`, computed by NumPy or `jax.numpy`."""
    root = 1 / xp.sqrt(adjacency.sum(-1))
    return adjacency * root[..., None] * root[..., None, :]


def _eigenvalues(aligned: Array, given: Any) -> Array:
    """The eigenvalues of `D^(-1/2) A D^(-1/2)`, computed once on the host if `A` is known there."""
    host = as_host_array(given)
    if host is None:
        return eigh(_normalized(jnp, aligned))[0]
    values = np.linalg.eigvalsh(_normalized(np, host.astype(float)))
    return align(jnp.asarray(values, aligned.dtype), 1, aligned.ndim - 2)


def _eigenvectors(aligned: Array, given: Any) -> tuple[Array, Array]:
    """The eigenvalues, and the matrix of eigenvectors."""
    host = as_host_array(given)
    if host is None:
        return eigh(_normalized(jnp, aligned))
    found = np.linalg.eigh(_normalized(np, host.astype(float)))
    values, vectors = (jnp.asarray(x, aligned.dtype) for x in found)
    return align(values, 1, aligned.ndim - 2), align(vectors, 2, aligned.ndim - 2)


def _gains(correlation, conditional_precision, graph):
    """Standard deviations along the eigenvectors and at the vertices, and the eigenvectors.

    With eigenvalues `l` and eigenvectors `V`, the covariance is `R R^T` where
    `R = diag(d)^(-1/2) V diag(1 - correlation l)^(-1/2)` over the root of the precision.
    """
    values, vectors = _eigenvectors(*graph)
    waves = 1 / jnp.sqrt(1 - per_event(correlation) * values)
    return waves, 1 / jnp.sqrt(per_event(conditional_precision) * jnp.sum(graph[0], -1)), vectors


def _color(z, loc, *parameters):
    waves, vertices, vectors = _gains(*parameters)
    return loc + vertices * multiply(vectors, waves * z)


def _whiten(x, loc, *parameters):
    waves, vertices, vectors = _gains(*parameters)
    return multiply(vectors.mT, (x - loc) / vertices) / waves


def _half_log_det(correlation, conditional_precision, graph):
    """`log det Q / 2 - (n / 2) log 2 pi`."""
    adjacency = graph[0]
    eigenvalues = _eigenvalues(*graph)
    n = eigenvalues.shape[-1]
    log_degrees = jnp.sum(jnp.log(jnp.sum(adjacency, -1)), -1)
    log_dets = jnp.sum(jnp.log1p(-per_event(correlation) * eigenvalues), -1)
    total = 0.5 * (n * jnp.log(conditional_precision) + (log_degrees + log_dets))
    return total - n * LOG_SQRT_TWO_PI


def _car_log_prob(x, loc, correlation, conditional_precision, graph):
    """The log density, with `x^T Q x` as a sum of squares for either sign of the correlation."""
    x = x - loc
    adjacency = graph[0]
    sign = jnp.where(correlation < 0, -1, 1).astype(correlation.dtype)
    size = sign * correlation  # not the absolute value: its derivative is 0 at 0
    own = jnp.sum(jnp.sum(adjacency, -1) * jnp.square(x), -1)
    edges = sum_over_edges(x, adjacency, sign)
    square = conditional_precision * ((1 - size) * own + size * edges)
    return _half_log_det(correlation, conditional_precision, graph) - 0.5 * square


def _precision(correlation, conditional_precision, graph):
    adjacency, _ = graph
    degrees = diagonal_matrix(jnp.sum(adjacency, -1))
    return per_event(conditional_precision, 2) * (degrees - per_event(correlation, 2) * adjacency)


def _car_sample(key, shape, dtype, loc, *parameters):
    tril = cholesky(_precision(*parameters))
    return loc + solve(tril, random.normal(key, shape, dtype), transpose=True)


@family(
    support=real_vector,
    event_shape=lambda loc, correlation, precision, adj_matrix: last_axis(loc, adj_matrix),
    log_prob=_car_log_prob,
    sample=_car_sample,
    mean=lambda loc, *parameters: loc,
    variance=lambda loc, *parameters: inverse_diagonal(cholesky(_precision(*parameters))),
    mode=lambda loc, *parameters: loc,
    entropy=lambda loc, *parameters: 0.5 * parameters[2][0].shape[-1] - _half_log_det(*parameters),
    standard=Factor(_color, _whiten),
)
class CAR(Family):
    r"""Conditional autoregression: normal vectors over the vertices of a graph.

    Given all others, `x_i` is normal with mean `loc_i + correlation sum_j A_ij (x_j - loc_j) / d_i`
    and precision `conditional_precision d_i`, where `A = adj_matrix` and `d_i = sum_j A_ij`. So the
    precision matrix is `Q = conditional_precision (diag(d) - correlation A)`.

    The determinant of `Q` follows from eigenvalues that depend on the graph alone. They are
    computed on the host if the graph is known there, for example as part of a closure.

    Args:
        loc: The mean, of shape `(..., n)`, or one number for all entries.
        correlation: The dependence between neighbors, between -1 and 1.
        conditional_precision: The precision per unit of `d_i`, positive.
        adj_matrix: The weights of the edges, symmetric, of shape `(..., n, n)`; every vertex has a
            neighbor.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> path = jnp.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> d = dist.CAR(0.0, correlation=0.5, conditional_precision=1.0, adj_matrix=path)
    >>> round(float(d.log_prob(jnp.ones(3))), 4)
    -3.5541

    References:
        Jin, Carlin and Banerjee, "Generalized hierarchical multivariate CAR models for areal data",
        Biometrics 61 (2005), equation 2.
    """

    loc: ArrayLike = parameter(real, event_ndims=1)
    _: KW_ONLY
    correlation: ArrayLike = parameter(open_interval(-1.0, 1.0))
    conditional_precision: ArrayLike = parameter(positive)
    adj_matrix: ArrayLike = parameter(adjacency)

    def _arrays(self, dtype: Any, batch_ndims: int) -> tuple[Any, ...]:
        *others, adj = super()._arrays(dtype, batch_ndims)
        return (*others, (adj, self.adj_matrix))
