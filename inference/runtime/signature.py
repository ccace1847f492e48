"""Signatures of arguments: the keys by which compiled and traced functions are cached."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax

from inference.runtime.xla import tricks_are_on
from inference.runtime.xla_options import trace_context
from ppl.harvest.pytrees import is_split

Kinds = tuple[jax.ShapeDtypeStruct, ...]


def signature(arguments: Any) -> tuple[Any, Kinds, Any]:
    """Structure of arguments, shapes and dtypes of their leaves, and settings of JAX and XLA.

    The shape of an array that is split over devices has its sharding. All three are hashable:
    arguments of equal signature can share a compiled program.
    """
    leaves, structure = jax.tree.flatten(arguments)
    kinds = tuple(
        jax.ShapeDtypeStruct(
            kind.shape,
            kind.dtype,
            weak_type=kind.weak_type,
            sharding=leaf.sharding if is_split(leaf) else None,
        )
        for leaf, kind in zip(leaves, map(jax.typeof, leaves), strict=True)
    )
    return structure, kinds, (trace_context(), tricks_are_on())


def shapes_of(function: Callable[..., Any], *arguments: Any) -> Any:
    """Shapes and dtypes of a function's results, traced once for all arguments of one signature."""
    return _shapes_of(function, *signature(arguments))


@functools.lru_cache(maxsize=64)
def _shapes_of(
    function: Callable[..., Any], structure: Any, kinds: Iterable[jax.ShapeDtypeStruct], _: Any
) -> Any:
    # A function of leaves: JAX remembers thousands of the structures it has seen, models included.
    def of_leaves(*leaves):
        return function(*jax.tree.unflatten(structure, leaves))

    return jax.eval_shape(of_leaves, *kinds)
