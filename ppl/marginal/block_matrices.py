"""Cholesky factors of precision matrices that are block tridiagonal but for a dense border.

    P = [[A, C], [C^T, D]]

`A` holds `n` matrices that do not depend on one another. Each is block tridiagonal over `t` steps,
with blocks of size `d`, so that its factor costs `n t d^3`. For `t = 1` it is dense, for `n = 0`
only the border is left.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ppl.harvest.leaf_values import vary_alike
from ppl.harvest.pytrees import register_dataclass
from ppl.marginal import triangular_factors

_MAX_UNROLLED = 4  # size of blocks whose products and factors are written out
_MAX_WHOLE = 25  # size of triangular matrices that are inverted as a whole
_MAX_HALVINGS = 3  # of larger ones


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
class Shear:
    """Linear map, of shape (n, t, d, m), from the border of a vector to an offset of the rest."""

    entries: jax.Array

    def apply(self, x: BlockVector) -> BlockVector:
        """The vector with the offset added to its inner entries."""
        return dataclasses.replace(x, inner=x.inner + einsum("ntdm,m->ntd", self.entries, x.border))

    def project(self, x: BlockVector) -> BlockVector:
        """The product with the transpose of the map of `apply`."""
        border = x.border + einsum("ntdm,ntd->m", self.entries, x.inner)
        return dataclasses.replace(x, border=border)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class BlockMatrix:
    """A symmetric matrix.

    Attributes:
        diagonal: The diagonal blocks, of shape (n, t, d, d).
        below: The blocks below the diagonal, of shape (n, t - 1, d, d).
        sides: The rows of the inner entries in the columns of the border, of shape (n, t, d, m).
        border: The matrix of the border, of shape (m, m).
    """

    diagonal: jax.Array
    below: jax.Array
    sides: jax.Array
    border: jax.Array

    def entries(self) -> tuple[jax.Array, jax.Array]:
        """The diagonal: its inner entries and its border entries."""
        return diagonal_of(self.diagonal), diagonal_of(self.border)

    def multiply(self, x: BlockVector) -> BlockVector:
        """The product with a vector."""
        inner = _apply(self.diagonal, x.inner)
        if self.below.shape[1]:
            above = _apply(_transpose(self.below), x.inner[:, 1:])
            below = _apply(self.below, x.inner[:, :-1])
            inner = inner + _pad_steps(below, 1, 0) + _pad_steps(above, 0, 1)
        if not self.border.size:
            return BlockVector(inner, x.border)
        inner = inner + einsum("ntim,m->nti", self.sides, x.border)
        border = self.border @ x.border + einsum("ntim,nti->m", self.sides, x.inner)
        return BlockVector(inner, border)

    def inner_product(self, other: "BlockMatrix") -> jax.Array:
        """The trace of the product with a symmetric matrix that has the same blocks.

        Without a border, there is a trace for each of the `n` matrices.
        """
        inner = jnp.sum(self.diagonal * other.diagonal, (1, 2, 3))
        inner = inner + 2 * jnp.sum(self.below * other.below, (1, 2, 3))
        if not self.border.size:
            return inner
        sides = 2 * jnp.sum(self.sides * other.sides)
        return jnp.sum(inner) + sides + jnp.sum(self.border * other.border)

    def add(self, other: "BlockMatrix") -> "BlockMatrix":
        """The sum with a matrix that has the same blocks."""
        return jax.tree.map(jnp.add, self, other)

    def with_entries(self, tangent: "BlockMatrix") -> "BlockMatrix":
        """A tangent of this matrix as a matrix."""
        return tangent

    def factor(self) -> "BlockFactor":
        """The Cholesky factor, NaN where the matrix is not positive definite."""
        zeros = [jnp.zeros(x.shape[:-1], x.dtype) for x in (self.diagonal, self.border)]
        return self.factor_and_solve(BlockVector(*zeros))[0]

    def factor_and_solve(self, x: BlockVector) -> tuple["BlockFactor", BlockVector]:
        """The Cholesky factor `L`, and the solution of `L y = x`, by one pass over the steps."""
        columns = jnp.concatenate([self.sides, x.inner[..., None]], -1)
        diagonal, below, solved = factor_blocks(self.diagonal, self.below, columns)
        return _factor_border(self.border, diagonal, below, solved, x.border)


@dataclasses.dataclass(frozen=True)
class InnerSolution:
    """A matrix without its border, factored and solved for the border and for a vector.

    Attributes:
        shear: Derivatives of the mean of inner entries given the border, for a normal vector; of
            shape (n, t, d, m).
        solved: The inner entries that solve for the vector, if its border is 0.
        factor: The factor of the inner entries, beside a border of no size.
        inverse: The blocks of the inverse of the inner entries, beside a border of no size.
    """

    shear: jax.Array
    solved: jax.Array
    factor: "BlockFactor"
    inverse: BlockMatrix

    @classmethod
    def of(cls, matrix: BlockMatrix, x: jax.Array) -> "InnerSolution":
        """The solution by two passes over the steps, of which the second runs backward."""
        columns = jnp.concatenate([-matrix.sides, x[..., None]], -1)
        diagonal, below, half = factor_blocks(matrix.diagonal, matrix.below, columns)
        solved, own, beside = _solve_transposed_and_invert(diagonal, below, half)
        none = x[..., :0, None], jnp.zeros((0, 0), x.dtype)
        factor = BlockFactor(diagonal, below, *none)
        return cls(solved[..., :-1], solved[..., -1], factor, BlockMatrix(own, beside, *none))

    def with_border(self, border: jax.Array) -> tuple["BlockFactor", BlockMatrix]:
        """Factor and inverse beside a border that is not coupled to inner entries."""
        sides = jnp.zeros_like(self.shear)
        factor = cholesky(border)
        half = _invert(factor)
        return (
            dataclasses.replace(self.factor, sides=sides, border=factor),
            dataclasses.replace(
                self.inverse, sides=sides, border=_multiply(_transpose(half), half)
            ),
        )

    def complete(self, factor: "BlockFactor", border: jax.Array) -> BlockVector:
        """The solution for all entries, beside a border that is not coupled to inner entries."""
        half = solve_lower(factor.border, border[:, None])
        return BlockVector(self.solved, solve_lower(factor.border, half, transposed=True)[:, 0])


@register_dataclass
@dataclasses.dataclass(frozen=True)
class BlockFactor:
    """A lower triangular factor, with the shapes of `BlockMatrix`; the sides stand transposed.

    Attributes:
        diagonal: The diagonal blocks, or their inverses, see `holds_inverses`.
        below: The blocks below the diagonal.
        sides: The rows of the border, transposed.
        border: The factor of the border.
    """

    diagonal: jax.Array
    below: jax.Array
    sides: jax.Array
    border: jax.Array

    def shear(self, depth: int = 0) -> Shear:
        """Derivatives of the mean of inner entries given the border, for a normal vector."""
        assert not depth
        return Shear(-solve_blocks_transposed(self.diagonal, self.below, self.sides))

    def pivots(self) -> tuple[jax.Array, jax.Array]:
        """The diagonal: its inner entries and its border entries."""
        return pivots_of(self.diagonal), diagonal_of(self.border)

    def inverse(self) -> BlockMatrix:
        """The blocks of the inverse of the matrix, by Takahashi's equations."""
        border = _invert(self.border, 0)
        border = _multiply(_transpose(border), border)
        corner = jnp.broadcast_to(border, (len(self.diagonal), *border.shape))
        return BlockMatrix(
            *invert_blocks(self.diagonal, self.below, self.sides, corner), border=border
        )

    def replace_border_and_solve(
        self, matrix: BlockMatrix, x: BlockVector
    ) -> tuple["BlockFactor", BlockVector]:
        """The factor of a matrix that differs only in its border, and the solution of `L y = x`."""
        columns = jnp.concatenate([matrix.sides, x.inner[..., None]], -1)
        solved = solve_blocks(self.diagonal, self.below, columns)
        return _factor_border(matrix.border, self.diagonal, self.below, solved, x.border)

    def solve(self, x: BlockVector) -> BlockVector:
        """The solution of `L y = x`."""
        inner = solve_blocks(self.diagonal, self.below, x.inner[..., None])[..., 0]
        return BlockVector(inner, self.solve_border(inner, x.border))

    def solve_border(self, inner: jax.Array, border: jax.Array) -> jax.Array:
        """The border of the solution of `L y = x`, from its inner entries and the border of `x`."""
        if not border.size:
            return border
        rest = border - einsum("ntdi,ntd->i", self.sides, inner)
        return solve_lower(self.border, rest[:, None])[:, 0]

    def solve_transposed(self, x: BlockVector) -> BlockVector:
        """The solution of `L^T y = x`."""
        border = x.border
        rest = x.inner
        if self.border.size:
            border = solve_lower(self.border, border[:, None], transposed=True)[:, 0]
            rest = rest - einsum("ntdi,i->ntd", self.sides, border)
        inner = solve_blocks_transposed(self.diagonal, self.below, rest[..., None])[..., 0]
        return BlockVector(inner, border)


