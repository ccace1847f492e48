"""How long does a step of a chain take on the CPU, by coordinates and kind of mass matrix?

The density has independent normal coordinates of different scales, so its gradient takes next to no
time. NUTS runs twice, for 1000 and for 9000 draws. The figure is the extra CPU time of the second
run over its extra gradients, in microseconds of a core, the median of several pairs of runs.
Rows "without" leave out one of the XLA tricks of `inference/runtime/xla.py`, or all of them, as
PPL_XLA_TRICKS=0 does. Padding has a barrier of its own, which goes with the barriers.

    python benchmarks/steps.py [coordinates ...]
"""

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import distributions as dist
import inference
import ppl
from inference.chains import chain
from inference.common import threefry
from inference.runtime import compiled_program, xla

SIZES, KINDS, MOST_DENSE = (10, 32, 89, 100, 200, 400, 800), ("diagonal", "dense", "low_rank"), 200
PAIRS, WARMUP, DRAWS = 5, 300, (1000, 9000)


def model(key: jax.Array, scale: jax.Array) -> jax.Array:
    return ppl.sample(key, dist.Normal(jnp.zeros_like(scale), scale), name="x")


def unchanged(x: Any) -> Any:
    return x


# The helpers of each trick, by the modules that call them, and what takes their place.
TRICKS: dict[str, list[tuple[Any, str, Callable[..., Any]]]] = {
    "a loop of one round": [(chain, "fuse_as_loop", lambda f, x, *_: f(x))],
    "barriers": [
        (threefry, "materialize", unchanged),
        (threefry, "materialize_by_loop", unchanged),
        (xla, "materialize", unchanged),
    ],
    "padding": [(chain, "pad_for_cpu", unchanged)],
    "compiler options": [
        (compiled_program, "fuse_small_loops", lambda *_: contextlib.nullcontext()),
    ],
}


@contextlib.contextmanager
def without(*names: str) -> Iterator[None]:
    """A context without some of the XLA tricks."""
    with contextlib.ExitStack() as stack:
        for helper in (helper for name in names for helper in TRICKS[name]):
            stack.enter_context(mock.patch.object(*helper))
        compiled_program.compile_program.cache_clear()
        yield
    compiled_program.compile_program.cache_clear()


def run(size: int, kind: str, num_draws: int, seed: int) -> tuple[float, int]:
    """CPU seconds of a call, and the number of gradients of its draws."""
    scale = jnp.asarray(np.geomspace(0.5, 2.0, size), jnp.float32)
    start = time.process_time()
    result = inference.mcmc(
        jax.random.key(seed),
        model,
        scale,
        num_warmup=WARMUP,
        num_draws=num_draws,
        num_chains=2,
        mass_matrix=kind,
    )
    return time.process_time() - start, int(np.sum(result.stats["num_steps"]))


def step(size: int, kind: str) -> float:
    """Microseconds of a core for one more gradient."""
    run(size, kind, DRAWS[0], 0)  # compiles
    found = []
    for seed in range(PAIRS):
        (less, few), (more, many) = (run(size, kind, num_draws, seed) for num_draws in DRAWS)
        found.append(1e6 * (more - less) / (many - few))
    return statistics.median(found)


def main(sizes: list[int]) -> None:
    print(f"Python {sys.version.split()[0]}, jax {jax.__version__}, {jax.default_backend()}")
    print(f"{'coordinates':29}{''.join(f'{size:8}' for size in sizes)}")
    contexts = {f"  without {name}": (name,) for name in TRICKS} | {"  without all": tuple(TRICKS)}
    for kind in KINDS:
        some = [size for size in sizes if kind != "dense" or size <= MOST_DENSE]
        for label, names in ({kind: ()} | contexts).items():
            if "padding" in names and len(names) == 1 and kind != "dense":
                continue
            with without(*names):
                row = [f"{step(size, kind):8.2f}" for size in some]
            print(f"{label:29}{''.join(row)}", flush=True)


if __name__ == "__main__":
    main([int(x) for x in sys.argv[1:]] or list(SIZES))
