"""Completed square: a quadratic log density about a point, its integral and its draws."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from ppl.core.block_layout import BlockLayout
from ppl.core.block_matrices import BlockFactor, BlockMatrix, BlockVector

_LOG_TWO_PI = math.log(2 * math.pi)


@dataclasses.dataclass(frozen=True)
class CompletedSquare:
    """A quadratic log density `height + slope (x - mode) - (x - mode)^T P (x - mode) / 2`.

    Attributes:
        mode: A point, near the maximum.
        height: The log density there, with an axis for each plate if their elements are apart.
        slope: The gradient there, multiplied by the inverse of the factor.
        factor: The Cholesky factor of `P`.
        num_elements: The number of variables.
    """

    mode: BlockVector
    height: jax.Array
    slope: BlockVector
    factor: BlockFactor
    num_elements: int

    @functools.cached_property
    def log_det(self) -> jax.Array:
        """Half the log determinant of the precision."""
        return self._total(*map(jnp.log, self.factor.pivots()))

    @property
    def is_improper(self) -> jax.Array:
        """Whether the precision is not positive definite."""
        return ~jnp.isfinite(self.log_det)

    def _total(self, inner: jax.Array, border: jax.Array) -> jax.Array:
        """The sum of all entries, apart for elements of plates if the height is."""
        if self.height.ndim:
            return jnp.sum(inner, (1, 2)).reshape(self.height.shape)
        return jnp.sum(inner) + jnp.sum(border)

    def log_integral(self) -> jax.Array:
        """The log of the integral, minus infinity where it does not exist."""
        num = self.num_elements // max(self.height.size, 1)
        rest = self._total(jnp.square(self.slope.inner), jnp.square(self.slope.border)) / 2
        found = self.height + rest - self.log_det + num * _LOG_TWO_PI / 2
        return jnp.where(self.is_improper, -jnp.inf, found)

    def draw(self, key: jax.Array) -> BlockVector:
        """A draw from the normal distribution with this density."""
        leaves, tree = jax.tree.flatten(self.slope)
        keys = jax.random.split(key, len(leaves))
        noisy = [
            x + jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)
        ]
        step = self.factor.solve_transposed(jax.tree.unflatten(tree, noisy))
        return jax.tree.map(jnp.add, self.mode, step)


def precision_of(layout: BlockLayout, multiply: Any, dtype: Any) -> BlockMatrix:
    """The precision: minus the Hessian, and the identity where a block is padded."""
    negative = jax.tree.map(jnp.negative, layout.hessian(multiply, dtype))
    one = jnp.asarray(layout.padding, dtype)[:, :, None] * jnp.eye(
        layout.size_of_block, dtype=dtype
    )
    return dataclasses.replace(negative, diagonal=negative.diagonal + one)
