"""Sums over the edges of a graph, and its parts, for the families CAR and ICAR.

Edges of a graph that is known on the host are found once, and formulas take time in proportion to
their number (`EdgeList`). A graph that is traced, one of a batch, or one of which most pairs are
edges, is a matrix (`EdgeMatrix`).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from distributions.common.arrays import align, as_host_array
from distributions.common.eigenvectors import eigh
from distributions.common.linear_algebra import multiply, per_event
from distributions.common.sparse_graph import SparseGraph, read_dense


@dataclasses.dataclass(frozen=True, eq=False)
class EdgeMatrix:
    """A graph by its adjacency matrix.

    Attributes:
        adjacency: The matrix, of shape `(..., n, n)`, with axes for a batch.
        host: The matrix as it was given, on the host, or None if it is not known there.
    """

    adjacency: Array
    host: np.ndarray | None

    @property
    def num_vertices(self) -> int:
        """The number of vertices."""
        return self.adjacency.shape[-1]

    @property
    def degrees(self) -> Array:
        """The sum of the weights of the edges at each vertex."""
        return jnp.sum(self.adjacency, -1)

    def sum_over_edges(self, x: Array, sign: ArrayLike) -> Array:
        """`sum_ij A_ij (x_i - sign x_j)^2 / 2`, by differences: a quadratic form would cancel."""
        sign = per_event(jnp.asarray(sign), 2)
        differences = x[..., :, None] - sign * x[..., None, :]
        # An infinite square would be NaN.
        differences = jnp.where(self.adjacency == 0, 0.0, differences)
        return 0.5 * jnp.sum(self.adjacency * jnp.square(differences), (-2, -1))

    def eigenvalues(self) -> Array:
        """The eigenvalues of `D^(-1/2) A D^(-1/2)`, found on the host if possible."""
        if self.host is None:
            return eigh(_normalized(jnp, self.adjacency))[0]
        values = np.linalg.eigvalsh(_normalized(np, self.host.astype(float)))
        return self._align(values, 1)

    def eigenvectors(self) -> tuple[Array, Array]:
        """The eigenvalues, and the matrix of eigenvectors."""
        if self.host is None:
            return eigh(_normalized(jnp, self.adjacency))
        values, vectors = np.linalg.eigh(_normalized(np, self.host.astype(float)))
        return self._align(values, 1), self._align(vectors, 2)

    def count_parts(self) -> Array:
        """The number of parts."""
        labels = self._labels()
        return jnp.sum(labels == align(jnp.arange(labels.shape[-1]), 0, labels.ndim), -1)

    def level(self, x: Array) -> Array:
        """For each vertex, the mean of its part."""
        labels = self._labels()
        same = (labels[..., :, None] == labels[..., None, :]).astype(x.dtype)
        return multiply(same / jnp.sum(same, -1, keepdims=True), x)

    def _labels(self) -> Array:
        if self.host is None:
            return label_parts(lax.stop_gradient(self.adjacency))
        return align(jnp.asarray(label_parts(self.host)), 1, self.adjacency.ndim - 2)

    def _align(self, x: np.ndarray, event_ndims: int) -> Array:
        found = jnp.asarray(x, self.adjacency.dtype)
        return align(found, event_ndims, self.adjacency.ndim - 2)


@dataclasses.dataclass(frozen=True, eq=False)
class EdgeList:
    """A graph by its edges.

    Attributes:
        graph: The graph.
        dtype: The dtype of the results.
        batch_ndims: The number of batch axes of the results, of size 1.
    """

    graph: SparseGraph
    dtype: Any
    batch_ndims: int

    @property
    def num_vertices(self) -> int:
        """The number of vertices."""
        return self.graph.num_vertices

    @property
    def degrees(self) -> Array:
        """The sum of the weights of the edges at each vertex."""
        return self._align(self.graph.degrees)

    @property
    def adjacency(self) -> Array:
        """The adjacency matrix."""
        return self._align(self.graph.to_dense(), 2)

    def sum_over_edges(self, x: Array, sign: ArrayLike) -> Array:
        """`sum_ij A_ij (x_i - sign x_j)^2 / 2`, by differences: a quadratic form would cancel."""
        graph = self.graph
        differences = x[..., graph.first] - per_event(jnp.asarray(sign)) * x[..., graph.second]
        return jnp.sum(self._align(graph.weights) * jnp.square(differences), -1)

    def eigenvalues(self) -> Array:
        """The eigenvalues of `D^(-1/2) A D^(-1/2)`."""
        return self._align(self.graph.eigenvalues)

    def eigenvectors(self) -> tuple[Array, Array]:
        """The eigenvalues, and the matrix of eigenvectors."""
        values, vectors = np.linalg.eigh(_normalized(np, self.graph.to_dense()))
        return self._align(values), self._align(vectors, 2)

    def count_parts(self) -> Array:
        """The number of parts."""
        return jnp.asarray(len(np.unique(self.graph.labels)))

    def level(self, x: Array) -> Array:
        """For each vertex, the mean of its part."""
        _, labels, sizes = np.unique(self.graph.labels, return_inverse=True, return_counts=True)
        totals = jnp.zeros((*x.shape[:-1], len(sizes)), x.dtype).at[..., labels].add(x)
        return (totals / self._align(sizes))[..., labels]

    def _align(self, x: np.ndarray, event_ndims: int = 1) -> Array:
        return align(jnp.asarray(x, self.dtype), event_ndims, self.batch_ndims)


Graph = EdgeList | EdgeMatrix


def align_graph(
    given: Any, align_matrix: Callable[[], Array], dtype: Any, batch_ndims: int
) -> Graph:
    """The graph of a parameter, with axes for a batch.

    Args:
        given: The parameter: a `SparseGraph`, or an adjacency matrix.
        align_matrix: The function that makes an array, with axes for the batch, of a matrix.
        dtype: The dtype of the results of the graph.
        batch_ndims: The number of batch axes.
    """
    if isinstance(given, SparseGraph):
        return EdgeList(given, dtype, batch_ndims)
    host = as_host_array(given)
    edges = read_dense(host) if host is not None and host.ndim == 2 else None
    if edges is not None:
        return EdgeList(edges, dtype, batch_ndims)
    return EdgeMatrix(align_matrix(), host)


def _normalized(xp: Any, adjacency: Any) -> Any:
    """`D^(-1/2) A D^(-1/2)`, computed by NumPy or `jax.numpy`."""
    root = 1 / xp.sqrt(adjacency.sum(-1))
    return adjacency * root[..., None] * root[..., None, :]


def label_parts(adjacency: Any) -> Any:
    """The part of each vertex, as the number of its first one; a NumPy array for one.

    Every vertex bears a number, at first its own. It takes the smallest of its own and its
    neighbors', and then the number that the vertex of that number bears, until none changes. A
    part then bears the number of its first vertex.
    """
    xp: Any = np if isinstance(adjacency, np.ndarray) else jnp
    n = adjacency.shape[-1]
    first = xp.broadcast_to(xp.arange(n), adjacency.shape[:-1])

    def spread(labels):
        near = xp.where(adjacency != 0, labels[..., None, :], n).min(-1, initial=n)
        labels = xp.minimum(labels, near)
        return xp.take_along_axis(labels, labels, -1)

    if xp is np:
        labels = first
        new = spread(first)
        while (new != labels).any():
            labels = new
            new = spread(new)
    else:

        def going(state):
            return (state[0] != state[1]).any()

        _, new = lax.while_loop(going, lambda s: (s[1], spread(s[1])), (first, spread(first)))
    return new
