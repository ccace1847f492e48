"""Names of the leaves and elements of nested dicts of arrays, as users read them."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import jax.numpy as jnp
from jax.tree_util import DictKey, GetAttrKey, SequenceKey, tree_flatten_with_path


def named_leaves(tree: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of `tree` with their names, scopes joined by dots.

    Example:
        >>> list(named_leaves({"a": {"mu": 1}, "b": 2}))
        [('a.mu', 1), ('b', 2)]
    """
    for path, leaf in tree_flatten_with_path(tree)[0]:
        yield ".".join(_key_name(key) for key in path) or "position", leaf


def element_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """A name for each element of an array, in C order.

    Example:
        >>> element_names("theta", (2, 2))
        ['theta[0,0]', 'theta[0,1]', 'theta[1,0]', 'theta[1,1]']
        >>> element_names("mu", ())
        ['mu']
    """
    if not shape:
        return [name]
    return [f"{name}[{','.join(map(str, index))}]" for index in product(*map(range, shape))]


def part_names(name: str, dtype: Any) -> tuple[str, ...]:
    """Names of the parts of a leaf: itself, or of complex numbers real and imaginary part.

    Example:
        >>> part_names("z", jnp.complex64)
        ('z.real', 'z.imag')
    """
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return f"{name}.real", f"{name}.imag"
    return (name,)


def _key_name(key: Any) -> str:
    match key:
        case DictKey(key=name) | GetAttrKey(name=name):
            return str(name)
        case SequenceKey(idx=index):
            return str(index)
    return str(key)
