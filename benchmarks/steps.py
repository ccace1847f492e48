"""What does a step of a chain cost on the CPU, by coordinates and kind of mass matrix?

Independent normal coordinates of different scales, whose gradient costs next to nothing. CPU time
of two runs of NUTS, of 1000 and of 9000 draws, over the gradients that the second has more: the
median of some pairs of runs, in microseconds of a core. "without": what programs that move chains
are compiled with is left out, but for loops of 64 KiB in one kernel: larger kernels, sums in one
piece, and the layout of dense factors.

    python benchmarks/steps.py [coordinates ...]
"""

import contextlib
import statistics
import sys
import time
from collections.abc import Iterator
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import distributions as dist
import inference
import ppl
from inference import chain, compiled_program

SIZES, KINDS, MOST_DENSE = (10, 32, 89, 100, 200, 400, 800), ("diagonal", "dense", "low_rank"), 200
PAIRS, WARMUP, DRAWS = 5, 300, (1000, 9000)


def model(key: jax.Array, scale: jax.Array) -> jax.Array:
    return ppl.sample(key, dist.Normal(jnp.zeros_like(scale), scale), name="x")


@contextlib.contextmanager
def without_options() -> Iterator[None]:
    """Loops of at most 64 KiB in one kernel, sums by windows, dense factors as they are."""
    small = compiled_program.small_loops_in_one_kernel

    def of_64_kib(*_: object) -> contextlib.AbstractContextManager[None]:
        return small(1 << 16, 1 << 30)

    options = mock.patch.object(compiled_program, "small_loops_in_one_kernel", of_64_kib)
    layout = mock.patch.object(chain, "laid_out", lambda factor: factor)
    with options, layout:
        compiled_program.compiled.cache_clear()
        yield
    compiled_program.compiled.cache_clear()


def run(size: int, kind: str, num_draws: int, seed: int) -> tuple[float, int]:
    """CPU seconds of a call, and the gradients of its draws."""
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
    """Microseconds of a core for a gradient more."""
    run(size, kind, DRAWS[0], 0)  # compiles
    found = []
    for seed in range(PAIRS):
        (less, few), (more, many) = (run(size, kind, num_draws, seed) for num_draws in DRAWS)
        found.append(1e6 * (more - less) / (many - few))
    return statistics.median(found)


def main(sizes: list[int]) -> None:
    print(f"Python {sys.version.split()[0]}, jax {jax.__version__}, {jax.default_backend()}")
    print(f"{'coordinates':12}{''.join(f'{size:8}' for size in sizes)}")
    for kind in KINDS:
        some = [size for size in sizes if kind != "dense" or size <= MOST_DENSE]
        for name, context in ((kind, contextlib.nullcontext()), ("  without", without_options())):
            with context:
                row = [f"{step(size, kind):8.2f}" for size in some]
            print(f"{name:12}{''.join(row)}", flush=True)


if __name__ == "__main__":
    main([int(x) for x in sys.argv[1:]] or list(SIZES))
