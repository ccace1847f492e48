"""Where should chains start? Four ways, judged by the chains that arrive and by their gradients.

Chains run for 300 iterations of NUTS, 250 of them warm-up, with all other defaults, from

    uniform     the best of ten uniform points, our default
    prior       a draw from the prior
    climb       the end of a short climb by L-BFGS from a uniform point, `init="optimum"`
    pathfinder  a result of `inference.pathfinder`, which gives points and the first mass matrix

Chains are not compared with each other during warm-up, so that starts are judged alone. A fifth way
shows what the default comes to with that comparison:

    compared    as uniform, and chains that are lost go on from where others are

A chain has *arrived* if it moves, and the median of its log density over the last 50 iterations
lies between the 0.1 % and 99.9 % quantiles of a reference. The reference are 1000 draws each of
eight chains after 1000 iterations of warm-up; four start uniformly and four from Pathfinder.
Reference chains are left out that lie far below the best one: ten of its standard deviations, or
ten of those of a normal density.

Models are the hard ones of `quality.py`, its posteriors of posteriordb, those of `nuts.py` and the
forty of the catalogue. For each model and way:

    arrived   chains that have arrived, in per cent of four chains for each seed. A way that finds
              no finite start counts as four that have not; "none" if it never does, as draws from
              a flat prior
    k         gradients of the four chains up to then, in thousands, median over seeds; with those
              of the way itself. Evaluations without a gradient, as for Pathfinder's ELBO and
              weights, count half

These are counts, not times.

    python benchmarks/starts.py [--models banana catalogue.garch ...] [--jobs 4] [--seconds 3600]
    python benchmarks/starts.py --table      # the table alone, of all results there are

Results are lines of JSON in `benchmarks/results/starts.jsonl`; those there are not measured again.
The table is `starts.md` there.
"""

import argparse
import dataclasses
import pathlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import inference
import ppl
from benchmarks.comparison import quality
from benchmarks.comparison.counting import CountingRun
from benchmarks.comparison.jobs import append, entries_of, run_jobs
from benchmarks.comparison.problems import MADE, MORE
from benchmarks.comparison.run import RESULTS, provenance
from examples.catalogue import MODELS as CATALOGUE
from inference.chains import sampling
from inference.common.layout import Layout
from inference.drivers import pathfinder
from inference.drivers.init_from_result import choose_starts, covariance_of
from inference.initialization.initial_positions import Init, starting_points
from inference.initialization.start_search import StartingPoints, find_starts
from inference.optimization.mode_search import tolerance_of
from inference.optimization.pathfinder_paths import Effort, follow_paths
from inference.runtime.compiled_program import compile_once
from ppl.harvest.pytrees import register_dataclass

WAYS = ("uniform", "compared", "prior", "climb", "pathfinder")
NUM_CHAINS, NUM_WARMUP, NUM_LAST, TAIL = 4, 250, 50, 1e-3
NUM_PATHS, MAX_STEPS, NUM_PATH_DRAWS, EFFORT = 4, 1000, 1000, Effort(20, 10)
VALUE_COST = 0.5  # of a log density without its gradient, in gradients


