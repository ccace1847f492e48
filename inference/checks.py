"""What drivers ask of their arguments."""

import operator
from typing import Any

import jax
import jax.numpy as jnp

from inference._jax import is_traced


def check_inputs(key: Any, model: Any, args: Any, kwargs: Any) -> None:
    """Refuses what is not one key, typed or legacy, and what a transformation of JAX traces.

    Raises:
        TypeError: if there is either.
    """
    dtype, shape = getattr(key, "dtype", None), getattr(key, "shape", None)
    is_typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key) and shape == ()
    if not is_typed and not (dtype == jnp.uint32 and shape in ((2,), (4,))):
        raise TypeError(f"key must be one key, such as jax.random.key(0), got {key!r}")
    # What is made here is traced within jax.jit, even if nothing that is given is.
    if any(map(is_traced, jax.tree.leaves((key, model, args, kwargs, jnp.zeros(()))))):
        raise TypeError(
            "inference runs in Python and compiles what it needs: call it outside of jax.jit, "
            "jax.vmap and jax.grad. Other keys and data of the same shapes compile nothing, so a "
            "loop of Python over them is fast."
        )


def count(name: str, value: Any, *, least: int) -> int:
    """The argument `name` as an integer of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if number < least or isinstance(value, bool):
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return number