def einsum(how: str, *operands: Any) -> jax.Array:
    """Products and sums in full precision."""
    return jnp.einsum(how, *operands, precision=lax.Precision.HIGHEST)


def _multiply(a: jax.Array, b: jax.Array) -> jax.Array:
    """The product of matrices."""
    if a.shape[-1] == 1:
        return a * b
    if not 0 < a.shape[-1] <= _MAX_UNROLLED:
        return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)
    parts = [a[..., :, k, None] * b[..., k, None, :] for k in range(a.shape[-1])]
    return functools.reduce(jnp.add, parts)


def _transpose(x: jax.Array) -> jax.Array:
    return x if x.shape[-2:] == (1, 1) else jnp.swapaxes(x, -2, -1)


def diagonal_of(x: jax.Array) -> jax.Array:
    """The diagonals of matrices."""
    return lax.squeeze(x, (x.ndim - 1,)) if x.shape[-1] == 1 else jnp.diagonal(x, 0, -2, -1)


def cholesky(x: jax.Array) -> jax.Array:
    """Lower Cholesky factors; small ones element by element, as a call in each step is slow."""
    size = x.shape[-1]
    if size == 1:
        return jnp.sqrt(x)
    if not 0 < size <= _MAX_UNROLLED:
        return triangular_factors.cholesky(x)
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


