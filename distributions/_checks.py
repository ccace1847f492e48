"""Checks of the parameters when a distribution is made: on the host, of what is known there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import jax.numpy as jnp
import numpy as np

from distributions._arrays import known
from distributions.constraints.base import host_check

if TYPE_CHECKING:
    from distributions.family import Family, Parameter


def check(distribution: Family) -> None:
    """Raises ValueError, naming family and parameter, for parameters that are no valid ones."""
    _check_given(distribution)
    for p, value in distribution._given():
        _check_parameter(distribution, p, value)
    _check_shapes(distribution)
    _check_increasing(distribution)
    _check_required(distribution)


def _fail(distribution: Family, message: str) -> NoReturn:
    raise ValueError(f"{type(distribution).__name__}: {message}")


def as_static(value: Any) -> Any:
    """An integer, or a tuple of integers, as one that hashes; anything else as it is."""
    if isinstance(value, list | tuple):
        return tuple(as_static(entry) for entry in value)
    return int(value) if isinstance(value, np.integer) else value


def _check_given(distribution: Family) -> None:
    names = [p.name for p, _ in distribution._given()]
    ways = [(way,) if isinstance(way, str) else way for way in distribution._row.one_of]
    optional = dict.fromkeys(name for way in ways for name in way)
    choice = tuple(name for name in optional if name in names)
    if ways and set(choice) not in map(set, ways):
        got = " and ".join(choice) or "none of them"
        listed = ", ".join(" with ".join(way) for way in ways)
        _fail(distribution, f"give exactly one of {listed}; got {got}")
    for p in distribution._parameters:
        if p.name not in optional and p.name not in names:
            _fail(distribution, f"{p.name} must be an array; got None")


def _check_parameter(distribution: Family, p: Parameter, value: Any) -> None:
    if not _is_real(value):
        _fail(distribution, f"{p.name} must be an array of real numbers; got {value!r}")
    least = p.constraint.event_ndims
    if np.ndim(value) < least:
        _fail(
            distribution, f"{p.name} must have at least {least} axes; got shape {np.shape(value)}"
        )
    valid = host_check(p.constraint, value)
    if valid is not None and not valid.all():
        expected, got = p.constraint.description, _offender(value, valid)
        _fail(distribution, f"{p.name} must be {expected}; got {got}")


def _check_shapes(distribution: Family) -> None:
    try:
        _ = distribution.batch_shape, distribution.event_shape
    except ValueError:
        shapes = ", ".join(f"{p.name} {np.shape(value)}" for p, value in distribution._given())
        _fail(distribution, f"the shapes of the parameters do not broadcast: {shapes}")


def _check_increasing(distribution: Family) -> None:
    if not distribution._row.increasing:
        return
    first, second = distribution._row.increasing
    low, high = known(getattr(distribution, first)), known(getattr(distribution, second))
    if low is None or high is None or np.all(low < high):
        return
    got = f"{_offender(low, low < high)} and {_offender(high, low < high)}"
    _fail(distribution, f"{first} must be less than {second}; got {got}")


def _check_required(distribution: Family) -> None:
    fields, given = distribution._fields(), distribution._given()
    host = {p.name: known(value) for p, value in given}
    if distribution._row.requires is None or any(value is None for value in host.values()):
        return
    wrong = distribution._row.requires(*(fields | host).values())
    if wrong is not None:
        _fail(distribution, wrong)


def _is_real(value: Any) -> bool:
    if not hasattr(value, "dtype"):
        return isinstance(value, bool | int | float)
    return any(jnp.issubdtype(value.dtype, kind) for kind in (jnp.bool_, jnp.integer, jnp.floating))


def _offender(value: Any, valid: np.ndarray) -> str:
    """The first entry (or event) of `value` that is not valid, with its index in the batch."""
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
