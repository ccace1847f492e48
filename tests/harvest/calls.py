"""Rows for the table: checkpoint, functions with derivatives of their own, and shard_map."""

# ruff: noqa: E501

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from .cases import ONE, PAIR, STEPS, TEN, THIRTY, THREE, Case
from .checks import floats
from .constructs import Function, branch, doubling, once, put, scan, twice, while_below

keeping = functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.everything_saveable)

CHECKPOINT = [
    Case("checkpoint/strict", jax.checkpoint(once("strict")), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("checkpoint/append-twice", jax.checkpoint(twice("append")), THREE, 9.0, {"y": floats(3, 6)}, {"y": floats(1, 5)}, 6.0),
    Case("checkpoint/clobber-twice", jax.checkpoint(twice("clobber")), THREE, 9.0, {"y": 6.0}, TEN, 20.0, inverse=False),
    Case("checkpoint/cond_clobber-first", jax.checkpoint(twice("cond_clobber")), THREE, 9.0, {"y": 3.0}, TEN, 20.0, inverse=False),
    Case("checkpoint/policy", keeping(once("strict")), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("checkpoint/nested", jax.checkpoint(jax.checkpoint(once("strict"))), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("checkpoint/in-jit", jax.jit(jax.checkpoint(once("strict"))), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("checkpoint/of-jit", jax.checkpoint(jax.jit(once("strict"))), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("checkpoint/of-scan", jax.checkpoint(scan("append")), ONE, STEPS, {"y": floats(2, 4, 7)}, {"y": floats(1, 1, 5)}, (5.0, floats(2, 2, 10))),
    Case("checkpoint/in-scan", scan("append", around=jax.checkpoint), ONE, STEPS, {"y": floats(2, 4, 7)}, {"y": floats(1, 1, 5)}, (5.0, floats(2, 2, 10))),
    Case("checkpoint/in-scan-cond_clobber", scan("cond_clobber", around=jax.checkpoint), ONE, STEPS, {"y": 4.0}, TEN, THIRTY, inverse=False),
    Case("checkpoint/of-cond", jax.checkpoint(branch("strict")), THREE, 8.0, {"y": 4.0}, TEN, 20.0, branches=True),
    Case("checkpoint/of-while", jax.checkpoint(while_below(9.0, "clobber")), ONE, 10.0, {"y": 5.0}, TEN, 20.0, inverse=False, reverse=False),
    Case("checkpoint/in-vmap", jax.vmap(jax.checkpoint(twice("append"))), PAIR, floats(3, 6), {"y": floats([1, 2], [2, 4])}, {"y": floats([1, 2], [3, 4])}, floats(3, 7)),
    Case("checkpoint/of-vmap-of-scan", jax.checkpoint(jax.vmap(doubling("append", 3))), PAIR, floats(8, 16), {"y": floats([2, 4, 8], [4, 8, 16])}, {"y": floats([1, 2, 3], [4, 5, 6])}, floats(3, 6)),
]  # fmt: skip


def with_jvp(f: Function) -> Function:
    """`f` with a tangent that is a hundred times that of the argument, whatever `f` is."""
    g = jax.custom_jvp(lambda x: f(x))
    hundred = lambda out, t: 100 * jnp.broadcast_to(t, jnp.shape(out))  # noqa: E731
    g.defjvp(lambda p, t: (out := g(*p), jax.tree.map(lambda o: hundred(o, t[0]), out)))
    return g


def with_vjp(f: Function) -> Function:
    """`f` with a cotangent that is a hundred, whatever `f` is."""
    g = jax.custom_vjp(lambda x: f(x))
    g.defvjp(lambda x: (g(x), x), lambda x, _: (jnp.full_like(x, 100.0),))
    return g


def root(x: Any) -> Any:
    """The `z` with `2 z = x`, found in one step of Newton's method, which is sown."""
    step = lambda f, z: put(z - f(z) / 2)  # noqa: E731
    return lax.custom_root(lambda z: 2 * z - x, x, step, lambda g, y: y / g(jnp.float32(1.0)))


def solved(x: Any) -> Any:
    """The `z` with `2 z = x`, sown where it is found."""
    half = lambda _, b: put(b / 2)  # noqa: E731
    return lax.custom_linear_solve(lambda z: 2 * z, x, half, lambda _, b: b / 2)


def in_scan(f: Function) -> Function:
    """`f` of its own result, twice."""
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]


CUSTOM = [
    Case("custom_jvp/strict", with_jvp(once("strict")), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("custom_jvp/append-twice", with_jvp(twice("append")), THREE, 9.0, {"y": floats(3, 6)}, {"y": floats(1, 5)}, 6.0),
    Case("custom_jvp/clobber-twice", with_jvp(twice("clobber")), THREE, 9.0, {"y": 6.0}, TEN, 20.0, inverse=False),
    Case("custom_jvp/cond_clobber-first", with_jvp(twice("cond_clobber")), THREE, 9.0, {"y": 3.0}, TEN, 20.0, inverse=False),
    Case("custom_jvp/nested", with_jvp(with_jvp(once("strict"))), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("custom_jvp/in-jit", jax.jit(with_jvp(once("strict"))), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("custom_jvp/in-checkpoint", jax.checkpoint(with_jvp(once("strict"))), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("custom_jvp/of-scan", with_jvp(scan("append")), ONE, STEPS, {"y": floats(2, 4, 7)}, {"y": floats(1, 1, 5)}, (5.0, floats(2, 2, 10))),
    Case("custom_jvp/in-scan", in_scan(with_jvp(once("append"))), ONE, 10.0, {"y": floats(2, 5)}, {"y": floats(1, 5)}, 10.0),
    Case("custom_jvp/of-while", with_jvp(while_below(9.0, "clobber")), ONE, 10.0, {"y": 5.0}, TEN, 20.0, inverse=False),
    Case("custom_jvp/of-cond", with_jvp(branch("strict")), THREE, 8.0, {"y": 4.0}, TEN, 20.0, branches=True),
    Case("custom_jvp/in-vmap", jax.vmap(with_jvp(twice("append"))), PAIR, floats(3, 6), {"y": floats([1, 2], [2, 4])}, {"y": floats([1, 2], [3, 4])}, floats(3, 7)),
    Case("custom_vjp/strict", with_vjp(once("strict")), THREE, 8.0, {"y": 4.0}, TEN, 20.0, forward=False),
    Case("custom_vjp/append-twice", with_vjp(twice("append")), THREE, 9.0, {"y": floats(3, 6)}, {"y": floats(1, 5)}, 6.0, forward=False),
    Case("custom_vjp/clobber-twice", with_vjp(twice("clobber")), THREE, 9.0, {"y": 6.0}, TEN, 20.0, inverse=False, forward=False),
    Case("custom_vjp/cond_clobber-first", with_vjp(twice("cond_clobber")), THREE, 9.0, {"y": 3.0}, TEN, 20.0, inverse=False, forward=False),
    Case("custom_vjp/nested", with_vjp(with_vjp(once("strict"))), THREE, 8.0, {"y": 4.0}, TEN, 20.0, forward=False),
    Case("custom_vjp/in-jit", jax.jit(with_vjp(once("strict"))), THREE, 8.0, {"y": 4.0}, TEN, 20.0, forward=False),
    Case("custom_vjp/in-checkpoint", jax.checkpoint(with_vjp(once("strict"))), THREE, 8.0, {"y": 4.0}, TEN, 20.0, forward=False),
    Case("custom_vjp/of-scan", with_vjp(scan("append")), ONE, STEPS, {"y": floats(2, 4, 7)}, {"y": floats(1, 1, 5)}, (5.0, floats(2, 2, 10)), forward=False),
    Case("custom_vjp/in-scan", in_scan(with_vjp(once("append"))), ONE, 10.0, {"y": floats(2, 5)}, {"y": floats(1, 5)}, 10.0, forward=False),
    Case("custom_vjp/of-while", with_vjp(while_below(9.0, "clobber")), ONE, 10.0, {"y": 5.0}, TEN, 20.0, inverse=False, forward=False),
    Case("custom_vjp/in-vmap", jax.vmap(with_vjp(twice("append"))), PAIR, floats(3, 6), {"y": floats([1, 2], [2, 4])}, {"y": floats([1, 2], [3, 4])}, floats(3, 7), forward=False),
    Case("custom_root/strict", root, THREE, 1.5, {"y": 1.5}, TEN, 10.0),
    Case("custom_linear_solve/strict", solved, THREE, 1.5, {"y": 1.5}, TEN, 10.0),
    Case("custom_linear_solve/in-jit", jax.jit(solved), THREE, 1.5, {"y": 1.5}, TEN, 10.0),
    Case("custom_linear_solve/in-vmap", jax.vmap(solved), PAIR, floats(0.5, 1), {"y": floats(0.5, 1)}, {"y": floats(5, 6)}, floats(5, 6)),
]  # fmt: skip


def over_shards(f: Function, *, check_vma: bool = True) -> Function:
    """`f` on two devices, one element of the argument on each."""

    def sharded(x: Any) -> Any:
        mesh = jax.make_mesh((2,), ("i",), axis_types=(AxisType.Auto,))
        options: dict[str, Any] = {"in_specs": P("i"), "out_specs": P("i")}
        return jax.shard_map(f, mesh=mesh, check_vma=check_vma, **options)(x)

    return sharded


def over_a_grid(f: Callable[..., Any]) -> Function:
    """`f` on two times two devices, one element of a matrix on each."""

    def sharded(x: Any) -> Any:
        mesh = jax.make_mesh((2, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
        return jax.shard_map(f, mesh=mesh, in_specs=P("i", "j"), out_specs=P("i", "j"))(x)

    return sharded


def summing(x: Any) -> Any:
    """The sum over the shards, which is one value for all of them, is sown."""
    return x * put(lax.psum(x, "i"))


def on(mode: str, f: Callable[..., Any]) -> Function:
    """`f` of a value and its only element, sown."""
    return lambda x: f(x, mode, x[0])


def sown_once(x: Any, mode: str, first: Any) -> Any:
    return 2 * put(x + 1, mode, pred=first > 1)


def sown_twice(x: Any, mode: str, first: Any) -> Any:
    y = put(x, mode, pred=first > 0)
    return y + put(2 * y, mode, pred=first > 1)


ROWS = {"y": floats([5], [6])}
SHARDS = [
    Case("shard_map/strict", over_shards(on("strict", sown_once)), PAIR, floats(4, 6), {"y": floats([2], [3])}, ROWS, floats(10, 12), shards=True),
    Case("shard_map/append-twice", over_shards(on("append", sown_twice)), PAIR, floats(3, 6), {"y": floats([[1], [2]], [[2], [4]])}, {"y": floats([[1], [2]], [[3], [4]])}, floats(3, 7), shards=True),
    Case("shard_map/clobber-twice", over_shards(on("clobber", sown_twice)), PAIR, floats(3, 6), {"y": floats([2], [4])}, ROWS, floats(10, 12), inverse=False, shards=True),
    Case("shard_map/cond_clobber", over_shards(on("cond_clobber", sown_once)), PAIR, floats(4, 6), {"y": floats([0], [3])}, ROWS, floats(10, 12), inverse=False, shards=True),
    Case("shard_map/unchecked", over_shards(on("strict", sown_once), check_vma=False), PAIR, floats(4, 6), {"y": floats([2], [3])}, ROWS, floats(10, 12), shards=True),
    Case("shard_map/one-value-for-all", over_shards(summing), PAIR, floats(3, 6), {"y": floats([3], [3])}, {"y": floats([5], [5])}, floats(5, 10), shards=True),
    Case("shard_map/grid", over_a_grid(lambda x: 2 * put(x)), floats([1, 2], [3, 4]), floats([2, 4], [6, 8]), {"y": floats([[1]], [[2]], [[3]], [[4]])}, {"y": floats([[5]], [[6]], [[7]], [[8]])}, floats([10, 12], [14, 16]), shards=True),
    Case("shard_map/in-jit", jax.jit(over_shards(on("strict", sown_once))), PAIR, floats(4, 6), {"y": floats([2], [3])}, ROWS, floats(10, 12), shards=True),
    Case("shard_map/of-jit", over_shards(jax.jit(on("strict", sown_once))), PAIR, floats(4, 6), {"y": floats([2], [3])}, ROWS, floats(10, 12), shards=True),
    Case("shard_map/of-scan", over_shards(lambda x: scan("append")(x)[0]), PAIR, floats(7, 8), {"y": floats([[2], [4], [7]], [[3], [5], [8]])}, {"y": floats([[1], [2], [3]], [[4], [5], [6]])}, floats(3, 6), shards=True),
    Case("shard_map/of-scan-clobber", over_shards(lambda x: scan("clobber")(x)[0]), PAIR, floats(7, 8), {"y": floats([7], [8])}, ROWS, floats(5, 6), inverse=False, shards=True),
    Case("shard_map/in-scan", lambda x: lax.scan(lambda c, _: (over_shards(on("append", sown_once))(c), None), x, None, length=2)[0], PAIR, floats(10, 14), {"y": floats([[2], [3]], [[5], [7]])}, {"y": floats([[1], [2]], [[3], [4]])}, floats(6, 8), shards=True),
    Case("shard_map/in-scan-cond_clobber", lambda x: lax.scan(lambda c, _: (over_shards(on("cond_clobber", sown_once))(c), None), x, None, length=2)[0], PAIR, floats(10, 14), {"y": floats([5], [7])}, ROWS, floats(10, 12), inverse=False, shards=True),
    Case("shard_map/of-cond", over_shards(lambda x: lax.cond(x[0] > 1, lambda x: 2 * put(x + 1), lambda x: 4 * put(x), x)), PAIR, floats(4, 6), {"y": floats([1], [3])}, ROWS, floats(20, 12), shards=True),
    Case("shard_map/of-while", over_shards(lambda x: lax.while_loop(lambda c: c[0] < 9, lambda c: put(c + 1, "clobber") * 2, x)), PAIR, floats(10, 14), {"y": floats([5], [7])}, {"y": floats([6], [7])}, floats(12, 14), inverse=False, reverse=False, shards=True),
    Case("shard_map/of-vmap", over_shards(jax.vmap(once("strict"))), PAIR, floats(4, 6), {"y": floats([2], [3])}, ROWS, floats(10, 12), shards=True),
    Case("shard_map/in-checkpoint", jax.checkpoint(over_shards(on("strict", sown_once))), PAIR, floats(4, 6), {"y": floats([2], [3])}, ROWS, floats(10, 12), shards=True),
    Case("pmap/strict", jax.pmap(once("strict")), PAIR, floats(4, 6), {"y": floats(2, 3)}, {"y": floats(5, 6)}, floats(10, 12), shards=True),
]  # fmt: skip

CALLS = [*CHECKPOINT, *CUSTOM, *SHARDS]
