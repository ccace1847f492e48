"""What drivers ask of their arguments."""

import operator
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_MAX_COUNT = 1 << 30  # The sum of two is an int32.


def check_count(name: str, value: Any, *, least: int, most: int = _MAX_COUNT) -> int:
    """The argument `name` as an integer from `least` to `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if number < least or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    if number > most:
        raise ValueError(f"{name} must be an integer of at most {most}, got {value!r}")
    return number


def as_real(value: Any) -> jax.Array | None:
    """An array of real numbers, or None for what is none."""
    if not isinstance(value, jax.Array):
        with suppress(ValueError):  # rows of several lengths
            value = np.asarray(value)
    kind = getattr(value, "dtype", np.dtype(object))
    is_real = jnp.issubdtype(kind, jnp.integer) or jnp.issubdtype(kind, jnp.floating)
    return jnp.asarray(value) if is_real else None


def check_scalar(
    name: str, value: Any, dtype: Any, what: str, is_valid: Callable[[Any], Any]
) -> jax.Array:
    """The argument `name` as a scalar of a dtype, which `is_valid` where it is known: `what`."""
    given = as_real(value)
    if given is None:
        raise TypeError(f"{name} must be {what}, got {value!r}")
    if given.shape:
        raise ValueError(f"{name} must be a scalar, got shape {given.shape}")
    given = given.astype(dtype)
    with suppress(jax.errors.TracerArrayConversionError):
        if not is_valid(np.asarray(given)):
            raise ValueError(f"{name} must be {what}, got {value}")
    return given


def check_fraction(name: str, value: Any, also: str = "") -> float:
    """The argument `name` as a number between 0 and 1; `also` says what else it may be."""
    number = np.asarray(value)
    is_number = not number.ndim and np.issubdtype(number.dtype, np.number)
    if not is_number or not 0 < number < 1:
        error = ValueError if is_number else TypeError
        raise error(f"{name} must lie between 0 and 1{also}, got {value!r}")
    return float(number)
