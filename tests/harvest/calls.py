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

from .case import ONE, PAIR, STEPS, TEN, THIRTY, THREE, Case
from .checks import floats
from .constructs import Function, branch, doubling, once, put, scan, twice, while_below

keeping = functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.everything_saveable)

CHECKPOINT = [
    Case(id="checkpoint/strict", f=jax.checkpoint(once("strict")), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0),
    Case(id="checkpoint/append-twice", f=jax.checkpoint(twice("append")), x=THREE,
         out=9.0, reaps={"y": floats(3, 6)}, plants={"y": floats(1, 5)}, planted=6.0),
    Case(id="checkpoint/clobber-twice", f=jax.checkpoint(twice("clobber")), x=THREE,
         out=9.0, reaps={"y": 6.0}, plants=TEN, planted=20.0, inverse=False),
    Case(id="checkpoint/cond_clobber-first", f=jax.checkpoint(twice("cond_clobber")), x=THREE,
         out=9.0, reaps={"y": 3.0}, plants=TEN, planted=20.0, inverse=False),
    Case(id="checkpoint/policy", f=keeping(once("strict")), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0),
    Case(id="checkpoint/nested", f=jax.checkpoint(jax.checkpoint(once("strict"))), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0),
    Case(id="checkpoint/in-jit", f=jax.jit(jax.checkpoint(once("strict"))), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0),
    Case(id="checkpoint/of-jit", f=jax.checkpoint(jax.jit(once("strict"))), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0),
    Case(id="checkpoint/of-scan", f=jax.checkpoint(scan("append")), x=ONE,
         out=STEPS, reaps={"y": floats(2, 4, 7)}, plants={"y": floats(1, 1, 5)},
         planted=(5.0, floats(2, 2, 10))),
    Case(id="checkpoint/in-scan", f=scan("append", around=jax.checkpoint), x=ONE,
         out=STEPS, reaps={"y": floats(2, 4, 7)}, plants={"y": floats(1, 1, 5)},
         planted=(5.0, floats(2, 2, 10))),
    Case(id="checkpoint/in-scan-cond_clobber", f=scan("cond_clobber", around=jax.checkpoint), x=ONE,
         out=STEPS, reaps={"y": 4.0}, plants=TEN, planted=THIRTY, inverse=False),
    Case(id="checkpoint/of-cond", f=jax.checkpoint(branch("strict")), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0),
    Case(id="checkpoint/of-while", f=jax.checkpoint(while_below(9.0, "clobber")), x=ONE,
         out=10.0, reaps={"y": 5.0}, plants=TEN, planted=20.0, inverse=False, reverse=False),
    Case(id="checkpoint/in-vmap", f=jax.vmap(jax.checkpoint(twice("append"))), x=PAIR,
         out=floats(3, 6), reaps={"y": floats([1, 2], [2, 4])},
         plants={"y": floats([1, 2], [3, 4])}, planted=floats(3, 7)),
    Case(id="checkpoint/of-vmap-of-scan", f=jax.checkpoint(jax.vmap(doubling("append", 3))), x=PAIR,
         out=floats(8, 16), reaps={"y": floats([2, 4, 8], [4, 8, 16])},
         plants={"y": floats([1, 2, 3], [4, 5, 6])}, planted=floats(3, 6)),
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
    Case(id="custom_jvp/strict", f=with_jvp(once("strict")), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0),
    Case(id="custom_jvp/append-twice", f=with_jvp(twice("append")), x=THREE,
         out=9.0, reaps={"y": floats(3, 6)}, plants={"y": floats(1, 5)}, planted=6.0),
    Case(id="custom_jvp/clobber-twice", f=with_jvp(twice("clobber")), x=THREE,
         out=9.0, reaps={"y": 6.0}, plants=TEN, planted=20.0, inverse=False),
    Case(id="custom_jvp/cond_clobber-first", f=with_jvp(twice("cond_clobber")), x=THREE,
         out=9.0, reaps={"y": 3.0}, plants=TEN, planted=20.0, inverse=False),
    Case(id="custom_jvp/nested", f=with_jvp(with_jvp(once("strict"))), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0),
    Case(id="custom_jvp/in-jit", f=jax.jit(with_jvp(once("strict"))), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0),
    Case(id="custom_jvp/in-checkpoint", f=jax.checkpoint(with_jvp(once("strict"))), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0),
    Case(id="custom_jvp/of-scan", f=with_jvp(scan("append")), x=ONE,
         out=STEPS, reaps={"y": floats(2, 4, 7)}, plants={"y": floats(1, 1, 5)},
         planted=(5.0, floats(2, 2, 10))),
    Case(id="custom_jvp/in-scan", f=in_scan(with_jvp(once("append"))), x=ONE,
         out=10.0, reaps={"y": floats(2, 5)}, plants={"y": floats(1, 5)}, planted=10.0),
    Case(id="custom_jvp/of-while", f=with_jvp(while_below(9.0, "clobber")), x=ONE,
         out=10.0, reaps={"y": 5.0}, plants=TEN, planted=20.0, inverse=False),
    Case(id="custom_jvp/of-cond", f=with_jvp(branch("strict")), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0),
    Case(id="custom_jvp/in-vmap", f=jax.vmap(with_jvp(twice("append"))), x=PAIR,
         out=floats(3, 6), reaps={"y": floats([1, 2], [2, 4])},
         plants={"y": floats([1, 2], [3, 4])}, planted=floats(3, 7)),
    Case(id="custom_vjp/strict", f=with_vjp(once("strict")), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0, forward=False),
    Case(id="custom_vjp/append-twice", f=with_vjp(twice("append")), x=THREE,
         out=9.0, reaps={"y": floats(3, 6)}, plants={"y": floats(1, 5)}, planted=6.0,
         forward=False),
    Case(id="custom_vjp/clobber-twice", f=with_vjp(twice("clobber")), x=THREE,
         out=9.0, reaps={"y": 6.0}, plants=TEN, planted=20.0, inverse=False, forward=False),
    Case(id="custom_vjp/cond_clobber-first", f=with_vjp(twice("cond_clobber")), x=THREE,
         out=9.0, reaps={"y": 3.0}, plants=TEN, planted=20.0, inverse=False, forward=False),
    Case(id="custom_vjp/nested", f=with_vjp(with_vjp(once("strict"))), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0, forward=False),
    Case(id="custom_vjp/in-jit", f=jax.jit(with_vjp(once("strict"))), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0, forward=False),
    Case(id="custom_vjp/in-checkpoint", f=jax.checkpoint(with_vjp(once("strict"))), x=THREE,
         out=8.0, reaps={"y": 4.0}, plants=TEN, planted=20.0, forward=False),
    Case(id="custom_vjp/of-scan", f=with_vjp(scan("append")), x=ONE,
         out=STEPS, reaps={"y": floats(2, 4, 7)}, plants={"y": floats(1, 1, 5)},
         planted=(5.0, floats(2, 2, 10)), forward=False),
    Case(id="custom_vjp/in-scan", f=in_scan(with_vjp(once("append"))), x=ONE,
         out=10.0, reaps={"y": floats(2, 5)}, plants={"y": floats(1, 5)}, planted=10.0,
         forward=False),
    Case(id="custom_vjp/of-while", f=with_vjp(while_below(9.0, "clobber")), x=ONE,
         out=10.0, reaps={"y": 5.0}, plants=TEN, planted=20.0, inverse=False, forward=False),
    Case(id="custom_vjp/in-vmap", f=jax.vmap(with_vjp(twice("append"))), x=PAIR,
         out=floats(3, 6), reaps={"y": floats([1, 2], [2, 4])},
         plants={"y": floats([1, 2], [3, 4])}, planted=floats(3, 7), forward=False),
    Case(id="custom_root/strict", f=root, x=THREE,
         out=1.5, reaps={"y": 1.5}, plants=TEN, planted=10.0),
    Case(id="custom_linear_solve/strict", f=solved, x=THREE,
         out=1.5, reaps={"y": 1.5}, plants=TEN, planted=10.0),
    Case(id="custom_linear_solve/in-jit", f=jax.jit(solved), x=THREE,
         out=1.5, reaps={"y": 1.5}, plants=TEN, planted=10.0),
    Case(id="custom_linear_solve/in-vmap", f=jax.vmap(solved), x=PAIR,
         out=floats(0.5, 1), reaps={"y": floats(0.5, 1)}, plants={"y": floats(5, 6)},
         planted=floats(5, 6)),
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
    Case(id="shard_map/strict", f=over_shards(on("strict", sown_once)), x=PAIR,
         out=floats(4, 6), reaps={"y": floats([2], [3])}, plants=ROWS, planted=floats(10, 12),
         shards=True),
    Case(id="shard_map/append-twice", f=over_shards(on("append", sown_twice)), x=PAIR,
         out=floats(3, 6), reaps={"y": floats([[1], [2]], [[2], [4]])},
         plants={"y": floats([[1], [2]], [[3], [4]])}, planted=floats(3, 7), shards=True),
    Case(id="shard_map/clobber-twice", f=over_shards(on("clobber", sown_twice)), x=PAIR,
         out=floats(3, 6), reaps={"y": floats([2], [4])}, plants=ROWS, planted=floats(10, 12),
         inverse=False, shards=True),
    Case(id="shard_map/cond_clobber", f=over_shards(on("cond_clobber", sown_once)), x=PAIR,
         out=floats(4, 6), reaps={"y": floats([0], [3])}, plants=ROWS, planted=floats(10, 12),
         inverse=False, shards=True),
    Case(id="shard_map/unchecked", f=over_shards(on("strict", sown_once), check_vma=False), x=PAIR,
         out=floats(4, 6), reaps={"y": floats([2], [3])}, plants=ROWS, planted=floats(10, 12),
         shards=True),
    Case(id="shard_map/one-value-for-all", f=over_shards(summing), x=PAIR,
         out=floats(3, 6), reaps={"y": floats([3], [3])}, plants={"y": floats([5], [5])},
         planted=floats(5, 10), shards=True),
    Case(id="shard_map/grid", f=over_a_grid(lambda x: 2 * put(x)), x=floats([1, 2], [3, 4]),
         out=floats([2, 4], [6, 8]), reaps={"y": floats([[1]], [[2]], [[3]], [[4]])},
         plants={"y": floats([[5]], [[6]], [[7]], [[8]])}, planted=floats([10, 12], [14, 16]),
         shards=True),
    Case(id="shard_map/in-jit", f=jax.jit(over_shards(on("strict", sown_once))), x=PAIR,
         out=floats(4, 6), reaps={"y": floats([2], [3])}, plants=ROWS, planted=floats(10, 12),
         shards=True),
    Case(id="shard_map/of-jit", f=over_shards(jax.jit(on("strict", sown_once))), x=PAIR,
         out=floats(4, 6), reaps={"y": floats([2], [3])}, plants=ROWS, planted=floats(10, 12),
         shards=True),
    Case(id="shard_map/of-scan", f=over_shards(lambda x: scan("append")(x)[0]), x=PAIR,
         out=floats(7, 8), reaps={"y": floats([[2], [4], [7]], [[3], [5], [8]])},
         plants={"y": floats([[1], [2], [3]], [[4], [5], [6]])}, planted=floats(3, 6), shards=True),
    Case(id="shard_map/of-scan-clobber", f=over_shards(lambda x: scan("clobber")(x)[0]), x=PAIR,
         out=floats(7, 8), reaps={"y": floats([7], [8])}, plants=ROWS, planted=floats(5, 6),
         inverse=False, shards=True),
    Case(id="shard_map/in-scan",
         f=lambda x: lax.scan(lambda c, _: (over_shards(on("append", sown_once))(c), None), x, None, length=2)[0],
         x=PAIR,
         out=floats(10, 14), reaps={"y": floats([[2], [3]], [[5], [7]])},
         plants={"y": floats([[1], [2]], [[3], [4]])}, planted=floats(6, 8), shards=True),
    Case(id="shard_map/in-scan-cond_clobber",
         f=lambda x: lax.scan(lambda c, _: (over_shards(on("cond_clobber", sown_once))(c), None), x, None, length=2)[0],
         x=PAIR,
         out=floats(10, 14), reaps={"y": floats([5], [7])}, plants=ROWS, planted=floats(10, 12),
         inverse=False, shards=True),
    Case(id="shard_map/of-cond",
         f=over_shards(lambda x: lax.cond(x[0] > 1, lambda x: 2 * put(x + 1), lambda x: 4 * put(x), x)),
         x=PAIR,
         out=floats(4, 6), reaps={"y": floats([1], [3])}, plants=ROWS, planted=floats(20, 12),
         shards=True),
    Case(id="shard_map/of-while",
         f=over_shards(lambda x: lax.while_loop(lambda c: c[0] < 9, lambda c: put(c + 1, "clobber") * 2, x)),
         x=PAIR,
         out=floats(10, 14), reaps={"y": floats([5], [7])}, plants={"y": floats([6], [7])},
         planted=floats(12, 14), inverse=False, reverse=False, shards=True),
    Case(id="shard_map/of-vmap", f=over_shards(jax.vmap(once("strict"))), x=PAIR,
         out=floats(4, 6), reaps={"y": floats([2], [3])}, plants=ROWS, planted=floats(10, 12),
         shards=True),
    Case(id="shard_map/in-checkpoint",
         f=jax.checkpoint(over_shards(on("strict", sown_once))), x=PAIR,
         out=floats(4, 6), reaps={"y": floats([2], [3])}, plants=ROWS, planted=floats(10, 12),
         shards=True),
    Case(id="pmap/strict", f=jax.pmap(once("strict")), x=PAIR,
         out=floats(4, 6), reaps={"y": floats(2, 3)}, plants={"y": floats(5, 6)},
         planted=floats(10, 12), shards=True),
]  # fmt: skip

CALLS = [*CHECKPOINT, *CUSTOM, *SHARDS]