def solve_lower(factor: jax.Array, x: jax.Array, *, transposed: bool = False) -> jax.Array:
    """The solution of `L y = x`, or of `L^T y = x`."""
    size = factor.shape[-1]
    if size == 1:
        return x / factor
    if not 0 < size <= _MAX_UNROLLED:
        return triangular_factors.solve_lower(factor, x, transposed=transposed)
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


def _invert(factor: jax.Array, halvings: int = _MAX_HALVINGS) -> jax.Array:
    """The inverse of lower triangular matrices, of large ones by products of their halves."""
    size = factor.shape[-1]
    if size == 1:
        return 1 / factor
    if size <= _MAX_WHOLE or not halvings:
        eye = jnp.eye(size, dtype=factor.dtype)
        return solve_lower(factor, jnp.broadcast_to(eye, factor.shape))
    half = size // 2
    first = _invert(factor[..., :half, :half], halvings - 1)
    last = _invert(factor[..., half:, half:], halvings - 1)
    across = -_multiply(_multiply(last, factor[..., half:, :half]), first)
    upper = jnp.concatenate([first, jnp.zeros_like(factor[..., :half, half:])], -1)
    return jnp.concatenate([upper, jnp.concatenate([across, last], -1)], -2)


def _apply(a: jax.Array, x: jax.Array) -> jax.Array:
    """The product of matrices and vectors."""
    if a.shape[-2:] == (1, 1):
        return diagonal_of(a) * x
    return _multiply(a, x[..., None])[..., 0]


def holds_inverses(diagonal: jax.Array) -> bool:
    """Whether the inverse of each diagonal block of a factor stands in its place.

    So it is for large blocks of several steps. A product takes a fifth of the time of a triangular
    solution by LAPACK, or less.
    """
    return diagonal.shape[1] > 1 and diagonal.shape[-1] > _MAX_UNROLLED


def pivots_of(diagonal: jax.Array) -> jax.Array:
    """The diagonal of a factor, of shape (n, t, d), from its diagonal blocks."""
    pivots = diagonal_of(diagonal)
    return 1 / pivots if holds_inverses(diagonal) else pivots


def _inverses_of(diagonal: jax.Array) -> jax.Array:
    """The inverse of each diagonal block of a factor."""
    return diagonal if holds_inverses(diagonal) else _invert(diagonal)


