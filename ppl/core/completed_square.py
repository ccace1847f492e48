"""Completed square: a quadratic log density about a point, its integral and its draws."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from ppl.core.block_layout import BlockLayout
from ppl.core.block_matrices import (
    BlockFactor,
    BlockMatrix,
    BlockVector,
    half_log_det,
    half_square,
    solve,
)

_LOG_TWO_PI = math.log(2 * math.pi)


@dataclasses.dataclass(frozen=True)
class CompletedSquare:
    """A quadratic log density `height + slope (x - mode) - (x - mode)^T P (x - mode) / 2`.

    Attributes:
        mode: A point, near the maximum.
        height: The log density there, with an axis for each plate if their elements are apart.
        slope: The gradient there.
        matrix: The precision `P`.
        factor: Its Cholesky factor.
        num_elements: The number of variables.
    """

    mode: BlockVector
    height: jax.Array
    slope: BlockVector
    matrix: BlockMatrix
    factor: BlockFactor
    num_elements: int

    @functools.cached_property
    def log_det(self) -> jax.Array:
        """Half the log determinant of the precision."""
        return self._total(half_log_det(self.matrix, self.factor))

    @functools.cached_property
    def step(self) -> BlockVector:
        """The step from the point to the maximum."""
        return solve(self.matrix, self.factor, self.slope)

    @property
    def is_improper(self) -> jax.Array:
        """Whether the precision is not positive definite."""
        return ~jnp.isfinite(self.log_det)

    def _total(self, found: jax.Array) -> jax.Array:
        """Numbers for independent blocks, apart if the height is."""
        return found.reshape(self.height.shape) if self.height.ndim else jnp.sum(found)

    def log_integral(self) -> jax.Array:
        """The log of the integral, minus infinity where it does not exist."""
        num = self.num_elements // max(self.height.size, 1)
        rest = self._total(half_square(self.matrix, self.factor, self.slope))
        found = self.height + rest - self.log_det + num * _LOG_TWO_PI / 2
        return jnp.where(self.is_improper, -jnp.inf, found)

    def draw(self, key: jax.Array) -> BlockVector:
        """A draw from the normal distribution with this density."""
        leaves, tree = jax.tree.flatten(self.mode)
        keys = jax.random.split(key, len(leaves))
        noise = [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
        spread = self.factor.solve_transposed(jax.tree.unflatten(tree, noise))
        return jax.tree.map(lambda *parts: sum(parts), self.mode, self.step, spread)


def precision_of(layout: BlockLayout, multiply: Any, dtype: Any) -> BlockMatrix:
    """The precision: minus the Hessian, and the identity where a block is padded."""
    negative = jax.tree.map(jnp.negative, layout.hessian(multiply, dtype))
    padding = jnp.asarray(layout.padding, dtype)
    one = padding[None, :, :, None] * jnp.eye(layout.size_of_block, dtype=dtype)[None, None]
    return dataclasses.replace(negative, diagonal=negative.diagonal + one)
