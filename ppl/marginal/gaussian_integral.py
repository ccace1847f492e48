"""Gaussian integral: the log probability of a program with jointly normal sites integrated out."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ppl.harvest import jax_core
from ppl.harvest.survey import Path, describe_all
from ppl.marginal.block_integral import (
    BlockIntegral,
    LogDensity,
    is_single,
    sheared,
    value_and_slope,
)
from ppl.marginal.block_layout import BlockLayout
from ppl.marginal.block_matrices import BlockVector, InnerSolution, Shear, vary_like
from ppl.marginal.completed_square import CompletedSquare, border_of, precision_of
from ppl.marginal.degree import Degree
from ppl.marginal.tree_layout import TreeLayout


@dataclasses.dataclass(frozen=True, eq=False)
class GaussianIntegral(BlockIntegral):
    """Integral of the density of a program over sites that are jointly normal given all others."""

    strategy: ClassVar[str] = "ppl.Gaussian"

    def check(self) -> None:
        """Check that the program has an integral: it shows real sites with a quadratic density.

        Raises:
            ValueError: If a site is not real, or not jointly normal with the others.
        """
        _ = self._degrees

    @functools.cached_property
    def _degrees(self) -> dict[Path, Degree]:
        return self._traced.check(self.sites)

    def _complete_square(
        self, layout: BlockLayout, group: tuple[Path, ...], log_density: LogDensity
    ) -> CompletedSquare:
        """The log density as a quadratic form about its maximum.

        The integral does not depend on the point of expansion, so the maximum gets no derivative.
        Two steps reduce rounding errors in single precision. The form is expanded about the
        maximum, as large terms would cancel in a form about 0. Inner elements are replaced by their
        differences from their means given the border, as large terms would cancel in the precision
        of the border if inner elements have a small scale. This shear changes no volume, and
        uncouples inner elements and border.
        """
        dtype = self._dtype(group)
        fixed = lax.stop_gradient
        zeros = self._start(group, log_density)
        slope, multiply = jax.linearize(_gradient_of(log_density), zeros)
        multiply = vary_like(zeros, multiply)
        is_finite = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(slope)]
        matrix = precision_of(layout, multiply, dtype)
        solve = _solve_by_level if isinstance(layout, TreeLayout) else _solve
        found = solve(layout, log_density, slope, multiply, matrix)
        mode = found.mode
        if found.shear is not None:
            log_density = sheared(log_density, found.shear)
        if is_single(dtype):  # One step of iterative refinement.
            step = fixed(_gradient_of(log_density)(mode))
            step = found.factor.solve_transposed(found.factor.solve(step))
            mode = jax.tree.map(jnp.add, mode, step)
        mode = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0), mode)  # if improper
        height, slope = value_and_slope(log_density, mode)
        square = CompletedSquare(
            mode, height, slope, found.matrix, found.factor, layout, found.shear, found.inverse
        )
        is_wrong = jnp.any(square.is_improper) & jnp.all(jnp.stack(is_finite))
        if not jax_core.is_traced(is_wrong) and is_wrong:
            raise ValueError(
                f"marginalize: {describe_all(group)} are improper given the rest: their precision "
                "matrix is not positive definite. Give each a proper prior, or data that tell all "
                "of them apart."
            )
        return square


def _gradient_of(log_density: LogDensity) -> Callable[[BlockVector], BlockVector]:
    return jax.grad(lambda x: jnp.sum(log_density(x)))


class _Solution(NamedTuple):
    """A quadratic form after a shear, and its maximum; the blocks of the inverse, if known."""

    shear: Any
    matrix: Any
    factor: Any
    inverse: Any
    mode: BlockVector


def _solve(
    layout: BlockLayout,
    log_density: LogDensity,
    slope: BlockVector,
    multiply: Callable[[BlockVector], BlockVector],
    matrix: Any,
) -> _Solution:
    """The maximum by two passes over the steps, which know the shear before the border."""
    fixed = lax.stop_gradient
    solution = InnerSolution.of(fixed(matrix), fixed(slope.inner))
    shear = None
    if slope.inner.size and slope.border.size:
        shear = Shear(jnp.where(jnp.isfinite(solution.shear), solution.shear, 0))
        slope = shear.project(slope)
        matrix = border_of(layout, _sheared_product(multiply, shear), slope.inner.dtype, matrix)
    factor, inverse = solution.with_border(fixed(matrix.border))
    mode = solution.complete(factor, fixed(slope.border))
    return _Solution(shear, matrix, factor, inverse, mode)


def _solve_by_level(
    layout: BlockLayout,
    log_density: LogDensity,
    slope: BlockVector,
    multiply: Callable[[BlockVector], BlockVector],
    matrix: Any,
) -> _Solution:
    """The maximum for effects nested in effects, whose levels are sheared one after the other."""
    fixed = lax.stop_gradient
    factor, half = fixed(matrix).factor_and_solve(fixed(slope))
    zeros = jax.tree.map(jnp.zeros_like, slope)
    dtype = slope.inner.dtype
    shear = None
    for depth in range(layout.num_shears if is_single(dtype) else 0):
        more: Any = factor.shear(depth)
        shear = more if shear is None else shear.join(more)
        slope, multiply = jax.linearize(_gradient_of(sheared(log_density, shear)), zeros)
        matrix = border_of(layout, vary_like(zeros, multiply), dtype, matrix)
        factor, half = factor.replace_border_and_solve(fixed(matrix), fixed(slope))
    return _Solution(shear, matrix, factor, None, factor.solve_transposed(half))


def _sheared_product(
    multiply: Callable[[BlockVector], BlockVector], shear: Shear
) -> Callable[[BlockVector], BlockVector]:
    """Products with a symmetric matrix after a shear on both of its sides."""
    return lambda x: shear.project(multiply(shear.apply(x)))
