"""Do sums and integrals that `ppl.marginalize` makes cost as much as those written by hand?

Five parts; peers take turns in one process, and figures are medians over rounds.

    density   us of CPU time for the log density, and for it with its gradient, among many in one
              compiled loop; of ours, of the sum or integral by hand, and of NumPyro's enumeration
    compile   CPU seconds to trace and to compile density and gradient of a model made anew, beside
              NumPyro's enumeration (`contrib.control_flow.scan` for a chain)
    size      both for 10 and for 10,000 rows or steps, of ours and by hand
    nuts      ESS a second with 4 chains, beside NumPyro's NUTS on its enumerated model: the
              smallest bulk ESS of all parameters, by one code for both, over the seconds of a
              call that compiles nothing (NumPyro's: its kernel in one jitted function)
    schools   ESS per 1000 gradients of eight schools: with effects integrated out, and not centered

    python benchmarks/marginalize.py [--parts density nuts ...] [--models mixture ...] [--rounds 25]

The table goes to `benchmarks/results/marginalize.md` if all parts are measured. NumPyro is left out
where it or funsor is not installed.
"""

import argparse
import functools
import importlib.metadata
import importlib.util
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import inference
from benchmarks.marginal import schools
from benchmarks.marginal.problems import ERRORS, PROBLEMS, Problem

HAS_NUMPYRO = all(map(importlib.util.find_spec, ("numpyro", "funsor")))
if HAS_NUMPYRO:
    from benchmarks.marginal import with_numpyro
RESULTS = pathlib.Path(__file__).parent / "results" / "marginalize.md"
OF_ANY_SIZE = ("hidden Markov model", "mixture", "local level")
SAMPLED = ("hidden Markov model", "mixture")
SECONDS_PER_CALL = 0.02
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 4, 500, 500
Row = list[str]


def densities(name: str, problem: Problem) -> dict[str, Callable[..., Any]]:
    """The densities of a problem: ours, by hand, and NumPyro's if it can express the model."""
    found: dict[str, Callable[..., Any]] = {"ours": problem.density, "by hand": problem.by_hand}
    if HAS_NUMPYRO and name in with_numpyro.MODELS:
        found["NumPyro"] = with_numpyro.density(name)
    return found


def inputs(problem: Problem) -> tuple[Any, ...]:
    """Values, observed values and arguments on the device, in single precision."""
    return jax.tree.map(jnp.asarray, (problem.values, problem.observed, *problem.args))


def loop(density: Callable[..., Any], has_gradient: bool, repeats: int) -> Callable[..., Any]:
    """A loop of evaluations, each at a point that depends on the last one."""

    def run(values: Any, *data: Any) -> Any:
        def step(_: int, state: Any) -> Any:
            values, total = state
            if has_gradient:
                value, slope = jax.value_and_grad(density)(values, *data)
                values = jax.tree.map(lambda x, g: x + 1e-12 * g, values, slope)
            else:
                value = density(values, *data)
                values = jax.tree.map(lambda x: x + 1e-12 * value, values)
            return values, total + value

        return lax.fori_loop(0, repeats, step, (values, jnp.zeros(())))

    return jax.jit(run)


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    jax.block_until_ready(call())
    return clock() - start


def cpu_seconds(call: Callable[[], Any]) -> float:
    """CPU time, which other work on the machine disturbs less."""
    return seconds(call, time.process_time)


def run_times(problem: Problem, fs: Sequence[Callable[..., Any]], grad: bool, rounds: int) -> Any:
    """CPU seconds of an evaluation by round and density."""
    data = inputs(problem)
    trial = loop(fs[-1], grad, 10)
    cpu_seconds(lambda: trial(*data))
    repeats = 1 + round(10 * SECONDS_PER_CALL / cpu_seconds(lambda: trial(*data)))
    loops = [loop(f, grad, repeats) for f in fs]
    calls = [functools.partial(f, *data) for f in loops]
    for call in calls:
        seconds(call)
    return np.array([[cpu_seconds(call) / repeats for call in calls] for _ in range(rounds)])


