"""Checks of parameters on the host, when a distribution is made; traced values are not checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import jax.numpy as jnp
import numpy as np

from distributions.common.arrays import as_held, as_host_array
from distributions.constraints.base import host_check
from distributions.core.row import Parameter, Row

Given = list[tuple[Parameter, Any]]


def check_values(
    name: str, row: Row, parameters: tuple[Parameter, ...], fields: dict[str, Any]
) -> None:
    """Raises ValueError for parameters that are missing, superfluous or invalid by themselves."""
    given = [(p, fields[p.name]) for p in parameters if fields[p.name] is not None]
    _check_given(name, row, parameters, [p.name for p, _ in given])
    for p, value in given:
        check_parameter(name, p, value)


def check_shapes(name: str, given: Given, shapes: Callable[[], Any]) -> None:
    """Raises ValueError if the shapes of the parameters do not broadcast in `shapes`."""
    try:
        shapes()
    except ValueError:
        got = ", ".join(f"{p.name} {np.shape(value)}" for p, value in given)
        _fail(name, f"the shapes of the parameters do not broadcast: {got}")


def check_relations(name: str, row: Row, fields: dict[str, Any], given: Given) -> None:
    """Raises ValueError for parameters that are valid one by one, but not beside each other."""
    if row.increasing:
        _check_increasing(name, fields, *row.increasing)
    host = {p.name: as_host_array(value) for p, value in given}
    if row.requires is None or any(value is None for value in host.values()):
        return
    wrong = row.requires(*(fields | host).values())
    if wrong is not None:
        _fail(name, wrong)


def as_static(value: Any) -> Any:
    """An integer, or a tuple of integers, in hashable form; anything else unchanged."""
    if isinstance(value, list | tuple):
        return tuple(as_static(entry) for entry in value)
    return int(value) if isinstance(value, np.integer) else value


def _fail(name: str, message: str) -> NoReturn:
    raise ValueError(f"{name}: {message}")


def _check_given(name: str, row: Row, parameters: tuple[Parameter, ...], given: list[str]) -> None:
    ways = [(way,) if isinstance(way, str) else way for way in row.one_of]
    optional = dict.fromkeys(entry for way in ways for entry in way)
    choice = tuple(entry for entry in optional if entry in given)
    if ways and set(choice) not in map(set, ways):
        got = " and ".join(choice) or "none of them"
        listed = ", ".join(" with ".join(way) for way in ways)
        _fail(name, f"give exactly one of {listed}; got {got}")
    for p in parameters:
        if p.name not in optional and p.name not in given:
            _fail(name, f"{p.name} must be an array; got None")


def check_parameter(name: str, p: Parameter, value: Any) -> None:
    """Raises ValueError for a parameter, of the family `name`, that is invalid by itself."""
    if not _is_real(value):
        _fail(name, f"{p.name} must be an array of real numbers; got {value!r}")
    least = p.constraint.event_ndims
    if np.ndim(value) < least:
        _fail(name, f"{p.name} must have at least {least} axes; got shape {np.shape(value)}")
    valid = host_check(p.constraint, value)
    if valid is not None and not valid.all():
        expected = p.constraint.description
        got = _offender(value, valid)
        _fail(name, f"{p.name} must be {expected}; got {got}")
    held = None if p.constraint.event_ndims else as_held(value)
    if held is not None:
        _check_held(name, p, value, held)


def _check_held(name: str, p: Parameter, value: Any, held: np.ndarray) -> None:
    """Raises ValueError for a valid number that rounds to an invalid one in JAX's dtype."""
    valid = host_check(p.constraint, held)
    if valid is not None and not valid.all():
        expected = p.constraint.description
        got = _offender(value, valid)
        rounded = _offender(held, valid).partition(" at ")[0]
        _fail(name, f"{p.name} must be {expected}; got {got}, which is {rounded} in {held.dtype}")


def _check_increasing(name: str, fields: dict[str, Any], first: str, second: str) -> None:
    low = as_host_array(fields[first])
    high = as_host_array(fields[second])
    if low is None or high is None:
        return
    held = as_held(fields[first]), as_held(fields[second])
    a, b = (x if y is None else y for x, y in zip((low, high), held, strict=True))
    if np.all(apart := a < b):
        return
    got = f"{_offender(low, apart)} and {_offender(high, apart)}"
    rounded = f", equal in {b.dtype}" if np.all(low < high) else ""
    _fail(name, f"{first} must be less than {second}; got {got}{rounded}")


def _is_real(value: Any) -> bool:
    if not hasattr(value, "dtype"):
        return isinstance(value, bool | int | float)
    return any(jnp.issubdtype(value.dtype, kind) for kind in (jnp.bool_, jnp.integer, jnp.floating))


def _offender(value: Any, valid: np.ndarray) -> str:
    """The first invalid entry (or event) of `value`, with its index in the batch."""
    array = np.asarray(value)
    if array.ndim == 0:
        return str(array)
    if array.ndim <= valid.ndim:
        array = np.broadcast_to(array, valid.shape)
    index = tuple(np.argwhere(~valid)[0].tolist())
    entry = array[index]
    shown = (
        np.array2string(entry, threshold=9, precision=6, separator=", ") if entry.ndim else entry
    )
    at = f" at index {index}" if index else ""
    return " ".join(str(shown).split()) + at
