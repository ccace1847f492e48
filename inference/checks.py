"""What drivers ask of their arguments."""

import operator
from typing import Any


def count(name: str, value: Any, *, least: int) -> int:
    """The argument `name` as an integer of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if number < least or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return number
