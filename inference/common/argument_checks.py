"""Checks of arguments: counts, scalars, fractions and flags."""

import dataclasses
import operator
import reprlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_MAX_COUNT = (1 << 30) - 1  # the sum of two counts fits an int32


def short_repr(value: Any) -> str:
    """The `repr` of a value that is given in the wrong place, cut if it is long."""
    return _BRIEF.repr(value)


_BRIEF = reprlib.Repr()
_BRIEF.maxother = _BRIEF.maxstring = _BRIEF.maxlong = 100


def check_count(
    name: str, value: Any, *, least: int, most: int = _MAX_COUNT, remedy: str = ""
) -> int:
    """The argument called `name` as an integer from `least` to `most`.

    Args:
        name: Name of the argument.
        value: Its value.
        least: Smallest value.
        most: Largest value.
        remedy: End of the error for a smaller value.

    Raises:
        TypeError: if `value` is not an integer.
        ValueError: if `value` is outside of the range, or a bool.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {short_repr(value)}") from None
    if number < least or isinstance(value, bool):
        end = remedy and f": {remedy}"
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}{end}")
    if number > most:
        raise ValueError(f"{name} must be an integer of at most {most}, got {value!r}")
    return number


def as_real(value: Any) -> jax.Array | None:
    """Array of real numbers, or `None` if `value` is anything else."""
    if not isinstance(value, jax.Array):
        # Rows of several lengths, or containers of traced values.
        with suppress(ValueError, jax.errors.TracerArrayConversionError):
            value = np.asarray(value)
    kind = getattr(value, "dtype", np.dtype(object))
    is_real = jnp.issubdtype(kind, jnp.integer) or jnp.issubdtype(kind, jnp.floating)
    return jnp.asarray(value) if is_real else None


def check_scalar(
    name: str, value: Any, dtype: Any, what: str, is_valid: Callable[[Any], Any]
) -> jax.Array:
    """The argument called `name` as a scalar of `dtype`.

    Args:
        name: Name of the argument.
        value: Its value.
        dtype: Dtype of the scalar.
        what: Valid values in words, such as ``"a positive, finite number"``.
        is_valid: Whether a known value is valid; a value traced by JAX is not checked.

    Raises:
        TypeError: if `value` is not real.
        ValueError: if `value` is not a scalar or not valid.
    """
    given = as_real(value)
    if given is None:
        raise TypeError(f"{name} must be {what}, got {short_repr(value)}")
    if given.shape:
        raise ValueError(f"{name} must be a scalar, got shape {given.shape}")
    given = given.astype(dtype)
    with suppress(jax.errors.TracerArrayConversionError):
        if not is_valid(np.asarray(given)):
            raise ValueError(f"{name} must be {what}, got {value}")
    return given


def check_positive_scalar(name: str, value: Any, dtype: Any) -> jax.Array:
    """The argument called `name` as a positive, finite scalar of `dtype`; see `check_scalar`."""
    return check_scalar(name, value, dtype, "a positive, finite number", lambda x: 0 < x < np.inf)


def check_rate(name: str, value: Any, dtype: Any) -> jax.Array:
    """The argument called `name` as a scalar of `dtype` in (0, 1), traced or not."""
    return check_scalar(name, value, dtype, "a number between 0 and 1", lambda x: 0 < x < 1)


def check_fraction(name: str, value: Any, also: str = "") -> float:
    """The argument called `name` as a number in (0, 1).

    Args:
        name: Name of the argument.
        value: Its value.
        also: Other valid values, in words for the message.

    Raises:
        TypeError: if `value` is not a scalar number.
        ValueError: if `value` is not in (0, 1).
    """
    given = as_real(value)
    is_number = given is not None and not given.ndim
    if not is_number or not 0 < np.asarray(value) < 1:
        error = ValueError if is_number else TypeError
        raise error(f"{name} must lie between 0 and 1{also}, got {short_repr(value)}")
    return float(value)


def check_own_proposal(value: Any) -> None:
    """Check that the proposal of a kernel of particles is one that it can find by itself.

    Raises:
        ValueError: if not.
    """
    if value is not None and not (isinstance(value, str) and value == "optimal"):
        raise ValueError(
            "proposal of a kernel must be 'optimal', or None for the model's own, got "
            f"{short_repr(value)}; inference.particle_filter takes functions too"
        )


def check_flags(settings: Any) -> None:
    """Check that fields of a dataclass are booleans if their defaults are booleans.

    Raises:
        TypeError: if such a field is not a boolean.
    """
    for field in dataclasses.fields(settings) if dataclasses.is_dataclass(settings) else ():
        value = getattr(settings, field.name)
        if isinstance(field.default, bool) and not isinstance(value, bool | np.bool_):
            who = type(settings).__name__
            raise TypeError(f"{field.name} of {who} must be True or False, got {value!r}")
