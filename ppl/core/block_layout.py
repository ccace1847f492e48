"""Layout of the elements of several sites, by which of them scores couple.

The precision matrix of jointly normal sites has an entry for each pair of elements that one score
depends on. `find_layout` tells from the scopes of all scores which axes of the sites are plates,
whose elements no score couples, and which axis is the time of a chain. The sites that have all of
these axes are inner; all others make the border.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.analysis.element_dependence import ALL, Aligned, Indexed, Use
from ppl.analysis.scopes import Scope
from ppl.core.block_matrices import BlockMatrix, BlockVector
from ppl.harvest._survey import Path

Axis = tuple[Path, int]  # an axis of a site: in the body, then the loops, innermost first
Key = tuple[Any, ...]  # the index of an element along an axis, as an element of a score reads it


@dataclasses.dataclass(frozen=True)
class Place:
    """The axes of an inner site as it is recorded: plates, time, and the others behind them."""

    shape: tuple[int, ...]
    order: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class BlockLayout:
    """A layout.

    Attributes:
        inner: The inner sites with their axes in order.
        shapes: The shapes of the sites of the border.
        plates: The sizes of the plates.
        num_steps: The length of the chain.
        reach: How many steps apart elements may be that one score depends on.
        score_axes: For each score, its axes along the plates; None if elements of the plates are
            not apart, as there is a border, or an index reads them.
    """

    inner: Mapping[Path, Place]
    shapes: Mapping[Path, tuple[int, ...]]
    plates: tuple[int, ...] = (0,)
    num_steps: int = 1
    reach: int = 0
    score_axes: Mapping[Path, tuple[int, ...]] | None = None

    @property
    def num_plates(self) -> int:
        """The number of elements of all plates together."""
        return math.prod(self.plates)

    @property
    def _steps_in_block(self) -> int:
        return max(self.reach, 1)

    @property
    def num_blocks(self) -> int:
        """The number of blocks along the chain; each holds as many steps as scores reach."""
        return -(-self.num_steps // self._steps_in_block)

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
    def size_of_border(self) -> int:
        """The number of elements in the border."""
        return sum(map(math.prod, self.shapes.values()))

    @property
    def num_elements(self) -> int:
        """The number of elements of all sites."""
        return self.size_of_border + self.num_plates * self.num_steps * self.size_of_step

    def zeros(self, dtype: Any) -> BlockVector:
        """A vector of zeros."""
        shape = self.num_plates, self.num_blocks, self.size_of_block
        return BlockVector(jnp.zeros(shape, dtype), jnp.zeros(self.size_of_border, dtype))

    def total(self, scores: Mapping[Path, jax.Array]) -> jax.Array:
        """The sum of scores, for each element of the plates if these are apart."""
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

    def values(self, x: BlockVector) -> dict[Path, jax.Array]:
        """The values of all sites."""
        found, start = {}, 0
        for path, shape in self.shapes.items():
            size = math.prod(shape)
            found[path] = x.border[start : start + size].reshape(shape)
            start += size
        if not self.inner:
            return found
        steps = x.inner.reshape(self.num_plates, -1, self.size_of_step)[:, : self.num_steps]
        start = 0
        for path, place in self.inner.items():
            size = math.prod(place.shape) // (self.num_plates * self.num_steps)
            moved = tuple(place.shape[i] for i in place.order)
            part = steps[:, :, start : start + size].reshape(moved)
            found[path] = jnp.transpose(part, tuple(np.argsort(place.order).tolist()))
            start += size
        return found

    def hessian(self, multiply: Callable[[BlockVector], BlockVector], dtype: Any) -> BlockMatrix:
        """A symmetric matrix with this layout, from its products with a few vectors.

        Args:
            multiply: The product with a vector.
            dtype: The dtype of the matrix.
        """
        n, t, d = self.num_plates, self.num_blocks, self.size_of_block
        colors = min(t, 3)  # Blocks of one color are no neighbors.
        zeros = self.zeros(dtype)
        steps = np.arange(t)[:, None]

        def inner_column(color: Any, i: Any) -> BlockVector:
            one_hot = (steps % colors == color) & (jnp.arange(d)[None] == i)
            return multiply(
                dataclasses.replace(zeros, inner=jnp.broadcast_to(one_hot, (n, t, d)).astype(dtype))
            )

        diagonal = jnp.zeros((n, t, d, d), dtype)
        below = jnp.zeros((n, t - 1, d, d), dtype)
        if d:
            columns = jax.vmap(jax.vmap(inner_column, (None, 0)), (0, None))
            found = columns(jnp.arange(colors), jnp.arange(d)).inner  # (colors, d, n, t, d)
            diagonal = _pick_rows(found, 0)
            below = _pick_rows(found, 1) if t > 1 else below
        return BlockMatrix(diagonal, below, *self.border_of_hessian(multiply, dtype))

    def border_of_hessian(
        self, multiply: Callable[[BlockVector], BlockVector], dtype: Any
    ) -> tuple[jax.Array, jax.Array]:
        """The columns of the border of a symmetric matrix: its inner entries, and the others."""
        zeros, m = self.zeros(dtype), self.size_of_border
        if not m:
            return jnp.zeros((*zeros.inner.shape, 0), dtype), jnp.zeros((0, 0), dtype)

        def column(i: Any) -> BlockVector:
            return multiply(dataclasses.replace(zeros, border=(jnp.arange(m) == i).astype(dtype)))

        found = jax.vmap(column, out_axes=-1)(jnp.arange(m))
        return found.inner, found.border

    @property
    def padding(self) -> np.ndarray:
        """For each entry of a block of the chain, whether it belongs to no step."""
        count = np.arange(self.num_blocks * self.size_of_block)
        is_padding = count >= self.num_steps * self.size_of_step
        return is_padding.reshape(self.num_blocks, self.size_of_block)


def _pick_rows(columns: jax.Array, shift: int) -> jax.Array:
    """The blocks some rows below the diagonal, of columns by color (colors, d, n, t, d)."""
    colors, _, _, t, _ = columns.shape
    found = columns[:, :, :, shift:]
    color = (np.arange(t - shift) % colors)[:, None]
    found = functools.reduce(jnp.add, (jnp.where(color == i, x, 0) for i, x in enumerate(found)))
    return jnp.transpose(found, (1, 2, 3, 0))


def find_layout(
    scopes: Mapping[Path, Scope], sites: Collection[Path], shapes: Mapping[Path, tuple[int, ...]]
) -> BlockLayout:
    """The layout of some sites.

    Args:
        scopes: The scopes of all scores that depend on the sites, and of the sites themselves.
        sites: The sites.
        shapes: The shapes of their values.
    """
    reads = [_read(scope, path, path in sites, shapes) for path, scope in scopes.items()]
    axes = [(path, i) for path in sites for i in range(len(shapes[path]))]
    classes = _Axes(axes, reads, lambda axis: _length(axis, scopes, shapes))
    best, size = None, 1
    for path in sites:
        mine = classes.of_site(path, len(shapes[path]))
        recorded = _recorded_axes(scopes[path], len(shapes[path]))
        mine = dict(sorted(mine.items(), key=lambda item: recorded.index(item[1])))
        count = math.prod(classes.length(c) for c in mine)
        if count > size:
            best, size = mine, count
    if best is None:
        return BlockLayout({}, {path: shapes[path] for path in sites})
    time = next((c for c in best if classes.reach(c)), None)
    plates = [c for c in best if c != time]
    score_axes = {
        path: _axes_of_score(scopes[path], read, plates)
        for path, read in zip(scopes, reads, strict=True)
    }
    inner = {}
    for path in sites:
        ndim = len(shapes[path])
        mine = classes.of_site(path, ndim)
        if set(mine) == set(best):
            recorded = _recorded_axes(scopes[path], ndim)
            wanted = [mine[c] for c in plates] + ([mine[time]] if time is not None else [])
            wanted += [i for i in range(ndim) if i not in wanted]
            inner[path] = Place(shapes[path], tuple(recorded.index(i) for i in wanted))
    border = {path: shapes[path] for path in sites if path not in inner}
    are_apart = plates and not border and all(x is not None for x in score_axes.values())
    return BlockLayout(
        inner,
        border,
        tuple(classes.length(c) for c in plates),
        1 if time is None else classes.length(time),
        0 if time is None else classes.reach(time),
        score_axes if are_apart else None,  # pyright: ignore[reportArgumentType]
    )


def _axes_of_score(
    scope: Scope, reads: "Sequence[Read]", plates: Sequence[frozenset[Axis]]
) -> tuple[int, ...] | None:
    """The axes of a score as it is recorded along the plates; None if it lacks one."""
    found = []
    for plate in plates:
        keys = {key for axis, key, _ in reads if axis in plate}
        key = keys.pop() if len(keys) == 1 else None
        if key is None or key[0] != "aligned":
            return None
        found.append(scope.layout.index(key[1]))
    return tuple(found)


def _recorded_axes(scope: Scope, ndim: int) -> list[int]:
    """For each axis of a value as it is recorded, its axis in the body or its loop."""
    num_inner = ndim - len(scope.loops)
    order = list(range(num_inner))
    for depth in range(len(scope.loops)):
        order.insert(scope.site.num_axes_outside(depth + 1), num_inner + depth)
    return order


def _length(
    axis: Axis, scopes: Mapping[Path, Scope], shapes: Mapping[Path, tuple[int, ...]]
) -> int:
    path, i = axis
    shape = shapes[path]
    return shape[_recorded_axes(scopes[path], len(shape)).index(i)]


Read = tuple[Axis, Key | None, frozenset[int]]  # an axis, its index in a score (None: all), lags


def _read(
    scope: Scope, path: Path, is_site: bool, shapes: Mapping[Path, tuple[int, ...]]
) -> list[Read]:
    """The index along each axis by which an element of a score reads it."""
    found: list[Read] = []
    for source, uses in scope.uses.items():
        found += [((source.path, i), *_key(use)) for i, use in enumerate(uses)]
    if is_site:
        found += [((path, i), *_key(use)) for i, use in enumerate(_own(scope, shapes[path]))]
    return found


def _own(scope: Scope, shape: tuple[int, ...]) -> list[Use]:
    """The elements of its own value that an element of a score reads: events as a whole."""
    num_loops = len(scope.loops)
    num_batch = len(scope.shape) - num_loops
    num_body = len(shape) - num_loops
    own: list[Use] = [Aligned(i) if i < num_batch else ALL for i in range(num_body)]
    return own + [Aligned(num_batch + i) for i in range(num_loops)]


def _key(use: Use) -> tuple[Key | None, frozenset[int]]:
    match use:
        case Aligned(axis, lags):
            return ("aligned", axis), lags
        case Indexed(axes, term):
            return ("indexed", axes, term), frozenset([0])
    return None, frozenset([0])


class _Axes:
    """Classes of axes whose elements correspond, as far as no score couples all of them."""

    def __init__(
        self, axes: Sequence[Axis], reads: Sequence[Sequence[Read]], length: Callable[[Axis], int]
    ):
        self._length = length
        self._class = {axis: frozenset([axis]) for axis in axes}
        for score in reads:
            for a, key, _ in score:
                for b, other, _ in score:
                    if key is not None and key == other:
                        self._join(a, b)
        self._reach: dict[frozenset[Axis], float] = {}
        for each in set(self._class.values()):
            self._reach[each] = max((self._reach_in(score, each) for score in reads), default=0)
        lagged = sorted(
            (c for c, reach in self._reach.items() if 0 < reach < math.inf), key=self._order
        )
        for each in lagged[1:]:  # One chain only: other times are dense.
            self._reach[each] = math.inf

    def _order(self, each: frozenset[Axis]) -> Any:
        return -self.length(each), repr(sorted(each, key=repr))

    def _join(self, a: Axis, b: Axis) -> None:
        united = self._class[a] | self._class[b]
        for axis in united:
            self._class[axis] = united

    def _reach_in(self, score: Sequence[Read], each: frozenset[Axis]) -> float:
        """The steps between elements of a class that a score reads; infinity if it is dense."""
        mine = [(axis, key, lags) for axis, key, lags in score if axis in each]
        is_same = len({key for _, key, _ in mine}) <= 1 and all(k is not None for _, k, _ in mine)
        lengths = {self._length(axis) for axis in each}
        own_axes = [path for path, _ in each]
        if not is_same or len(lengths) > 1 or len(set(own_axes)) < len(own_axes):
            return math.inf
        lags = frozenset().union(*(lags for _, _, lags in mine))
        return max(lags) - min(lags) if lags else 0

    def length(self, each: frozenset[Axis]) -> int:
        """The length of the axes of a class."""
        return self._length(next(iter(each)))

    def reach(self, each: frozenset[Axis]) -> int:
        """The number of steps between elements of a class that one score may depend on."""
        return int(self._reach[each])

    def of_site(self, path: Path, ndim: int) -> dict[frozenset[Axis], int]:
        """The classes among the axes of a site that no score couples as a whole."""
        found = {self._class[path, i]: i for i in range(ndim)}
        return {c: i for c, i in found.items() if self._reach[c] < math.inf and self.length(c) > 1}
