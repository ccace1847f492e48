"""A function of one site applied under the `vmap` axes that were recorded there."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from ppl.harvest._sow import Axis


def lift(fn: Callable[..., Any], axes: Sequence[Axis], num_mapped: int = 0) -> Callable[..., Any]:
    """`fn` of arrays under `vmap` for each axis, innermost first.

    Args:
        fn: A function of `num_mapped` pytrees, which have every axis in front, and of the operands
            whose axes are recorded.
        axes: The recorded axes.
        num_mapped: How many arguments have every axis.
    """
    for axis in axes:
        recorded = (0 if is_mapped else None for is_mapped in axis.mapped)
        fn = jax.vmap(fn, in_axes=(*[0] * num_mapped, *recorded), axis_size=axis.size)
    return fn
