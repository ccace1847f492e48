"""Random programs that sow, also in reverse mode: laws of harvest against plain Python.

`python -m tests.fuzz.harvest_laws` goes on from seed to seed, and prints what fails.
"""

import argparse
import itertools
import random
import sys
import time
import traceback
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppl.harvest import call_and_reap, harvest, plant, reap
from tests.harvest.checks import TAG, assert_same
from tests.harvest.programs import Arithmetic, Block, Sow, known_reaps, names, run, sows, to_jax

MODES = ("strict", "append", "clobber", "cond_clobber")
KINDS = ("jit", "checkpoint", "custom_vjp", "nest", "vmap", "scan", "cond", "choice")


def random_program(seed: int) -> list[Any]:
    """A program with at least one sow, every one under a name of its own."""
    rng = random.Random(seed)
    while True:
        program = _body(rng, frozenset(), 3, itertools.count())
        if names(program):
            return program


Around = frozenset[str]  # Kinds of the blocks around a statement.


def _body(rng: random.Random, around: Around, depth: int, counter: Iterator[int]) -> list[Any]:
    return [_statement(rng, around, depth, counter) for _ in range(rng.randint(1, 3))]


def _statement(rng: random.Random, around: Around, depth: int, counter: Iterator[int]) -> Any:
    if depth and rng.random() < 0.6:
        # What a rule of a custom derivative sows is in no scope.
        kind = rng.choice([k for k in KINDS if k != "custom_vjp" or "nest" not in around])
        size = rng.randint(-3, 3) if kind in ("cond", "choice") else rng.randint(1, 3)
        body = _body(rng, around | {kind}, depth - 1, counter)
        return Block(kind, size, f"b{next(counter)}", tuple(body))
    if rng.random() < 0.3:
        return Arithmetic(rng.choice([1, -1, 2]), rng.randint(-3, 3))
    mode = rng.choice([m for m in MODES if m != "strict" or "scan" not in around])
    fixed = "vmap" not in around and rng.random() < 0.4  # One value for all elements there.
    times = 1 if fixed or mode == "strict" else rng.randint(1, 2)
    return Sow(f"s{next(counter)}", mode, times, rng.randint(-5, 5), fixed)


def check(seed: int) -> None:
    """Raise an AssertionError if the program of a seed breaks a law."""
    program, rng = random_program(seed), random.Random(-seed - 1)
    p, v = float(rng.randint(-4, 4)), float(rng.randint(-4, 4))
    f = to_jax(program)
    out, reaps = run(program, p, v, {})
    chosen = [path for path in reaps if rng.random() < 0.5]
    flat = {path: np.asarray(reaps[path][0] + 1, np.float32) for path in chosen}
    planted_out, rest = run(program, p, v, flat)
    inverse = {path: reaps[path][0] for path, s in sows(program) if s.mode in ("strict", "append")}
    results = _evaluate(f, jnp.float32(p), jnp.float32(v), _nested(flat), _nested(inverse))
    known, gradient, second = known_reaps(reaps), results["gradient"], results["second"]
    planted = known_reaps(rest)
    assert_same(results["reaped"], (np.float32(out), known))
    assert_same(results["planted"], (np.float32(planted_out), planted))
    assert_same(results["back"], np.float32(out))
    assert_same(results["jit"], results["reaped"])
    for outside in ("of gradient", "of jitted gradient", "of checkpointed gradient"):
        assert_same(results[outside], (gradient, known))
    assert_same(results["gradient of reaped"], gradient)
    assert_same(results["planted gradient"], (results["gradient of planted"], planted))
    assert_same(results["of second"], (second, known))
    assert_same(results["linearized"], known)


def _evaluate(f: Any, p: Any, v: Any, plants: Any, inverse: Any) -> dict[str, Any]:
    gradient = jax.grad(f, (0, 1))
    second = jax.jacrev(gradient, (0, 1))

    def linearized(p: Any, v: Any) -> Any:
        return jax.vjp(f, p, v)[1](jnp.ones_like(v))

    @jax.jit
    def everything(p: Any, v: Any, plants: Any, inverse: Any) -> dict[str, Any]:
        at = lambda g, plants: harvest(g, tag=TAG)(plants, p, v)  # noqa: E731
        alone = lambda p, v: call_and_reap(f, tag=TAG)(p, v)[0]  # noqa: E731
        return {
            "reaped": at(f, {}),
            "planted": at(f, plants),
            "back": at(f, inverse)[0],
            "jit": at(jax.jit(f), {}),
            "gradient": gradient(p, v),
            "of gradient": at(gradient, {}),
            "of jitted gradient": at(jax.grad(jax.jit(f), (0, 1)), {}),
            "of checkpointed gradient": at(jax.grad(jax.checkpoint(f), (0, 1)), {}),
            "gradient of reaped": jax.grad(alone, (0, 1))(p, v),
            "planted gradient": at(gradient, plants),
            "gradient of planted": jax.grad(
                lambda p, v: plant(f, tag=TAG)(plants, p, v), argnums=(0, 1)
            )(p, v),
            "second": second(p, v),
            "of second": at(second, {}),
            "linearized": reap(linearized, tag=TAG)(p, v),
        }

    return everything(p, v, plants, inverse)


def _nested(values: dict[tuple[str, ...], Any]) -> dict[Any, Any]:
    return known_reaps({path: (value, np.True_) for path, value in values.items()})


def main() -> int:
    """Checks programs until the time is over; 1 if one breaks a law."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.harvest_laws", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1000, help="of the first program")
    given = parser.parse_args()
    jax.config.update("jax_disable_most_optimizations", True)  # Nearly all the time is compiling.
    until, seed, faults = time.monotonic() + given.seconds, given.seed, 0
    while time.monotonic() < until:
        try:
            check(seed)
        except Exception:
            faults += 1
            print(f"\n=== seed {seed}: {random_program(seed)}\n{traceback.format_exc(limit=-4)}")
        seed += 1
        if seed % 50 == 0:
            jax.clear_caches()
    print(f"{seed - given.seed} programs, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
