"""Rows for the table: values that do not vary in the scan that they are sown in.

JAX moves what does not depend on the step out of a scan that it differentiates or checkpoints.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ppl.harvest import nest

from .calls import over_shards, with_jvp, with_vjp
from .case import ONE, PAIR, TEN, Case
from .checks import floats
from .constructs import Function, put

Wrap = Callable[[Function], Function]
keeping_dots = jax.checkpoint_policies.dots_with_no_batch_dims_saveable


def power(
    mode: str, *, body: Wrap = lambda f: f, step: Any = lambda f: f, **options: Any
) -> Function:
    """`(x + 1)^3` in a scan, whose steps sow the factor; wrapped are its making or the step."""

    def f(x: Any) -> Any:
        factor = body(lambda x: put(x + 1, mode, pred=x > 0))
        return lax.scan(step(lambda c, _: (c * factor(x), None)), 1.0, None, length=3, **options)[0]

    return f


def power_of_vector(body: Wrap) -> Function:
    """`(x + 1)^3` of each element."""

    def f(x: Any) -> Any:
        factor = body(lambda x: put(x + 1, "append"))
        return lax.scan(lambda c, _: (c * factor(x), None), jnp.ones_like(x), None, length=3)[0]

    return f


def sown_before(f: Function) -> Function:
    """A cond of a value that is no argument, with what is sown in both branches."""
    return lambda x: lax.cond(jnp.float32(2.0) > 1, f, lambda x: 2 * f(x), x)


def of_inner_loop(x: Any) -> Any:
    """The value varies in the outer loop alone."""

    def outer(c: Any, v: Any) -> Any:
        return lax.scan(lambda c, _: (c + put(x * v, "append"), None), c, None, length=2)[0], None

    return lax.scan(outer, 0.0, jnp.array([1.0, 2.0]))[0]


def of_outer_loop(x: Any) -> Any:
    """The value varies in the inner loop alone."""

    def inner(c: Any, v: Any) -> Any:
        return c + put(x * v, "append"), None

    outer = lambda c, _: (lax.scan(inner, c, jnp.array([1.0, 2.0]))[0], None)  # noqa: E731
    return lax.scan(outer, 0.0, None, length=2)[0]


def of_both_loops(mode: str) -> Function:
    def inner(c: Any, x: Any) -> Any:
        step = lambda c, _: (c * put(x + 1, mode, pred=x > 0), None)  # noqa: E731
        return lax.scan(step, c, None, length=2)[0], None

    return lambda x: lax.scan(lambda c, _: inner(c, x), 1.0, None, length=2)[0]


def unused_in_scan(mode: str) -> Function:
    def f(x: Any) -> Any:
        def step(c: Any, _: None) -> Any:
            put(x + 1, mode, pred=x > 0)
            return c * (x + 1), None

        return lax.scan(step, 1.0, None, length=3)[0]

    return f


def without_carry(x: Any) -> Any:
    """Neither a carry nor rows."""
    return lax.scan(lambda *_: (None, put(x + 1, "append")), None, None, length=3)[1].prod()


def apart(around: Wrap) -> Function:
    """A loop that no derivative goes through, and beside it one."""

    def constants(x: Any) -> Any:
        step = lambda c, _: (c + put(jnp.float32(2.0), "append"), None)  # noqa: E731
        return x**3 * lax.scan(step, 2.0, None, length=3)[0]

    return around(constants)


def of_constant_while(x: Any) -> Any:
    double = lambda c: put(2 * c, "clobber")  # noqa: E731
    return x**3 * lax.while_loop(lambda c: c < 8, double, jnp.float32(1.0))


COMMON: dict[str, Any] = {"x": ONE, "out": 8.0}


def append(id: str, f: Function, **known: Any) -> Case:
    values: dict[str, Any] = {
        "reaps": {"y": floats(2, 2, 2)},
        "plants": {"y": floats(1, 2, 5)},
        "planted": 10.0,
    }
    return Case(id=f"invariant/{id}", f=f, **COMMON | values | known)


def clobber(id: str, f: Function, **known: Any) -> Case:
    values: dict[str, Any] = {"reaps": {"y": 2.0}, "plants": TEN, "planted": 1000.0}
    return Case(id=f"invariant/{id}", f=f, **COMMON | values | known)


INVARIANT = [
    append("append", power("append")),
    clobber("clobber", power("clobber")),
    clobber("cond_clobber", power("cond_clobber")),
    append("append-reverse", power("append", reverse=True)),
    append("append-without-carry", without_carry),
    append("append-unused", unused_in_scan("append"), planted=8.0),
    append("in-jit", jax.jit(power("append"))),
    append("of-jit", power("append", body=jax.jit)),
    append("of-nest", power("append", body=lambda f: nest(f, scope="a")),
           reaps={"a": {"y": floats(2, 2, 2)}}, plants={"a": {"y": floats(1, 2, 5)}}),
    append("of-cond", power("append", body=sown_before)),
    append("of-checkpoint", power("append", body=jax.checkpoint)),
    append("of-checkpointed-step-policy",
           power("append", step=lambda f: jax.checkpoint(f, policy=keeping_dots))),
    append("in-checkpoint", jax.checkpoint(power("append"))),
    append("in-checkpoint-policy", jax.checkpoint(power("append"), policy=keeping_dots)),
    append("of-custom_jvp", power("append", body=with_jvp)),
    append("of-custom_vjp", power("append", body=with_vjp), forward=False),
    append("in-scan", of_inner_loop, out=6.0, reaps={"y": floats([1, 1], [2, 2])},
           plants={"y": floats([1, 2], [3, 4])}, unrolled={"y": floats(1, 1, 2, 2)}),
    append("of-scan", of_outer_loop, out=6.0, reaps={"y": floats([1, 2], [1, 2])},
           plants={"y": floats([1, 2], [3, 4])}, unrolled={"y": floats(1, 2, 1, 2)}),
    append("in-and-of-scan", of_both_loops("append"), out=16.0,
           reaps={"y": floats([2, 2], [2, 2])}, plants={"y": floats([1, 2], [3, 4])},
           planted=24.0, unrolled={"y": floats(2, 2, 2, 2)}),
    append("in-vmap", jax.vmap(power("append")), x=PAIR, out=floats(8, 27),
           reaps={"y": floats([2, 2, 2], [3, 3, 3])},
           plants={"y": floats([1, 2, 5], [1, 1, 3])}, planted=floats(10, 3)),
    append("of-vmap", power_of_vector(jax.vmap), x=PAIR, out=floats(8, 27),
           reaps={"y": floats([2, 3], [2, 3], [2, 3])},
           plants={"y": floats([1, 3], [2, 4], [5, 7])}, planted=floats(10, 84),
           unrolled={"y": floats([2, 2, 2], [3, 3, 3])}),
    append("of-constant-in-checkpoint", apart(jax.checkpoint), shared=True, planted=10.0),
    clobber("of-constant-of-while", jax.checkpoint(of_constant_while), shared=True,
            reaps={"y": 8.0}, planted=10.0),
    append("of-shard_map", power_of_vector(over_shards), x=PAIR, out=floats(8, 27), shards=True,
           reaps={"y": floats([[2], [3]], [[2], [3]], [[2], [3]])},
           plants={"y": floats([[1], [3]], [[2], [4]], [[5], [7]])}, planted=floats(10, 84)),
    append("in-shard_map", over_shards(power_of_vector(lambda f: f)), x=PAIR, out=floats(8, 27),
           reaps={"y": floats([[2], [2], [2]], [[3], [3], [3]])}, shards=True,
           plants={"y": floats([[1], [2], [5]], [[3], [4], [7]])}, planted=floats(10, 84)),
]  # fmt: skip
