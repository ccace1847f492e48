"""Batch axes of a distribution whose leaves have been mapped, stacked or indexed.

Parameters of a distribution may have different numbers of batch axes, aligned from the right: a
scale `()` beside a location `(2,)`. ``jax.vmap``, ``lax.scan`` and stacked trees put new axes in
front of all of them, `(3,)` beside `(3, 2)`, which are no longer aligned. So the structure of a
distribution keeps the shapes that its parts had (:class:`BatchAxes`), and unflattening compares
them with the new ones:

- axes gained in front by all: axes of size 1 are put behind them, `(3, 1)` beside `(3, 2)`;
- these axes lost again: the axes of size 1 go, too;
- axes gained or lost elsewhere: parts without event axes that all gained axes at the end are still
  aligned, and so are parts with the same number of batch axes while their events are whole. All
  else is marked: it is a container of arrays, as derivatives are, and an error if used.

Arrays alone do not tell `out_axes=0` from `out_axes=-1` where sizes agree, `(2, 2)` beside `(2,)`:
new axes are then those in front. Leaves have to be aligned by themselves, and not only in methods:
JAX shares compiled functions between equal structures with leaves of equal shapes. Padding when a
distribution is flattened would tell all cases apart, but leaves would no longer be the parameters,
on which `in_axes`, shardings and derivatives rely.
"""

import dataclasses
from typing import Any

import jax

Shape = tuple[int, ...]

MEMORY = "_remembered_batch_axes"  # an attribute of a distribution that is no field

# Errors of a distribution whose leaves are objects that stand in for arrays, as JAX makes them.
_STAND_INS = AttributeError, TypeError, ValueError


@dataclasses.dataclass(frozen=True, eq=False)
class BatchAxes:
    """Shapes of the parts of a distribution; equal to all others of its class.

    A part is a distribution, with its batch shape, or an array. The shapes belong to the tree
    structure, but two structures that differ in them alone are equal: they hold the same
    distribution for arrays of other shapes. So a cache whose key is a structure needs the ranks of
    the leaves in its key as well, as all caches of JAX have.

    Attributes:
        shapes: The shape of each part before axes were gained.
        full: The number of axes of each part if it had all batch axes.
        events: The number of event axes of each part.
        num_new: The number of axes that all parts have gained in front.
        is_misaligned: Whether axes were gained or lost so that the parts are not aligned.
        is_known: Whether it is known which axes of a part are batch axes.
    """

    shapes: tuple[Shape, ...] = ()
    full: Shape = ()
    events: Shape = ()
    num_new: int = 0
    is_misaligned: bool = False
    is_known: bool = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchAxes)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "BatchAxes()"

    def align(self, children: Any) -> tuple[Any, "BatchAxes | None"]:
        """The children, aligned where possible, and the `BatchAxes` of a distribution of them."""
        try:
            parts = [part for child in children for part in _parts(child)]
            found = self._compare([_shape(part) for part in parts])
            if found is not None and not found.is_misaligned:
                if self._is_padded and not found.num_new:
                    return _map_parts(_remove, children, self._pads, 0), None
                if found.num_new and not self._is_padded:
                    return _map_parts(_insert, children, self._pads, found.num_new), found
        except _STAND_INS:
            return children, None
        return children, found if found is not None and found.num_new else None

    @property
    def _pads(self) -> Shape:
        """The number of axes that each part lacks."""
        return tuple(n - len(shape) for n, shape in zip(self.full, self.shapes, strict=True))

    @property
    def _is_padded(self) -> bool:
        return self.num_new > 0 and not self.is_misaligned

    def _compare(self, now: list[Shape]) -> "BatchAxes | None":
        """The axes of parts of these shapes; None for parts that are aligned as they are."""
        pads = self._pads if self._is_padded else (0,) * len(self.shapes)
        pairs = [((1,) * n + old, new) for n, old, new in zip(pads, self.shapes, now, strict=True)]
        gains = {len(new) - len(old) for old, new in pairs}
        if len(gains) != 1:
            return None
        gain = gains.pop()
        is_mixed = any(self._pads)
        is_front = gain >= 0 and all(new[gain:] == old for old, new in pairs)
        if is_front and len({new[:gain] for new in now}) == 1:
            if not is_mixed:
                return None
            hidden = gain > 0 and not self.is_known
            return dataclasses.replace(self, num_new=gain, is_misaligned=hidden)
        if gain == self.num_new:  # the ranks are those before, as of slices
            return self if self.is_misaligned else None
        if is_mixed and not self._is_padded:
            is_natural = self.is_known and not any(self.events)
            is_aligned = is_natural and _differ_at_the_end(pairs, gain)
        else:
            is_aligned = all(map(_have_equal_ends, self.shapes, now, self.events))
        return None if is_aligned else dataclasses.replace(self, num_new=gain, is_misaligned=True)


ALIGNED = BatchAxes()


def batch_axes(node: Any, children: tuple[Any, ...]) -> BatchAxes:
    """The batch axes of a distribution; none are kept where all mapped leaves would be aligned."""
    remembered = vars(node).get(MEMORY)
    if remembered is not None:
        return remembered
    try:
        found = _batch_axes(node, children)
    except _STAND_INS:
        return ALIGNED
    return found if any(found.events) or any(found._pads) else ALIGNED


def is_misaligned(node: Any) -> bool:
    """Whether the axes of parameters, of a distribution or of one within, are those of no batch."""
    if isinstance(node, tuple):
        return any(map(is_misaligned, node))
    if not hasattr(node, "_event_ranks"):
        return False
    values = vars(node)
    remembered = values.get(MEMORY)
    if remembered is not None and remembered.is_misaligned:
        return True
    return any(map(is_misaligned, values.values()))


def _batch_axes(node: Any, children: tuple[Any, ...]) -> BatchAxes:
    least, ranks = node._event_ranks()
    pairs = [(p, n) for child, n in zip(children, ranks, strict=True) for p in _parts(child)]
    if not any(hasattr(part, "shape") or _is_distribution(part) for part, _ in pairs):
        return ALIGNED  # numbers: a specification of axes, or parameters that fit all batches
    shapes = tuple(_shape(part) for part, _ in pairs)
    events = tuple(n for _, n in pairs)
    most = max(least or 0, *(len(shape) - n for shape, n in zip(shapes, events, strict=True)))
    is_known = least is not None
    return BatchAxes(shapes, tuple(most + n for n in events), events, is_known=is_known)


def _is_distribution(x: Any) -> bool:
    return hasattr(x, "log_prob")


def _parts(child: Any) -> list[Any]:
    return jax.tree.leaves(child, is_leaf=_is_distribution)


def _shape(part: Any) -> Shape:
    return tuple(part.batch_shape) if _is_distribution(part) else getattr(part, "shape", ())


def _differ_at_the_end(pairs: list[tuple[Shape, Shape]], gain: int) -> bool:
    """Whether last axes alone were gained, or lost (and not perhaps the first ones)."""
    if gain > 0:
        return all(new[:-gain] == old for old, new in pairs)
    lost = all(new == old[:gain] for old, new in pairs)
    return lost and any(new != old[-gain:] for old, new in pairs)


def _have_equal_ends(old: Shape, new: Shape, num_axes: int) -> bool:
    return len(new) >= num_axes and new[len(new) - num_axes :] == old[len(old) - num_axes :]


def _map_parts(change: Any, children: Any, pads: Shape, num_new: int) -> tuple[Any, ...]:
    """Changes the axes of all leaves of each part that lacks axes."""
    parts, tree = jax.tree.flatten(tuple(children), is_leaf=_is_distribution)
    changed = [
        _map_leaves(lambda x, n=n: change(x, n, num_new), part) if n > 0 else part
        for part, n in zip(parts, pads, strict=True)
    ]
    return jax.tree.unflatten(tree, changed)


def _map_leaves(change: Any, node: Any) -> Any:
    """`jax.tree.map`, by which distributions within do not align leaves that change."""

    def is_ours(x):
        return hasattr(x, "_event_ranks")

    if jax.tree_util.all_leaves((node,)):
        return change(node)
    if not is_ours(node):
        return jax.tree.map(lambda x: _map_leaves(change, x), node, is_leaf=is_ours)
    made = object.__new__(type(node))
    fields = {f.name: f for f in dataclasses.fields(node)}
    for name, value in vars(node).items():
        if name != MEMORY:
            is_static = fields[name].metadata.get("static")
            vars(made)[name] = value if is_static else _map_leaves(change, value)
    return made


def _insert(leaf: Any, number: int, first: int) -> Any:
    return _reshape(leaf, leaf.shape[:first] + (1,) * number + leaf.shape[first:])


def _remove(leaf: Any, number: int, first: int) -> Any:
    return _reshape(leaf, leaf.shape[:first] + leaf.shape[first + number :])


def _reshape(leaf: Any, shape: Shape) -> Any:
    is_abstract = isinstance(leaf, jax.ShapeDtypeStruct)
    return jax.ShapeDtypeStruct(shape, leaf.dtype) if is_abstract else leaf.reshape(shape)
