"""The table of constructs and modes: what each program returns, sows, and returns when planted.

All expectations are worked out by hand. The numbers are small integers and halves, so every comparison is exact.
"""

# ruff: noqa: E501

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ppl.harvest import nest, sow

from .checks import TAG, floats
from .constructs import (
    Function,
    append_twice_in_scan,
    branch,
    closing_over,
    constant,
    doubling,
    fori,
    in_while,
    jitted_without_result,
    mixed_in_scan,
    mixed_reversed_in_scan,
    nested_scan,
    once,
    over_columns,
    put,
    scan,
    scan_of_vmap,
    scopes,
    several,
    switch,
    twice,
    two_scans,
    unused,
    while_below,
)


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """A program that sows under `TAG`, and all that is known of it.

    Attributes:
        id: `construct/mode`, perhaps with what is special.
        f: The program, of one float32 array.
        x: The argument.
        out: `f(x)`.
        reaps: What is reaped at `x`.
        plants: Values for all that is sown.
        planted: The result with those plants.
        inverse: Whether planting what was reaped gives `f(x)` back (strict and append: always).
        reverse: Whether JAX can differentiate it in reverse mode.
        unrolled: What is reaped under `jax.disable_jit`, where a scan is a Python loop: appended values
            then stand side by side, without an axis for each loop. None where it does not differ.
        shared: Whether it sows a value that does not vary with the argument: under `vmap` that is one
            value, not one for each element.
        branches: Whether it sows in a cond whose predicate depends on the argument. A `vmap` outside
            takes such a cond apart, and harvest outside of that `vmap` refuses.
        forward: Whether JAX can differentiate it in forward mode.
        shards: Whether it sows in a shard_map, whose axis stands in front of that of a `vmap` around it.
        runs_unrolled: Whether JAX runs it under `jax.disable_jit` (not so for a scan of length 0).
    """

    id: str
    f: Function
    x: Any
    out: Any
    reaps: Mapping[Any, Any]
    plants: Mapping[Any, Any]
    planted: Any
    inverse: bool = True
    reverse: bool = True
    unrolled: Mapping[Any, Any] | None = None
    shared: bool = False
    branches: bool = False
    forward: bool = True
    shards: bool = False
    runs_unrolled: bool = True


