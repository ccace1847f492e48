"""XLA's tricks: rewritings that make compiled programs faster and change values by rounding alone.

Each has a helper here, named for its effect, so that algorithms read as algorithms. The environment
variable ``PPL_XLA_TRICKS=0`` turns all of them off, and the compiler options of
:mod:`inference.runtime.xla_options` too. It is read whenever a program is traced or compiled; the programs of this
package are remembered by it, whereas a function under a user's own ``jax.jit`` stays as traced.

| helper                | effect                                                         |
|-----------------------|----------------------------------------------------------------|
| `fuse_as_loop`        | on the CPU, one function of machine code for many operations   |
| `materialize`         | evaluated once, and not again in each use                      |
| `materialize_by_loop` | evaluated once, where XLA for the CPU drops a barrier          |
| `pad_for_cpu`         | products with a dense factor add up whole lanes                |
| compiler options      | larger loops as one function, sums in one piece                |

Tried on JAX 0.10.2 and 0.12.0.1. The gains that docstrings tell are those of
``benchmarks/steps.py`` on two busy cores with JAX 0.10.2. That of the compiler options is the
largest: without any, a step of NUTS on 10 coordinates takes 10.5 in place of 0.6 microseconds, on
400 coordinates 22 in place of 2.5.
"""

import os
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

Tree = TypeVar("Tree")
SWITCH = "PPL_XLA_TRICKS"
_LANES = 16  # numbers in a row of whole lanes


def tricks_are_on() -> bool:
    """Whether programs that are traced or compiled now have XLA's tricks in them."""
    return os.environ.get(SWITCH, "1") != "0"


def fuse_as_loop(f: Callable[[Tree], Tree], x: Tree, count: jax.Array, axis_name: Hashable) -> Tree:
    """``f(x)``, in a loop of a single round; nothing but ``f(x)`` for chains that are mapped over.

    XLA for the CPU compiles a small loop into one function of machine code. Operations outside of
    one are called one by one, at some 40 ns each. XLA must not know that there is one round:
    `count`, which is never negative, is the loop's condition.

    Gain: within the noise of 15% in ``benchmarks/steps.py``, where the compiler options make one
    function of all that a chain does. It is for densities that cannot be compiled so.
    """
    if axis_name is not None or not tricks_are_on():
        return f(x)

    def body(carry: tuple[jax.Array, Tree]) -> tuple[jax.Array, Tree]:
        return jnp.int32(-1), f(carry[1])

    return lax.while_loop(lambda carry: carry[0] >= 0, body, (count, x))[1]


def materialize(x: Tree) -> Tree:
    """`x` behind an optimization barrier: evaluated once, and before what uses it.

    XLA fuses cheap operations into each of their uses, and evaluates them again in each. An operand
    of a loop is evaluated in each round, unless it stands behind a barrier.

    Gain: at most 15% of a step of NUTS, which is the noise.
    """
    return lax.optimization_barrier(x) if tricks_are_on() else x


def materialize_by_loop(numbers: jax.Array) -> jax.Array:
    """A vector that is not NaN, evaluated once on the CPU; elsewhere, the vector as it is.

    It passes a loop that never runs, which XLA does not fuse with what follows. XLA for the CPU
    drops a barrier before it fuses; it would evaluate the numbers again in each of their uses, and
    in JAX 0.10 LLVM may never come to an end with those.
    """
    if not numbers.size or jax.default_backend() != "cpu" or not tricks_are_on():
        return numbers
    return lax.while_loop(lambda x: jnp.isnan(x[0]), jnp.zeros_like, numbers)


class PaddedFactor(NamedTuple):
    """A dense factor and its transpose, with columns of zeros so that rows are whole lanes.

    Either product with a vector then adds up rows, the order that is fastest on the CPU.
    """

    factor: jax.Array
    transposed: jax.Array

    def push(self, x: jax.Array) -> jax.Array:
        """The product ``L @ x``."""
        return (x @ self.transposed)[: x.size]

    def pull(self, x: jax.Array) -> jax.Array:
        """The product ``L.T @ x``."""
        return (x @ self.factor)[: x.size]


def pad_for_cpu(factor: Any) -> Any:
    """A dense factor as :class:`PaddedFactor`, evaluated once; any other factor as it is.

    Gain: rows of whole lanes are multiplied up to three times as fast.
    """
    if getattr(factor, "ndim", 1) != 2 or not tricks_are_on():
        return factor
    lanes = (0, 0), (0, -len(factor) % _LANES)
    return materialize(PaddedFactor(jnp.pad(factor, lanes), jnp.pad(factor.T, lanes)))
