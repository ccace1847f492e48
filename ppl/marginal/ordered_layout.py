"""Layout of elements whose known couplings are a band once the elements are in order."""

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest import jax_core
from ppl.harvest.survey import Path
from ppl.marginal.block_layout import BlockLayout, RecordedAxes
from ppl.marginal.block_matrices import BlockMatrix, BlockVector
from ppl.marginal.element_order import ElementOrder, cost_of, find_order
from ppl.marginal.hessian_pattern import PatternReader, TooDense
from ppl.marginal.quadratic_scores import TracedScores

_LEAST_SIZE = 32  # of blocks that are worth an order
_LEAST_GAIN = 2.0  # in cost


@dataclasses.dataclass(frozen=True)
class OrderedLayout(BlockLayout):
    """Layout of the elements of all sites in an order of their own, in a chain of blocks.

    Sites with an element outside of the border are inner sites.

    Attributes:
        order: The order of the elements.
        sites: The shapes of all sites.
    """

    order: ElementOrder = dataclasses.field(kw_only=True)
    sites: Mapping[Path, tuple[int, ...]] = dataclasses.field(kw_only=True)

    @classmethod
    def of(cls, order: ElementOrder, sites: Mapping[Path, tuple[int, ...]]) -> "OrderedLayout":
        """The layout with an order."""
        ends = np.cumsum([math.prod(shape) for shape in sites.values()])
        owners = set(np.searchsorted(ends, order.inner, side="right").tolist())
        inner = {
            path: RecordedAxes(shape, tuple(range(len(shape))))
            for i, (path, shape) in enumerate(sites.items())
            if i in owners
        }
        num = len(order.inner)
        size = order.size_of_block
        return cls(inner, {}, (), num_steps=num, reach=size, order=order, sites=sites)

    @property
    def size_of_step(self) -> int:
        """The number of elements of a step."""
        return 1

    @property
    def size_of_border(self) -> int:
        """The number of elements in the border."""
        return len(self.order.border)

    @property
    def inner_sites(self) -> frozenset[Path]:
        """No site for sure: some elements of any site may be in the border."""
        return frozenset()

    def values(self, x: BlockVector) -> dict[Path, jax.Array]:
        """The values of all sites."""
        inner = x.inner.reshape(-1)[: self.num_steps]
        flat = _pick(jnp.concatenate([inner, x.border]), self.order.places)
        found = {}
        start = 0
        for path, shape in self.sites.items():
            size = math.prod(shape)
            found[path] = flat[start : start + size].reshape(shape)
            start += size
        return found

    def hessian(self, multiply: Callable[[BlockVector], BlockVector], dtype: Any) -> BlockMatrix:
        """A symmetric matrix with this layout, from one product for each color of its columns.

        Args:
            multiply: The product with a vector.
            dtype: The dtype of the matrix.
        """
        zeros = self.zeros(dtype)
        _, t, d = zeros.inner.shape
        order = self.order
        colors = np.full(t * d, -1)
        colors[: self.num_steps] = order.colors

        def product(color: Any) -> jax.Array:
            ones = jnp.reshape(colors == color, (1, t, d)).astype(dtype)
            return multiply(dataclasses.replace(zeros, inner=ones)).inner.reshape(-1)

        products = jax.vmap(product)(jnp.arange(order.num_colors))

        def blocks(shift: int) -> jax.Array:
            here = order.rows // d - order.columns // d == shift
            rows = order.rows[here]
            columns = order.columns[here]
            entries = _pick(products.reshape(-1), order.colors[columns] * t * d + rows)
            shape = t - shift, d, d
            at = np.ravel_multi_index((columns // d, rows % d, columns % d), shape)
            found = jnp.zeros(math.prod(shape), dtype)
            found = found.at[at].set(entries, unique_indices=True, mode="promise_in_bounds")
            return found.reshape(1, *shape)

        return BlockMatrix(blocks(0), blocks(1), *self.border_of_hessian(multiply, dtype))


def _pick(x: jax.Array, at: np.ndarray) -> jax.Array:
    """Elements of a vector, each at most once."""
    return x.at[at].get(unique_indices=True, mode="promise_in_bounds")


def find_ordered_layout(
    scores: TracedScores,
    results: Collection[Path],
    sites: Mapping[Path, tuple[int, ...]],
    known: Mapping[int, Any],
    old: BlockLayout,
) -> tuple[OrderedLayout | None, bool]:
    """The layout of sites by the pattern of their precision matrix, if that is known.

    Args:
        scores: The program of the scores.
        results: The paths of the scores whose sum has the Hessian.
        sites: The shapes of the sites.
        known: Known inputs of the program, by number.
        old: The layout without known numbers.

    Returns:
        The layout, or None if it does not cost clearly less; and whether indices are not known.
    """
    starts = {}
    size = 0
    for path, shape in sites.items():
        starts[scores.names.index(path)] = size
        size += math.prod(shape)
    reader = None
    try:
        reader = PatternReader(scores.jaxpr, known, starts, size)
        pattern = reader.read([i for i, path in enumerate(scores.scored) if path in results])
    except TooDense:
        return None, reader is not None and reader.has_unknown_index
    product = float(reader.num_computed)
    order = find_order(pattern, product)
    is_better = order.cost(product) * _LEAST_GAIN < _cost(old, product)
    return OrderedLayout.of(order, sites) if is_better else None, reader.has_unknown_index


def is_worth_order(layout: BlockLayout) -> bool:
    """Whether blocks are so large that an order of the elements may be better."""
    is_apart = layout.group_axes is not None or layout.has_steps
    return not is_apart and layout.size_as_whole >= _LEAST_SIZE


def _cost(layout: BlockLayout, product: float) -> float:
    """The cost of a factor and of the Hessian in a layout."""
    blocks, size = (layout.num_blocks, layout.size_of_block) if layout.inner else (0, 0)
    columns = min(3, blocks) * size + layout.size_of_border
    return columns * product + cost_of(blocks, size, layout.size_of_border, layout.num_plates)


def find_known_inputs(inputs: Sequence[Any]) -> dict[int, Any]:
    """The inputs of a program whose numbers are known."""
    return {
        i: x
        for i, x in enumerate(inputs)
        if x is not None and not jax_core.is_traced(x) and _is_plain(x)
    }


def _is_plain(x: Any) -> bool:
    is_number = not jnp.issubdtype(jnp.result_type(x), jax.dtypes.extended)
    return is_number and getattr(x, "is_fully_addressable", True)
