"""Log density in two parts: scores that are quadratic in a vector, and all others.

The Hessian of the first part is computed once. The Hessian of the second often is diagonal, as the
likelihood of an effect is, and then costs one product with a vector.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ppl.harvest.survey import Path
from ppl.marginal.block_layout import BlockLayout
from ppl.marginal.block_matrices import BlockMatrix, BlockVector, vary_like
from ppl.marginal.completed_square import border_of, negated, negative_hessian, precision_of
from ppl.marginal.known_work import ScoreProgram


class Given(NamedTuple):
    """All that a log density of a vector depends on besides.

    Attributes:
        known: The known values of its scores.
        base: The precision of the scores that are quadratic.
        shear: The linear map from the border to an offset of inner entries; None for no offset.
    """

    known: Sequence[Any]
    base: BlockMatrix
    shear: Any = None


class Expansion(NamedTuple):
    """The height, the gradient and the precision of a log density at a point."""

    height: jax.Array
    slope: BlockVector
    matrix: BlockMatrix


@dataclasses.dataclass(frozen=True, eq=False)
class SplitDensity:
    """A log density as a function of a vector and of what is given.

    Attributes:
        layout: The layout of the vector.
        dtype: Its dtype.
        scores: The scores.
        total: Their sum, or a number for each independent plate.
        others: The paths of scores that are not quadratic.
        is_diagonal: Whether no two inner elements share one of the other scores; without inner
            elements, whether no two elements of the border do.
    """

    layout: BlockLayout
    dtype: Any
    scores: ScoreProgram
    total: Callable[[Mapping[Path, jax.Array]], jax.Array]
    others: frozenset[Path]
    is_diagonal: bool

    @functools.cached_property
    def heights(self) -> jax.ShapeDtypeStruct:
        """The shape of the log density: a number, or a number for each independent plate."""
        return jax.eval_shape(self.total, self.scores.shapes)

    def give(self, known: Sequence[Any], start: BlockVector) -> Given:
        """All that is given, for inner entries without an offset."""
        quadratic = frozenset(self.scores.scores) - self.others
        multiply = self._multiply(known, None, quadratic, start)
        return Given(known, precision_of(self.layout, multiply, self.dtype))

    def shear(self, given: Given, start: BlockVector, shear: Any) -> Given:
        """All that is given, for inner entries that are offsets from a map of the border."""
        quadratic = frozenset(self.scores.scores) - self.others
        shear = shear if given.shear is None else given.shear.join(shear)
        multiply = self._multiply(given.known, shear, quadratic, start)
        layout = self.layout.like(given.base)
        base = border_of(layout, multiply, self.dtype, given.base)
        return Given(given.known, base, shear)

    def expand(self, given: Given, x: BlockVector) -> Expansion:
        """The expansion of the log density to second order about a point."""
        quadratic = frozenset(self.scores.scores) - self.others
        own, scores = self._slope(given.known, given.shear, quadratic, x)
        slope_of = functools.partial(self._slope, given.known, given.shear, self.others)
        slope, multiply, more = jax.linearize(slope_of, x, has_aux=True)
        slope = jax.tree.map(jnp.add, own, slope)
        scores = {**scores, **more}
        height = self.total({path: scores[path] for path in self.scores.scores})
        if not self.others:
            return Expansion(height, slope, given.base)
        layout = self.layout.like(given.base)
        matrix = given.base.add(self._other_precision(layout, vary_like(x, multiply)))
        return Expansion(height, slope, matrix)

    def slope(self, given: Given, x: BlockVector) -> BlockVector:
        """The gradient in the vector."""
        return self._slope(given.known, given.shear, frozenset(self.scores.scores), x)[0]

    def precision(self, given: Given, x: BlockVector) -> BlockMatrix:
        """Minus the Hessian, and the identity where a block is padded."""
        if not self.others:
            return given.base
        multiply = self._multiply(given.known, given.shear, self.others, x)
        return given.base.add(self._other_precision(self.layout.like(given.base), multiply))

    def _other_precision(
        self, layout: BlockLayout, multiply: Callable[[BlockVector], BlockVector]
    ) -> BlockMatrix:
        if not self.is_diagonal:
            return negative_hessian(layout, multiply, self.dtype)
        zeros = layout.zeros(self.dtype)
        n, t, d = zeros.inner.shape
        below = jnp.zeros((n, max(t - 1, 0), d, d), self.dtype)
        if not zeros.inner.size:
            found = multiply(dataclasses.replace(zeros, border=jnp.ones_like(zeros.border)))
            sides = jnp.zeros((n, t, d, zeros.border.size), self.dtype)
            return BlockMatrix(_diagonal(zeros.inner), below, sides, -_diagonal(found.border))
        found = multiply(dataclasses.replace(zeros, inner=jnp.ones_like(zeros.inner)))
        sides, border = layout.border_of_hessian(negated(multiply), self.dtype)
        return layout.matrix(-_diagonal(found.inner), below, sides, border)

    def _slope(
        self, known: Sequence[Any], shear: Any, paths: frozenset[Path], x: BlockVector
    ) -> tuple[BlockVector, dict[Path, jax.Array]]:
        """The gradient of the sum of some scores, and these scores."""
        zero = jnp.zeros((), self.dtype)

        def total(x: BlockVector) -> tuple[jax.Array, dict[Path, jax.Array]]:
            scores = self.scores(known, _sheared(x, shear), paths)
            return functools.reduce(jnp.add, map(jnp.sum, scores.values()), zero), scores

        return jax.grad(total, has_aux=True)(x)

    def _multiply(
        self, known: Sequence[Any], shear: Any, paths: frozenset[Path], x: BlockVector
    ) -> Callable[[BlockVector], BlockVector]:
        """The product of the Hessian of some scores with a vector."""
        slope = functools.partial(self._slope, known, shear, paths)
        return vary_like(x, jax.linearize(slope, x, has_aux=True)[1])


def _sheared(x: BlockVector, shear: Any) -> BlockVector:
    return x if shear is None else shear.apply(x)


def _diagonal(x: jax.Array) -> jax.Array:
    """Diagonal matrices."""
    shape = (*x.shape, x.shape[-1])
    return x[..., None] * jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), shape)
