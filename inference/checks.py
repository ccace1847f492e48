"""What drivers ask of their arguments."""

import operator
from typing import Any

import numpy as np

_MOST = 1 << 30  # The sum of two is an int32.


def count(name: str, value: Any, *, least: int) -> int:
    """The argument `name` as an integer of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if number < least or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    if number > _MOST:
        raise ValueError(f"{name} must be an integer of at most {_MOST}, got {value!r}")
    return number


def fraction(name: str, value: Any, also: str = "") -> float:
    """The argument `name` as a number between 0 and 1; `also` says what else it may be."""
    number = np.asarray(value)
    is_number = not number.ndim and np.issubdtype(number.dtype, np.number)
    if not is_number or not 0 < number < 1:
        error = ValueError if is_number else TypeError
        raise error(f"{name} must lie between 0 and 1{also}, got {value!r}")
    return float(number)
