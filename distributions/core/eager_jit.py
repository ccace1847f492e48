"""Compiled methods for eager calls, shared by all distributions of one structure.

Otherwise an eager call compiles each operation by itself, and compiles a loop in every call.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from distributions.common.arrays import is_traced

_CONTAINERS = (dict, list, tuple, type(None))


def call_compiled(d: Any, method: str, *arguments: Any) -> Any:
    """`d.method(*arguments)`, compiled where the result is sure to be equal.

    Conditions of compilation:

    - nothing is traced;
    - the distribution depends on its leaves and structure alone;
    - JAX can represent the integers of the host.

    Names and shapes are static arguments.
    """
    static = tuple(x if isinstance(x, str | tuple) else None for x in arguments)
    arrays = tuple(x if y is None else None for x, y in zip(arguments, static, strict=True))
    leaves, tree = jax.tree.flatten((d, arrays))
    if _is_pure_tree(tree) and all(map(_is_plain, leaves)):
        return _call_method(method, static, d, arrays)
    return getattr(d, method)(*arguments)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _call_method(method: str, static: tuple[Any, ...], d: Any, arrays: tuple[Any, ...]) -> Any:
    arguments = (y if x is None else x for x, y in zip(static, arrays, strict=True))
    return getattr(d, method)(*arguments)


@functools.lru_cache(maxsize=1024)
def _is_pure_tree(tree: Any) -> bool:
    """Whether all distributions of a tree depend on their leaves and structure alone."""
    node = tree.node_data()
    return (node is None or _is_known(node[0])) and all(map(_is_pure_tree, tree.children()))


def _is_known(kind: type) -> bool:
    """Whether a node is a container, a closed distribution or another class of this package."""
    is_ours = kind in _CONTAINERS or kind.__module__.startswith("distributions.")
    return getattr(kind, "is_closed", is_ours)


def _is_plain(x: Any) -> bool:
    """Whether a leaf is an untraced array, or numbers of the host that JAX can represent."""
    if isinstance(x, jax.Array):
        return not is_traced(x)
    if not isinstance(x, bool | int | float | np.generic | np.ndarray):
        return False
    array = np.asarray(x)
    if array.dtype.kind in "iu":
        return bool(np.all(array.astype(jnp.result_type(x)) == array))
    return array.dtype.kind in "bf"
