"""Layout of effects that are nested in effects: each block has a parent in the layout above it."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest.survey import Path
from ppl.marginal.block_layout import BlockLayout
from ppl.marginal.block_matrices import BlockMatrix, BlockVector
from ppl.marginal.element_dependence import Indexed
from ppl.marginal.tree_matrices import Parents, TreeMatrix


@dataclasses.dataclass(frozen=True)
class TreeLayout(BlockLayout):
    """Layout whose border is laid out in turn, as parents of its blocks and a border of these.

    Attributes:
        above: The layout of the border; None is for the fields of a base class with defaults.
        links: For each plate of `above`, the plate of this layout whose index is the index of the
            parent, or the index of the parent as an array over plates of this layout.
        read: The parents, if they are read already.
    """

    above: BlockLayout | None = None
    links: tuple[int | Indexed, ...] = ()
    read: Parents | None = None

    @property
    def _above(self) -> BlockLayout:
        assert self.above is not None
        return self.above

    @property
    def size_of_border(self) -> int:
        """The number of elements in the border."""
        return self._above.num_elements

    @property
    def num_independent(self) -> int:
        """The number of independent parts: trees, if no border joins them."""
        return self._above.num_independent

    @property
    def size_as_whole(self) -> int:
        """The largest number of elements that are coupled as a whole."""
        return max(self.size_of_block, self._above.size_as_whole)

    @property
    def num_shears(self) -> int:
        """The number of levels of elements that can be measured from their means given others."""
        return 1 + self._above.num_shears

    @property
    def is_diagonal(self) -> bool:
        """Whether no two elements are coupled, once each level is measured from its mean."""
        return self.num_blocks * self.size_of_block <= 1 and self._above.is_diagonal

    @property
    def parents(self) -> Parents:
        """The parent of each block."""
        if self.read is not None:
            return self.read
        above = self._above
        index: Any = jnp.zeros(self.plates, jnp.int32)
        for link, size in zip(self.links, above.plates, strict=True):
            index = index * size + self._along(link, size)
        upper = above.parents if isinstance(above, TreeLayout) else None
        return Parents(index.ravel(), above.num_plates, above.size_of_block, upper)

    def _along(self, link: int | Indexed, size: int) -> jax.Array:
        """The index of parents along a plate, with an axis for each plate of this layout."""
        if isinstance(link, int):
            axes: tuple[int, ...] = (link,)
            array = jnp.arange(size, dtype=jnp.int32)
        else:
            axes = link.axes
            array = jnp.clip(jnp.asarray(link.read()), 0, size - 1).astype(jnp.int32)
        array = jnp.transpose(array, np.argsort(axes).tolist())
        return jnp.expand_dims(array, [i for i in range(len(self.plates)) if i not in axes])

    def values(self, x: BlockVector) -> dict[Path, jax.Array]:
        """The values of all sites."""
        above = self._above
        count = above.num_plates * above.size_of_block
        inner = x.border[:count].reshape(above.num_plates, 1, above.size_of_block)
        found = super().values(dataclasses.replace(x, border=x.border[:0]))
        return found | above.values(BlockVector(inner, x.border[count:]))

    def like(self, matrix: Any) -> "TreeLayout":
        """The layout with the parents of a matrix."""
        return dataclasses.replace(self, read=matrix.parents)

    def matrix(self, diagonal: jax.Array, below: jax.Array, sides: jax.Array, border: Any) -> Any:
        """A matrix with this layout."""
        return TreeMatrix(diagonal, below, sides, self.parents, border)

    def hessian(self, multiply: Callable[[BlockVector], BlockVector], dtype: Any) -> Any:
        """A symmetric matrix with this layout, from its products with a few vectors."""
        blocks = self.blocks_of_hessian(multiply, dtype)
        sides, border = self.border_of_hessian(multiply, dtype)
        return TreeMatrix(*blocks, sides, self.parents, border)

    def border_of_hessian(
        self, multiply: Callable[[BlockVector], BlockVector], dtype: Any
    ) -> tuple[jax.Array, Any]:
        """The columns of ancestors in a symmetric matrix: rows of blocks, and of ancestors.

        Blocks of one layout are not coupled. So one product has a column of each of them.
        """
        zeros = self.zeros(dtype)
        colors = _colors(self._above)

        def column(i: Any) -> BlockVector:
            return multiply(dataclasses.replace(zeros, border=(colors == i).astype(dtype)))

        found = jax.vmap(column, out_axes=-1)(jnp.arange(_num_colors(self._above)))
        return found.inner, _assemble(self._above, found.border, self.parents.above)


def _num_colors(layout: BlockLayout) -> int:
    rest = layout.above if isinstance(layout, TreeLayout) else None
    border = layout.size_of_border if rest is None else _num_colors(rest)
    return layout.size_of_block + border


def _colors(layout: BlockLayout, first: int = 0) -> jax.Array:
    """A number for each entry: its position in the block, or in the border."""
    d = layout.size_of_block
    own = first + jnp.tile(jnp.arange(d), layout.num_plates)
    if isinstance(layout, TreeLayout):
        return jnp.concatenate([own, _colors(layout._above, first + d)])
    return jnp.concatenate([own, first + d + jnp.arange(layout.size_of_border)])


def _assemble(layout: BlockLayout, columns: jax.Array, parents: Parents | None) -> Any:
    """A symmetric matrix from one column of each color.

    Args:
        layout: The layout of the rows.
        columns: The columns, of shape (m, c), in the order of the colors.
        parents: The parents of the blocks of the layout.
    """
    n = layout.num_plates
    d = layout.size_of_block
    own = columns[: n * d].reshape(n, 1, d, -1)
    diagonal = own[..., :d]
    below = jnp.zeros((n, 0, d, d), columns.dtype)
    rest = columns[n * d :, d:]
    if parents is None:
        return BlockMatrix(diagonal, below, own[..., d:], rest)
    border = _assemble(layout._above, rest, parents.above)  # pyright: ignore
    return TreeMatrix(diagonal, below, own[..., d:], parents, border)
