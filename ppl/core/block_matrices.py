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

    def pivots(self) -> tuple[jax.Array, jax.Array]:
        """The diagonal: inner entries and those of the border."""
        inner, border = (jnp.diagonal(x, axis1=-2, axis2=-1) for x in (self.diagonal, self.border))
        return inner, border

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