THREE = jnp.float32(3.0)
ONE = jnp.float32(1.0)
PAIR = jnp.array([1.0, 2.0])
MATRIX = jnp.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
TEN = {"y": 10.0}
STRAIGHT = [
    Case("straight/strict", once("strict"), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("straight/append", once("append"), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("straight/clobber", once("clobber"), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("straight/cond_clobber", once("cond_clobber"), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("straight/cond_clobber-never", once("cond_clobber", above=5.0), THREE, 8.0, {"y": 0.0}, TEN, 20.0, inverse=False),
    Case("straight/append-twice", twice("append"), THREE, 9.0, {"y": floats(3, 6)}, {"y": floats(1, 5)}, 6.0),
    Case("straight/clobber-twice", twice("clobber"), THREE, 9.0, {"y": 6.0}, TEN, 20.0, inverse=False),
    Case("straight/cond_clobber-first", twice("cond_clobber"), THREE, 9.0, {"y": 3.0}, TEN, 20.0, inverse=False),
    Case("straight/cond_clobber-last", twice("cond_clobber", above=0.0), THREE, 9.0, {"y": 6.0}, TEN, 20.0, inverse=False),
    Case("straight/unused-strict", unused("strict"), THREE, 6.0, {"y": 4.0}, TEN, 6.0),
    Case("straight/unused-clobber", unused("clobber"), THREE, 6.0, {"y": 4.0}, TEN, 6.0),
    Case("straight/unused-cond_clobber", unused("cond_clobber"), THREE, 6.0, {"y": 4.0}, TEN, 6.0),
    Case("straight/constant", constant, THREE, 13.0, {"y": 10.0}, {"y": 1.0}, 4.0, shared=True),
    Case("straight/several", several, THREE, 4.0, {"z": 4.0, "a": 8.0}, {"z": 1.0, "a": 5.0}, 4.0),
]  # fmt: skip
JIT = [
    Case("jit/strict", jax.jit(once("strict")), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("jit/append-twice", jax.jit(twice("append")), THREE, 9.0, {"y": floats(3, 6)}, {"y": floats(1, 5)}, 6.0),
    Case("jit/append-around", lambda x: twice("append")(jax.jit(twice("append"))(x)), THREE, 27.0, {"y": floats(3, 6, 9, 18)}, {"y": floats(1, 2, 3, 4)}, 7.0),
    Case("jit/clobber-twice", jax.jit(twice("clobber")), THREE, 9.0, {"y": 6.0}, TEN, 20.0, inverse=False),
    Case("jit/cond_clobber-first", jax.jit(twice("cond_clobber")), THREE, 9.0, {"y": 3.0}, TEN, 20.0, inverse=False),
    Case("jit/nested", jax.jit(jax.jit(once("strict"))), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("jit/without-result", jitted_without_result, THREE, 6.0, {"y": 4.0}, TEN, 6.0),
    Case("jit/closing-over", closing_over, THREE, 8.0, {"y": 4.0}, TEN, 20.0),
    Case("jit/inlined", jax.jit(once("strict"), inline=True), THREE, 8.0, {"y": 4.0}, TEN, 20.0),
]  # fmt: skip
COND = [
    Case("cond/strict-true", branch("strict"), THREE, 8.0, {"y": 4.0}, TEN, 20.0, branches=True),
    Case("cond/strict-false", branch("strict", above=5.0), THREE, 12.0, {"y": 3.0}, TEN, 40.0, branches=True),
    Case("cond/append", branch("append"), THREE, 8.0, {"y": 4.0}, TEN, 20.0, branches=True),
    Case("cond/append-twice", lambda x: branch("append")(branch("append", above=5.0)(x)), THREE, 26.0, {"y": floats(3, 13)}, {"y": floats(1, 2)}, 4.0, branches=True),
    Case("cond/clobber-false", branch("clobber", above=5.0), THREE, 12.0, {"y": 3.0}, TEN, 40.0, branches=True),
    Case("cond/clobber-twice-or-once", lambda x: lax.cond(x > 0, twice("clobber"), once("clobber"), x), THREE, 9.0, {"y": 6.0}, TEN, 20.0, inverse=False, branches=True),
    Case("cond/cond_clobber-once-or-twice", lambda x: lax.cond(x > 5, once("cond_clobber"), twice("cond_clobber"), x), THREE, 9.0, {"y": 3.0}, TEN, 20.0, inverse=False, branches=True),
    Case("cond/cond_clobber", branch("cond_clobber"), THREE, 8.0, {"y": 4.0}, TEN, 20.0, branches=True),
    Case("cond/cond_clobber-never", branch("cond_clobber"), ONE, 4.0, {"y": 0.0}, TEN, 20.0, inverse=False, branches=True),
    Case("cond/unsown-operands", lambda x: lax.cond(x > 0, lambda a, b: put(a), lambda a, b: put(b), x, 2 * x), THREE, 3.0, {"y": 3.0}, TEN, 10.0, branches=True),
    Case("cond/in-cond", lambda x: lax.cond(x > 0, branch("strict", above=5.0), branch("strict"), x), THREE, 12.0, {"y": 3.0}, TEN, 40.0, branches=True),
    Case("cond/in-jit", jax.jit(branch("strict")), THREE, 8.0, {"y": 4.0}, TEN, 20.0, branches=True),
    Case("cond/of-jit", lambda x: lax.cond(x > 5, jax.jit(once("strict")), once("strict"), x), THREE, 8.0, {"y": 4.0}, TEN, 20.0, branches=True),
    Case("switch/strict-first", switch("strict", 0), THREE, 4.0, {"y": 4.0}, TEN, 10.0),
    Case("switch/append-middle", switch("append", 1), THREE, 10.0, {"y": 5.0}, TEN, 20.0),
    Case("switch/clobber-last", switch("clobber", 2), THREE, 18.0, {"y": 6.0}, TEN, 30.0),
    Case("switch/cond_clobber-clamped", switch("cond_clobber", 7), THREE, 18.0, {"y": 6.0}, TEN, 30.0),
]  # fmt: skip
THIRTY = (10.0, floats(20, 20, 20))
STEPS = (7.0, floats(4, 8, 14))
SCAN = [
    Case("scan/append", scan("append"), ONE, STEPS, {"y": floats(2, 4, 7)}, {"y": floats(1, 1, 5)}, (5.0, floats(2, 2, 10))),
    Case("scan/clobber", scan("clobber"), ONE, STEPS, {"y": 7.0}, TEN, THIRTY, inverse=False),
    Case("scan/cond_clobber", scan("cond_clobber"), ONE, STEPS, {"y": 4.0}, TEN, THIRTY, inverse=False),
    Case("scan/cond_clobber-never", scan("cond_clobber", below=0.0), ONE, STEPS, {"y": 0.0}, TEN, THIRTY, inverse=False),
    Case("scan/append-reverse", scan("append", reverse=True), ONE, (7.0, floats(14, 12, 8)), {"y": floats(7, 6, 4)}, {"y": floats(1, 1, 5)}, (1.0, floats(2, 2, 10)), unrolled={"y": floats(4, 6, 7)}),
    Case("scan/clobber-reverse", scan("clobber", reverse=True), ONE, (7.0, floats(14, 12, 8)), {"y": 7.0}, TEN, THIRTY, inverse=False),
    Case("scan/cond_clobber-reverse", scan("cond_clobber", reverse=True, below=2.0), ONE, (7.0, floats(14, 12, 8)), {"y": 7.0}, TEN, THIRTY, inverse=False),
    Case("scan/append-unroll", scan("append", unroll=2), ONE, STEPS, {"y": floats(2, 4, 7)}, {"y": floats(1, 1, 5)}, (5.0, floats(2, 2, 10))),
    Case("scan/clobber-unroll", scan("clobber", unroll=True), ONE, STEPS, {"y": 7.0}, TEN, THIRTY, inverse=False),
    Case("scan/append-no-xs", doubling("append", 3), ONE, 8.0, {"y": floats(2, 4, 8)}, {"y": floats(1, 1, 5)}, 5.0),
    Case("scan/append-length-1", doubling("append", 1), ONE, 2.0, {"y": floats(2)}, {"y": floats(5)}, 5.0, unrolled={"y": 2.0}),
    Case("scan/append-length-0", doubling("append", 0), ONE, 1.0, {"y": floats()}, {"y": floats()}, 1.0, runs_unrolled=False),
    Case("scan/clobber-length-0", doubling("clobber", 0), ONE, 1.0, {"y": 0.0}, TEN, 1.0, runs_unrolled=False),
    Case("scan/cond_clobber-length-0", doubling("cond_clobber", 0), ONE, 1.0, {"y": 0.0}, TEN, 1.0, runs_unrolled=False),
    Case("scan/append-in-body-twice", append_twice_in_scan, ONE, 12.0, {"y": floats([2, 4], [6, 12])}, {"y": floats([1, 2], [3, 4])}, 4.0, unrolled={"y": floats(2, 4, 6, 12)}),
    Case("scan/map", lambda x: lax.map(once("append"), x), PAIR, floats(4, 6), {"y": floats(2, 3)}, {"y": floats(5, 6)}, floats(10, 12)),
    Case("scan/append-two-scans", two_scans("append"), ONE, 13.0, {"y": floats([2, 4, 7], [8, 10, 13])}, {"y": floats([1, 2, 3], [4, 5, 6])}, 6.0, unrolled={"y": floats(2, 4, 7, 8, 10, 13)}),
    Case("scan/clobber-two-scans", two_scans("clobber"), ONE, 13.0, {"y": 13.0}, TEN, 10.0, inverse=False),
    Case("scan/mixed", mixed_in_scan, ONE, (10.0, floats(6, 12, 20)), {"a": 9.0, "b": 6.0, "c": floats(6, 12, 20)}, {"a": 5.0, "b": 2.0, "c": floats(1, 2, 3)}, (2.0, floats(1, 2, 3)), inverse=False),
    Case("scan/mixed-reversed", mixed_reversed_in_scan, ONE, 10.0, {"a": 5.0, "b": 10.0}, {"a": 5.0, "b": 2.0}, 2.0, inverse=False),
    Case("scan/in-scan-append", nested_scan("append"), ONE, 67.0, {"y": floats([2, 4, 7], [17, 37, 67])}, {"y": floats([1, 2, 3], [4, 5, 6])}, 6.0, unrolled={"y": floats(2, 4, 7, 17, 37, 67)}),
    Case("scan/in-scan-clobber", nested_scan("clobber"), ONE, 67.0, {"y": 67.0}, TEN, 10.0, inverse=False),
    Case("scan/in-scan-cond_clobber", nested_scan("cond_clobber"), ONE, 67.0, {"y": 37.0}, TEN, 10.0, inverse=False),
    Case("scan/in-jit-append", jax.jit(scan("append")), ONE, STEPS, {"y": floats(2, 4, 7)}, {"y": floats(1, 1, 5)}, (5.0, floats(2, 2, 10))),
    Case("scan/of-jit-append", scan("append", around=jax.jit), ONE, STEPS, {"y": floats(2, 4, 7)}, {"y": floats(1, 1, 5)}, (5.0, floats(2, 2, 10))),
    Case("scan/of-jit-cond_clobber", scan("cond_clobber", around=jax.jit), ONE, STEPS, {"y": 4.0}, TEN, THIRTY, inverse=False),
    Case("scan/of-cond-append", lambda x: lax.scan(lambda c, v: (branch("append", above=4.0)(c + v), None), x, PAIR)[0], ONE, 22.0, {"y": floats(2, 11)}, {"y": floats(1, 2)}, 4.0, branches=True),
    Case("scan/of-cond-clobber", lambda x: lax.scan(lambda c, v: (branch("clobber", above=4.0)(c + v), None), x, PAIR)[0], ONE, 22.0, {"y": 11.0}, {"y": 1.0}, 2.0, inverse=False, branches=True),
    Case("scan/of-cond-cond_clobber", lambda x: lax.scan(lambda c, v: (branch("cond_clobber", above=4.0)(c + v), None), x, PAIR)[0], ONE, 22.0, {"y": 11.0}, {"y": 1.0}, 2.0, inverse=False, branches=True),
    Case("scan/in-cond-append", lambda x: lax.cond(x > 0, scan("append"), scan("append", reverse=True), x), ONE, STEPS, {"y": floats(2, 4, 7)}, {"y": floats(1, 1, 5)}, (5.0, floats(2, 2, 10)), branches=True),
    Case("scan/in-cond-clobber", lambda x: lax.cond(x > 5, scan("clobber"), scan("clobber", reverse=True), x), ONE, (7.0, floats(14, 12, 8)), {"y": 7.0}, TEN, THIRTY, inverse=False, branches=True),
]  # fmt: skip
# Reverse mode works through a fori_loop with static bounds only.
LOOPS = [
    Case("fori-static/append", fori("append", dynamic=False), ONE, 4.0, {"y": floats(1, 2, 4)}, {"y": floats(1, 1, 5)}, 5.0),
    Case("fori-static/clobber", fori("clobber", dynamic=False), ONE, 4.0, {"y": 4.0}, TEN, 10.0),
    Case("fori-static/cond_clobber", fori("cond_clobber", dynamic=False), ONE, 4.0, {"y": 2.0}, TEN, 10.0, inverse=False),
    Case("fori-static/clobber-no-iteration", fori("clobber", dynamic=False, upper=0), ONE, 1.0, {"y": 0.0}, TEN, 1.0, runs_unrolled=False),
    Case("fori-dynamic/clobber", fori("clobber", dynamic=True), ONE, 4.0, {"y": 4.0}, TEN, 10.0, reverse=False),
    Case("fori-dynamic/cond_clobber", fori("cond_clobber", dynamic=True), ONE, 4.0, {"y": 2.0}, TEN, 10.0, inverse=False, reverse=False),
    Case("fori-dynamic/clobber-no-iteration", fori("clobber", dynamic=True, upper=0), ONE, 1.0, {"y": 0.0}, TEN, 1.0, reverse=False),
    Case("while/clobber", while_below(9.0, "clobber"), ONE, 10.0, {"y": 5.0}, TEN, 20.0, inverse=False, reverse=False),
    Case("while/cond_clobber", while_below(9.0, "cond_clobber"), ONE, 10.0, {"y": 2.0}, TEN, 20.0, inverse=False, reverse=False),
    Case("while/cond_clobber-never", while_below(9.0, "cond_clobber", below=0.0), ONE, 10.0, {"y": 0.0}, TEN, 20.0, inverse=False, reverse=False),
    Case("while/clobber-no-iteration", while_below(0.0, "clobber"), ONE, 1.0, {"y": 0.0}, TEN, 1.0, reverse=False),
    Case("while/in-jit", jax.jit(while_below(9.0, "clobber")), ONE, 10.0, {"y": 5.0}, TEN, 20.0, inverse=False, reverse=False),
    Case("while/then-straight", lambda x: put(while_below(9.0, "clobber")(x) + 1, "clobber"), ONE, 11.0, {"y": 11.0}, {"y": 20.0}, 20.0, reverse=False),
    Case("while/no-iteration-after-straight", lambda x: while_below(0.0, "clobber")(put(x + 1, "clobber")), ONE, 2.0, {"y": 2.0}, TEN, 10.0, reverse=False),
    Case("while/condition", lambda x: lax.while_loop(lambda c: put(c, "clobber") < 9, lambda c: 2 * c, x), ONE, 16.0, {"y": 16.0}, TEN, 1.0, inverse=False, reverse=False),
    Case("while/condition-no-iteration", lambda x: lax.while_loop(lambda c: put(c, "clobber") < 1, lambda c: 2 * c, x), ONE, 1.0, {"y": 1.0}, TEN, 1.0, reverse=False),
    Case("while/condition-cond_clobber", lambda x: lax.while_loop(lambda c: put(c, "cond_clobber", pred=c < 9) < 9, lambda c: 2 * c, x), ONE, 16.0, {"y": 8.0}, TEN, 1.0, inverse=False, reverse=False),
    Case("while/condition-and-body", lambda x: lax.while_loop(lambda c: put(2 * c, "clobber") < 9, lambda c: put(c + 1, "clobber"), x), ONE, 5.0, {"y": 10.0}, TEN, 1.0, inverse=False, reverse=False),
    Case("while/of-jit", in_while(jax.jit(once("clobber"))), ONE, 10.0, {"y": 5.0}, TEN, 20.0, inverse=False, reverse=False),
    Case("while/of-cond", in_while(branch("clobber", above=3.0)), ONE, 10.0, {"y": 5.0}, TEN, 20.0, inverse=False, reverse=False, branches=True),
    Case("while/of-scan", in_while(lambda x: scan("clobber")(x)[0]), ONE, 13.0, {"y": 13.0}, TEN, 10.0, reverse=False, inverse=False),
    Case("while/of-scan-cond_clobber", in_while(lambda x: scan("cond_clobber")(x)[0]), ONE, 13.0, {"y": 10.0}, TEN, 10.0, inverse=False, reverse=False),
    Case("while/of-while", in_while(while_below(9.0, "clobber")), ONE, 10.0, {"y": 5.0}, TEN, 20.0, inverse=False, reverse=False),
    Case("while/in-scan", lambda x: lax.scan(lambda c, v: (while_below(9.0, "clobber")(c) - v, None), x, PAIR)[0], ONE, 7.0, {"y": 5.0}, {"y": 8.0}, 13.0, inverse=False, reverse=False),
    Case("while/in-cond", lambda x: lax.cond(x > 0, while_below(9.0, "clobber"), once("clobber"), x), ONE, 10.0, {"y": 5.0}, TEN, 20.0, inverse=False, reverse=False, branches=True),
]  # fmt: skip
VMAP = [
    Case("vmap/strict", jax.vmap(once("strict")), PAIR, floats(4, 6), {"y": floats(2, 3)}, {"y": floats(5, 6)}, floats(10, 12)),
    Case("vmap/append-twice", jax.vmap(twice("append")), PAIR, floats(3, 6), {"y": floats([1, 2], [2, 4])}, {"y": floats([1, 2], [3, 4])}, floats(3, 7)),
    Case("vmap/clobber-twice", jax.vmap(twice("clobber")), PAIR, floats(3, 6), {"y": floats(2, 4)}, {"y": floats(5, 6)}, floats(10, 12), inverse=False),
    Case("vmap/cond_clobber", jax.vmap(twice("cond_clobber", above=1.0)), PAIR, floats(3, 6), {"y": floats(1, 4)}, {"y": floats(5, 6)}, floats(10, 12), inverse=False),
    Case("vmap/in-axis-1", over_columns("strict"), MATRIX, floats([4, 6, 8], [10, 12, 14]), {"y": floats([2, 5], [3, 6], [4, 7])}, {"y": floats([1, 2], [3, 4], [5, 6])}, floats([2, 6, 10], [4, 8, 12])),
    Case("vmap/cond_clobber-in-axis-1", over_columns("cond_clobber"), MATRIX, floats([4, 6, 8], [10, 12, 14]), {"y": floats([0, 0], [3, 6], [4, 7])}, {"y": floats([1, 2], [3, 4], [5, 6])}, floats([2, 6, 10], [4, 8, 12]), inverse=False),
    Case("vmap/in-axis-negative", jax.vmap(lambda column: put(column + 1), in_axes=-1), MATRIX, floats([2, 5], [3, 6], [4, 7]), {"y": floats([2, 5], [3, 6], [4, 7])}, {"y": floats([1, 2], [3, 4], [5, 6])}, floats([1, 2], [3, 4], [5, 6])),
    Case("vmap/in-vmap", jax.vmap(jax.vmap(once("strict"))), MATRIX, floats([4, 6, 8], [10, 12, 14]), {"y": floats([2, 3, 4], [5, 6, 7])}, {"y": floats([1, 2, 3], [4, 5, 6])}, floats([2, 4, 6], [8, 10, 12])),
    Case("vmap/in-vmap-across", jax.vmap(jax.vmap(once("strict")), in_axes=1), MATRIX, floats([4, 10], [6, 12], [8, 14]), {"y": floats([2, 5], [3, 6], [4, 7])}, {"y": floats([1, 2], [3, 4], [5, 6])}, floats([2, 4], [6, 8], [10, 12])),
    Case("vmap/unmapped", lambda x: jax.vmap(lambda a, b: a * put(b + 1), in_axes=(0, None))(x, x[0]), PAIR, floats(2, 4), {"y": 2.0}, TEN, floats(10, 20)),
    Case("vmap/half-mapped", lambda x: jax.vmap(lambda a: sow((a, x[0]), tag=TAG, name="y"))(x), PAIR, (floats(1, 2), floats(1, 1)), {"y": (floats(1, 2), floats(1, 1))}, {"y": (floats(5, 6), floats(7, 8))}, (floats(5, 6), floats(7, 8))),
    Case("vmap/collective", jax.vmap(lambda x: put(x) + lax.psum(put(2 * x, name="z"), "a"), axis_name="a"), PAIR, floats(7, 8), {"y": floats(1, 2), "z": floats(2, 4)}, {"y": floats(5, 6), "z": floats(1, 1)}, floats(7, 8)),
    Case("vmap/condition-of-while", jax.vmap(lambda x: lax.while_loop(lambda c: put(c, "clobber") < 9, lambda c: 2 * c, x)), floats(1, 20, 5), floats(16, 20, 10), {"y": floats(16, 20, 10)}, {"y": floats(10, 10, 10)}, floats(1, 20, 5), inverse=False, reverse=False),
    Case("vmap/of-jit", jax.vmap(jax.jit(once("strict"))), PAIR, floats(4, 6), {"y": floats(2, 3)}, {"y": floats(5, 6)}, floats(10, 12)),
    Case("vmap/in-jit", jax.jit(jax.vmap(twice("append"))), PAIR, floats(3, 6), {"y": floats([1, 2], [2, 4])}, {"y": floats([1, 2], [3, 4])}, floats(3, 7)),
    Case("vmap/of-cond", lambda x: jax.vmap(lambda a, p: lax.cond(p, once("strict"), lambda a: 4 * put(a), a), in_axes=(0, None))(x, x.sum() > 9), PAIR, floats(4, 8), {"y": floats(1, 2)}, {"y": floats(5, 6)}, floats(20, 24), branches=True),
    Case("vmap/in-cond", lambda x: lax.cond(x.sum() > 0, jax.vmap(once("strict")), jax.vmap(lambda a: put(a)), x), PAIR, floats(4, 6), {"y": floats(2, 3)}, {"y": floats(5, 6)}, floats(10, 12), branches=True),
    Case("vmap/of-scan-append", jax.vmap(doubling("append", 3)), PAIR, floats(8, 16), {"y": floats([2, 4, 8], [4, 8, 16])}, {"y": floats([1, 2, 3], [4, 5, 6])}, floats(3, 6)),
    Case("vmap/of-scan-clobber", jax.vmap(doubling("clobber", 3)), PAIR, floats(8, 16), {"y": floats(8, 16)}, {"y": floats(5, 6)}, floats(5, 6), inverse=False),
    Case("vmap/of-scan-cond_clobber", jax.vmap(doubling("cond_clobber", 3)), PAIR, floats(8, 16), {"y": floats(4, 4)}, {"y": floats(5, 6)}, floats(5, 6), inverse=False),
    Case("vmap/of-scan-length-0", jax.vmap(doubling("append", 0)), PAIR, floats(1, 2), {"y": floats([], [])}, {"y": floats([], [])}, floats(1, 2), runs_unrolled=False),
    Case("vmap/in-scan-append", scan_of_vmap("append"), PAIR, floats(7, 8), {"y": floats([2, 3], [4, 5], [7, 8])}, {"y": floats([1, 2], [3, 4], [5, 6])}, floats(5, 6), unrolled={"y": floats([2, 4, 7], [3, 5, 8])}),
    Case("vmap/in-scan-clobber", scan_of_vmap("clobber"), PAIR, floats(7, 8), {"y": floats(7, 8)}, {"y": floats(5, 6)}, floats(5, 6), inverse=False),
    Case("vmap/in-scan-cond_clobber", scan_of_vmap("cond_clobber"), PAIR, floats(7, 8), {"y": floats(7, 8)}, {"y": floats(5, 6)}, floats(5, 6), inverse=False),
    Case("vmap/of-scan-of-vmap", jax.vmap(scan_of_vmap("append")), MATRIX[:, :2], floats([7, 8], [10, 11]), {"y": floats([[2, 3], [4, 5], [7, 8]], [[5, 6], [7, 8], [10, 11]])}, {"y": floats([[1, 2], [3, 4], [5, 6]], [[7, 8], [9, 10], [11, 12]])}, floats([5, 6], [11, 12]), unrolled={"y": floats([[2, 4, 7], [3, 5, 8]], [[5, 7, 10], [6, 8, 11]])}),
    Case("vmap/of-scan-in-body-twice", jax.vmap(append_twice_in_scan), PAIR, floats(12, 16), {"y": floats([[2, 4], [6, 12]], [[3, 6], [8, 16]])}, {"y": floats([[1, 2], [3, 4]], [[5, 6], [7, 8]])}, floats(4, 8), unrolled={"y": floats([2, 4, 6, 12], [3, 6, 8, 16])}),
    Case("vmap/of-scan-in-scan", jax.vmap(nested_scan("append")), PAIR, floats(67, 68), {"y": floats([[2, 4, 7], [17, 37, 67]], [[3, 5, 8], [18, 38, 68]])}, {"y": floats([[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]])}, floats(6, 12), unrolled={"y": floats([2, 4, 7, 17, 37, 67], [3, 5, 8, 18, 38, 68])}),
    Case("vmap/of-while-clobber", jax.vmap(while_below(9.0, "clobber")), jnp.array([1.0, 20.0, 5.0]), floats(10, 20, 12), {"y": floats(5, 0, 6)}, {"y": floats(5, 6, 7)}, floats(10, 20, 14), inverse=False, reverse=False),
    Case("vmap/of-while-cond_clobber", jax.vmap(while_below(9.0, "cond_clobber")), jnp.array([1.0, 20.0, 5.0]), floats(10, 20, 12), {"y": floats(2, 0, 0)}, {"y": floats(5, 6, 7)}, floats(10, 20, 14), inverse=False, reverse=False),
    Case("vmap/of-fori-dynamic", jax.vmap(fori("clobber", dynamic=True)), PAIR, floats(4, 5), {"y": floats(4, 5)}, {"y": floats(5, 6)}, floats(5, 6), reverse=False),
    Case("vmap/in-while", in_while(jax.vmap(once("clobber"))), PAIR, floats(10, 14), {"y": floats(5, 7)}, {"y": floats(5, 6)}, floats(10, 12), inverse=False, reverse=False),
]  # fmt: skip
SCOPED = {"a": {"y": 4.0}, "b": {"y": 7.0}}
PLANTED = {"a": {"y": 10.0}, "b": {"y": 1.0}}
NEST = [
    Case("nest/strict", scopes(once("strict")), THREE, 22.0, SCOPED, PLANTED, 22.0),
    Case("nest/append-twice", nest(twice("append"), scope="a"), THREE, 9.0, {"a": {"y": floats(3, 6)}}, {"a": {"y": floats(1, 5)}}, 6.0),
    Case("nest/append-around", lambda x: nest(once("append"), scope="a")(nest(once("append"), scope="a")(x)), THREE, 18.0, {"a": {"y": floats(4, 9)}}, {"a": {"y": floats(1, 5)}}, 10.0),
    Case("nest/clobber", nest(twice("clobber"), scope="a"), THREE, 9.0, {"a": {"y": 6.0}}, {"a": TEN}, 20.0, inverse=False),
    Case("nest/cond_clobber", nest(twice("cond_clobber"), scope="a"), THREE, 9.0, {"a": {"y": 3.0}}, {"a": TEN}, 20.0, inverse=False),
    Case("nest/in-nest", nest(nest(once("strict"), scope=0), scope=("b", 1)), THREE, 8.0, {("b", 1): {0: {"y": 4.0}}}, {("b", 1): {0: TEN}}, 20.0),
    Case("nest/beside", lambda x: nest(once("strict"), scope="a")(x) + once("strict")(x), THREE, 16.0, {"a": {"y": 4.0}, "y": 4.0}, {"a": {"y": 1.0}, "y": 10.0}, 22.0),
    Case("nest/of-jit", nest(jax.jit(once("strict")), scope="a"), THREE, 8.0, {"a": {"y": 4.0}}, {"a": TEN}, 20.0),
    Case("nest/in-jit", jax.jit(scopes(once("strict"))), THREE, 22.0, SCOPED, PLANTED, 22.0),
    Case("nest/of-scan", nest(scan("append"), scope="a"), ONE, STEPS, {"a": {"y": floats(2, 4, 7)}}, {"a": {"y": floats(1, 1, 5)}}, (5.0, floats(2, 2, 10))),
    Case("nest/in-scan", scan("append", around=lambda f: nest(f, scope="a")), ONE, STEPS, {"a": {"y": floats(2, 4, 7)}}, {"a": {"y": floats(1, 1, 5)}}, (5.0, floats(2, 2, 10))),
    Case("nest/in-scan-cond_clobber", scan("cond_clobber", around=lambda f: nest(f, scope="a")), ONE, STEPS, {"a": {"y": 4.0}}, {"a": TEN}, THIRTY, inverse=False),
    Case("nest/of-while", nest(while_below(9.0, "clobber"), scope="a"), ONE, 10.0, {"a": {"y": 5.0}}, {"a": TEN}, 20.0, inverse=False, reverse=False),
    Case("nest/of-cond", nest(branch("strict"), scope="a"), THREE, 8.0, {"a": {"y": 4.0}}, {"a": TEN}, 20.0, branches=True),
    Case("nest/in-cond", lambda x: lax.cond(x > 5, nest(once("strict"), scope="a"), nest(lambda x: put(x), scope="a"), x), THREE, 3.0, {"a": {"y": 3.0}}, {"a": TEN}, 10.0, branches=True),
    Case("nest/of-vmap", nest(jax.vmap(twice("append")), scope="a"), PAIR, floats(3, 6), {"a": {"y": floats([1, 2], [2, 4])}}, {"a": {"y": floats([1, 2], [3, 4])}}, floats(3, 7)),
    Case("nest/in-vmap", jax.vmap(nest(twice("append"), scope="a")), PAIR, floats(3, 6), {"a": {"y": floats([1, 2], [2, 4])}}, {"a": {"y": floats([1, 2], [3, 4])}}, floats(3, 7)),
    Case("nest/of-vmap-of-scan", nest(jax.vmap(doubling("append", 3)), scope="a"), PAIR, floats(8, 16), {"a": {"y": floats([2, 4, 8], [4, 8, 16])}}, {"a": {"y": floats([1, 2, 3], [4, 5, 6])}}, floats(3, 6)),
    Case("nest/in-vmap-of-scan", jax.vmap(nest(doubling("append", 3), scope="a")), PAIR, floats(8, 16), {"a": {"y": floats([2, 4, 8], [4, 8, 16])}}, {"a": {"y": floats([1, 2, 3], [4, 5, 6])}}, floats(3, 6)),
    Case("nest/of-vmap-of-while", nest(jax.vmap(while_below(9.0, "clobber")), scope="a"), jnp.array([1.0, 20.0, 5.0]), floats(10, 20, 12), {"a": {"y": floats(5, 0, 6)}}, {"a": {"y": floats(5, 6, 7)}}, floats(10, 20, 14), inverse=False, reverse=False),
]  # fmt: skip
CONTROL_FLOW = [*STRAIGHT, *JIT, *COND, *SCAN, *LOOPS, *VMAP, *NEST]
