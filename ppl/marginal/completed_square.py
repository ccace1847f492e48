"""Completed square: a quadratic log density about a point, its integral and its draws."""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp

from ppl.marginal.block_layout import BlockLayout
from ppl.marginal.block_matrices import (
    BlockFactor,
    BlockMatrix,
    BlockVector,
    Shear,
    half_log_det,
    half_square,
    solve,
)
from ppl.marginal.tree_matrices import TreeFactor, TreeMatrix, TreeShear

_LOG_TWO_PI = math.log(2 * math.pi)
_UNKNOWN = 4  # rounding errors of a diagonal entry; a smaller pivot has no digit that is known


@dataclasses.dataclass(frozen=True)
class CompletedSquare:
    """A quadratic log density `height + slope (x - mode) - (x - mode)^T P (x - mode) / 2`.

    Attributes:
        mode: A point, near the maximum.
        height: The log density there, with an axis for each plate if plates are independent.
        slope: The gradient there.
        matrix: The precision `P`.
        factor: Its Cholesky factor.
        layout: The layout of the variables.
        shear: The linear map from the border to an offset; draws add the offset to their inner
            entries. None for no offset.
        inverse: The blocks of the inverse of `P`, if they are known.
    """

    mode: BlockVector
    height: jax.Array
    slope: BlockVector
    matrix: BlockMatrix | TreeMatrix
    factor: BlockFactor | TreeFactor
    layout: BlockLayout
    shear: Shear | TreeShear | None = None
    inverse: BlockMatrix | None = None

    @functools.cached_property
    def log_det(self) -> jax.Array:
        """Half the log determinant of the precision."""
        return self._total(half_log_det(self.matrix, self.factor, self.inverse))

    @functools.cached_property
    def step(self) -> BlockVector:
        """The step from the point to the maximum."""
        return solve(self.matrix, self.factor, self.slope)

    @functools.cached_property
    def gain(self) -> jax.Array:
        """By how much the maximum is higher than the point."""
        return self._total(half_square(self.matrix, self.factor, self.slope))

    @functools.cached_property
    def is_improper(self) -> jax.Array:
        """Whether the precision is not positive definite, or rounding hides whether it is.

        A pivot is what is left of its diagonal entry, which is rounded.
        """
        inner, border = map(self._is_hidden, self.factor.pivots(), self.matrix.entries())
        is_hidden = jnp.any(inner, range(1, inner.ndim))
        if not self.height.ndim:
            is_hidden = jnp.any(is_hidden) | jnp.any(border)
        return ~jnp.isfinite(self.log_det) | is_hidden.reshape(self.height.shape)

    def _is_hidden(self, pivots: jax.Array, entries: jax.Array) -> jax.Array:
        """Whether pivots have no digit that is known."""
        least = _UNKNOWN * jnp.finfo(pivots.dtype).eps
        return jnp.square(pivots) <= least * entries

    @property
    def _num_each(self) -> int:
        """The number of elements that each number of `height` is about."""
        return self.layout.num_elements // max(self.height.size, 1)

    def _total(self, found: jax.Array) -> jax.Array:
        """A number for each independent block if `height` has them, else their sum."""
        if self.height.ndim:
            return found.reshape(self.height.shape)
        return jnp.sum(found) if found.ndim else found

    def log_integral(self) -> jax.Array:
        """The log of the integral: NaN if it diverges, minus infinity where `height` is."""
        found = self.height + self.gain - self.log_det + self._num_each * _LOG_TWO_PI / 2
        unknown = jnp.where(jnp.isneginf(self.height), -jnp.inf, jnp.nan)
        return jnp.where(self.is_improper, unknown, found)

    @property
    def maximum(self) -> BlockVector:
        """The point of the largest density."""
        found = jax.tree.map(jnp.add, self.mode, self.step)
        return found if self.shear is None else self.shear.apply(found)

    def draw(self, key: jax.Array) -> tuple[BlockVector, jax.Array]:
        """A draw from the normal distribution with this density, and its log density.

        The log density has an axis for each plate if `height` has.
        """
        leaves, tree = jax.tree.flatten(self.mode)
        keys = jax.random.split(key, len(leaves))
        noise = [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
        noise[0] = jnp.where(self.layout.padding, 0, noise[0])
        spread = self.factor.solve_transposed(jax.tree.unflatten(tree, noise))
        drawn = jax.tree.map(lambda *parts: sum(parts), self.mode, self.step, spread)
        inner, border = noise
        squares = self._total(jnp.sum(inner**2, (1, 2))) + jnp.sum(border**2)
        log_prob = self.log_det - self._num_each * _LOG_TWO_PI / 2 - squares / 2
        return drawn if self.shear is None else self.shear.apply(drawn), log_prob


def negative_hessian(layout: BlockLayout, multiply: Any, dtype: Any) -> BlockMatrix:
    """Minus the Hessian, by its products with a few vectors."""
    return layout.hessian(negated(multiply), dtype)


def precision_of(layout: BlockLayout, multiply: Any, dtype: Any) -> BlockMatrix:
    """The precision: minus the Hessian, and the identity where a block is padded."""
    negative = negative_hessian(layout, multiply, dtype)
    if not layout.padding.any():
        return negative
    padding = jnp.asarray(layout.padding, dtype)
    one = padding[None, :, :, None] * jnp.eye(layout.size_of_block, dtype=dtype)[None, None]
    return dataclasses.replace(negative, diagonal=negative.diagonal + one)


def border_of(layout: BlockLayout, multiply: Any, dtype: Any, matrix: BlockMatrix) -> BlockMatrix:
    """A precision with the inner blocks of another, and a border of its own."""
    sides, border = layout.border_of_hessian(negated(multiply), dtype)
    return dataclasses.replace(matrix, sides=sides, border=border)


def negated(multiply: Any) -> Any:
    """Minus the product of a matrix with a vector, as a function of the vector."""
    return lambda x: jax.tree.map(jnp.negative, multiply(x))
