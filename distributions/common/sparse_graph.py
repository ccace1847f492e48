"""Undirected graphs whose edges are known on the host, in the structure of a pytree."""

import dataclasses
import functools
import hashlib
from typing import Any, Protocol

import jax
import numpy as np

_SYMMETRY_TOLERANCE = 1e-5  # relative to the largest weight
_WIDEST_BAND = 0.25  # of the number of vertices, for which a band is worth it


class SparseMatrix(Protocol):
    """A sparse matrix or array of SciPy."""

    def tocoo(self, copy: bool = False) -> Any:
        """The matrix by its entries."""
        ...


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SparseGraph:
    """Edges of an undirected graph with weights: a pytree without leaves.

    Graphs with the same edges are equal, so that functions are compiled once for them.

    Attributes:
        num_vertices: The number of vertices.
        first: The smaller vertex of each edge.
        second: The larger vertex of each edge.
        weights: The weight of each edge, positive.
        dtype: The dtype of the matrix that the graph was made from.
    """

    num_vertices: int
    first: np.ndarray
    second: np.ndarray
    weights: np.ndarray
    dtype: np.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the adjacency matrix."""
        return self.num_vertices, self.num_vertices

    @property
    def ndim(self) -> int:
        """The number of axes of the adjacency matrix."""
        return 2

    def __repr__(self) -> str:
        """The numbers of vertices and edges."""
        return f"SparseGraph({self.num_vertices} vertices, {len(self.first)} edges)"

    def __eq__(self, other: object) -> bool:
        """Whether vertices, edges and weights are equal."""
        return isinstance(other, SparseGraph) and self._digest == other._digest

    def __hash__(self) -> int:
        """The hash of vertices, edges and weights."""
        return hash(self._digest)

    @functools.cached_property
    def _digest(self) -> bytes:
        found = hashlib.sha256(f"{self.num_vertices} {self.dtype}".encode())
        for x in (self.first, self.second, self.weights):
            found.update(x.tobytes())
        return found.digest()

    @functools.cached_property
    def degrees(self) -> np.ndarray:
        """The sum of the weights of the edges at each vertex."""
        num = self.num_vertices
        from_first = np.bincount(self.first, self.weights, num)
        return from_first + np.bincount(self.second, self.weights, num)

    @property
    def normalized_weights(self) -> np.ndarray:
        """The entry of `D^(-1/2) A D^(-1/2)` for each edge."""
        return self.weights / np.sqrt(self.degrees[self.first] * self.degrees[self.second])

    def to_dense(self) -> np.ndarray:
        """The adjacency matrix."""
        dense = np.zeros(self.shape)
        dense[self.first, self.second] = dense[self.second, self.first] = self.weights
        return dense

    @functools.cached_property
    def places(self) -> np.ndarray:
        """The place of each vertex in an order in which edges are short (reverse Cuthill-McKee)."""
        from scipy.sparse import csgraph

        order = csgraph.reverse_cuthill_mckee(self._to_csr(), symmetric_mode=True)
        return np.argsort(order)

    @functools.cached_property
    def bandwidth(self) -> int:
        """The length of the longest edge in that order."""
        return int(abs(self.places[self.first] - self.places[self.second]).max(initial=0))

    @property
    def is_narrow(self) -> bool:
        """Whether the adjacency matrix, in that order, is a band that is worth using."""
        return self.bandwidth <= _WIDEST_BAND * self.num_vertices

    @functools.cached_property
    def labels(self) -> np.ndarray:
        """The part of each vertex, as the number of the first vertex of the part."""
        from scipy.sparse import csgraph

        _, parts = csgraph.connected_components(self._to_csr(), directed=False)
        _, first = np.unique(parts, return_index=True)
        return first[parts]

    @property
    def eigenvalues(self) -> np.ndarray:
        """The eigenvalues of `D^(-1/2) A D^(-1/2)`, computed once for equal graphs."""
        return _find_eigenvalues(self)

    def _to_csr(self) -> Any:
        from scipy import sparse

        pairs = np.r_[self.first, self.second], np.r_[self.second, self.first]
        ones = np.ones(len(pairs[0]), np.int8)
        return sparse.coo_array((ones, pairs), shape=self.shape).tocsr()


def is_sparse_matrix(x: Any) -> bool:
    """Whether `x` is a sparse matrix or array of SciPy."""
    return type(x).__module__.startswith("scipy.sparse")


def read_sparse(matrix: Any) -> SparseGraph:
    """The graph of a sparse adjacency matrix of SciPy.

    Raises:
        ValueError: The matrix is no adjacency matrix.
    """
    fault = _fault(matrix)
    if fault is not None:
        raise ValueError(fault)
    return _read(matrix.tocoo())


def read_dense(matrix: np.ndarray) -> SparseGraph | None:
    """The graph of an adjacency matrix, or None if more than half of all pairs are edges."""
    if 2 * np.count_nonzero(matrix) > matrix.size:
        return None
    from scipy import sparse

    return _read(sparse.coo_array(matrix))


def _read(matrix: Any) -> SparseGraph:
    """The graph of a matrix in coordinate form; entries on both sides of the diagonal are averaged.

    Rounding may make these differ.
    """
    from scipy import sparse

    values = matrix.astype(np.float64)
    upper = sparse.triu((values + values.T) / 2, 1).tocoo()
    upper.eliminate_zeros()
    order = np.lexsort((upper.col, upper.row))
    row, col = (np.asarray(x[order], np.int64) for x in (upper.row, upper.col))
    return SparseGraph(matrix.shape[0], row, col, upper.data[order], np.dtype(matrix.dtype))


def _fault(matrix: Any) -> str | None:
    """Words on the first entry that no adjacency matrix has, or None."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        return f"a sparse matrix of shape {matrix.shape}, which is not square"
    if matrix.dtype.kind not in "biuf":
        return f"a sparse matrix of dtype {matrix.dtype}"
    values = matrix.astype(np.float64).tocsr()
    entries = values.tocoo()
    bad = ~((entries.data >= 0) & (entries.data < np.inf))
    if bad.any():
        at = int(np.argmax(bad))
        return f"{entries.data[at]} in row {entries.row[at]}, column {entries.col[at]}"
    if (diagonal := values.diagonal()).any():
        at = int(np.argmax(diagonal != 0))
        return f"{diagonal[at]} in row {at}, column {at}"
    apart = abs(values - values.T).tocoo()
    if np.max(apart.data, initial=0) > _SYMMETRY_TOLERANCE * np.max(entries.data, initial=0):
        at = int(np.argmax(apart.data))
        i, j = int(apart.row[at]), int(apart.col[at])
        return (
            f"{values[i, j]} in row {i}, column {j} and {values[j, i]} in row {j}, column {i} (the "
            "matrix of edges that are listed once is made symmetric by matrix + matrix.T)"
        )
    sums = np.asarray(values.sum(1)).ravel()
    if not sums.all():
        return f"row {int(np.argmin(sums))} of zeros"
    return None


@functools.lru_cache(maxsize=16)
def _find_eigenvalues(graph: SparseGraph) -> np.ndarray:
    """The eigenvalues of `D^(-1/2) A D^(-1/2)`: of a band, or of a dense matrix."""
    num = graph.num_vertices
    entries = graph.normalized_weights
    if not graph.is_narrow:
        dense = np.zeros((num, num))
        dense[graph.second, graph.first] = entries
        return np.linalg.eigvalsh(dense)  # which reads the lower triangle
    from scipy.linalg import eigvals_banded

    ends = graph.places[graph.first], graph.places[graph.second]
    column = np.minimum(*ends)
    band = np.zeros((graph.bandwidth + 1, num))
    band[np.maximum(*ends) - column, column] = entries
    return np.asarray(eigvals_banded(band, lower=True, check_finite=False))
