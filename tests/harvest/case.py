"""A row of the table of programs, and the arguments that many rows share."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from .checks import floats
from .constructs import Function


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A program that sows under `TAG`, and all that is known of it.

    Attributes:
        id: `construct/mode`, perhaps with what is special.
        f: The program, of one float32 array.
        x: The argument.
        out: `f(x)`.
        reaps: What is reaped at `x`.
        plants: Values for all that is sown.
        planted: The result with those plants.
        inverse: Whether planting what was reaped gives `f(x)` back (strict and append: always).
        reverse: Whether JAX can differentiate it in reverse mode.
        unrolled: What is reaped under `jax.disable_jit`, where a scan is a Python loop: appended
            values then stand side by side, without an axis for each loop. None where it does not
            differ.
        shared: Whether it sows a value that does not vary with the argument: under `vmap` that is
            one value, not one for each element.
        forward: Whether JAX can differentiate it in forward mode.
        shards: Whether it sows in a shard_map, whose axis stands in front of that of a `vmap`
            around it.
        runs_unrolled: Whether JAX runs it under `jax.disable_jit` (not so for a scan of length 0).
    """

    id: str
    f: Function
    x: Any
    out: Any
    reaps: Mapping[Any, Any]
    plants: Mapping[Any, Any]
    planted: Any
    inverse: bool = True
    reverse: bool = True
    unrolled: Mapping[Any, Any] | None = None
    shared: bool = False
    forward: bool = True
    shards: bool = False
    runs_unrolled: bool = True


THREE = jnp.float32(3.0)
ONE = jnp.float32(1.0)
PAIR = jnp.array([1.0, 2.0])
MATRIX = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
TEN = {"y": 10.0}
THIRTY = (10.0, floats(20, 20, 20))
STEPS = (7.0, floats(4, 8, 14))
