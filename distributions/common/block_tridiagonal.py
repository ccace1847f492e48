"""Cholesky factors of block tridiagonal matrices, such as bands: a loop over the blocks."""

import dataclasses

import jax
import jax.numpy as jnp
from jax import Array, lax

from distributions.common.linear_algebra import gram, matmul, multiply, solve, solve_matrix
from distributions.common.triangular_factors import cholesky


@dataclasses.dataclass(frozen=True)
class BlockFactor:
    """The Cholesky factor `L` of a block tridiagonal matrix.

    Attributes:
        diagonal: The blocks of `L` on its diagonal, of shape `(blocks, ..., size, size)`.
        below: For each block, the one to its left, 0 for the first.
    """

    diagonal: Array
    below: Array

    def solve_transposed(self, x: Array) -> Array:
        """The vectors `y` with `L^T y = x`, of shape `(blocks, ..., size)`."""

        def step(rest, entry):
            tril, below, x = entry
            y = solve(tril, x - rest, transpose=True)
            return multiply(below.mT, y), y

        batch = jnp.broadcast_shapes(x.shape[1:-1], self.diagonal.shape[1:-2])
        start = jnp.zeros((*batch, x.shape[-1]), x.dtype)
        return lax.scan(step, start, (self.diagonal, self.below, x), reverse=True)[1]

    def multiply_transposed(self, x: Array) -> Array:
        """The vectors `L^T x`, of shape `(blocks, ..., size)`."""
        own = jax.vmap(multiply)(self.diagonal.mT, x)
        after = jax.vmap(multiply)(self.below.mT, x)
        return own + jnp.concatenate([after[1:], jnp.zeros_like(after[:1])])

    def inverse_diagonal(self) -> Array:
        """The diagonal of the inverse of `L L^T`, of shape `(blocks, ..., size)`."""
        start = jnp.zeros_like(self.diagonal[0])
        eye = jnp.broadcast_to(jnp.eye(start.shape[-1], dtype=start.dtype), start.shape)

        def step(rest, entry):  # the rows after a block, given it, are `rest^T` times its own
            tril, below = entry
            half = solve_matrix(tril, eye)
            inverse = matmul(matmul(half.mT, eye + rest), half)
            return matmul(matmul(below.mT, inverse), below), jnp.diagonal(inverse, 0, -2, -1)

        return lax.scan(step, start, (self.diagonal, self.below), reverse=True)[1]


def factor_blocks(diagonal: Array, below: Array) -> BlockFactor:
    """The Cholesky factor of a matrix of blocks.

    Args:
        diagonal: The blocks on the diagonal, of shape `(blocks, ..., size, size)`.
        below: For each block, the one to its left; the first is not used.
    """

    def step(last, entry):
        diagonal, below = entry
        below = solve_matrix(last, below.mT).mT
        tril = cholesky(diagonal - gram(below))
        return tril, (tril, below)

    first = cholesky(diagonal[0])
    _, (trils, rest) = lax.scan(step, first, (diagonal[1:], below[1:]))
    return BlockFactor(
        jnp.concatenate([first[None], trils]),
        jnp.concatenate([jnp.zeros_like(below[:1]), rest]),
    )
