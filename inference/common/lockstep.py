"""Control flow for chains that may be mapped over together.

A `lax.cond` or `lax.while_loop` on what differs between mapped chains does all branches for all of
them. Where the chains' axis has a name, they can ask each other instead whether any of them needs
the branch; without one, these are the plain constructs.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

Tree = TypeVar("Tree")


def select_leaves(which: jax.Array, a: Any, b: Any) -> Any:
    """`a` where `which` holds, else `b`, leaf by leaf; a leaf that both share stays itself."""
    return jax.tree.map(lambda x, y: x if x is y else jnp.where(which, x, y), a, b)


def max_over_chains(number: jax.Array, axis_name: Hashable) -> jax.Array:
    """The largest `number` of any chain."""
    return number if axis_name is None else lax.pmax(number, axis_name)


def any_chain(flag: jax.Array, axis_name: Hashable) -> jax.Array:
    """Whether `flag` holds in any chain."""
    return flag if axis_name is None else lax.pmax(flag.astype(jnp.int32), axis_name) > 0


def cond_any_chain(
    flag: jax.Array, f: Callable[[Tree], Tree], x: Tree, axis_name: Hashable
) -> Tree:
    """``f(x)`` for a chain where `flag` holds, else `x`; leaves that `f` returns are not copied."""
    if axis_name is None:
        return lax.cond(flag, f, lambda x: x, x)
    g = lambda x: select_leaves(flag, f(x), x)  # noqa: E731
    return lax.cond(any_chain(flag, axis_name), g, lambda x: x, x)