def of_columns(times: np.ndarray, names: Sequence[str], scale: float, digits: int) -> Row:
    """Medians of ours, by hand and NumPyro's, and ratios of ours to the two."""
    cells, ratios = [], []
    for name in ("ours", "by hand", "NumPyro"):
        at = list(names).index(name) if name in names else None
        cells.append("" if at is None else f"{scale * np.median(times[:, at]):.{digits}f}")
        if name != "ours":
            ratio = None if at is None else np.median(times[:, 0] / times[:, at])
            ratios.append("" if ratio is None else f"{ratio:.2f}")
    return cells + ratios


def difference(problem: Problem, fs: Sequence[Callable[..., Any]]) -> float:
    """The largest relative difference of value or gradient from ours."""
    data = inputs(problem)
    ours, *rest = (ravel_pytree(jax.jit(jax.value_and_grad(f))(*data))[0] for f in fs)
    return max(float(jnp.max(jnp.abs(ours - x)) / jnp.max(jnp.abs(ours))) for x in rest)


def density_rows(options: argparse.Namespace) -> Iterator[Row]:
    for name in options.models:
        make, num = PROBLEMS[name]
        problem = make(num)
        fs = densities(name, problem)
        error = f"{difference(problem, list(fs.values())):.0e}"
        for what, grad in (("density", False), ("with gradient", True)):
            times = run_times(problem, list(fs.values()), grad, options.rounds)
            yield [name, str(num), what, *of_columns(times, list(fs), 1e6, 1), error]


def compile_times(name: str, num: int, which: str) -> list[float]:
    """CPU seconds to trace and to compile density and gradient of a model made anew."""
    problem = PROBLEMS[name][0](num)
    data = inputs(problem)
    start = time.process_time()
    lowered = jax.jit(jax.value_and_grad(densities(name, problem)[which])).lower(*data)
    traced = time.process_time()
    lowered.compile()
    return [traced - start, time.process_time() - traced]


def compile_rows(options: argparse.Namespace) -> Iterator[Row]:
    for name in options.models:
        make, num = PROBLEMS[name]
        names = list(densities(name, make(num)))
        rounds = [
            [compile_times(name, num, which) for which in names]
            for _ in range(options.compile_rounds + 1)
        ]
        times = np.array(rounds[1:])  # A first round only fills caches.
        for i, what in enumerate(("trace", "compile")):
            yield [name, what, *of_columns(times[..., i], names, 1e3, 0)]
        yield [name, "both", *of_columns(times.sum(-1), names, 1e3, 0)]


def size_rows(options: argparse.Namespace) -> Iterator[Row]:
    for name in (x for x in options.models if x in OF_ANY_SIZE):
        cases = [(num, which) for which in ("ours", "by hand") for num in (10, 10_000)]
        rounds = [
            [sum(compile_times(name, num, which)) for num, which in cases]
            for _ in range(options.compile_rounds + 1)
        ]
        times = np.array(rounds[1:])
        row = [name]
        for i in (0, 2):
            row += [f"{1e3 * x:.0f}" for x in np.median(times[:, i : i + 2], 0)]
            row.append(f"{np.median(times[:, i + 1] / times[:, i]):.2f}")
        yield row


def smallest_ess(draws: Mapping[str, Any]) -> float:
    """The smallest bulk ESS of all numbers; draws are ``(chain, draw, *shape)``."""
    flat = [np.reshape(x, (*np.shape(x)[:2], -1)) for x in draws.values()]
    return float(np.min(inference.ess_bulk(np.concatenate(flat, -1).astype(np.float64))))


def samplers(name: str, problem: Problem) -> dict[str, tuple[Any, Any]]:
    """By tool, a function of the seed to call first, and one that compiles nothing."""
    data = jax.tree.map(jnp.asarray, problem.observed)
    numbers: dict[str, Any] = {
        "num_chains": NUM_CHAINS,
        "num_warmup": NUM_WARMUP,
        "num_draws": NUM_DRAWS,
    }
    posterior = problem.posterior(data)

    def ours(seed: int) -> Any:
        result = inference.mcmc(jax.random.key(seed), posterior, *problem.args, **numbers)
        return jax.block_until_ready(result.draws), result.stats["num_steps"]

    found: dict[str, tuple[Any, Any]] = {"ours": (ours, ours)}
    if HAS_NUMPYRO:
        found["NumPyro"] = with_numpyro.sampler(name, data, **numbers)
    return found


