"""What compiled and traced functions depend on, to remember them by."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import jax

from inference.runtime.xla import tricks_are_on
from inference.runtime.xla_options import trace_context

Kinds = tuple[jax.ShapeDtypeStruct, ...]


def signature(arguments: Any) -> tuple[Any, Kinds, Any]:
    """Structure, shapes and dtypes of arguments, and settings of JAX and of XLA; hashable."""
    leaves, structure = jax.tree.flatten(arguments)
    kinds = tuple(
        jax.ShapeDtypeStruct(kind.shape, kind.dtype, weak_type=kind.weak_type)
        for kind in map(jax.typeof, leaves)
    )
    return structure, kinds, (trace_context(), tricks_are_on())


def shapes_of(function: Callable[..., Any], *arguments: Any) -> Any:
    """Shapes and dtypes of what `function` returns; it is traced once for all that are alike."""
    return _shapes_of(function, *signature(arguments))


@functools.lru_cache(maxsize=64)
def _shapes_of(
    function: Callable[..., Any], structure: Any, kinds: Iterable[jax.ShapeDtypeStruct], _: Any
) -> Any:
    # Of leaves: JAX keeps thousands of the structures that it has seen, with the models in them.
    of_leaves = lambda *leaves: function(*jax.tree.unflatten(structure, leaves))  # noqa: E731
    return jax.eval_shape(of_leaves, *kinds)
