"""Names of the leaves and elements of nested dicts of arrays, as users read them."""

from collections.abc import Iterator, Sequence
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


def element_names(
    name: str,
    shape: tuple[int, ...],
    labels: Sequence[tuple[str, Sequence[Any] | None] | None] = (),
) -> list[str]:
    """A name for each element of an array, in C order.

    Args:
        name: Name of the array.
        shape: Shape of the array.
        labels: For each axis None, or the name of the dimension with the names of its entries.

    Example:
        >>> element_names("theta", (2, 2))
        ['theta[0,0]', 'theta[0,1]', 'theta[1,0]', 'theta[1,1]']
        >>> element_names("mu", ())
        ['mu']
        >>> element_names("theta", (2, 1), [("team", ["England", "France"]), None])
        ['theta[England,0]', 'theta[France,0]']
    """
    if not shape:
        return [name]
    entries: list[Sequence[Any]] = [range(size) for size in shape]
    if len(labels) == len(shape):
        for i, found in enumerate(labels):
            if found is not None and found[1] is not None and len(found[1]) == shape[i]:
                entries[i] = found[1]
    return [f"{name}[{','.join(map(str, index))}]" for index in product(*entries)]


def leading_labels(
    labels: Sequence[tuple[str, Sequence[Any] | None] | None], num_axes: int
) -> tuple[tuple[str, Sequence[Any] | None] | None, ...]:
    """Labels of the first axes of a value, as those of its log probabilities: no event axes.

    Example:
        >>> leading_labels([("team", ["England", "France"]), ("half", None)], 1)
        (('team', ['England', 'France']),)
        >>> leading_labels([], 1)
        (None,)
    """
    return (*labels[:num_axes], *[None] * (num_axes - len(labels)))


def name_entry(index: Sequence[int], labels: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Names of an entry along each axis; numbers where there are no names.

    Args:
        index: Index of the entry.
        labels: For each axis, from the first on, None or the name of the dimension with the names
            of its entries.

    Example:
        >>> name_entry((1, 0), [("team", ["England", "France"])])
        ('France', 0)
    """
    names: list[Any] = list(index)
    for i, (place, found) in enumerate(zip(index, labels, strict=False)):
        if found is not None and found[1] is not None and place < len(found[1]):
            names[i] = found[1][place]
    return tuple(names)


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
