"""The conditional autoregression (CAR) over the vertices of a graph."""

from dataclasses import KW_ONLY
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax, random
from jax.typing import ArrayLike

from distributions.common.block_tridiagonal import BlockFactor, factor_blocks
from distributions.common.linear_algebra import (
    diagonal_matrix,
    inverse_diagonal,
    last_axis,
    multiply,
    per_event,
    solve,
)
from distributions.common.sparse_graph import SparseMatrix
from distributions.common.triangular_factors import cholesky
from distributions.constraints import adjacency, open_interval, positive, real, real_vector
from distributions.core.family import family, parameter
from distributions.core.graph_family import GraphFamily
from distributions.core.standard_form import Factor
from distributions.numerics.adjacency import EdgeList
from distributions.numerics.special import LOG_SQRT_TWO_PI

_FEWEST_OF_A_BAND = 256  # vertices; dense factors of fewer take no longer


class _BandRoot:
    """A factor `R` of the covariance over the root of the precision: `R = diag(d)^(-1/2) L^(-T)`.

    `L` is the Cholesky factor of `1 - correlation S`, a band once the vertices are in order, where
    `S = diag(d)^(-1/2) A diag(d)^(-1/2)`.
    """

    def __init__(self, correlation: Array, graph: EdgeList) -> None:
        self._graph = graph.graph
        self._size = max(self._graph.bandwidth, 16)
        self._num_blocks = -(-self._graph.num_vertices // self._size)
        self._padding = self._num_blocks * self._size - self._graph.num_vertices
        self._inverse_order = self._graph.places
        self._order = np.argsort(self._inverse_order)
        self._roots = jnp.sqrt(graph.degrees)
        self._factor = self._find_factor(per_event(correlation, 3), graph.dtype)

    def _find_factor(self, correlation: Array, dtype: Any) -> BlockFactor:
        ends = self._graph.places[self._graph.first], self._graph.places[self._graph.second]
        row, column = np.maximum(*ends), np.minimum(*ends)
        (block, i), (other, j) = np.divmod(row, self._size), np.divmod(column, self._size)
        zeros = jnp.zeros((self._num_blocks, self._size, self._size), dtype)
        # Without the barrier, compilers would make the blocks, a large constant, slowly.
        entries = lax.optimization_barrier(jnp.asarray(self._graph.normalized_weights, dtype))
        same = block == other
        inside = zeros.at[block[same], i[same], j[same]].set(entries[same])
        below = zeros.at[block[~same], i[~same], j[~same]].set(entries[~same])
        eye = jnp.eye(self._size, dtype=dtype)[None]
        if correlation.ndim:
            missing = tuple(range(correlation.ndim - 3))
            inside, below, eye = (jnp.expand_dims(x, missing) for x in (inside, below, eye))
        diagonal = eye - correlation * (inside + inside.mT)
        return factor_blocks(*(jnp.moveaxis(x, -3, 0) for x in (diagonal, -correlation * below)))

    def color(self, z: Array) -> Array:
        """`R z`."""
        return self._join(self._factor.solve_transposed(self._split(z))) / self._roots

    def whiten(self, x: Array) -> Array:
        """The vector `z` with `R z = x`."""
        return self._join(self._factor.multiply_transposed(self._split(x * self._roots)))

    def variance(self) -> Array:
        """The diagonal of `R R^T`."""
        return self._join(self._factor.inverse_diagonal()) / jnp.square(self._roots)

    def _split(self, x: Array) -> Array:
        x = x[..., self._order]
        x = jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, self._padding)])
        return jnp.moveaxis(x.reshape(*x.shape[:-1], self._num_blocks, self._size), -2, 0)

    def _join(self, x: Array) -> Array:
        x = jnp.moveaxis(x, 0, -2)
        return x.reshape(*x.shape[:-2], -1)[..., self._inverse_order]


class _SpectralRoot:
    """A factor `R` of the covariance over the root of the precision, by eigenvectors.

    With eigenvalues `l` and eigenvectors `V` of `diag(d)^(-1/2) A diag(d)^(-1/2)`, it is
    `R = diag(d)^(-1/2) V diag(1 - correlation l)^(-1/2)`.
    """

    def __init__(self, correlation: Array, graph: Any) -> None:
        values, self._vectors = graph.eigenvectors()
        self._waves = 1 / jnp.sqrt(1 - per_event(correlation) * values)
        self._roots = jnp.sqrt(graph.degrees)

    def color(self, z: Array) -> Array:
        """`R z`."""
        return multiply(self._vectors, self._waves * z) / self._roots

    def whiten(self, x: Array) -> Array:
        """The vector `z` with `R z = x`."""
        return multiply(self._vectors.mT, x * self._roots) / self._waves


def _has_band(graph: Any) -> bool:
    """Whether factors are those of a band."""
    is_large = graph.num_vertices >= _FEWEST_OF_A_BAND
    return is_large and isinstance(graph, EdgeList) and graph.graph.is_narrow


def _root(correlation: Array, graph: Any) -> Any:
    return (_BandRoot if _has_band(graph) else _SpectralRoot)(correlation, graph)


