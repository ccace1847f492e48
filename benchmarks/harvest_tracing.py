"""How does the time to trace a harvested function grow, and what does a plant save?

Three tables:

    size   programs of more and more equations, a tenth of them sows; times to trace them plain and
           harvested
    depth  nested constructs with a sow in the innermost; number of jaxprs that the interpreter
           walks, and times. In "shared jit" each function calls the one below twice: the number of
           jaxprs equals the depth, but the number of calls doubles with every level
    dead   an expensive computation whose only result is planted; equations that remain, and times

Figures are medians. Python's garbage collector is off, as its pauses depend on everything else in
the process.

    python benchmarks/harvest_tracing.py [rounds]
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
from jax import lax
from jax.extend import core as jex

from ppl.harvest import harvest, plant, sow
from ppl.harvest.interpreter import Interpreter

Function = Callable[..., Any]
TAG = "t"
X = jnp.float32(1.0)
MATRIX = jnp.eye(8)
DEPTHS = (1, 2, 4, 8)


def seconds(call: Function) -> float:
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    call()
    elapsed = time.perf_counter() - start
    gc.enable()
    return elapsed


def medians(rounds: int, *calls: Function) -> list[float]:
    """Median milliseconds of calls that take turns, without the first call of each."""
    times = [[1e3 * seconds(call) for call in calls] for _ in range(rounds + 1)]
    return [statistics.median(column) for column in zip(*times[1:], strict=True)]


def trace(make: Callable[[], Function]) -> Any:
    """The jaxpr of a new function, which no cache holds."""
    return jax.make_jaxpr(make())(X)


def harvested(make: Callable[[], Function]) -> Callable[[], Function]:
    return lambda: lambda x: harvest(make(), tag=TAG)({}, x)


def straight_line(num_equations: int) -> Function:
    def f(x: Any) -> Any:
        for i in range(num_equations // 10):
            for _ in range(9):
                x = lax.sin(x)
            x = sow(x, tag=TAG, name=i)
        return x

    return f


def size(rounds: int) -> None:
    print("equations    sows  plain ms  harvested ms  us per equation  ratio")
    for n in (2_500, 5_000, 10_000):
        make = lambda n=n: straight_line(n)  # noqa: E731
        assert len(trace(make).eqns) == n
        plain, ours = medians(rounds, lambda m=make: trace(m), lambda m=make: trace(harvested(m)))
        row = f"{n:9} {n // 10:7} {plain:9.0f} {ours:13.0f}"
        print(f"{row} {1e3 * ours / n:16.1f} {ours / plain:6.2f}")


def leaf(x: Any) -> Any:
    return sow(x, tag=TAG, name="y", mode="clobber")


WRAPS: dict[str, Callable[[Function], Function]] = {
    "jit": lambda f: jax.jit(lambda x: f(x + 1)),
    "cond": lambda f: lambda x: lax.cond(x > 0, lambda x: f(x + 1), leaf, x),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c + 1), None), x, None, length=2)[0],
    "while": lambda f: lambda x: lax.fori_loop(0, jnp.int32(2), lambda _, c: f(c + 1), x),
    "shared jit": lambda f: jax.jit(lambda x: f(f(x + 1))),
}
NESTS = {name: [name] for name in WRAPS} | {"all four mixed": ["jit", "cond", "scan", "while"]}


def deep(names: list[str], depth: int) -> Function:
    f = leaf
    for i in range(depth):
        f = WRAPS[names[i % len(names)]](f)
    return f


@contextmanager
def counting_walks() -> Iterator[list[Any]]:
    """A context that lists the jaxprs the interpreter walks, one entry for each walk."""
    walked, run = [], Interpreter.run

    def spy(self: Interpreter, jaxpr: Any, *args: Any, **kwargs: Any) -> Any:
        walked.append(jaxpr)
        return run(self, jaxpr, *args, **kwargs)

    Interpreter.run = spy
    yield walked
    Interpreter.run = run


def depth(rounds: int) -> None:
    columns = "".join(f"{d:6}" for d in DEPTHS)
    print(f"{'':18}walks at depth          milliseconds harvested    plain")
    print(f"{'':18}{columns}  {columns}{DEPTHS[-1]:9}")
    for name, names in NESTS.items():
        walks, times, plain = "", "", 0.0
        for d in DEPTHS:
            make = lambda d=d, names=names: deep(names, d)  # noqa: E731
            with counting_walks() as walked:
                trace(harvested(make))
            plain, ours = medians(
                rounds, lambda m=make: trace(m), lambda m=make: trace(harvested(m))
            )
            walks, times = f"{walks}{len(walked):6}", f"{times}{ours:6.1f}"
        print(f"{name:18}{walks}  {times}{plain:9.1f}")


def expensive(x: Any) -> Any:
    rows = x * MATRIX
    for _ in range(500):
        rows = jnp.tanh(rows @ MATRIX)
    return rows


def once(x: Any) -> Any:
    return jnp.sum(sow(expensive(x), tag=TAG, name="y") ** 2)


def in_scan(x: Any) -> Any:
    def step(carry: Any, _: None) -> Any:
        total, rows = carry
        rows = expensive(rows)
        y = sow(rows, tag=TAG, name="y", mode="clobber")
        return (total + jnp.sum(y**2), rows), None

    return lax.scan(step, (x, x * MATRIX), None, length=3)[0][0]


def num_equations(jaxpr: Any) -> int:
    inner = [j for eqn in jaxpr.eqns for j in jex.jaxprs_in_params(eqn.params)]
    return len(jaxpr.eqns) + sum(map(num_equations, inner))


def dead(rounds: int) -> None:
    print("                    equations  trace ms  lower ms  compile ms")
    for f in (once, in_scan):
        planted = lambda f=f: lambda x: plant(f, tag=TAG)({"y": MATRIX}, x)  # noqa: E731
        kinds = {
            "": lambda f=f: lambda x: f(x),
            ", reaped": harvested(lambda f=f: f),
            ", planted": planted,
        }
        for kind, make in kinds.items():
            times = [stages(make) for _ in range(rounds + 1)][1:]
            row = "".join(f"{statistics.median(t):10.0f}" for t in zip(*times, strict=True))
            name = f.__name__.replace("_", " ") + kind
            print(f"{name:18}{num_equations(trace(make).jaxpr):11}{row}")


def stages(make: Callable[[], Function]) -> list[float]:
    """Milliseconds to trace, lower and compile."""
    out: list[Any] = [jax.jit(make())]
    steps = [lambda f: f.trace(X), lambda t: t.lower(), lambda low: low.compile()]
    return [1e3 * seconds(lambda s=step: out.append(s(out[-1]))) for step in steps]


def main(rounds: int) -> None:
    python, device = sys.version.split()[0], jax.devices()[0].platform
    versions = f"Python {python}, jax {jax.__version__}, jaxlib {jaxlib.__version__}"
    print(f"{versions}, {device}, {rounds} rounds")
    for table in (size, depth, dead):
        print()
        table(rounds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