def of_catalogue(name: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    args, observed = jax.tree.map(jnp.asarray, CATALOGUE[name].data())
    return ppl.condition(CATALOGUE[name].model, observed), args


def of_problem(make: Callable[[], Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    problem = make()
    return problem.model, problem.args


GROUPS = {
    "hard": {name: partial(of_problem, make) for name, make in quality.HARD.items()},
    "posteriordb": {
        name: partial(of_problem, make)
        for name, make in quality.REFERENCED.items()
        if name in quality.default_names()
    },
    "nuts.py": {name: partial(of_problem, make) for name, make in (MADE | MORE).items()},
    "catalogue": {f"catalogue.{name}": partial(of_catalogue, name) for name in CATALOGUE},
}
MODELS = {name: make for group in GROUPS.values() for name, make in group.items()}


class JudgedRun(CountingRun):
    """A sampling run that counts gradients of trial starts too, and may compare no chains."""

    compares = True

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.num_trials = 0

    def begin(self, *args: Any) -> None:
        """Makes the chains, and counts the gradients of all points but the chosen."""
        super().begin(*args)
        chosen = sum(len(batch.first) for batch in self.batches)
        self.num_trials = self._num_executed - chosen

    def _compare(self) -> None:
        if JudgedRun.compares:
            super()._compare()
            return
        for batch in self.batches:
            batch.chains = batch.chains._replace(is_compared=np.ones(len(batch.first), bool))


EVALUATED = {"values": 0, "gradients": 0}


def _count(kind: str, _: Any) -> None:
    EVALUATED[kind] += 1


@jax.custom_jvp
def counted(x: Any) -> Any:
    """The array `x`; each evaluation and each derivative in a compiled program is counted."""
    jax.debug.callback(partial(_count, "values"), jnp.ravel(x)[0])
    return x


@counted.defjvp
def _(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    jax.debug.callback(partial(_count, "gradients"), jnp.ravel(primals[0])[0])
    return primals[0], tangents[0]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class CountedTarget:
    """A target that counts how often its log density is evaluated, with and without gradient."""

    target: Any

    def log_density(self, position: Any) -> jax.Array:
        """The target's, counted."""
        leaves, treedef = jax.tree.flatten(position)
        leaves[0] = counted(leaves[0])
        return self.target.log_density(jax.tree.unflatten(treedef, leaves))

    def initial(self, key: jax.Array, values: Any = None) -> Any:
        """The target's."""
        return self.target.initial(key, values)

    @property
    def position_shapes(self) -> Any:
        """The target's."""
        return self.target.position_shapes

    def constrain(self, position: Any) -> Any:
        """The target's."""
        return self.target.constrain(position)


def evaluations(function: Callable[[], Any]) -> tuple[Any, int, int]:
    """A result, with the numbers of values and of gradients of `CountedTarget` behind it."""
    jax.effects_barrier()
    before = dict(EVALUATED)
    result = jax.block_until_ready(function())
    jax.effects_barrier()
    values, gradients = (EVALUATED[kind] - before[kind] for kind in ("values", "gradients"))
    return result, values, gradients


def find_paths(key: jax.Array, target: Any, layout: Layout) -> tuple[Any, int, int]:
    """A result of Pathfinder with its defaults, with numbers of values and gradients.

    Its paths run one after the other here, so that none waits for a longer one.
    """
    limits = np.int32(MAX_STEPS), tolerance_of(None, layout)
    aware: Any = CountedTarget(target)

    def follow(seeds: np.ndarray, positions: np.ndarray) -> StartingPoints:
        ends = []
        for i in range(len(seeds)):
            arguments = positions[i : i + 1], seeds[i : i + 1], aware, layout, EFFORT, *limits
            ends.append(jax.device_get(compile_once(follow_paths, *arguments)(*arguments)))
        whole = jax.tree.map(lambda *x: np.concatenate(x), *ends)
        return StartingPoints(positions, whole.ascent.log_density, whole.ascent.gradient, whole)

    def paths() -> Any:
        place = key, np.arange(NUM_PATHS), Init(), aware, layout
        return find_starts(follow, *place, noun="path", needs_all=False).result

    ends, num_values, num_gradients = evaluations(paths)
    if not np.any(np.isfinite(ends.best.elbo)):
        raise ValueError(pathfinder._failure(ends))
    result = pathfinder._result(key, ends, target, layout, EFFORT, NUM_PATH_DRAWS, MAX_STEPS)
    return result, num_values + NUM_PATHS * NUM_PATH_DRAWS, num_gradients


def begin(way: str, key: jax.Array, target: Any, layout: Layout) -> tuple[dict[str, Any], int, int]:
    """How `sample` begins, and the values and gradients that a way spends before it."""
    if way == "climb":
        chains, attempts = np.arange(NUM_CHAINS), np.zeros(NUM_CHAINS, np.int32)
        aware: Any = CountedTarget(target)
        arguments = key, chains, attempts, Init("optimum"), aware, layout
        _, values, gradients = evaluations(lambda: starting_points(*arguments))
        return {"init": "optimum"}, values, gradients
    if way == "pathfinder":
        result, values, gradients = find_paths(jax.random.fold_in(key, 1), target, layout)
        init = choose_starts(key, result, target, NUM_CHAINS)
        return {"init": init, "covariance": covariance_of(result)}, values, gradients
    return {"init": "uniform" if way == "compared" else way}, 0, 0


def run_chains(
    way: str, seed: int, target: Any, num_warmup: int, num_draws: int
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Statistics of the draws, and gradients, from starts found in a way.

    Gradients of the chains, and gradients and values of the way before them.
    """
    key, layout = jax.random.key(seed), Layout.of(target.position_shapes)
    beginning, num_values, num_gradients = begin(way, key, target, layout)
    settings: dict[str, Any] = {
        "num_warmup": num_warmup,
        "num_draws": num_draws,
        "num_chains": NUM_CHAINS,
    }
    kernel = inference.NUTS()
    settings |= {"target_acceptance_rate": 0.8} | beginning
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stats = sampling.sample(key, target, kernel, **settings).stats
    run = JudgedRun.last
    counts = {"gradients": run.num_useful + run.num_trials}
    return dict(stats), counts | {"before": [num_gradients, num_values]}


def refer(target: Any) -> dict[str, Any]:
    """Range of the log density in long runs, over those of eight chains that are not far below."""
    JudgedRun.compares, chains = True, []
    for way in ("uniform", "pathfinder"):
        try:
            chains += list(run_chains(way, 1000, target, 1000, 1000)[0]["log_density"])
        except ValueError:  # of Pathfinder without a path
            chains += list(run_chains("climb", 1000, target, 1000, 1000)[0]["log_density"])
    values = np.asarray(chains, np.float64)
    medians, size = np.median(values, 1), Layout.of(target.position_shapes).size
    best = np.argmax(medians)
    limit = medians[best] - 10 * max(np.std(values[best]), (size / 2) ** 0.5)
    kept = values[medians >= limit]
    low, high = np.quantile(kept, [TAIL, 1 - TAIL])
    return {"low": low, "high": high, "size": size, "kept": len(kept), "of": len(values)}


def judge(name: str, seeds: list[int], bits: int, path: str) -> None:
    """Judges all ways on a model, and adds a line to the file for each seed and way."""
    jax.config.update("jax_enable_x64", bits == 64)
    sampling._HamiltonianRun = JudgedRun
    model, args = MODELS[name]()
    target, head = ppl.unconstrain(model, *args), {"model": name, "float": bits}
    old = [x for x in entries_of(path) if head.items() <= x.items()]
    done = {(x["way"], x["seed"]) for x in old if "way" in x}
    reference = next((x["reference"] for x in old if "reference" in x), None)
    if reference is None:
        began = time.perf_counter()
        reference = refer(target)
        append(path, head | {"reference": reference, "seconds": time.perf_counter() - began})
    for seed in seeds:
        for way in WAYS:
            if (way, seed) not in done:
                began = time.perf_counter()
                entry = head | {"way": way, "seed": seed} | arrivals(way, seed, target, reference)
                append(path, entry | {"seconds": round(time.perf_counter() - began, 3)})


def arrivals(way: str, seed: int, target: Any, reference: Mapping[str, Any]) -> dict[str, Any]:
    """Which chains have arrived, and the gradients of all."""
    JudgedRun.compares = way == "compared"
    try:
        stats, counts = run_chains(way, seed, target, NUM_WARMUP, NUM_LAST)
    except Exception as error:  # no finite start, or a prior without draws
        return {"arrived": [False] * NUM_CHAINS, "error": str(error)[:200]}
    log_density = np.asarray(stats["log_density"], np.float64)
    medians = np.median(log_density, 1)
    is_inside = (medians >= reference["low"]) & (medians <= reference["high"])
    return {
        "arrived": (is_inside & (np.ptp(log_density, 1) > 0)).tolist(),
        "log_density": medians.round(3).tolist(),
    } | counts


def lines(entries: list[dict[str, Any]], bits: int) -> Iterator[str]:
    """The report in Markdown: all models, then each group of models."""
    yield from (
        "# Starts",
        "",
        f"Written by `benchmarks/starts.py`, which explains it; float{bits}.",
        "",
    )
    for head in (x["provenance"] for x in entries if "provenance" in x):
        versions = ", ".join(f"{k} {head['versions'][k]}" for k in ("jax", "jaxlib", "numpy"))
        yield f"- {head['date'][:10]}, `{head['command']}`: {head['platform']}, {versions}"
    columns = "".join(f" {way} | k |" for way in WAYS)
    yield from ("", f"| model | size | reference | seeds |{columns}")
    yield f"|{'---|' * (4 + 2 * len(WAYS))}"
    judged: dict[str, dict[str, tuple[float, float]]] = {}
    for name in MODELS:
        mine = [x for x in entries if (x.get("model"), x.get("float")) == (name, bits)]
        reference = next((x["reference"] for x in mine if "reference" in x), None)
        outcomes = [x["outcome"] for x in mine if "outcome" in x]
        runs = {(x["way"], x["seed"]): x for x in mine if "way" in x}
        seeds = [s for s in range(100) if all((way, s) in runs for way in WAYS)]
        if reference is None or not seeds:
            yield f"| {name} | {outcomes[-1] if outcomes else 'not measured'} |"
            continue
        judged[name] = {way: worth([runs[way, s] for s in seeds]) for way in WAYS}
        cells = "".join(f" {cell(*judged[name][way])} |" for way in WAYS)
        kept = f"{reference['kept']} of {reference['of']}"
        yield f"| {name} | {reference['size']} | {kept} | {len(seeds)} |{cells}"
    yield from ("", "| group | models | way | arrived | models with all | gradients / uniform |")
    yield "|---|---|---|---|---|---|"
    for group, names in {"all": list(MODELS), **GROUPS}.items():
        some = [judged[name] for name in names if name in judged]
        for way in WAYS:
            pairs = [(x[way], x["uniform"]) for x in some if np.isfinite(x[way][1])]
            if pairs:
                shares = np.array([mine[0] for mine, _ in pairs])
                ratio = np.exp(np.mean([np.log(mine[1] / uniform[1]) for mine, uniform in pairs]))
                head, full = f"| {group} | {len(pairs)} | {way} |", np.sum(shares == 1)
                yield f"{head} {100 * np.mean(shares):.1f} | {full} | {ratio:.2f} |"


def worth(runs: list[dict[str, Any]]) -> tuple[float, float]:
    """Share of chains that have arrived, and gradients of a run, NaN if no run has any."""
    weights = np.array([1, 1, VALUE_COST])
    gradients = [weights @ [x["gradients"], *x["before"]] for x in runs if "gradients" in x]
    share = float(np.mean([x["arrived"] for x in runs]))
    return share, float(np.median(gradients)) if gradients else np.nan


def cell(share: float, gradients: float) -> str:
    return f"{100 * share:.0f} | {gradients / 1e3:.2g}" if gradients == gradients else "none |"


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--seeds", nargs=2, type=int, default=[0, 10], help="first and end")
    parser.add_argument("--float", type=int, default=32, choices=[64, 32])
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a model")
    parser.add_argument("--seconds", type=float, default=36000, help="seconds for all")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--name", default="starts", help="of the files in --out")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    path = options.out.resolve() / f"{options.name}.jsonl"
    if options.worker:
        judge(options.worker, list(range(*options.seeds)), options.float, str(path))
        return
    if not options.table:
        append(path, {"provenance": provenance(options.seeds)})
        command = [sys.executable, "benchmarks/starts.py", "--seeds", *map(str, options.seeds)]
        command += ["--float", str(options.float), "--out", str(path.parent)]
        command += ["--name", options.name, "--worker"]
        jobs = {name: [*command, name] for name in options.models}
        failures = run_jobs(jobs, options.jobs, options.limit, options.seconds)
        for name, outcome in failures.items():
            append(path, {"model": name, "float": options.float, "outcome": outcome})
    report = "\n".join(lines(entries_of(path), options.float)) + "\n"
    path.with_suffix(".md").write_text(report)
    print(report)


if __name__ == "__main__":
    main()
