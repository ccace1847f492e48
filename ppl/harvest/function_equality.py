"""Equality of functions: two functions are alike if the same code made them from equal values.

An optimizer is a fresh closure each time, as from ``optax.adam(1e-2)``. A program that was compiled
for one closure serves all closures like it.
"""

import dataclasses
import enum
import functools
import types
from collections.abc import Hashable, Mapping
from typing import Any

import jax
import numpy as np

from ppl.harvest.pytrees import is_split

_PLAIN = (bool, int, float, complex, str, bytes, types.NoneType)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class ComparedByContents:
    """Value that is compared by its contents, as a pytree without leaves.

    Example:
        >>> def power(exponent):
        ...     return lambda x: x**exponent
        >>> square, again, cube = (ComparedByContents.of(power(n)) for n in (2, 2, 3))
        >>> square == again, square == cube
        (True, False)
    """

    value: Any = dataclasses.field(compare=False)
    likeness: Hashable

    @classmethod
    def of(cls, value: Any) -> "ComparedByContents":
        """Value with its fingerprint."""
        return cls(value, likeness(value, ()))


@dataclasses.dataclass(frozen=True, eq=False)
class _ByIdentity:
    """Fingerprint by identity; holds the object, so that its address stays taken."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def likeness(value: Any, within: tuple[int, ...]) -> Hashable:
    """Fingerprint of a value; `within` are the ids of the functions and containers around it."""
    if isinstance(value, _PLAIN) and not isinstance(value, enum.Enum):
        return type(value), repr(value)
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return _array_likeness(value)
    if id(value) in within:
        return "within", within.index(id(value))
    parts = _parts(value)
    if parts is None:
        return value if has_hash(value) else _ByIdentity(value)
    within = (*within, id(value))
    return (type(value), *(likeness(part, within) for part in parts))


def _parts(value: Any) -> list[Any] | None:
    """Parts of a function or container; None for a value that is compared whole."""
    match value:
        case types.FunctionType():
            cells = [_content(cell) for cell in value.__closure__ or ()]
            own = value.__code__, value.__defaults__, value.__kwdefaults__
            return [*own, _ByIdentity(value.__globals__), *_globals(value), *cells]
        case types.MethodType():
            return [value.__func__, value.__self__]
        case functools.partial():
            return [value.func, value.args, value.keywords]
        case tuple() | list():
            return list(value)
        case Mapping():
            return [part for item in value.items() for part in item]
    return None


def _globals(function: types.FunctionType) -> list[Any]:
    """Globals that a function names; functions among them are compared by identity."""
    names = sorted(_collect_names(function.__code__))
    known = function.__globals__
    found = [known[name] for name in names if name in known]
    return [_ByIdentity(x) if isinstance(x, types.FunctionType) else x for x in found]


def _collect_names(code: types.CodeType) -> set[str]:
    """Names of globals and of attributes in code and in its inner functions."""
    within = (x for x in code.co_consts if isinstance(x, types.CodeType))
    return set(code.co_names).union(*map(_collect_names, within))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _array_likeness(value: Any) -> Hashable:
    if is_split(value):
        return _ByIdentity(value)
    try:
        array = np.asarray(value)
    except TypeError:  # keys and tracers
        return _ByIdentity(value)
    if array.dtype == object:
        return _ByIdentity(value)
    return type(value), array.shape, str(array.dtype), array.tobytes()


def has_hash(value: Any) -> bool:
    """Whether a value can be hashed."""
    try:
        hash(value)
    except TypeError:
        return False
    return True