def factor_blocks(
    diagonal: jax.Array, below: jax.Array, columns: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The factor `L` of block tridiagonal matrices, and the solutions of `L y = columns`.

    Returns the diagonal blocks of the factor, the blocks below the diagonal, and the solutions.
    Large blocks on the diagonal of several steps are inverted, see `holds_inverses`.
    """
    if diagonal.shape[1] == 1:
        factor = cholesky(diagonal)
        return factor, below, solve_lower(factor, columns)
    if holds_inverses(diagonal):
        return _factor_and_invert_blocks(diagonal, below, columns)
    if len(diagonal) == 1 and diagonal.shape[-1]:
        return _factor_chain(diagonal, below, columns)

    def step(before: Any, blocks: Any) -> tuple[Any, Any]:
        (factor, solved), (here, beside, column) = before, blocks
        # beside = side factor^T, so that side^T = factor^-1 beside^T.
        side = solve_lower(factor, _transpose(beside))
        factor = cholesky(here - _multiply(_transpose(side), side))
        solved = solve_lower(factor, column - _multiply(_transpose(side), solved))
        return (factor, solved), (factor, _transpose(side), solved)

    factors, sides, solved = _scan_blocks(step, diagonal, below, columns)
    return factors, sides[:, 1:], solved


def _scan_blocks(
    step: Callable[..., Any], diagonal: jax.Array, below: jax.Array, columns: jax.Array
) -> Any:
    """The results of all steps; the first goes on from one that it is not coupled to."""
    start = jnp.zeros_like(diagonal[:, 0]) + jnp.eye(diagonal.shape[-1], dtype=diagonal.dtype)[None]
    blocks = tuple(map(_front, (diagonal, _pad_steps(below, 1, 0), columns)))
    return map(_front, lax.scan(step, (start, jnp.zeros_like(columns[:, 0])), blocks)[1])


def _factor_chain(
    diagonal: jax.Array, below: jax.Array, columns: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`factor_blocks` of one chain of small blocks: no step takes a square root."""

    def step(before: Any, blocks: Any) -> tuple[Any, Any]:
        (pivot, rest), (here, beside, column) = before, blocks
        ratio = _transpose(_solve_definite(pivot, _transpose(beside)))
        after = here - _multiply(ratio, _transpose(beside)), column - _multiply(ratio, rest)
        return after, after

    pivots, rest = _scan_blocks(step, diagonal, below, columns)
    factor = cholesky(pivots)
    sides = solve_lower(factor[:, :-1], _transpose(below))
    return factor, _transpose(sides), solve_lower(factor, rest)


def _solve_definite(matrix: jax.Array, x: jax.Array) -> jax.Array:
    """The solution of `P y = x` for small positive definite P, by elimination."""
    size = matrix.shape[-1]
    rows = [[matrix[..., i, j] for j in range(size)] for i in range(size)]
    found = [x[..., i, :] for i in range(size)]
    for i, k in itertools.combinations(range(size), 2):
        ratio = rows[k][i] / rows[i][i]
        rows[k] = [a - ratio * b for a, b in zip(rows[k], rows[i], strict=True)]
        found[k] = found[k] - ratio[..., None] * found[i]
    for i in reversed(range(size)):
        above = (rows[i][j][..., None] * found[j] for j in range(i + 1, size))
        found[i] = functools.reduce(jnp.subtract, above, found[i]) / rows[i][i][..., None]
    return jnp.stack(found, -2)


def _factor_and_invert_blocks(
    diagonal: jax.Array, below: jax.Array, columns: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """`factor_blocks` of large blocks, by products with the inverse of each block of the factor."""

    def step(before: Any, blocks: Any) -> tuple[Any, Any]:
        (inverse, solved), (here, beside, column) = before, blocks
        side = _multiply(beside, _transpose(inverse))
        inverse = _invert(cholesky(here - _multiply(side, _transpose(side))))
        solved = _multiply(inverse, column - _multiply(side, solved))
        return (inverse, solved), (inverse, side, solved)

    start = jnp.zeros_like(diagonal[:, 0]), jnp.zeros_like(columns[:, 0])
    blocks = tuple(map(_front, (diagonal, _pad_steps(below, 1, 0), columns)))
    inverses, sides, solved = map(_front, lax.scan(step, start, blocks)[1])
    return inverses, sides[:, 1:], solved


def _factor_border(
    border: jax.Array, diagonal: jax.Array, below: jax.Array, solved: jax.Array, x: jax.Array
) -> tuple[BlockFactor, BlockVector]:
    """The factor `L`, and the solution of `L y = x`, given the inner entries of both."""
    sides = solved[..., :-1]
    inner = solved[..., -1]
    corner = border - einsum("ntdi,ntdj->ij", sides, sides)
    factor = BlockFactor(diagonal, below, sides, cholesky(corner))
    return factor, BlockVector(inner, factor.solve_border(inner, x))


def invert_blocks(
    diagonal: jax.Array, below: jax.Array, sides: jax.Array, corner: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The inner blocks and the sides of an inverse matrix, by Takahashi's equations.

    Args:
        diagonal: The diagonal blocks of the Cholesky factor, of shape (n, t, d, d).
        below: Its blocks below the diagonal.
        sides: Its sides, transposed, of shape (n, t, d, m).
        corner: For each block, the inverse in the columns of the sides, of shape (n, m, m).
    """
    inverse = _inverses_of(diagonal)
    own = _multiply(_transpose(inverse), inverse)
    across = _multiply(_transpose(sides), inverse)
    down = _multiply(below, inverse[:, :-1])

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
    return diagonal, below, _transpose(sides)


def solve_blocks(diagonal: jax.Array, below: jax.Array, x: jax.Array) -> jax.Array:
    """The solution of `L y = x` for x of shape (n, t, d, k)."""
    if diagonal.shape[1] == 1 or x.shape[-1] == 0:
        return solve_lower(diagonal, x)
    return _recur(_inverses_of(diagonal), _pad_steps(below, 1, 0), x, transposed=False)


def solve_blocks_transposed(diagonal: jax.Array, below: jax.Array, x: jax.Array) -> jax.Array:
    """The solution of `L^T y = x` for x of shape (n, t, d, k)."""
    if diagonal.shape[1] == 1 or x.shape[-1] == 0:
        return solve_lower(diagonal, x, transposed=True)
    return _recur(_inverses_of(diagonal), _pad_steps(below, 0, 1), x, transposed=True)


def _solve_transposed_and_invert(
    diagonal: jax.Array, below: jax.Array, x: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The solution of `L^T y = x` for x of shape (n, t, d, k), and the blocks of `(L L^T)^-1`.

    Both run backward over the steps, by Takahashi's equations for the blocks on and below the
    diagonal.
    """
    inverse = _inverses_of(diagonal)
    own = _multiply(_transpose(inverse), inverse)
    x = _multiply(_transpose(inverse), x)
    if diagonal.shape[1] == 1:
        return x, own, below
    down = _multiply(_pad_steps(below, 0, 1), inverse)

    def step(after: Any, blocks: Any) -> tuple[Any, Any]:
        (y, diagonal), (x, own, down) = after, blocks
        below = -_multiply(diagonal, down)
        y = x - _multiply(_transpose(down), y)
        diagonal = own - _multiply(_transpose(down), below)
        return (y, diagonal), (y, diagonal, below)

    start = jnp.zeros_like(x[:, 0]), jnp.zeros_like(own[:, 0])
    _, found = lax.scan(step, start, tuple(map(_front, (x, own, down))), reverse=True)
    solved, diagonal, below = map(_front, found)
    return solved, diagonal, below[:, :-1]


def _recur(inverse: jax.Array, beside: jax.Array, x: jax.Array, *, transposed: bool) -> jax.Array:
    """Each y = inverse (x - beside y_before) along the second axis, for x of shape (n, t, d, k).

    Transposed, both matrices are, and y_before is y of the next step. For as many columns as rows,
    all is multiplied by the inverse at once, so that a step is one product; for small blocks, too.
    """
    turn = _transpose if transposed else lambda matrix: matrix
    at_once = x.shape[-1] >= x.shape[-2] or x.shape[-2] <= _MAX_UNROLLED
    if at_once:
        beside = _multiply(beside, inverse) if transposed else _multiply(inverse, beside)
        x = _multiply(turn(inverse), x)

    def step(before: jax.Array, inputs: Any) -> tuple[jax.Array, jax.Array]:
        beside, here, *inverse = inputs
        here = here - _multiply(turn(beside), before)
        here = here if at_once else _multiply(turn(*inverse), here)
        return here, here

    inputs = tuple(map(_front, (beside, x) if at_once else (beside, x, inverse)))
    return _front(lax.scan(step, jnp.zeros_like(x[:, 0]), inputs, reverse=transposed)[1])


def _pad_steps(x: jax.Array, before: int, after: int) -> jax.Array:
    """Blocks of steps with zeros for further steps before or after."""
    return jnp.pad(x, ((0, 0), (before, after), *((0, 0),) * (x.ndim - 2)))


def _with_own_derivative(function: Callable[..., Any]) -> Any:
    """`jax.custom_jvp` of a function of blocks, some of which may have no elements.

    Suppose that `vmap` maps only arrays without elements. As they do not matter, JAX would stage
    one value, but a derivative for each element. So such arrays are replaced by unmapped zeros.
    """
    inner = jax.custom_jvp(function)

    @functools.wraps(function)
    def call(*operands: Any) -> Any:
        return inner(*jax.tree.map(lambda x: x if x.size else np.zeros(x.shape, x.dtype), operands))

    call.defjvp = inner.defjvp  # pyright: ignore[reportAttributeAccessIssue]
    return call


@_with_own_derivative
def solve(matrix: BlockMatrix, factor: BlockFactor, x: BlockVector) -> BlockVector:
    """The solution `y` of `P y = x`, by the factor of `P`, which has no derivative of its own."""
    return factor.solve_transposed(factor.solve(x))


@solve.defjvp
def _solve_jvp(primals: Any, tangents: Any) -> Any:
    matrix, factor, _ = primals
    found = solve(*primals)
    product = matrix.with_entries(tangents[0]).multiply(found)
    rest = jax.tree.map(jnp.subtract, tangents[2], product)
    return found, solve(matrix, factor, rest)


@_with_own_derivative
def half_square(matrix: BlockMatrix, factor: BlockFactor, x: BlockVector) -> jax.Array:
    """Half of `x^T P^-1 x`; without a border a vector, with a number for each of `n` matrices."""
    half = factor.solve(x)
    return inner_product(half, half) / 2


@half_square.defjvp
def _half_square_jvp(primals: Any, tangents: Any) -> Any:
    found = solve(*primals)
    product = primals[0].with_entries(tangents[0]).multiply(found)
    rest = jax.tree.map(lambda t, y: t - y / 2, tangents[2], product)
    return half_square(*primals), inner_product(found, rest)


@_with_own_derivative
def half_log_det(
    matrix: BlockMatrix, factor: BlockFactor, inverse: BlockMatrix | None = None
) -> jax.Array:
    """Half the log determinant, by the factor; without a border a number for each matrix.

    The derivative is half the inner product with the inverse, of which only the blocks are needed.
    They are computed from the factor unless they are known.
    """
    inner, border = factor.pivots()
    found = jnp.sum(jnp.log(inner), (1, 2))
    return jnp.sum(found) + jnp.sum(jnp.log(border)) if border.size else found


@half_log_det.defjvp
def _half_log_det_jvp(primals: Any, tangents: Any) -> Any:
    return half_log_det(*primals), _inverse(*primals).inner_product(tangents[0]) / 2


@_with_own_derivative
def _inverse(matrix: BlockMatrix, factor: BlockFactor, inverse: BlockMatrix | None) -> BlockMatrix:
    """The blocks of the inverse matrix; the JVP differentiates a new factorization."""
    return factor.inverse() if inverse is None else inverse


@_inverse.defjvp
def _inverse_jvp(primals: Any, tangents: Any) -> Any:
    _, tangent = jax.jvp(lambda matrix: matrix.factor().inverse(), primals[:1], tangents[:1])
    return _inverse(*primals), tangent  # mapped by `vmap` where the function is: by the factor


def vary_like(x: BlockVector, multiply: Callable[..., Any]) -> Callable[[BlockVector], Any]:
    """A function of vectors, cast to vary over the same axes of a mesh as `x`."""

    def vary(v):
        return BlockVector(vary_alike([v.inner, x.inner])[0], vary_alike([v.border, x.border])[0])

    return lambda v: multiply(vary(v))


def inner_product(x: BlockVector, y: BlockVector) -> jax.Array:
    """The inner product of vectors; without a border a number for each of `n` parts."""
    found = jnp.sum(x.inner * y.inner, (1, 2))
    return jnp.sum(found) + jnp.sum(x.border * y.border) if x.border.size else found
