"""Control flow of chains in lockstep, mapped over together by ``jax.vmap``.

A branch on an accelerator costs more than the few operations that it would save, as the host has to
read the predicate. So chains whose axis has a name evaluate both cases and select. A loop goes on
while some chain needs it. Without a name, the functions here are the plain constructs.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

Tree = TypeVar("Tree")


def select_leaves(which: jax.Array, a: Any, b: Any) -> Any:
    """`a` where `which` holds, else `b`, leaf by leaf; a leaf shared by both is not copied."""
    return jax.tree.map(lambda x, y: x if x is y else jnp.where(which, x, y), a, b)


def any_chain(flag: jax.Array, axis_name: Hashable) -> jax.Array:
    """Whether `flag` holds in any chain."""
    return flag if axis_name is None else lax.pmax(flag.astype(jnp.int32), axis_name) > 0


def cond_or_select(
    flag: jax.Array, f: Callable[[Tree], Tree], x: Tree, axis_name: Hashable
) -> Tree:
    """``f(x)`` where `flag` holds, else `x`.

    With an axis, `f` is evaluated for all chains, and its value selected. A leaf of `x` that `f`
    returns unchanged is not copied.
    """
    if axis_name is None:
        return lax.cond(flag, f, lambda x: x, x)
    return select_leaves(flag, f(x), x)
