"""Cholesky factors of precision matrices of effects that are nested in effects.

    P = [[A, C], [C^T, B]]

`A` holds `n` matrices as in `block_matrices`, each of which is coupled with one block of `B`, its
parent. `B` is such a matrix again, or one with a dense border. Blocks have entries in the columns
of their parents, of the parents of these, and of the last border. The Schur complement of `A`
has the blocks of `B`, so that the cost is linear in the number of blocks.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ppl.harvest.pytrees import register_dataclass
from ppl.marginal.block_matrices import (
    BlockMatrix,
    BlockVector,
    diagonal_of,
    einsum,
    factor_blocks,
    invert_blocks,
    pivots_of,
    solve_blocks,
    solve_blocks_transposed,
)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Parents:
    """Parent of each of `n` blocks, and their parents.

    Attributes:
        index: The number of the parent, of shape (n,).
        num: The number of parents.
        size: The number of elements of a parent.
        above: The parents of the parents; None if these have only a border in common.
    """

    index: jax.Array
    num: int = dataclasses.field(metadata={"static": True})
    size: int = dataclasses.field(metadata={"static": True})
    above: "Parents | None" = None

    @property
    def num_columns(self) -> int:
        """The number of elements of all ancestors of a block."""
        return self.size + (0 if self.above is None else self.above.num_columns)

    def split(self, x: jax.Array) -> BlockVector:
        """The entries of a border, as parents and a border of these."""
        count = self.num * self.size
        return BlockVector(x[:count].reshape(self.num, 1, self.size), x[count:])

    def gather(self, x: jax.Array) -> jax.Array:
        """The entries of the ancestors of each block, and of the last border, of shape (n, c)."""
        own = self.split(x)
        if self.above is None:
            rest = jnp.broadcast_to(own.border, (self.num, own.border.size))
        else:
            rest = self.above.gather(own.border)
        return jnp.concatenate([own.inner[:, 0], rest], 1)[self.index]

    def add(self, x: jax.Array) -> jax.Array:
        """The sums over all descendants; the transposed `gather`."""
        found = self.sum(x)
        rest = found[:, self.size :]
        rest = jnp.sum(rest, 0) if self.above is None else self.above.add(rest)
        return jnp.concatenate([found[:, : self.size].ravel(), rest])

    def sum(self, x: jax.Array) -> jax.Array:
        """The sums over the children of each parent."""
        return jax.ops.segment_sum(x, self.index, self.num)


def _join(x: BlockVector) -> jax.Array:
    return jnp.concatenate([x.inner.ravel(), x.border])


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TreeMatrix:
    """A symmetric matrix; vectors have the entries of its border one after the other.

    Attributes:
        diagonal: The diagonal blocks, of shape (n, t, d, d).
        below: The blocks below the diagonal, of shape (n, t - 1, d, d).
        sides: The rows of the inner entries in the columns of their ancestors, the parent first,
            and of the last border, of shape (n, t, d, c).
        parents: The ancestors.
        border: The matrix of the parents and their border.
    """

    diagonal: jax.Array
    below: jax.Array
    sides: jax.Array
    parents: Parents
    border: "BlockMatrix | TreeMatrix"

    def entries(self) -> tuple[jax.Array, jax.Array]:
        """The diagonal: its inner entries and its border entries."""
        border = jnp.concatenate([x.ravel() for x in self.border.entries()])
        return diagonal_of(self.diagonal), border

    def multiply(self, x: BlockVector) -> BlockVector:
        """The product with a vector."""
        own = self.border.multiply(self.parents.split(x.border))
        inner = _without_border(self).multiply(dataclasses.replace(x, border=x.border[:0])).inner
        inner = inner + einsum("ntdc,nc->ntd", self.sides, self.parents.gather(x.border))
        up = self.parents.add(einsum("ntdc,ntd->nc", self.sides, x.inner))
        return BlockVector(inner, _join(own) + up)

    def add(self, other: "TreeMatrix") -> "TreeMatrix":
        """The sum with a matrix that has the same blocks."""
        return dataclasses.replace(
            self,
            diagonal=self.diagonal + other.diagonal,
            below=self.below + other.below,
            sides=self.sides + other.sides,
            border=self.border.add(other.border),  # pyright: ignore[reportArgumentType]
        )

    def with_entries(self, tangent: "TreeMatrix") -> "TreeMatrix":
        """A tangent of this matrix as a matrix: indices have no tangents."""
        border: Any = self.border
        border = border.with_entries(tangent.border)
        return dataclasses.replace(tangent, parents=self.parents, border=border)

    def inner_product(self, other: "TreeMatrix") -> jax.Array:
        """The trace of the product with a symmetric matrix that has the same blocks."""
        inner = _without_border(self).inner_product(_without_border(other))
        border: Any = self.border
        sides = 2 * jnp.sum(self.sides * other.sides)
        return jnp.sum(inner) + sides + jnp.sum(border.inner_product(other.border))

    def factor(self) -> "TreeFactor":
        """The Cholesky factor, NaN where the matrix is not positive definite."""
        zeros = jnp.zeros(self.diagonal.shape[:-1], self.diagonal.dtype)
        border = jnp.zeros(_size(self.border), zeros.dtype)
        return self.factor_and_solve(BlockVector(zeros, border))[0]

    def factor_and_solve(self, x: BlockVector) -> tuple["TreeFactor", BlockVector]:
        """The Cholesky factor `L`, and the solution of `L y = x`."""
        columns = jnp.concatenate([self.sides, x.inner[..., None]], -1)
        diagonal, below, solved = factor_blocks(self.diagonal, self.below, columns)
        return _factor_above(self, diagonal, below, solved, x.border)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TreeFactor:
    """A lower triangular factor, with the shapes of `TreeMatrix`; the sides stand transposed."""

    diagonal: jax.Array
    below: jax.Array
    sides: jax.Array
    parents: Parents
    border: Any

    def shear(self, depth: int = 0) -> "TreeShear":
        """Derivatives of the means of one level of elements given their ancestors, as a map.

        Args:
            depth: The number of levels below that level.
        """
        if depth:
            return TreeShear(None, self.parents, self.border.shear(depth - 1))
        entries = -solve_blocks_transposed(self.diagonal, self.below, self.sides)
        return TreeShear(entries, self.parents)

    def pivots(self) -> tuple[jax.Array, jax.Array]:
        """The diagonal: its inner entries and its border entries."""
        return pivots_of(self.diagonal), jnp.concatenate([x.ravel() for x in self.border.pivots()])

    def inverse(self) -> TreeMatrix:
        """The blocks of the inverse of the matrix, by Takahashi's equations."""
        above = self.border.inverse()
        corner = _ancestors(above, self.parents)
        blocks = invert_blocks(self.diagonal, self.below, self.sides, corner)
        return TreeMatrix(*blocks, self.parents, above)

    def replace_border_and_solve(
        self, matrix: TreeMatrix, x: BlockVector
    ) -> tuple["TreeFactor", BlockVector]:
        """The factor of a matrix with the same inner blocks, and the solution of `L y = x`."""
        columns = jnp.concatenate([matrix.sides, x.inner[..., None]], -1)
        solved = solve_blocks(self.diagonal, self.below, columns)
        return _factor_above(matrix, self.diagonal, self.below, solved, x.border)

    def solve(self, x: BlockVector) -> BlockVector:
        """The solution of `L y = x`."""
        inner = solve_blocks(self.diagonal, self.below, x.inner[..., None])[..., 0]
        rest = x.border - self.parents.add(einsum("ntdc,ntd->nc", self.sides, inner))
        return BlockVector(inner, _join(self.border.solve(self.parents.split(rest))))

    def solve_transposed(self, x: BlockVector) -> BlockVector:
        """The solution of `L^T y = x`."""
        border = _join(self.border.solve_transposed(self.parents.split(x.border)))
        rest = x.inner - einsum("ntdc,nc->ntd", self.sides, self.parents.gather(border))
        inner = solve_blocks_transposed(self.diagonal, self.below, rest[..., None])[..., 0]
        return BlockVector(inner, border)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TreeShear:
    """Linear map from ancestors to offsets of elements, level by level from the border on.

    Attributes:
        entries: The map from the ancestors, of shape (n, t, d, c); None for no offset.
        parents: The ancestors.
        border: The shear of the parents, or None.
    """

    entries: jax.Array | None
    parents: Parents
    border: Any = None

    def apply(self, x: BlockVector) -> BlockVector:
        """The vector with offsets added."""
        if self.border is not None:
            border = _join(self.border.apply(self.parents.split(x.border)))
            x = dataclasses.replace(x, border=border)
        if self.entries is None:
            return x
        offset = einsum("ntdc,nc->ntd", self.entries, self.parents.gather(x.border))
        return dataclasses.replace(x, inner=x.inner + offset)

    def project(self, x: BlockVector) -> BlockVector:
        """The product with the transpose of the map of `apply`."""
        if self.entries is not None:
            up = self.parents.add(einsum("ntdc,ntd->nc", self.entries, x.inner))
            x = dataclasses.replace(x, border=x.border + up)
        if self.border is None:
            return x
        border = _join(self.border.project(self.parents.split(x.border)))
        return dataclasses.replace(x, border=border)

    def join(self, above: "TreeShear") -> "TreeShear":
        """This shear of some levels, and another of a level above them."""
        border = above.border if self.border is None else self.border.join(above.border)
        return dataclasses.replace(self, border=border)