def nuts_rows(options: argparse.Namespace) -> Iterator[Row]:
    for name in (x for x in options.models if x in SAMPLED):
        make, num = PROBLEMS[name]
        tools = samplers(name, make(num))
        firsts = {}
        for tool, (first, again) in tools.items():
            firsts[tool] = seconds(lambda first=first: first(0))
            again(0)
        found: dict[str, list[Any]] = {tool: [] for tool in tools}
        for seed in range(1, options.repeats + 1):
            for tool, (_, again) in tools.items():
                start = time.perf_counter()
                draws, steps = again(seed)
                duration = time.perf_counter() - start
                found[tool].append((smallest_ess(draws), duration, float(np.sum(steps)), draws))
        rates = {tool: statistics.median(e / t for e, t, *_ in x) for tool, x in found.items()}
        for tool, runs in found.items():
            ess, duration, steps = (statistics.median(run[i] for run in runs) for i in range(3))
            ratio = rates[tool] / rates["NumPyro"] if "NumPyro" in rates else np.nan
            cells = [f"{ess:.0f}", f"{firsts[tool]:.1f}", f"{duration:.2f}", f"{rates[tool]:.0f}"]
            yield [name, tool, *cells, f"{1000 * ess / steps:.0f}", f"{ratio:.2f}"]


def schools_rows(options: argparse.Namespace) -> Iterator[Row]:
    rates = {}
    for what, posterior in schools.POSTERIORS.items():
        runs = []
        for seed in range(1, options.repeats + 3):
            result = inference.mcmc(jax.random.key(seed), posterior, ERRORS)
            draws = {name: x for name, x in result.draws.items() if name in ("mu", "tau")}
            runs.append(1000 * smallest_ess(draws) / float(np.sum(result.stats["num_steps"])))
        rates[what] = statistics.median(runs)
        yield [what, f"{rates[what]:.0f}", f"{rates[what] / rates[schools.FIRST]:.2f}"]


TABLES = {
    "density": (
        density_rows,
        ["", "size", "CPU us", "ours", "by hand", "NumPyro", "/ by hand", "/ NumPyro", "diff."],
    ),
    "compile": (
        compile_rows,
        ["", "CPU ms", "ours", "by hand", "NumPyro", "/ by hand", "/ NumPyro"],
    ),
    "size": (
        size_rows,
        ["CPU ms", "10", "10,000", "ratio", "by hand, 10", "by hand, 10,000", "ratio"],
    ),
    "nuts": (
        nuts_rows,
        ["", "", "ESS", "first call, s", "s", "ESS / s", "ESS / 1000 gradients", "/ NumPyro"],
    ),
    "schools": (schools_rows, ["eight schools, mu and tau", "ESS / 1000 gradients", "ratio"]),
}


def table(head: Row, rows: list[Row]) -> str:
    """Rows as a table in markdown."""
    names = sum(all(not c or not c[0].isdigit() for c in column) for column in zip(*rows))  # noqa: B905
    rule = ["---" if i < names else "---:" for i in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--parts", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--models", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--rounds", type=int, default=25, help="of evaluations")
    parser.add_argument("--compile-rounds", type=int, default=7)
    parser.add_argument("--repeats", type=int, default=3, help="of runs of NUTS")
    options = parser.parse_args()
    versions = f"JAX {jax.__version__} on {jax.devices()[0].device_kind}, float32"
    if HAS_NUMPYRO:
        versions += f", NumPyro {importlib.metadata.version('numpyro')}"
    command = " ".join(["python benchmarks/marginalize.py", *sys.argv[1:]])
    texts = [f"`{command}`: {versions}; {options.rounds} rounds, {options.repeats} runs of NUTS"]
    print(texts[0], flush=True)
    for part in options.parts:
        make, head = TABLES[part]
        rows = []
        for row in make(options):
            rows.append(row)
            print(*row, sep="  ", flush=True)
        if rows:
            texts.append(f"## {part}\n\n{table(head, rows)}")
    if options.parts == list(TABLES) and options.models == list(PROBLEMS):
        RESULTS.write_text("\n\n".join(["# Sums and integrals: what they cost", *texts]) + "\n")
    print("\n\n".join(texts))


if __name__ == "__main__":
    main()
