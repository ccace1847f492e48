"""Order of elements in which a sparse precision matrix is a band, beside a border of few."""

import dataclasses
import functools
import hashlib
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse import csgraph

_LEAST_BLOCK = 16  # a step of smaller blocks takes no less time
_STEP = 2.0**14  # operations that take as long as a step of a loop
_LEAST_HUB = 8  # neighbors of an element that may go to the border


@dataclasses.dataclass(frozen=True, eq=False)
class ElementOrder:
    """An order of the elements of several arrays, flat and one array after the other.

    Attributes:
        inner: The elements of the band, in their order.
        border: The other elements.
        size_of_block: The size of blocks of which only neighbors are coupled.
        rows: The row of each entry of the band, by the place of the element in `inner`.
        columns: The column of each entry.
    """

    inner: np.ndarray
    border: np.ndarray
    size_of_block: int
    rows: np.ndarray
    columns: np.ndarray

    def __eq__(self, other: object) -> bool:
        """Whether all of it is equal."""
        return isinstance(other, ElementOrder) and self._digest == other._digest

    def __hash__(self) -> int:
        """The hash of all of it."""
        return hash(self._digest)

    @functools.cached_property
    def _digest(self) -> bytes:
        found = hashlib.sha256(str((self.size_of_block, self.inner.shape)).encode())
        for x in (self.inner, self.border, self.rows, self.columns):
            found.update(np.ascontiguousarray(x, np.int64).tobytes())
        return found.digest()

    @functools.cached_property
    def colors(self) -> np.ndarray:
        """The color of each column of the band; columns of one color have no row in common."""
        return color_columns(_matrix(self.rows, self.columns, len(self.inner)))

    @property
    def num_colors(self) -> int:
        """The number of colors."""
        return int(self.colors.max(initial=-1)) + 1

    @functools.cached_property
    def places(self) -> np.ndarray:
        """For each element, its place among the elements in order, those of the border last."""
        return np.argsort(np.concatenate([self.inner, self.border]))

    def cost(self, product: float) -> float:
        """The cost of a factor and of the Hessian, with the least number of colors.

        Args:
            product: The cost of a product with the Hessian.
        """
        num = len(self.inner)
        num_columns = np.bincount(self.rows).max(initial=0) + len(self.border)
        blocks = -(-num // self.size_of_block)
        return num_columns * product + cost_of(blocks, self.size_of_block, len(self.border))


def cost_of(num_blocks: int, size: int, num_border: int, num_plates: int = 1) -> float:
    """The cost of a factor, in operations.

    Args:
        num_blocks: The number of blocks along the chain.
        size: Their size.
        num_border: The number of elements in the border.
        num_plates: The number of chains.
    """
    sides = 2 * size**2 * num_border + size * num_border**2
    first = num_plates * (size**3 / 3 + sides)
    step = num_plates * (3 * size**3 + sides) + _STEP
    return first + max(num_blocks - 1, 0) * step + num_border**3 / 3


def find_order(pattern: Any, product: float) -> ElementOrder:
    """The order of least cost: reverse Cuthill-McKee, with hubs in a border or without.

    Args:
        pattern: The pattern of the precision matrix, a sparse matrix of booleans.
        product: The cost of a product with the Hessian, in operations.

    References:
        Cuthill and McKee, "Reducing the bandwidth of sparse symmetric matrices", Proceedings of the
        24th national conference of the ACM (1969).
    """
    num = pattern.shape[0]
    eye = scipy.sparse.eye_array(num, dtype=bool, format="csr")
    pattern = (pattern + pattern.T + eye).tocsr()
    pattern.sort_indices()  # so that equal patterns get equal orders
    degrees = np.diff(pattern.indptr) - 1
    best: tuple[float, ElementOrder] | None = None
    limit = int(degrees.max(initial=0))
    while True:
        order = _order_without(pattern, degrees > limit)
        cost = order.cost(product)
        best = (cost, order) if best is None or cost < best[0] else best
        limit = min(limit // 2, int(degrees[degrees <= limit].max(initial=0)) // 2)
        if limit < _LEAST_HUB or np.count_nonzero(degrees > limit) > num // 4:
            return best[1]


def _order_without(pattern: Any, is_border: np.ndarray) -> ElementOrder:
    """The order of the elements outside of a border."""
    inside = np.flatnonzero(~is_border)
    kept = pattern[inside][:, inside]
    order = csgraph.reverse_cuthill_mckee(kept.astype(np.int8).tocsr(), symmetric_mode=True)
    band = kept[order][:, order].tocoo()
    width = int(np.max(np.abs(band.row - band.col), initial=1))
    size = min(max(width, _LEAST_BLOCK), max(len(inside), 1))
    return ElementOrder(inside[order], np.flatnonzero(is_border), size, band.row, band.col)


def _matrix(rows: np.ndarray, columns: np.ndarray, size: int) -> Any:
    entries = np.ones(len(rows), np.int32), (rows, columns)
    return scipy.sparse.coo_array(entries, shape=(size, size)).tocsr()


def color_columns(pattern: Any) -> np.ndarray:
    """Colors of the columns of a symmetric matrix of 0 and 1: no row has two of one color.

    Each column in turn gets the least color that fits. So a product of the matrix with the sum of
    the unit vectors of one color shows all entries of these columns.

    References:
        Curtis, Powell and Reid, "On the estimation of sparse Jacobian matrices", IMA Journal of
        Applied Mathematics 13 (1974).
    """
    near = pattern @ pattern
    starts = near.indptr.tolist()
    indices = near.indices.tolist()
    colors = [-1] * pattern.shape[0]
    for column in range(len(colors)):
        taken = {colors[i] for i in indices[starts[column] : starts[column + 1]]}
        colors[column] = next(c for c in range(len(taken) + 1) if c not in taken)
    return np.asarray(colors, np.int64)