def _without_border(matrix: TreeMatrix) -> BlockMatrix:
    empty = jnp.zeros((0, 0), matrix.diagonal.dtype)
    return BlockMatrix(matrix.diagonal, matrix.below, matrix.sides[..., :0], empty)


def _size(matrix: Any) -> int:
    """The number of rows of a matrix."""
    if isinstance(matrix, jax.Array):
        return len(matrix)
    n, t, d, _ = matrix.diagonal.shape
    return n * t * d + _size(matrix.border)


def _factor_above(
    matrix: TreeMatrix, diagonal: jax.Array, below: jax.Array, solved: jax.Array, x: jax.Array
) -> tuple[TreeFactor, BlockVector]:
    """The factor `L`, and the solution of `L y = x`, given the inner entries of both."""
    parents = matrix.parents
    sides = solved[..., :-1]
    inner = solved[..., -1]
    rest = x - parents.add(einsum("ntdc,ntd->nc", sides, inner))
    count = parents.num_columns
    products = einsum("ntdi,ntdj->nij", sides[..., :count], sides)
    corner = einsum("ntdi,ntdj->ij", sides[..., count:], sides[..., count:])
    reduced = _subtract(matrix.border, parents, products, corner)
    above, half = reduced.factor_and_solve(parents.split(rest))
    return TreeFactor(diagonal, below, sides, parents, above), BlockVector(inner, _join(half))


