"""Cholesky factors of precision matrices that are block tridiagonal but for a dense border.

    P = [[A, C], [C^T, D]]

`A` holds `n` matrices that do not depend on one another. Each is block tridiagonal over `t` steps,
with blocks of size `d`, so that its factor costs `n t d^3`. For `t = 1` it is dense, for `n = 0`
only the border is left.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ppl.harvest.pytrees import register_dataclass

_MAX_UNROLLED = 4  # size of blocks whose products and factors are written out


@register_dataclass
@dataclasses.dataclass(frozen=True)
class BlockVector:
    """A vector, or several along a last axis.

    Attributes:
        inner: The entries outside of the border, of shape (n, t, d).
        border: The entries of the border, of shape (m,).
    """

    inner: jax.Array
    border: jax.Array

    def sheared(self, shear: jax.Array) -> "BlockVector":
        """The vector with the product of a matrix and its border added to its inner entries."""
        inner = self.inner + _einsum("ntdm,m->ntd", shear, self.border)
        return dataclasses.replace(self, inner=inner)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class BlockMatrix:
    """A symmetric matrix.

    Attributes:
        diagonal: The diagonal blocks, of shape (n, t, d, d).
        below: The blocks below them, of shape (n, t - 1, d, d).
        sides: The rows of the inner entries in the columns of the border, of shape (n, t, d, m).
        border: The matrix of the border, of shape (m, m).
    """

    diagonal: jax.Array
    below: jax.Array
    sides: jax.Array
    border: jax.Array

    def multiply(self, x: BlockVector) -> BlockVector:
        """The product with a vector."""
        inner = _einsum("ntij,ntj->nti", self.diagonal, x.inner)
        if self.below.shape[1]:
            inner = inner.at[:, 1:].add(_einsum("ntij,ntj->nti", self.below, x.inner[:, :-1]))
            inner = inner.at[:, :-1].add(_einsum("ntij,nti->ntj", self.below, x.inner[:, 1:]))
        if not self.border.size:
            return BlockVector(inner, x.border)
        inner = inner + _einsum("ntim,m->nti", self.sides, x.border)
        border = self.border @ x.border + _einsum("ntim,nti->m", self.sides, x.inner)
        return BlockVector(inner, border)

    def inner_product(self, other: "BlockMatrix") -> jax.Array:
        """The trace of the product with a symmetric matrix, of which all blocks are given.

        It has a number for each of the `n` matrices if there is no border.
        """
        inner = jnp.sum(self.diagonal * other.diagonal, (1, 2, 3))
        inner = inner + 2 * jnp.sum(self.below * other.below, (1, 2, 3))
        if not self.border.size:
            return inner
        sides = 2 * jnp.sum(self.sides * other.sides)
        return jnp.sum(inner) + sides + jnp.sum(self.border * other.border)

    def factor(self) -> "BlockFactor":
        """The Cholesky factor: not a number where the matrix is not positive definite."""
        diagonal, below = _factor_blocks(self.diagonal, self.below)
        sides = _solve_blocks(diagonal, below, self.sides)
        corner = self.border - _einsum("ntdi,ntdj->ij", sides, sides)
        return BlockFactor(diagonal, below, sides, _cholesky(corner))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class BlockFactor:
    """A lower triangular factor, with the shapes of `BlockMatrix`; the sides stand transposed."""

    diagonal: jax.Array
    below: jax.Array
    sides: jax.Array
    border: jax.Array

    def shear(self) -> jax.Array:
        """Derivatives of the mean of inner entries given the border, for a normal vector."""
        return -_solve_blocks_transposed(self.diagonal, self.below, self.sides)

    def pivots(self) -> tuple[jax.Array, jax.Array]:
        """The diagonal: inner entries and those of the border."""
        inner, border = (jnp.diagonal(x, axis1=-2, axis2=-1) for x in (self.diagonal, self.border))
        return inner, border

    def inverse(self) -> BlockMatrix:
        """The blocks of the inverse of the matrix, by Takahashi's equations."""
        size, num_border = self.diagonal.shape[-1], self.border.shape[-1]
        border = _solve(self.border, jnp.eye(num_border, dtype=self.border.dtype))
        border = _multiply(_transpose(border), border)
        corner = jnp.broadcast_to(border, (len(self.diagonal), *border.shape))
        eye = jnp.broadcast_to(jnp.eye(size, dtype=border.dtype), self.diagonal.shape)
        inverse = _solve(self.diagonal, eye)
        own = _multiply(_transpose(inverse), inverse)
        across = _multiply(_transpose(self.sides), inverse)
        down = _multiply(self.below, inverse[:, :-1])

        side = -_multiply(corner, across[:, -1])
        last = own[:, -1] - _multiply(_transpose(across[:, -1]), side)

        def step(after: Any, blocks: Any) -> tuple[Any, Any]:
            (diagonal, side), (own, across, down) = after, blocks
            below = -_multiply(diagonal, down) - _multiply(_transpose(side), across)
            side = -_multiply(side, down) - _multiply(corner, across)
            here = own - _multiply(_transpose(down), below) - _multiply(_transpose(across), side)
            return (here, side), (here, below, side)

        blocks = tuple(map(_front, (own[:, :-1], across[:, :-1], down)))
        _, found = lax.scan(step, (last, side), blocks, reverse=True)
        diagonal, below, sides = map(_front, found)
        diagonal = jnp.concatenate([diagonal, last[:, None]], 1)
        sides = jnp.concatenate([sides, side[:, None]], 1)
        return BlockMatrix(diagonal, below, _transpose(sides), border)

    def solve(self, x: BlockVector) -> BlockVector:
        """The solution of `L y = x`."""
        inner = _solve_blocks(self.diagonal, self.below, x.inner[..., None])[..., 0]
        if not self.border.size:
            return BlockVector(inner, x.border)
        rest = x.border - _einsum("ntdi,ntd->i", self.sides, inner)
        return BlockVector(inner, _solve(self.border, rest[:, None])[:, 0])

    def solve_transposed(self, x: BlockVector) -> BlockVector:
        """The solution of `L^T y = x`."""
        border, rest = x.border, x.inner
        if self.border.size:
            border = _solve(self.border, border[:, None], transposed=True)[:, 0]
            rest = rest - _einsum("ntdi,i->ntd", self.sides, border)
        inner = _solve_blocks_transposed(self.diagonal, self.below, rest[..., None])[..., 0]
        return BlockVector(inner, border)


