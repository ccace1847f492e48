"""Control flow of chains in lockstep, mapped over together by ``jax.vmap``.

If the predicate of a `lax.cond` or `lax.while_loop` differs between mapped chains, JAX runs all
branches for all chains. If the chains' axis has a name, the functions here take a branch only if
some chain needs it. Without a name, they are the plain constructs.
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


def max_over_chains(number: jax.Array, axis_name: Hashable) -> jax.Array:
    """Maximum of `number` over chains."""
    return number if axis_name is None else lax.pmax(number, axis_name)


def any_chain(flag: jax.Array, axis_name: Hashable) -> jax.Array:
    """Whether `flag` holds in any chain."""
    return flag if axis_name is None else lax.pmax(flag.astype(jnp.int32), axis_name) > 0


def cond_any_chain(
    flag: jax.Array, f: Callable[[Tree], Tree], x: Tree, axis_name: Hashable
) -> Tree:
    """``f(x)`` for a chain where `flag` holds, else `x`.

    With an axis, `f` is evaluated if `flag` holds in any chain. A leaf of `x` that `f` returns
    unchanged is not copied.
    """
    if axis_name is None:
        return lax.cond(flag, f, lambda x: x, x)
    g = lambda x: select_leaves(flag, f(x), x)  # noqa: E731
    return lax.cond(any_chain(flag, axis_name), g, lambda x: x, x)
