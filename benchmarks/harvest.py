"""How long does a harvested function run, beside the same function written by hand?

A function by hand returns the intermediates as extra results, or takes the planted values as
arguments. Both take turns in one process.

    HLO operations  operations in all computations of the compiled program, without parameters,
                    tuples and get-tuple-elements, which only pass values on
    same            whether both programs have the same operations on the same shapes
    milliseconds    median run times
    ratio           median over rounds of the ratio of run times, and ratio of the fastest runs

    python benchmarks/harvest.py [rounds]
"""

import collections
import dataclasses
import re
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
from jax import lax

import ppl.harvest

Function = Callable[..., Any]
TAG = "t"
STEPS = jnp.linspace(0.0, 1.0, 100)
SHARDED = jax.sharding.PartitionSpec("i")
ROWS = jnp.linspace(0.0, 1.0, 10)


def sow(value: Any, mode: Any = "strict") -> Any:
    return ppl.harvest.sow(value, tag=TAG, name="y", mode=mode)


def straight_line(x):
    y = sow(jnp.sin(x) * 2.0)
    return jnp.sum(jnp.exp(-y * y))


def straight_line_by_hand(_, x):
    y = jnp.sin(x) * 2.0
    return jnp.sum(jnp.exp(-y * y)), {"y": y}


def straight_line_planted(plants, x):
    return jnp.sum(jnp.exp(-plants["y"] * plants["y"])), {}


@jax.jit
def inner(x):
    return jnp.cos(sow(jnp.sin(x) * 2.0, "append"))


def in_jit(x):
    return jnp.sum(inner(inner(x)))


def in_jit_by_hand(_, x):
    @jax.jit
    def inner(x):
        y = jnp.sin(x) * 2.0
        return jnp.cos(y), y

    x, first = inner(x)
    x, second = inner(x)
    return jnp.sum(x), {"y": jnp.stack([first, second])}


def under_vmap(x):
    return jax.vmap(lambda row: jnp.sum(sow(jnp.sin(row) * 2.0) ** 2))(x.reshape(100, -1))


def under_vmap_by_hand(_, x):
    def f(row):
        y = jnp.sin(row) * 2.0
        return jnp.sum(y**2), y

    out, y = jax.vmap(f)(x.reshape(100, -1))
    return out, {"y": y}


def appended_in_scan(x):
    return lax.scan(lambda c, v: (sow(jnp.sin(c) + v, "append") * 0.5, None), x, STEPS)[0]


def appended_in_scan_by_hand(_, x):
    def step(c, v):
        y = jnp.sin(c) + v
        return y * 0.5, y

    out, y = lax.scan(step, x, STEPS)
    return out, {"y": y}


def appended_in_scan_planted(plants, x):
    return lax.scan(lambda c, y: (y * 0.5, None), x, plants["y"])[0], {}


def nested_scans(x):
    def outer(c, a):
        step = lambda c, b: (sow(jnp.sin(c) + a * b, "append") * 0.5, None)  # noqa: E731
        return lax.scan(step, c, ROWS)

    return lax.scan(outer, x, ROWS)[0]


def nested_scans_by_hand(_, x):
    def outer(c, a):
        def step(c, b):
            y = jnp.sin(c) + a * b
            return y * 0.5, y

        return lax.scan(step, c, ROWS)

    out, y = lax.scan(outer, x, ROWS)
    return out, {"y": y}


def clobbered_in_fori(x):
    return lax.fori_loop(0, 100, lambda i, c: sow(jnp.sin(c) + i, "clobber") * 0.5, x)


def clobbered_in_fori_by_hand(_, x):
    def step(i, state):
        y = jnp.sin(state[0]) + i
        return y * 0.5, y

    out, y = lax.fori_loop(0, 100, step, (x, jnp.zeros_like(x)))
    return out, {"y": y}


def clobbered_in_while(x):
    def step(state):
        i, c = state
        return i + 1, sow(jnp.sin(c) + i, "clobber") * 0.5

    return lax.while_loop(lambda s: (s[0] < 100) & (s[1][0] < 1e6), step, (0, x))[1]


def clobbered_in_while_by_hand(_, x):
    def step(state):
        i, c, _ = state
        y = jnp.sin(c) + i
        return i + 1, y * 0.5, y

    goes_on = lambda s: (s[0] < 100) & (s[1][0] < 1e6)  # noqa: E731
    _, out, y = lax.while_loop(goes_on, step, (0, x, jnp.zeros_like(x)))
    return out, {"y": y}


