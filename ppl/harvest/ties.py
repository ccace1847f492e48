"""tie: makes values depend on others in the compiled program, at no cost when it runs."""

from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from ppl.harvest import jax_core


def tie(value: Any, key: Any) -> Any:
    """Pytree of arrays that is made to depend on another one; its tangents are not."""
    leaves, tree = jax.tree.flatten(value)
    tied = tie_p.bind(*leaves, *jax.tree.leaves(key), num_values=len(leaves))
    return jax.tree.unflatten(tree, tied)


def _impl(*operands: Any, num_values: int) -> list[Any]:
    return list(lax.optimization_barrier(operands)[:num_values])


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, num_values: int) -> Any:
    return tie_p.bind(*primals, num_values=num_values), list(tangents[:num_values])


def _transpose(cotangents: Sequence[Any], *operands: Any, num_values: int) -> list[Any]:
    return [*cotangents, *[None] * (len(operands) - num_values)]


def _batch(args: Sequence[Any], dims: Sequence[Any], *, num_values: int) -> Any:
    return tie_p.bind(*args, num_values=num_values), list(dims[:num_values])


# `lax.optimization_barrier` alone would also hold up tangents, and in JAX 0.12 it has no transpose
# if a key is among its operands.
tie_p = jax_core.make_primitive(
    "tie",
    impl=_impl,
    abstract_eval=lambda *avals, num_values: list(avals[:num_values]),
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
)