def _subtract(matrix: Any, parents: Parents, products: jax.Array, corner: jax.Array) -> Any:
    """A Schur complement: a matrix of parents minus products of the columns of their children.

    Args:
        matrix: The matrix.
        parents: Its blocks are these.
        products: For each child, products of the columns of its ancestors with all columns.
        corner: The products of the columns of the last border, summed over all children.
    """
    products = parents.sum(products)
    d = parents.size
    if parents.above is None:
        border = matrix.border - corner
    else:
        border = _subtract(matrix.border, parents.above, products[:, d:, d:], corner)
    return dataclasses.replace(
        matrix,
        diagonal=matrix.diagonal - products[:, None, :d, :d],
        sides=matrix.sides - products[:, None, :d, d:],
        border=border,
    )


def _ancestors(matrix: Any, parents: Parents) -> jax.Array:
    """For each block, the part of the matrix of its ancestors and the last border."""
    own = matrix.diagonal[:, 0]
    side = matrix.sides[:, 0]
    if parents.above is None:
        rest = jnp.broadcast_to(matrix.border, (parents.num, *matrix.border.shape))
    else:
        rest = _ancestors(matrix.border, parents.above)
    rows = [jnp.concatenate(x, -1) for x in ([own, side], [jnp.swapaxes(side, -2, -1), rest])]
    return jnp.concatenate(rows, -2)[parents.index]
