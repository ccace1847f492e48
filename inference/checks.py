"""What drivers ask of their arguments."""

import operator
from typing import Any

import jax
import jax.numpy as jnp


def check_key(key: Any) -> None:
    """Refuses what is not one key, typed or legacy."""
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and shape == ()
    if not is_typed and not (dtype == jnp.uint32 and shape in ((2,), (4,))):
        raise TypeError(f"key must be one key, such as jax.random.key(0), got {key!r}")


def count(name: str, value: Any, *, least: int) -> int:
    """The argument `name` as an integer of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if number < least or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return number