def _einsum(how: str, *operands: Any) -> jax.Array:
    return jnp.einsum(how, *operands, precision=lax.Precision.HIGHEST)


def _multiply(a: jax.Array, b: jax.Array) -> jax.Array:
    """The product of matrices."""
    if max(*a.shape[-2:], b.shape[-2]) > _MAX_UNROLLED:
        return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)
    return jnp.sum(a[..., :, :, None] * b[..., None, :, :], -2)


def _transpose(x: jax.Array) -> jax.Array:
    return jnp.swapaxes(x, -2, -1)


def _cholesky(x: jax.Array) -> jax.Array:
    """Lower Cholesky factors; small ones element by element, as a call in each step is slow."""
    size = x.shape[-1]
    if not 0 < size <= _MAX_UNROLLED:
        return jnp.linalg.cholesky(x)
    rows: list[list[jax.Array]] = []
    for i in range(size):
        row: list[jax.Array] = []
        for j in range(i):
            rest = sum((row[k] * rows[j][k] for k in range(j)), jnp.zeros_like(x[..., 0, 0]))
            row.append((x[..., i, j] - rest) / rows[j][j])
        pivot = x[..., i, i] - sum((r * r for r in row), jnp.zeros_like(x[..., 0, 0]))
        rows.append([*row, jnp.sqrt(pivot)])
    zero = jnp.zeros_like(x[..., 0, 0])
    full = [jnp.stack([*row, *[zero] * (size - len(row))], -1) for row in rows]
    return jnp.stack(full, -2)


