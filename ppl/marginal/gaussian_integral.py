"""Gaussian integral: the log probability of a program with jointly normal sites integrated out."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ppl.harvest import jax_core
from ppl.harvest.survey import Path, describe_all
from ppl.marginal.block_integral import (
    BlockIntegral,
    LogDensity,
    ScoredDensity,
    is_single,
    value_and_slope,
)
from ppl.marginal.block_layout import BlockLayout
from ppl.marginal.block_matrices import (
    BlockMatrix,
    BlockVector,
    InnerSolution,
    Shear,
    vary_like,
)
from ppl.marginal.completed_square import CompletedSquare, border_of, precision_of
from ppl.marginal.degree import Degree
from ppl.marginal.known_work import ScoreProgram, split_scores
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

    def _inner_scores(self, layout: BlockLayout, group: tuple[Path, ...]) -> frozenset[Path]:
        """The scores that depend on inner elements alone, if there is a border."""
        if not layout.size_of_border:
            return frozenset()
        paths = (path for path, key in self.groups.items() if key == group)
        return frozenset(p for p in paths if self._degrees[p].variables <= layout.inner_sites)

    def _complete_square(
        self, layout: BlockLayout, group: tuple[Path, ...], log_density: ScoredDensity
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
        zeros = self._start(group, log_density)
        if isinstance(layout, TreeLayout):
            layout = dataclasses.replace(layout, read=layout.parents)
        scores = KnownScores(*split_scores(log_density.scores, zeros))
        form = _expand(layout, scores, self._inner_scores(layout, group), zeros, dtype)
        is_finite = [jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(form.slope)]
        found = (_solve_by_level if isinstance(layout, TreeLayout) else _solve)(layout, form)
        mode = found.mode
        if is_single(dtype) and not layout.is_diagonal:  # One step of iterative refinement.
            step = lax.stop_gradient(jax.grad(_sheared(scores.sum, found.shear))(mode))
            step = found.factor.solve_transposed(found.factor.solve(step))
            mode = jax.tree.map(jnp.add, mode, step)
        mode = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0), mode)  # if improper
        total = _sheared(lambda x: log_density.total(scores.of(x)), found.shear)
        height, slope = value_and_slope(total, mode)
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


@dataclasses.dataclass(frozen=True, eq=False)
class KnownScores:
    """Scores as functions of a vector alone.

    Attributes:
        program: The scores.
        known: The values that the program needs to know.
    """

    program: ScoreProgram
    known: Sequence[Any]

    def of(self, x: BlockVector, wanted: Collection[Path] | None = None) -> dict[Path, jax.Array]:
        """The scores of a vector, or some of them."""
        return self.program(self.known, x, wanted)

    def sum(self, x: BlockVector, wanted: Collection[Path] | None = None) -> jax.Array:
        """The sum of the scores of a vector, or of some of them."""
        zero = jnp.zeros((), x.inner.dtype)
        return functools.reduce(jnp.add, map(jnp.sum, self.of(x, wanted).values()), zero)

    def linearize(
        self, x: BlockVector, wanted: Collection[Path]
    ) -> tuple[BlockVector, Callable[[BlockVector], BlockVector]]:
        """The gradient of the sum of some scores, and products with their Hessian."""
        slope, multiply = jax.linearize(jax.grad(lambda x: self.sum(x, wanted)), x)
        return slope, vary_like(x, multiply)


class _Form(NamedTuple):
    """A quadratic form about 0: its gradient, products with its Hessian, and its precision."""

    slope: BlockVector
    multiply: Callable[[BlockVector], BlockVector]
    matrix: Any


def _expand(
    layout: BlockLayout, scores: KnownScores, inner: frozenset[Path], zeros: BlockVector, dtype: Any
) -> _Form:
    """The sum of the scores as a quadratic form.

    Products with the border need the program of the scores that depend on the border. The blocks of
    all others are assembled once.

    Args:
        layout: The layout of the vector.
        scores: The scores.
        inner: The paths of scores that depend on inner elements alone, apart from the rest.
        zeros: A vector of zeros.
        dtype: Its dtype.
    """
    rest = frozenset(scores.program.scores) - inner
    slope, multiply = scores.linearize(zeros, rest)
    matrix = precision_of(layout, multiply, dtype)
    if not inner:
        return _Form(slope, multiply, matrix)
    slope_inner, multiply_inner = scores.linearize(zeros, inner)
    diagonal, below = layout.blocks_of_hessian(multiply_inner, dtype)
    none = jnp.zeros((*diagonal.shape[:-1], 0), dtype), jnp.zeros((0, 0), dtype)
    blocks = BlockMatrix(diagonal, below, *none)

    def multiply_all(x: BlockVector) -> BlockVector:
        found = multiply(x)
        return dataclasses.replace(found, inner=found.inner + blocks.multiply(x).inner)

    matrix = dataclasses.replace(
        matrix, diagonal=matrix.diagonal - diagonal, below=matrix.below - below
    )
    return _Form(jax.tree.map(jnp.add, slope, slope_inner), multiply_all, matrix)


class _Solution(NamedTuple):
    """A quadratic form after a shear, and its maximum; the blocks of the inverse, if known."""

    shear: Any
    matrix: Any
    factor: Any
    inverse: Any
    mode: BlockVector


def _solve(layout: BlockLayout, form: _Form) -> _Solution:
    """The maximum by two passes over the steps, which know the shear before the border."""
    fixed = lax.stop_gradient
    slope, _, matrix = form
    solution = InnerSolution.of(fixed(matrix), fixed(slope.inner))
    shear = None
    if slope.inner.size and slope.border.size:
        shear = Shear(jnp.where(jnp.isfinite(solution.shear), solution.shear, 0))
        slope, matrix = _shear(layout, form, shear)
    factor, inverse = solution.with_border(fixed(matrix.border))
    mode = solution.complete(factor, fixed(slope.border))
    return _Solution(shear, matrix, factor, inverse, mode)


def _solve_by_level(layout: BlockLayout, form: _Form) -> _Solution:
    """The maximum for effects nested in effects, whose levels are sheared one after the other."""
    fixed = lax.stop_gradient
    slope, _, matrix = form
    factor, half = fixed(matrix).factor_and_solve(fixed(slope))
    shear = None
    for depth in range(layout.num_shears if is_single(slope.inner.dtype) else 0):
        more: Any = factor.shear(depth)
        shear = more if shear is None else shear.join(more)
        slope, matrix = _shear(layout, form, shear)
        factor, half = factor.replace_border_and_solve(fixed(matrix), fixed(slope))
    return _Solution(shear, matrix, factor, None, factor.solve_transposed(half))


def _shear(layout: BlockLayout, form: _Form, shear: Any) -> tuple[BlockVector, Any]:
    """The gradient about 0 and the precision of a form after a shear."""

    def multiply(x: BlockVector) -> BlockVector:
        return shear.project(form.multiply(shear.apply(x)))

    matrix = border_of(layout, multiply, form.slope.inner.dtype, form.matrix)
    return shear.project(form.slope), matrix


def _sheared(density: LogDensity, shear: Any) -> LogDensity:
    """A log density after a shear: inner entries are offsets from a linear map of the border."""
    return density if shear is None else lambda x: density(shear.apply(x))
