"""Layout of the elements of several sites in blocks of elements that scores couple.

The precision matrix of jointly normal sites has an entry for each pair of elements that one score
depends on. `coupled_elements.find_layout` finds the plates among the axes of the sites, whose
elements no score couples, and the axis that is the time of a chain. The sites that have all plates
and the time are inner. Sites that only the first step depends on lead the chain, as a block before
it. All other sites make the border.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest.survey import Path
from ppl.marginal.block_matrices import BlockMatrix, BlockVector
from ppl.marginal.element_dependence import Indexed


@dataclasses.dataclass(frozen=True)
class RecordedAxes:
    """Shape of a recorded inner site, and the order that puts plates first, then time."""

    shape: tuple[int, ...]
    order: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class BlockLayout:
    """Layout of the sites of an integral as a vector: inner entries by plate and step, a border.

    Attributes:
        inner: The inner sites with their axes in order.
        shapes: The shapes of the sites of the border.
        plates: The sizes of the plates.
        num_steps: The length of the chain.
        reach: The largest distance, in steps, between two elements that share a score.
        score_axes: For each score, its axes along the plates; None if the plates are not
            independent, as with a border, or if an index reads them.
        step_axes: For each score, its axis along the steps, None for a score outside of the chain.
            None without a chain, or if a score depends on more than a step and the step before.
        is_reversed: Whether the last step comes first.
        group_axes: For each score, its axes along the plates, or the indices by which it reads
            the plates; None if the plates are not independent, as with a border.
        leading: The sites with all plates that only the first step depends on, such as initial
            states. They make a block of their own, padded to the size of a block.
        leads_at_end: Whether the step that depends on them is the last in the program's order.
    """

    inner: Mapping[Path, RecordedAxes]
    shapes: Mapping[Path, tuple[int, ...]]
    plates: tuple[int, ...] = (0,)
    num_steps: int = 1
    reach: int = 0
    score_axes: Mapping[Path, tuple[int, ...]] | None = None
    step_axes: Mapping[Path, int | None] | None = None
    is_reversed: bool = False
    group_axes: Mapping[Path, tuple[int | Indexed, ...]] | None = None
    leading: Mapping[Path, RecordedAxes] = dataclasses.field(default_factory=dict)
    leads_at_end: bool = False

    @property
    def num_plates(self) -> int:
        """The number of elements of all plates together."""
        return math.prod(self.plates)

    @property
    def _steps_in_block(self) -> int:
        return max(self.reach, 1)

    @property
    def num_blocks(self) -> int:
        """The number of blocks; along the chain a block holds `reach` steps, at least one."""
        return -(-self.num_steps // self._steps_in_block) + bool(self.leading)

    @property
    def size_of_step(self) -> int:
        """The number of inner elements for each element of the plates and step."""
        count = self.num_plates * self.num_steps
        return sum(math.prod(p.shape) for p in self.inner.values()) // max(count, 1)

    @property
    def size_of_block(self) -> int:
        """The size of a diagonal block."""
        return self.size_of_step * self._steps_in_block

    @property
    def size_of_lead(self) -> int:
        """The number of elements of leading sites for each element of the plates."""
        return sum(math.prod(p.shape) for p in self.leading.values()) // max(self.num_plates, 1)

    @property
    def size_of_border(self) -> int:
        """The number of elements in the border."""
        return sum(map(math.prod, self.shapes.values()))

    @property
    def num_independent(self) -> int:
        """The number of parts that are independent of each other."""
        return 1 if self.size_of_border else self.num_plates

    @property
    def size_as_whole(self) -> int:
        """The largest number of elements that are coupled as a whole."""
        return max(self.size_of_block, self.size_of_border)

    @property
    def num_shears(self) -> int:
        """The number of levels of elements that can be measured from their means given others."""
        return int(self.num_plates > 0 and self.size_of_border > 0)

    @property
    def inner_sites(self) -> frozenset[Path]:
        """The sites without an element in the border."""
        return frozenset([*self.inner, *self.leading])

    @property
    def is_diagonal(self) -> bool:
        """Whether no two elements are coupled, once each level is measured from its mean."""
        return self.num_blocks * self.size_of_block <= 1 and self.size_of_border <= 1

    @property
    def num_elements(self) -> int:
        """The number of elements of all sites."""
        size_of_chain = self.size_of_lead + self.num_steps * self.size_of_step
        return self.size_of_border + self.num_plates * size_of_chain

    def zeros(self, dtype: Any) -> BlockVector:
        """A vector of zeros."""
        shape = self.num_plates, self.num_blocks, self.size_of_block
        return BlockVector(jnp.zeros(shape, dtype), jnp.zeros(self.size_of_border, dtype))

    def total(self, scores: Mapping[Path, jax.Array]) -> jax.Array:
        """The sum of scores, for each element of the plates if the plates are independent."""
        if self.score_axes is None:
            return functools.reduce(jnp.add, map(jnp.sum, scores.values()))
        found = []
        for path, score in scores.items():
            axes = self.score_axes[path]
            others = [i for i in range(score.ndim) if i not in axes]
            found.append(
                jnp.sum(jnp.transpose(score, (*axes, *others)), range(len(axes), score.ndim))
            )
        return functools.reduce(jnp.add, found)

    def total_of_groups(
        self, scores: Mapping[Path, jax.Array], uses: Mapping[Path, Sequence[int | Indexed]]
    ) -> jax.Array:
        """The sum of scores for each element of the plates; scores may read plates by indices."""
        found = jnp.zeros(self.plates, jnp.result_type(*scores.values()))
        for path, score in scores.items():
            along = jnp.indices(score.shape, sparse=True)
            index = []
            for use in uses[path]:
                if isinstance(use, int):
                    index.append(along[use])
                    continue
                array = jnp.transpose(jnp.asarray(use.read()), np.argsort(use.axes).tolist())
                others = [i for i in range(score.ndim) if i not in use.axes]
                index.append(jnp.expand_dims(array, others))
            where = tuple(jnp.broadcast_to(i, score.shape) for i in index)
            found = found.at[where].add(score, mode="clip")  # as reading by an index does
        return found

    @property
    def has_steps(self) -> bool:
        """Whether the scores of each step can be summed by themselves."""
        is_apart = self.num_plates == 1 or self.score_axes is not None
        return self.step_axes is not None and is_apart

    def total_of_steps(self, scores: Mapping[Path, jax.Array]) -> jax.Array:
        """The sum of scores of each block in order, of shape (n, t), for blocks of one step.

        Scores outside of the chain are added to the first block.
        """
        assert self.step_axes is not None
        found = jnp.zeros((self.num_plates, self.num_blocks))
        for path, score in scores.items():
            axes = (self.score_axes or {}).get(path, ())
            time = self.step_axes[path]
            front = axes if time is None else (*axes, time)
            others = [i for i in range(score.ndim) if i not in front]
            score = jnp.sum(jnp.transpose(score, (*front, *others)), range(len(front), score.ndim))
            score = score.reshape(self.num_plates, 1 if time is None else -1)
            score = jnp.flip(score, 1) if self.is_reversed else score
            first = 0 if time is None else bool(self.leading)
            found = found.astype(score.dtype).at[:, first : first + score.shape[1]].add(score)
        return found

    @property
    def shape_of_steps(self) -> tuple[int, ...]:
        """The sizes of the plates, if scores keep them apart, and the number of steps."""
        return (*(self.plates if self.score_axes else ()), self.num_steps)

    def arrange_steps(self, found: jax.Array) -> jax.Array:
        """Numbers of steps, of shape (n, t), with the axes of plates and in program order."""
        found = jnp.flip(found, 1) if self.is_reversed else found
        return found.reshape(self.shape_of_steps)

    def values(self, x: BlockVector) -> dict[Path, jax.Array]:
        """The values of all sites."""
        found = {}
        start = 0
        for path, shape in self.shapes.items():
            size = math.prod(shape)
            found[path] = x.border[start : start + size].reshape(shape)
            start += size
        if not self.inner:
            return found
        if not self.inner:
            return found
        chain = x.inner
        if self.leading:
            first = self.num_blocks - 1 if self.leads_at_end else 0
            found |= _values_of_steps(self.leading, x.inner[:, first : first + 1])
            chain = x.inner[:, :-1] if self.leads_at_end else x.inner[:, 1:]
        steps = chain.reshape(self.num_plates, -1, self.size_of_step)[:, : self.num_steps]
        return found | _values_of_steps(self.inner, steps)

    def like(self, matrix: Any) -> "BlockLayout":
        """The layout with the indices of a matrix."""
        return self

    def matrix(self, diagonal: jax.Array, below: jax.Array, sides: jax.Array, border: Any) -> Any:
        """A matrix with this layout."""
        return BlockMatrix(diagonal, below, sides, border)

    def hessian(self, multiply: Callable[[BlockVector], BlockVector], dtype: Any) -> BlockMatrix:
        """A symmetric matrix with this layout, from its products with a few vectors.

        Args:
            multiply: The product with a vector.
            dtype: The dtype of the matrix.
        """
        inner = self.blocks_of_hessian(multiply, dtype)
        return BlockMatrix(*inner, *self.border_of_hessian(multiply, dtype))

    def blocks_of_hessian(
        self, multiply: Callable[[BlockVector], BlockVector], dtype: Any
    ) -> tuple[jax.Array, jax.Array]:
        """The diagonal blocks of a symmetric matrix, and the blocks below these."""
        n = self.num_plates
        t = self.num_blocks
        d = self.size_of_block
        colors = min(t, 3)  # Blocks of one color are no neighbors.
        zeros = self.zeros(dtype)
        first = np.arange(t)[:, None] % colors * d

        def column(i: Any) -> jax.Array:
            one_hot = (first + jnp.arange(d)[None] == i).astype(dtype)
            inner = jnp.broadcast_to(one_hot, (n, t, d))
            return multiply(dataclasses.replace(zeros, inner=inner)).inner

        if not d:
            return jnp.zeros((n, t, d, d), dtype), jnp.zeros((n, t - 1, d, d), dtype)
        if colors * d == 1:
            ones = dataclasses.replace(zeros, inner=jnp.ones((n, t, d), dtype))
            return multiply(ones).inner[..., None], jnp.zeros((n, 0, d, d), dtype)
        found = jax.vmap(column)(jnp.arange(colors * d)).reshape(colors, d, n, t, d)
        below = _pick_rows(found, 1) if t > 1 else jnp.zeros((n, 0, d, d), dtype)
        return _pick_rows(found, 0), below

    def border_of_hessian(
        self, multiply: Callable[[BlockVector], BlockVector], dtype: Any
    ) -> tuple[jax.Array, jax.Array]:
        """The border columns of a symmetric matrix: inner rows, and border rows."""
        zeros = self.zeros(dtype)
        m = self.size_of_border
        if not m:
            return jnp.zeros((*zeros.inner.shape, 0), dtype), jnp.zeros((0, 0), dtype)

        def column(i: Any) -> BlockVector:
            return multiply(dataclasses.replace(zeros, border=(jnp.arange(m) == i).astype(dtype)))

        if m == 1:
            found = multiply(dataclasses.replace(zeros, border=jnp.ones(1, dtype)))
            return found.inner[..., None], found.border[..., None]
        found = jax.vmap(column, out_axes=-1)(jnp.arange(m))
        return found.inner, found.border

    @property
    def padding(self) -> np.ndarray:
        """Mask of the entries that pad the last block past the last step, and leading sites."""
        size = self.size_of_block
        num = self.num_blocks - bool(self.leading)
        count = np.arange(num * size).reshape(num, size)
        chain = count >= self.num_steps * self.size_of_step
        if not self.leading:
            return chain
        lead = np.arange(size)[None] >= self.size_of_lead
        return np.concatenate([chain, lead] if self.leads_at_end else [lead, chain])


def _values_of_steps(sites: Mapping[Path, RecordedAxes], steps: jax.Array) -> dict[Path, jax.Array]:
    """The values of sites that stand side by side in each step, of shape (n, t, d)."""
    found = {}
    start = 0
    for path, place in sites.items():
        size = math.prod(place.shape) // math.prod(steps.shape[:2])
        moved = tuple(place.shape[i] for i in place.order)
        part = steps[:, :, start : start + size].reshape(moved)
        found[path] = jnp.transpose(part, tuple(np.argsort(place.order).tolist()))
        start += size
    return found


def _pick_rows(columns: jax.Array, shift: int) -> jax.Array:
    """The blocks `shift` rows below the diagonal, from products with colored columns.

    Args:
        columns: The products, of shape (colors, d, n, t, d).
        shift: 0 for the diagonal, 1 for the blocks below it.
    """
    colors, _, _, t, _ = columns.shape
    found = columns[:, :, :, shift:]
    color = (np.arange(t - shift) % colors)[None, None, :, None]
    picked = found[0]
    for i in range(1, colors):
        picked = jnp.where(color == i, found[i], picked)
    return jnp.transpose(picked, (1, 2, 3, 0))