def _solve(factor: jax.Array, x: jax.Array, *, transposed: bool = False) -> jax.Array:
    """The solution of `L y = x`, or of `L^T y = x`."""
    size = factor.shape[-1]
    if not 0 < size <= _MAX_UNROLLED:
        return lax.linalg.triangular_solve(
            factor, x, left_side=True, lower=True, transpose_a=transposed
        )
    found: dict[int, jax.Array] = {}
    for i in reversed(range(size)) if transposed else range(size):
        rest = x[..., i, :]
        for j, y in found.items():
            entry = factor[..., j, i] if transposed else factor[..., i, j]
            rest = rest - entry[..., None] * y
        found[i] = rest / factor[..., i, i, None]
    return jnp.stack([found[i] for i in range(size)], -2)


def _front(x: jax.Array) -> jax.Array:
    return jnp.moveaxis(x, 1, 0)


def _factor_blocks(diagonal: jax.Array, below: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The factor of block tridiagonal matrices: its diagonal blocks, and those below them."""
    if diagonal.shape[1] == 1:
        return _cholesky(diagonal), below

    def step(before: jax.Array, blocks: Any) -> tuple[jax.Array, Any]:
        here, beside = blocks
        # beside = side before^T, so that side^T = before^-1 beside^T.
        side = _solve(before, _transpose(beside))
        factor = _cholesky(here - _multiply(_transpose(side), side))
        return factor, (factor, _transpose(side))

    first = _cholesky(diagonal[:, 0])
    _, (rest, sides) = lax.scan(step, first, (_front(diagonal[:, 1:]), _front(below)))
    return jnp.concatenate([first[:, None], _front(rest)], 1), _front(sides)


def _solve_blocks(diagonal: jax.Array, below: jax.Array, x: jax.Array) -> jax.Array:
    """The solution of `L y = x` for x of shape (n, t, d, k)."""
    if diagonal.shape[1] == 1 or x.shape[-1] == 0:
        return _solve(diagonal, x)

    def step(before: jax.Array, blocks: Any) -> tuple[jax.Array, jax.Array]:
        factor, beside, here = blocks
        here = _solve(factor, here - _multiply(beside, before))
        return here, here

    first = _solve(diagonal[:, 0], x[:, 0])
    _, rest = lax.scan(step, first, tuple(map(_front, (diagonal[:, 1:], below, x[:, 1:]))))
    return jnp.concatenate([first[:, None], _front(rest)], 1)


def _solve_blocks_transposed(diagonal: jax.Array, below: jax.Array, x: jax.Array) -> jax.Array:
    """The solution of `L^T y = x` for x of shape (n, t, d, k)."""
    if diagonal.shape[1] == 1:
        return _solve(diagonal, x, transposed=True)

    def step(after: jax.Array, blocks: Any) -> tuple[jax.Array, jax.Array]:
        factor, beside, here = blocks
        here = _solve(factor, here - _multiply(_transpose(beside), after), transposed=True)
        return here, here

    last = _solve(diagonal[:, -1], x[:, -1], transposed=True)
    blocks = tuple(map(_front, (diagonal[:, :-1], below, x[:, :-1])))
    _, rest = lax.scan(step, last, blocks, reverse=True)
    return jnp.concatenate([_front(rest), last[:, None]], 1)


@jax.custom_jvp
def solve(matrix: BlockMatrix, factor: BlockFactor, x: BlockVector) -> BlockVector:
    """The solution `y` of `P y = x`, by the factor of `P`."""
    return factor.solve_transposed(factor.solve(x))


@solve.defjvp
def _solve_jvp(primals: Any, tangents: Any) -> Any:
    matrix, factor, _ = primals
    found = solve(*primals)
    rest = jax.tree.map(jnp.subtract, tangents[2], tangents[0].multiply(found))
    return found, solve(matrix, factor, rest)


@jax.custom_jvp
def half_log_det(matrix: BlockMatrix, factor: BlockFactor) -> jax.Array:
    """Half the log determinant, by the factor; one for each of `n` matrices without a border.

    The derivative is half the inner product with the inverse, of which its blocks are enough.
    """
    inner, border = factor.pivots()
    found = jnp.sum(jnp.log(inner), (1, 2))
    return jnp.sum(found) + jnp.sum(jnp.log(border)) if border.size else found


@half_log_det.defjvp
def _half_log_det_jvp(primals: Any, tangents: Any) -> Any:
    inverse = primals[1].inverse()
    return half_log_det(*primals), inverse.inner_product(tangents[0]) / 2
