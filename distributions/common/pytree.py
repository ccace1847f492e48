"""Frozen dataclasses whose fields are pytree children."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform, overload

from jax.tree_util import GetAttrKey, register_pytree_with_keys

from distributions.common.batch_axes import MEMORY, batch_axes
from distributions.common.keyword_hints import naming_unknown_keywords

T = TypeVar("T")


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


def _register(cls: type[T]) -> type[T]:
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    children = tuple(f.name for f in fields if not f.metadata.get("static"))
    statics = tuple(f.name for f in fields if f.metadata.get("static"))
    keys = tuple(GetAttrKey(name) for name in children)

    has_batch = hasattr(cls, "_event_ranks")

    def flatten(self: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        fill = self.__dict__
        values = tuple(fill[n] for n in children)
        aux = tuple(fill[n] for n in statics)
        return values, (*aux, batch_axes(self, values)) if has_batch else aux

    def flatten_with_keys(self: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        leaves, aux = flatten(self)
        return tuple(zip(keys, leaves, strict=True)), aux

    def unflatten(aux: tuple[Any, ...], leaves: Any) -> T:
        self = object.__new__(cls)
        if has_batch:
            aux, axes = aux[:-1], aux[-1]
            if axes.shapes:
                leaves, remembered = axes.align(leaves)
                if remembered is not None:
                    self.__dict__[MEMORY] = remembered
        self.__dict__.update(zip(children, leaves, strict=True))
        self.__dict__.update(zip(statics, aux, strict=True))
        return self

    register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls
