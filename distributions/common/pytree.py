"""Frozen dataclasses whose fields are pytree children.

Parameters of a distribution may have different numbers of batch axes, aligned from the right: a
scale `()` beside a location `(2,)`. ``jax.vmap``, ``lax.scan`` and stacked trees put new axes in
front of all of them, `(3,)` beside `(3, 2)`, which are no longer aligned. So a flattened
distribution keeps, besides its structure, how many batch axes each child lacks
(:class:`BatchAxes`), and unflattening puts that many axes of size 1 behind the new ones: `(3, 1)`
beside `(3, 2)`. New axes have to be in front: those that ``out_axes=-1`` puts behind are not known.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform, overload

import jax
from jax.tree_util import GetAttrKey, register_pytree_with_keys

from distributions.common.keyword_hints import naming_unknown_keywords

T = TypeVar("T")

# Errors of a distribution whose leaves are objects that stand in for arrays, as JAX makes them.
_STAND_INS = AttributeError, TypeError, ValueError


def static(**kwargs: Any) -> Any:
    """A dataclass field that belongs to the tree structure; its value must be hashable."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


@overload
def pytree_dataclass(cls: type[T], /) -> type[T]: ...


@overload
def pytree_dataclass(*, eq: bool, repr: bool) -> Callable[[type[T]], type[T]]: ...


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, static))
def pytree_dataclass(cls: type[T] | None = None, /, *, eq: bool = True, repr: bool = True) -> Any:
    """Makes a class a frozen dataclass and registers it as a pytree.

    The children are the fields, in order; fields made with `static` go into the tree structure.
    Unflattening fills the fields and runs no code of the class, so that any object may stand in
    for a leaf.
    """

    def declare(cls: type[T]) -> type[T]:
        made = dataclasses.dataclass(frozen=True, eq=eq, repr=repr)(cls)
        naming_unknown_keywords(made)
        return _register(made)

    return declare if cls is None else declare(cls)


class BatchAxes:
    """Batch axes that the children of a distribution lack; equal to all others of its class.

    It belongs to the tree structure, but two structures that differ in it alone are equal: they
    hold the same distribution for arrays of other shapes. So a cache whose key is a structure needs
    the ranks of the leaves in its key as well, as all caches of JAX have.

    Attributes:
        ranks: Number of batch axes of each child, or of each part of a tuple, and the number that
            it would have if it had all of the distribution's; empty if every child has all.
    """

    def __init__(self, ranks: tuple[tuple[Any, int], ...] = ()) -> None:
        self.ranks = ranks

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchAxes)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "BatchAxes()"

    def align(self, children: Any) -> Any:
        """Children with axes of size 1 behind the axes that all of them have gained in front.

        If they have not all gained the same number, they are returned as they are.
        """
        try:
            pairs = zip(children, self.ranks, strict=True)
            gained = {n for child, (rank, _) in pairs for n in _gains(child, rank)}
        except _STAND_INS:
            return children
        if len(gained) != 1 or min(gained) <= 0:
            return children
        leaves = [x for x in jax.tree.leaves(children) if hasattr(x, "shape")]
        if len({leaf.shape[: min(gained)] for leaf in leaves}) != 1:
            return children  # the new axes are not those in front
        number, pairs = min(gained), zip(children, self.ranks, strict=True)
        return tuple(_widen(child, rank, full, number) for child, (rank, full) in pairs)


_ALIGNED = BatchAxes()


def batch_rank(child: Any) -> Any:
    """Number of batch axes of a distribution, or of axes of an array; 0 of a number or a stand-in.

    Of another tree, it is a tuple with the numbers of its parts.
    """
    if _is_distribution(child):
        return len(child.batch_shape)
    if hasattr(child, "ndim") or jax.tree_util.all_leaves((child,)):
        return getattr(child, "ndim", 0)
    return tuple(map(batch_rank, jax.tree.leaves(child, is_leaf=_is_distribution)))


def most_axes(rank: Any) -> int:
    """The largest of the numbers of :func:`batch_rank`."""
    return max(rank, default=0) if isinstance(rank, tuple) else rank


def _is_distribution(child: Any) -> bool:
    return hasattr(child, "log_prob")


def _batch_axes(node: Any, children: tuple[Any, ...]) -> BatchAxes:
    """The batch axes of a node's children; none are kept where all are aligned."""
    try:
        ranks = node._batch_ranks(children)
    except _STAND_INS:
        ranks = ()
    for rank, full in ranks:
        if (min(rank, default=full) if isinstance(rank, tuple) else rank) < full:
            return BatchAxes(ranks)
    return _ALIGNED


def _gains(child: Any, rank: Any) -> list[int]:
    """Numbers of axes that a child, or each of its parts, has gained; empty without leaves."""
    now = batch_rank(child)
    if isinstance(rank, tuple):
        return [new - old for new, old in zip(now, rank, strict=True)]
    return [] if child is None else [now - rank]


def _widen(child: Any, rank: Any, full: int, gained: int) -> Any:
    if isinstance(rank, tuple):
        parts, tree = jax.tree.flatten(child, is_leaf=_is_distribution)
        widened = [_widen(part, n, full, gained) for part, n in zip(parts, rank, strict=True)]
        return jax.tree.unflatten(tree, widened)
    if child is None or full <= rank:
        return child

    def widen(leaf: Any) -> Any:
        shape = leaf.shape[:gained] + (1,) * (full - rank) + leaf.shape[gained:]
        if isinstance(leaf, jax.ShapeDtypeStruct):
            return jax.ShapeDtypeStruct(shape, leaf.dtype)
        return leaf.reshape(shape)

    return jax.tree.map(widen, child)


def _register(cls: type[T]) -> type[T]:
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    children = tuple(f.name for f in fields if not f.metadata.get("static"))
    statics = tuple(f.name for f in fields if f.metadata.get("static"))
    keys = tuple(GetAttrKey(name) for name in children)

    has_batch = hasattr(cls, "_batch_ranks")

    def flatten(self: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        fill = self.__dict__
        values, aux = tuple(fill[n] for n in children), tuple(fill[n] for n in statics)
        return values, (*aux, _batch_axes(self, values)) if has_batch else aux

    def flatten_with_keys(self: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        leaves, aux = flatten(self)
        return tuple(zip(keys, leaves, strict=True)), aux

    def unflatten(aux: tuple[Any, ...], leaves: Any) -> T:
        self = object.__new__(cls)
        if has_batch:
            aux, axes = aux[:-1], aux[-1]
            leaves = axes.align(leaves) if axes.ranks else leaves
        self.__dict__.update(zip(children, leaves, strict=True))
        self.__dict__.update(zip(statics, aux, strict=True))
        return self

    register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls
