"""How long do the models of the catalogue take to run and compile, beside densities by hand?

The log density and its gradient of the forty models of examples/catalogue, derived by `ppl` and
written by hand. Both take turns in one process; figures are medians over rounds.

    run              seconds of an evaluation, among many in one compiled loop
    trace and lower  CPU seconds for one evaluation, of a new function each time
    XLA              CPU seconds to compile that evaluation
    both             ratio of trace, lower and XLA together
    diff.            largest relative difference of values and gradients

CPU time is disturbed less than elapsed time by other work on the machine.

The second number multiplies the observations: all are repeated, in models that allow it.

    python benchmarks/catalogue.py [rounds [times]] [model ...]
"""

import dataclasses
import functools
import inspect
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jax.flatten_util import ravel_pytree
from log_density import in_a_loop, seconds

import ppl

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from examples.catalogue import MODELS, Entry, join

RUN_MARK, COMPILE_MARK = 1.05, 1.10
SECONDS_PER_CALL = 0.005
OF_ONE_SIZE = {
    "capture_recapture",
    "eight_schools_centered",
    "eight_schools_noncentered",
    "missing_data",
}
Density = tuple[Callable[..., Any], tuple[Any, ...]]


def densities(entry: Entry) -> tuple[Any, tuple[Density, Density]]:
    """Values of the latent sites, and both densities with their data as arguments, ours first."""
    args, observed = jax.tree.map(jnp.asarray, entry.data())
    posterior = ppl.condition(entry.model, observed)
    target = ppl.unconstrain(posterior, *args)
    position = jax.tree.map(lambda x: 0.3 * x, target.initial(jax.random.key(3)))

    def ours(values: Any, posterior: Any, *args: Any) -> Any:
        return ppl.log_density(posterior)(values, *args)

    def by_hand(values: Any, observed: Any, *args: Any) -> Any:
        return entry.density(join(values, observed), *args)

    return target.constrain(position), ((ours, (posterior, *args)), (by_hand, (observed, *args)))


def enlarged(entry: Entry, times: int) -> Entry:
    """The entry with all observations repeated `times` times, and sizes of the model to match."""
    args, observed = entry.data()
    rows = max(len(x) for x in jax.tree.leaves(observed or args) if np.ndim(x))

    def repeated(x: Any) -> Any:
        return np.concatenate([x] * times) if np.ndim(x) and len(x) == rows else x

    data = jax.tree.map(repeated, (args, observed))
    parameters = inspect.signature(entry.model).parameters
    sizes = {name: times * rows for name, p in parameters.items() if p.default == rows}
    model = functools.partial(entry.model, **sizes)
    return dataclasses.replace(entry, model=model, simulate=lambda _: data)


def run_times(values: Any, pair: tuple[Density, Density], rounds: int) -> list[float]:
    """Seconds for an evaluation in a compiled loop, for both densities."""
    f, data = pair[1]
    trial = in_a_loop(f, 100)
    seconds(lambda: trial(values, *data))
    repeats = 1 + round(100 * SECONDS_PER_CALL / seconds(lambda: trial(values, *data)))
    loops = [(in_a_loop(f, repeats), data) for f, data in pair]
    calls = [lambda loop=loop, data=data: loop(values, *data) for loop, data in loops]
    for call in calls:
        seconds(call)
    return medians([[seconds(call) / repeats for call in calls] for _ in range(rounds)])


def lower_and_compile(values: Any, density: Density) -> tuple[float, float]:
    """CPU seconds to trace and lower, and to compile."""
    f, data = density
    times = [time.process_time()]
    lowered = jax.jit(jax.value_and_grad(lambda *inputs: f(*inputs))).lower(values, *data)
    times.append(time.process_time())
    lowered.compile()
    times.append(time.process_time())
    return times[1] - times[0], times[2] - times[1]


def compile_times(values: Any, pair: tuple[Density, Density], rounds: int) -> list[float]:
    """CPU seconds to lower and to compile, for both densities; a first round only fills caches."""
    times = [
        [t for density in pair for t in lower_and_compile(values, density)]
        for _ in range(rounds + 1)
    ]
    return medians(times[1:])


def medians(rounds: list[list[float]]) -> list[float]:
    return [statistics.median(column) for column in zip(*rounds, strict=True)]


def difference(values: Any, pair: tuple[Density, Density]) -> float:
    a, b = (ravel_pytree(jax.jit(jax.value_and_grad(f))(values, *data))[0] for f, data in pair)
    return float(jnp.max(jnp.abs(a - b)) / (1 + jnp.max(jnp.abs(b))))


def compare(entry: Entry, rounds: int) -> tuple[str, float, float]:
    """One row of the table, and the ratios of run and compile times."""
    values, pair = densities(entry)
    run = run_times(values, pair, rounds)
    lower, compiled, lower_by_hand, compiled_by_hand = compile_times(
        values, pair, max(7, rounds // 4)
    )
    ratio = (lower + compiled) / (lower_by_hand + compiled_by_hand)
    columns = [(1e6 * t, 2) for t in run] + [(run[0] / run[1], 2)]
    for ours, theirs in ((lower, lower_by_hand), (compiled, compiled_by_hand)):
        columns += [(1e3 * ours, 0), (1e3 * theirs, 0), (ours / theirs, 2)]
    row = "".join(f"{x:8.{digits}f}" for x, digits in (*columns, (ratio, 2)))
    return f"{row}{difference(values, pair):9.0e}", run[0] / run[1], ratio


def main(rounds: int, times: int, names: list[str]) -> None:
    python, device = sys.version.split()[0], jax.devices()[0].platform
    versions = f"Python {python}, jax {jax.__version__}, jaxlib {jaxlib.__version__}"
    print(f"{versions}, {device}, float32, {rounds} rounds, {times} times the observations")
    heads = ("run, us", "trace and lower, ms", "XLA, ms")
    print(f"{'':28}{''.join(f'{head:>24}' for head in heads)}    both   diff.")
    print(f"{'':28}{3 * '     ppl by hand   ratio'}   ratio")
    ratios = []
    for name in names or MODELS:
        is_enlarged = times > 1 and name not in OF_ONE_SIZE
        entry = enlarged(MODELS[name], times) if is_enlarged else MODELS[name]
        row, *of_model = compare(entry, rounds)
        ratios.append(of_model)
        print(f"{name:28}{row}", flush=True)
    slow, long = (
        sum(ratio > mark for ratio in column)
        for column, mark in zip(zip(*ratios, strict=True), (RUN_MARK, COMPILE_MARK), strict=True)
    )
    print(f"above {RUN_MARK} at run time: {slow}; above {COMPILE_MARK} to compile: {long}")


if __name__ == "__main__":
    numbers = [int(x) for x in sys.argv[1:3] if x.isdecimal()]
    main(*[*numbers, *(31, 1)[len(numbers) :]], sys.argv[1 + len(numbers) :])
