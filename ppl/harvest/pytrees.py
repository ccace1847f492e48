"""Dataclasses as pytrees, and leaves that are split over devices."""

import dataclasses
from typing import Any, TypeVar

import jax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.tree_util import GetAttrKey, register_pytree_with_keys

from ppl.harvest.jax_core import is_traced

T = TypeVar("T")


def register_dataclass(cls: type[T]) -> type[T]:
    """Register a dataclass as a pytree.

    Its fields are children, or part of the structure with ``metadata={"static": True}``. Classes
    with like fields have different structures. (`jax.tree_util.register_dataclass` gives them equal
    structures, and a program compiled for one class may be taken for another.) Unflattening fills
    the fields and runs no code of the class, so that any object may stand in for a leaf.

    Example:
        >>> import jax
        >>> @register_dataclass
        ... @dataclasses.dataclass(frozen=True)
        ... class Line:
        ...     slope: float
        ...     name: str = dataclasses.field(metadata={"static": True})
        >>> jax.tree.map(lambda x: 2 * x, Line(1.0, "first"))
        Line(slope=2.0, name='first')
    """
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    children = tuple(f.name for f in fields if not f.metadata.get("static"))
    statics = tuple(f.name for f in fields if f.metadata.get("static"))
    keys = tuple(GetAttrKey(name) for name in children)

    def flatten(self: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(self, n) for n in children), tuple(getattr(self, n) for n in statics)

    def flatten_with_keys(self: T) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        leaves, aux = flatten(self)
        return tuple(zip(keys, leaves, strict=True)), aux

    def unflatten(aux: tuple[Any, ...], leaves: Any) -> T:
        self = object.__new__(cls)
        for name, value in (*zip(children, leaves, strict=True), *zip(statics, aux, strict=True)):
            object.__setattr__(self, name, value)
        return self

    register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def is_split(leaf: Any) -> bool:
    """Whether a leaf is an array split over devices, none of which has all of it."""
    if not isinstance(leaf, jax.Array) or is_traced(leaf):
        return False
    return len(leaf.sharding.device_set) > 1 and not leaf.is_fully_replicated


def has_explicit_axes(leaf: Any) -> bool:
    """Whether a leaf is an array over a mesh with explicit axes, and no such mesh is set."""
    if not isinstance(leaf, jax.Array) or is_traced(leaf):
        return False
    sharding = leaf.sharding
    if not isinstance(sharding, NamedSharding) or AxisType.Explicit not in sharding.mesh.axis_types:
        return False
    return AxisType.Explicit not in jax.sharding.get_abstract_mesh().axis_types


def with_automatic_axes(leaf: Any) -> Any:
    """The leaf; an array over a mesh with explicit axes is over the same mesh with automatic ones.

    Its bytes stay where they are. With explicit axes, which `jax.make_mesh` makes, the code that
    indexes by the array would have to say how the result is split.
    """
    if not has_explicit_axes(leaf):
        return leaf
    mesh = Mesh(leaf.sharding.mesh.devices, leaf.sharding.mesh.axis_names)
    with jax.ensure_compile_time_eval():
        return jax.device_put(leaf, NamedSharding(mesh, leaf.sharding.spec))
