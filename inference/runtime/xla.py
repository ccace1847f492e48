"""XLA's tricks: rewritings that make compiled programs faster, and change values only by rounding.

Each has a helper here, named for its effect, so that algorithms read as algorithms. The environment
variable ``PPL_XLA_TRICKS=0`` turns all of them off, and the compiler options of
:mod:`inference.runtime.xla_options` too. The variable is read whenever a program is traced or
compiled. Programs of this package are cached by its value; a function under a user's own
``jax.jit`` stays as traced.

| helper                | effect                                                         |
|-----------------------|----------------------------------------------------------------|
| `fuse_as_loop`        | on the CPU, one function of machine code for many operations   |
| `materialize`         | values evaluated once, and not again in each use               |
| `materialize_by_loop` | values evaluated once, where XLA for the CPU drops a barrier   |
| `pad_for_cpu`         | products with a dense factor add up whole lanes                |
| compiler options      | larger loops as one function, sums in one piece                |

Tried on JAX 0.10.2 and 0.12.0.1. Docstrings state gains as measured by ``benchmarks/steps.py`` on
two busy cores with JAX 0.10.2. The compiler options gain most:

| NUTS step, microseconds | without tricks | with tricks |
|-------------------------|----------------|-------------|
| 10 coordinates          | 10.5           | 0.6         |
| 400 coordinates         | 22             | 2.5         |
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax import lax

Tree = TypeVar("Tree")
SWITCH = "PPL_XLA_TRICKS"
_LANES = 16  # numbers; rows of a padded factor are a multiple of this


def tricks_are_on() -> bool:
    """Whether programs traced or compiled now use the tricks."""
    return os.environ.get(SWITCH, "1") != "0"


def fuse_as_loop(f: Callable[[Tree], Tree], x: Tree, count: jax.Array) -> Tree:
    """``f(x)`` in a loop of a single round.

    XLA for the CPU compiles a small loop into one function of machine code. Operations outside of
    a loop are called one by one, at some 40 ns each. XLA must not detect the single round: the
    loop's condition is `count`, a number that is never negative.

    Gain: within the noise of 15% in ``benchmarks/steps.py``, where the compiler options already
    compile a whole chain into one function. The helper is for densities that rule this out.
    """
    if not tricks_are_on():
        return f(x)

    def body(carry: tuple[jax.Array, Tree]) -> tuple[jax.Array, Tree]:
        return jnp.int32(-1), f(carry[1])

    return lax.while_loop(lambda carry: carry[0] >= 0, body, (count, x))[1]


def materialize(x: Tree) -> Tree:
    """`x` behind an optimization barrier: evaluated once, before all uses.

    XLA fuses cheap operations into each of their uses, and evaluates them again there. An operand
    of a loop is evaluated in each round, unless it is behind a barrier.

    Gain: at most 15% of a step of NUTS, which is the noise.
    """
    return lax.optimization_barrier(x) if tricks_are_on() else x


def materialize_by_loop(numbers: jax.Array) -> jax.Array:
    """Vector evaluated once on the CPU, behind a loop that never runs; unchanged elsewhere.

    XLA does not fuse across the loop. A barrier would not do, as XLA for the CPU drops barriers
    before it fuses: it would evaluate the numbers again in each use, and in JAX 0.10 LLVM may then
    never finish. The first number must not be NaN, as the loop would run then.
    """
    if not numbers.size or jax.default_backend() != "cpu" or not tricks_are_on():
        return numbers
    return lax.while_loop(lambda x: jnp.isnan(x[0]), jnp.zeros_like, numbers)


class PaddedFactor(NamedTuple):
    """Dense factor and its transpose, padded by columns of zeros so that rows are whole lanes.

    Both products with a vector then add up rows, which is the fastest order on the CPU.
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
    """Dense factor as a :class:`PaddedFactor`, evaluated once; any other factor unchanged.

    Gain: rows of whole lanes are multiplied up to three times as fast.
    """
    if getattr(factor, "ndim", 1) != 2 or not tricks_are_on():
        return factor
    lanes = (0, 0), (0, -len(factor) % _LANES)
    return materialize(PaddedFactor(jnp.pad(factor, lanes), jnp.pad(factor.T, lanes)))