def clobbered_in_while_planted(plants, x):
    goes_on = lambda s: (s[0] < 100) & (s[1][0] < 1e6)  # noqa: E731
    return lax.while_loop(goes_on, lambda s: (s[0] + 1, plants["y"] * 0.5), (0, x))[1], {}


def in_cond(x):
    return lax.cond(x[0] > 0, lambda x: sow(jnp.sin(x)) * 2.0, lambda x: sow(jnp.cos(x)) + 1.0, x)


def in_cond_by_hand(_, x):
    if_true, if_false = (lambda y: (y * 2.0, y)), (lambda y: (y + 1.0, y))
    out, y = lax.cond(x[0] > 0, lambda x: if_true(jnp.sin(x)), lambda x: if_false(jnp.cos(x)), x)
    return out, {"y": y}


def in_cond_planted(plants, x):
    branches = (lambda y: y * 2.0), (lambda y: y + 1.0)
    return lax.cond(x[0] > 0, *branches, plants["y"]), {}


def in_switch(x):
    branches = [lambda x, f=f: sow(f(x)) * 2.0 for f in (jnp.sin, jnp.cos, jnp.tanh)]
    return lax.switch(x[0].astype(int), branches, x)


def in_switch_by_hand(_, x):
    doubled = lambda y: (y * 2.0, y)  # noqa: E731
    branches = [lambda x, f=f: doubled(f(x)) for f in (jnp.sin, jnp.cos, jnp.tanh)]
    out, y = lax.switch(x[0].astype(int), branches, x)
    return out, {"y": y}


def sow_cond_in_loop(x):
    def step(i, c):
        y = jnp.sin(c) + i
        return ppl.harvest.sow_cond(y, jnp.sum(y) < 1e5, tag="t", name="y") * 0.5

    return lax.fori_loop(0, 100, step, x)


def sow_cond_in_loop_by_hand(_, x):
    def step(i, state):
        c, last = state
        y = jnp.sin(c) + i
        return y * 0.5, jnp.where(jnp.sum(y) < 1e5, y, last)

    out, y = lax.fori_loop(0, 100, step, (x, jnp.zeros_like(x)))
    return out, {"y": y}


def gradient_of_scan(x):
    return jax.grad(lambda x: jnp.sum(appended_in_scan(x)))(x)


def gradient_of_scan_by_hand(_, x):
    def f(x):
        out, reaps = appended_in_scan_by_hand(_, x)
        return jnp.sum(out), reaps

    return jax.grad(f, has_aux=True)(x)


def checkpointed_gradient(x):
    block = jax.checkpoint(lambda x: jnp.exp(-(sow(jnp.sin(x) * 2.0) ** 2)))
    return jax.grad(lambda x: jnp.sum(block(x)))(x)


def checkpointed_gradient_by_hand(_, x):
    def block(x):
        y = jnp.sin(x) * 2.0
        return jnp.exp(-(y**2)), y

    def total(x):
        z, y = jax.checkpoint(block)(x)
        return jnp.sum(z), y

    slope, y = jax.grad(total, has_aux=True)(x)
    return slope, {"y": y}


@jax.custom_vjp
def clipped(x):
    return sow(jnp.sin(x) * 2.0) ** 2


clipped.defvjp(lambda x: (clipped(x), x), lambda x, ct: (jnp.clip(ct * x, -1.0, 1.0),))


def own_derivative(x):
    return jax.grad(lambda x: jnp.sum(clipped(x)))(x)


def own_derivative_by_hand(_, x):
    return jnp.clip(jnp.ones_like(x) * x, -1.0, 1.0), {"y": jnp.sin(x) * 2.0}


def over_shards(f, **specs):
    mesh = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    return jax.shard_map(f, mesh=mesh, **specs)


def in_shard_map(x):
    f = lambda x: jnp.exp(sow(jnp.sin(x) * 2.0))  # noqa: E731
    return over_shards(f, in_specs=SHARDED, out_specs=SHARDED)(x)


def in_shard_map_by_hand(_, x):
    def f(x):
        y = jnp.sin(x) * 2.0
        return jnp.exp(y), y[None]

    z, y = over_shards(f, in_specs=SHARDED, out_specs=(SHARDED, SHARDED))(x)
    return z, {"y": y}


@dataclasses.dataclass(frozen=True)
class Pair:
    """A function that sows, and the same by hand.

    Attributes:
        f: The function that sows, `f(x)`.
        by_hand: The function by hand, `(plants, x) -> (out, reaps)`.
        planted: The function by hand with all values planted, if that is compared too.
        size: Number of elements of `x`.
    """

    f: Function
    by_hand: Function
    planted: Function | None = None
    size: int = 10_000


