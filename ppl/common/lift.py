"""lift: a function of one site, mapped over the `vmap` axes recorded at the site."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from ppl.harvest.sowing import Axis


def lift(fn: Callable[..., Any], axes: Sequence[Axis], num_mapped: int = 0) -> Callable[..., Any]:
    """Map a function by `vmap` over recorded axes, innermost first.

    Args:
        fn: A function of `num_mapped` pytrees and of the operands of a site.
        axes: The recorded axes; each says which operands it maps.
        num_mapped: The number of leading arguments that every axis maps.

    Returns:
        A function of the same arguments, each with the axes that map it in front.
    """
    for axis in axes:
        recorded = (0 if is_mapped else None for is_mapped in axis.mapped)
        fn = jax.vmap(fn, in_axes=(*[0] * num_mapped, *recorded), axis_size=axis.size)
    return fn
