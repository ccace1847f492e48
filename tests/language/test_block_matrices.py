"""Factors, solutions and inverses of block tridiagonal matrices, beside dense ones of NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ppl.marginal.block_matrices import BlockMatrix, BlockVector, half_log_det, solve

pytestmark = pytest.mark.usefixtures("x64")


def make_matrix(size, num_steps=3, num_border=2):
    """A matrix with blocks of some size, and the same matrix dense."""
    rng = np.random.default_rng(size)
    total = num_steps * size + num_border
    root = np.tril(rng.normal(size=(total, total))) / np.sqrt(total) + 2 * np.eye(total)
    steps = np.arange(total - num_border) // size
    apart = np.abs(steps[:, None] - steps) > 1
    dense = root @ root.T + num_steps * np.eye(total)
    dense[:-num_border, :-num_border][apart] = 0.0
    inner = dense[:-num_border, :-num_border].reshape(num_steps, size, num_steps, size)
    at = np.arange(num_steps)
    matrix = BlockMatrix(
        diagonal=jnp.asarray(inner[at, :, at])[None],
        below=jnp.asarray(inner[at[1:], :, at[:-1]])[None],
        sides=jnp.asarray(dense[:-num_border, -num_border:].reshape(1, num_steps, size, -1)),
        border=jnp.asarray(dense[-num_border:, -num_border:]),
    )
    return matrix, dense


@pytest.mark.parametrize("size", [3, 9, 213])  # written out; by LAPACK; halved thrice
def test_factors_and_inverses_are_those_of_the_dense_matrix(size):
    matrix, dense = make_matrix(size)
    numbers = np.random.default_rng(0).normal(size=len(dense))
    x = BlockVector(jnp.asarray(numbers[:-2]).reshape(1, 3, size), jnp.asarray(numbers[-2:]))

    @jax.jit
    def evaluate(matrix, x):
        factor, half = matrix.factor_and_solve(x)
        log_det, slope = jax.value_and_grad(half_log_det)(matrix, factor)
        again = factor.replace_border_and_solve(matrix, x)[1]
        return log_det, slope, factor.inverse(), half, again, solve(matrix, factor, x)

    log_det, slope, inverse, half, again, solved = evaluate(matrix, x)
    root = np.linalg.cholesky(dense)
    np.testing.assert_allclose(log_det, np.log(np.diagonal(root)).sum(), rtol=1e-12)
    exact = np.linalg.inv(dense)
    inner = exact[:-2, :-2].reshape(3, size, 3, size)
    at = np.arange(3)
    np.testing.assert_allclose(inverse.diagonal[0], inner[at, :, at], atol=1e-12)
    np.testing.assert_allclose(inverse.below[0], inner[at[1:], :, at[:-1]], atol=1e-12)
    np.testing.assert_allclose(inverse.sides[0].reshape(-1, 2), exact[:-2, -2:], atol=1e-12)
    np.testing.assert_allclose(slope.diagonal, inverse.diagonal / 2, atol=1e-12)
    np.testing.assert_allclose(slope.below, inverse.below, atol=1e-12)
    for found, expected in (
        (half, np.linalg.solve(root, numbers)),
        (again, np.linalg.solve(root, numbers)),
        (solved, exact @ numbers),
    ):
        flat = np.concatenate([np.ravel(found.inner), found.border])
        np.testing.assert_allclose(flat, expected, atol=1e-12)
    indefinite = jax.jit(BlockMatrix.factor)(
        BlockMatrix(-matrix.diagonal, *[matrix.below, matrix.sides, matrix.border])
    )
    assert not np.isfinite(indefinite.pivots()[0]).all()