PAIRS = [
    Pair(
        f=straight_line, by_hand=straight_line_by_hand, planted=straight_line_planted, size=300_000
    ),
    Pair(f=in_jit, by_hand=in_jit_by_hand, size=300_000),
    Pair(f=under_vmap, by_hand=under_vmap_by_hand, size=300_000),
    Pair(f=appended_in_scan, by_hand=appended_in_scan_by_hand, planted=appended_in_scan_planted),
    Pair(f=nested_scans, by_hand=nested_scans_by_hand),
    Pair(f=clobbered_in_fori, by_hand=clobbered_in_fori_by_hand),
    Pair(
        f=clobbered_in_while, by_hand=clobbered_in_while_by_hand, planted=clobbered_in_while_planted
    ),
    Pair(f=sow_cond_in_loop, by_hand=sow_cond_in_loop_by_hand),
    Pair(f=in_cond, by_hand=in_cond_by_hand, planted=in_cond_planted, size=300_000),
    Pair(f=in_switch, by_hand=in_switch_by_hand, size=300_000),
    Pair(f=gradient_of_scan, by_hand=gradient_of_scan_by_hand),
    Pair(f=checkpointed_gradient, by_hand=checkpointed_gradient_by_hand, size=300_000),
    Pair(f=own_derivative, by_hand=own_derivative_by_hand, size=300_000),
    Pair(f=in_shard_map, by_hand=in_shard_map_by_hand, size=300_000),
]

OPERATION = re.compile(r"^\s+(?:ROOT )?\S+ = (\(.*?\)|\S+) ([a-z][\w-]*)\(", re.MULTILINE)
PASSING_ON = ("parameter", "tuple", "get-tuple-element")


def operations(compiled: Any) -> collections.Counter[tuple[str, str]]:
    """The operations of a compiled program, each with the shapes of its results."""
    found = OPERATION.findall(compiled.as_text())
    return collections.Counter((shape, name) for shape, name in found if name not in PASSING_ON)


def seconds(call: Function, *args: Any) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call(*args))
    return time.perf_counter() - start


def compare(f: Function, by_hand: Function, plants: Any, x: Any, rounds: int) -> str:
    """One row of the table."""
    harvested = ppl.harvest.harvest(f, tag=TAG)
    ours, theirs = (jax.jit(g).lower(plants, x).compile() for g in (harvested, by_hand))
    equal = jax.tree.map(jnp.array_equal, ours(plants, x), theirs(plants, x))
    ops = [operations(ours), operations(theirs)]
    # A round is ours, by hand, by hand, ours: a drift of the machine affects both equally.
    turns = [[seconds(f, plants, x) for f in (ours, theirs, theirs, ours)] for _ in range(rounds)]
    times = [(1e3 * (a + d) / 2, 1e3 * (b + c) / 2) for a, b, c, d in turns]
    row = "".join(f"{op.total():{width}}" for op, width in zip(ops, (6, 9), strict=True))
    row += f"  {'yes' if ops[0] == ops[1] else 'no':5}"
    row += "".join(f"{statistics.median(t):9.3f}" for t in zip(*times, strict=True))
    fastest = min(min(a, d) for a, _, _, d in turns) / min(min(b, c) for _, b, c, _ in turns)
    row += f"{statistics.median(a / b for a, b in times):8.3f}{fastest:9.3f}"
    return row + ("  equal" if all(jax.tree.leaves(equal)) else "  DIFFERENT")


def main(rounds: int) -> None:
    python, device = sys.version.split()[0], jax.devices()[0].platform
    versions = f"Python {python}, jax {jax.__version__}, jaxlib {jaxlib.__version__}"
    print(f"{versions}, {device}, float32, {rounds} rounds")
    print(f"{'':27} HLO operations          milliseconds     ratio    ratio")
    print(f"{'':27}  ours  by hand  same      ours  by hand  median  fastest  results")
    for pair in PAIRS:
        name = pair.f.__name__.replace("_", " ")
        x = jnp.linspace(0.1, 1.0, pair.size)
        print(f"{name:27}{compare(pair.f, pair.by_hand, {}, x, rounds)}")
        if pair.planted is not None:
            plants = ppl.harvest.reap(pair.f, tag=TAG)(x)
            row = compare(pair.f, pair.planted, plants, x, rounds)
            print(f"{name + ', planted':27}{row}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