def _color(z, loc, correlation, conditional_precision, graph):
    x = _root(correlation, graph).color(z)
    return loc + x / jnp.sqrt(per_event(conditional_precision))


def _whiten(x, loc, correlation, conditional_precision, graph):
    return _root(correlation, graph).whiten((x - loc) * jnp.sqrt(per_event(conditional_precision)))


def _half_log_det(correlation, conditional_precision, graph):
    """`log det Q / 2 - (n / 2) log 2 pi`."""
    eigenvalues = graph.eigenvalues()
    n = graph.num_vertices
    log_degrees = jnp.sum(jnp.log(graph.degrees), -1)
    log_dets = jnp.sum(jnp.log1p(-per_event(correlation) * eigenvalues), -1)
    total = 0.5 * (n * jnp.log(conditional_precision) + (log_degrees + log_dets))
    return total - n * LOG_SQRT_TWO_PI


def _car_log_prob(x, loc, correlation, conditional_precision, graph):
    """The log density, with `x^T Q x` as a sum of squares for either sign of the correlation."""
    x = x - loc
    sign = jnp.where(correlation < 0, -1, 1).astype(correlation.dtype)
    size = sign * correlation  # not the absolute value: its derivative is 0 at 0
    own = jnp.sum(graph.degrees * jnp.square(x), -1)
    edges = graph.sum_over_edges(x, sign)
    square = conditional_precision * ((1 - size) * own + size * edges)
    return _half_log_det(correlation, conditional_precision, graph) - 0.5 * square


def _precision(correlation, conditional_precision, graph):
    degrees = diagonal_matrix(graph.degrees)
    precision = degrees - per_event(correlation, 2) * graph.adjacency
    return per_event(conditional_precision, 2) * precision


def _car_sample(key, shape, dtype, loc, *parameters):
    z = random.normal(key, shape, dtype)
    if _has_band(parameters[-1]):
        return _color(z, loc, *parameters)
    return loc + solve(cholesky(_precision(*parameters)), z, transpose=True)


def _variance(loc, correlation, conditional_precision, graph):
    if _has_band(graph):
        return _BandRoot(correlation, graph).variance() / per_event(conditional_precision)
    return inverse_diagonal(cholesky(_precision(correlation, conditional_precision, graph)))


@family(
    support=real_vector,
    event_shape=lambda loc, correlation, precision, adj_matrix: last_axis(loc, adj_matrix),
    log_prob=_car_log_prob,
    sample=_car_sample,
    mean=lambda loc, *parameters: loc,
    variance=_variance,
    mode=lambda loc, *parameters: loc,
    entropy=lambda loc, *parameters: 0.5 * parameters[2].num_vertices - _half_log_det(*parameters),
    standard=Factor(_color, _whiten),
)
class CAR(GraphFamily):
    r"""Conditional autoregression: normal vectors over the vertices of a graph.

    Given all others, `x_i` is normal with mean `loc_i + correlation sum_j A_ij (x_j - loc_j) / d_i`
    and precision `conditional_precision d_i`, where `A = adj_matrix` and `d_i = sum_j A_ij`. So the
    precision matrix is `Q = conditional_precision (diag(d) - correlation A)`.

    The determinant of `Q` follows from eigenvalues that depend on the graph alone. They are
    computed on the host if the graph is known there, for example as part of a closure. Then the
    density costs as much as the number of edges, and draws as much as a band, with the vertices in
    an order in which edges are short. The eigenvalues of a lattice of 30 x 30 take 0.1 s, once, and
    those of 100 x 100 about 20 s.

    Args:
        loc: The mean, of shape `(..., n)`, or one number for all entries.
        correlation: The dependence between neighbors, between -1 and 1.
        conditional_precision: The precision per unit of `d_i`, positive.
        adj_matrix: The weights of the edges, symmetric, of shape `(..., n, n)`; every vertex has a
            neighbor. A sparse array or matrix of `scipy.sparse` stands for large graphs; its edges
            are part of the program.

    >>> import jax.numpy as jnp
    >>> import distributions as dist
    >>> path = jnp.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> d = dist.CAR(0.0, correlation=0.5, conditional_precision=1.0, adj_matrix=path)
    >>> round(float(d.log_prob(jnp.ones(3))), 4)
    -3.5541

    A cycle of 10,000 vertices, by the ends of its edges:

    >>> import numpy as np
    >>> from scipy.sparse import coo_array
    >>> i = np.arange(10_000)
    >>> edges = coo_array((np.ones(10_000), (i, (i + 1) % 10_000)), shape=(10_000, 10_000))
    >>> cycle = edges + edges.T
    >>> d = dist.CAR(0.0, correlation=0.5, conditional_precision=1.0, adj_matrix=cycle)
    >>> d.event_shape
    (10000,)

    References:
        Jin, Carlin and Banerjee, "Generalized hierarchical multivariate CAR models for areal data",
        Biometrics 61 (2005), equation 2.
    """

    loc: ArrayLike = parameter(real, event_ndims=1)
    _: KW_ONLY
    correlation: ArrayLike = parameter(open_interval(-1.0, 1.0))
    conditional_precision: ArrayLike = parameter(positive)
    adj_matrix: ArrayLike | SparseMatrix = parameter(adjacency)
