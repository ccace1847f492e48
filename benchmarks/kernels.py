"""Which kernel when: effective draws per evaluation and per second, R-hat, and errors of means.

Three parts, each a table:

- "kernels": all our kernels on five posteriors, beside BlackJAX's kernel of the same name (beside
  NumPyro's AIES for the two that move by differences of chains);
- "gibbs": `Gibbs.auto()` beside NumPyro's Gibbs kernels, whose blocks are written by hand;
- "classics": classics of BUGS by `Gibbs.auto()` beside our NUTS.

Columns: ESS is that of the bulk or of the tails, the smallest of all parameters, of all chains
together. It is divided by a thousand evaluations of the density (with its gradient, if the kernel
uses it) that the draws took, as the kernel's statistics count them: `num_steps` or
`num_evaluations`, summed over chains. Those of warm-up are not counted, and there is no count for
`Gibbs` and `ParallelTempering`, whose statistics have none of all their blocks and temperatures.
Seconds are CPU time of all threads, with warm-up, from the first transition on: a peer is a jitted
function that the benchmark keeps, and our call traces the model again each time, so that our time
up to there stands in a column of its own, "set-up". The error is that of means, in posterior
standard deviations, as a root mean square over parameters. Ours and the peer take turns in one
process. Figures are medians over rounds, each with a seed of its own, and ratios have their least
and largest. The first round compiles: it counts for all columns but seconds. Where the largest
R-hat of a round is 1.4 or more, or the error 0.25 or more, chains have missed a part of the
posterior, and effective draws mean nothing: that round counts for R-hat, which is the largest of
all rounds, and for errors.

For seconds of one core:

    OMP_NUM_THREADS=1 XLA_FLAGS=--xla_cpu_multi_thread_eigen=false taskset -c 1 python ...

    python benchmarks/kernels.py [--parts kernels gibbs classics] [--posteriors ...] [--kernels ...]

Rows that are measured replace those of the file; the others stay.
"""

import argparse
import contextlib
import dataclasses
import importlib.util
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any
from unittest import mock

import jax
import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import inference
from benchmarks.comparison.gibbs_problems import CLASSICS, GIBBS_PEERS, GIBBS_PROBLEMS, classic
from benchmarks.comparison.kernel_peers import KERNEL_PEERS
from benchmarks.comparison.kernel_problems import KERNEL_PROBLEMS, KernelProblem, kernel_problem
from benchmarks.comparison.problems import Problem
from benchmarks.comparison.tools import Output, Settings, Tool
from inference.chains.chain_run import ChainRun

RESULTS = pathlib.Path(__file__).parent / "results"
PARTS = ("kernels", "gibbs", "classics")
SECONDS = ("cpu_seconds", "set_up_cpu_seconds", "ess_per_cpu_second")
MAX_RHAT = 1.4
MAX_ERROR = 0.25  # posterior standard deviations
MANY = 128  # chains, of kernels that move an ensemble


@dataclasses.dataclass(frozen=True)
class Entry:
    """A kernel of ours with the settings of its runs, and of the peer's.

    Attributes:
        kernel: The kernel, as a user makes it.
        settings: Numbers of chains and iterations.
        peers: The peer's, where a draw of its is less work than one of ours.
        needs: What a posterior must have: "normal prior", "conjugate sites" or nothing.
    """

    kernel: Any
    settings: Settings
    peers: Settings | None = None
    needs: str = ""


TRAJECTORIES = Settings(4, 1000, 1000)
STEPS = Settings(4, 1000, 5000)
ENSEMBLE = Settings(MANY, 500, 200)
ENTRIES = {
    "NUTS": Entry(inference.NUTS(), TRAJECTORIES),
    "WALNUTS": Entry(inference.WALNUTS(), TRAJECTORIES),
    "HMC": Entry(inference.HMC(), TRAJECTORIES),
    "MALA": Entry(inference.MALA(), STEPS),
    "Barker": Entry(inference.Barker(), STEPS),
    "RandomWalk": Entry(inference.RandomWalk(), Settings(4, 1000, 1000), Settings(4, 4000, 20_000)),
    "Slice": Entry(inference.Slice(), Settings(4, 500, 1000)),
    "EllipticalSlice": Entry(
        inference.EllipticalSlice(), Settings(4, 500, 5000), needs="normal prior"
    ),
    "DifferentialEvolution": Entry(
        inference.DifferentialEvolution(), Settings(MANY, 300, 300), Settings(MANY, 1000, 2000)
    ),
    "AffineInvariant": Entry(
        inference.AffineInvariant(), Settings(MANY, 300, 300), Settings(MANY, 1000, 2000)
    ),
    "ChEES": Entry(inference.ChEES(), ENSEMBLE),
    "MEADS": Entry(inference.MEADS(), ENSEMBLE),
    "AdjustedMCLMC": Entry(inference.AdjustedMCLMC(), ENSEMBLE),
    "ParallelTempering": Entry(inference.ParallelTempering(), Settings(4, 300, 500)),
    "Gibbs.auto": Entry(inference.Gibbs.auto(), Settings(4, 500, 1000), needs="conjugate sites"),
}
CONJUGATE = ("eight schools", "correlated normal")
GIBBS_RUN = Settings(4, 500, 1000)


def ours(kernel: Any, problem: Problem, settings: Settings) -> Tool:
    """This library's `mcmc` with a kernel, in the coordinates of the model."""
    how: dict[str, Any] = {
        "kernel": kernel,
        "num_chains": settings.num_chains,
        "num_warmup": settings.num_warmup,
        "num_draws": settings.num_draws,
        "progress": False,
    }
    if isinstance(kernel, inference.NUTS | inference.WALNUTS | inference.HMC | inference.Barker):
        how["learn_centering"] = False

    def call(seed: int) -> Output:
        result = inference.mcmc(jax.random.key(seed), problem.model, *problem.args, **how)
        counts = [result.stats[x] for x in ("num_steps", "num_evaluations") if x in result.stats]
        is_counted = counts and not isinstance(kernel, inference.Gibbs)
        return Output(result.draws, 0, counts[0] if is_counted else None)

    return Tool(call=call)


@contextlib.contextmanager
def set_up_times() -> Iterator[list[float]]:
    """CPU times at which our runs of chains were set up, meanwhile."""
    times: list[float] = []
    start = ChainRun.start

    def timed(run: ChainRun, *how: Any) -> None:
        start(run, *how)
        times.append(time.process_time())

    with mock.patch.object(ChainRun, "start", timed):
        yield times


def measured(
    tool: Tool, moments: Mapping[str, tuple[Any, Any]], sites: Iterable[str] | None, seed: int
) -> dict[str, Any]:
    """Figures of one call."""
    start = time.process_time()
    with set_up_times() as times:
        output = tool.call(seed)
    begin = times[-1] if times else start
    seconds = time.process_time() - begin
    draws = {name: np.asarray(x, float) for name, x in tool.finish(output.draws).items()}
    draws = {name: draws[name] for name in sites or draws}
    kinds = inference.ess_bulk, inference.ess_tail
    ess = min(float(np.min(kind(x))) for x in draws.values() for kind in kinds)
    figures: dict[str, Any] = {
        "cpu_seconds": seconds,
        "set_up_cpu_seconds": begin - start,
        "ess": ess,
        "ess_per_cpu_second": ess / seconds,
        "rhat": max(float(np.max(inference.rhat(x))) for x in draws.values()),
    }
    if output.sampling is not None:
        evaluations = float(np.sum(np.asarray(output.sampling, float)))
        figures |= {"evaluations": evaluations, "ess_per_1000": 1000 * ess / evaluations}
    if moments:
        errors = [(draws[name].mean((0, 1)) - mean) / sd for name, (mean, sd) in moments.items()]
        flat = np.concatenate([np.ravel(x) for x in errors])
        figures["error"] = float(np.sqrt(np.mean(flat**2)))
    return figures


def in_turn(
    tools: Mapping[str, Tool],
    moments: Mapping[str, tuple[Any, Any]],
    sites: Iterable[str] | None,
    num_rounds: int,
) -> dict[str, list[dict[str, Any]]]:
    """Figures of each tool by round; the first, which compiles, has no seconds."""
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in tools}
    for seed in range(num_rounds):
        for name, tool in tools.items():
            rounds[name].append(measured(tool, moments, sites, seed))
    for name in tools:
        for key in SECONDS:
            del rounds[name][0][key]
    return rounds


def fits(entry: Entry, name: str, problem: KernelProblem) -> bool:
    if entry.needs == "normal prior":
        return problem.prior is not None
    return entry.needs != "conjugate sites" or name in CONJUGATE


def has_peer(name: str) -> bool:
    module = "numpyro" if name in ("DifferentialEvolution", "AffineInvariant") else "blackjax"
    return name in KERNEL_PEERS and importlib.util.find_spec(module) is not None


def kernel_rows(
    posteriors: Iterable[str], kernels: Iterable[str], num_rounds: int
) -> Iterator[dict[str, Any]]:
    for name in posteriors:
        problem = kernel_problem(name)
        for kernel in kernels:
            entry = ENTRIES[kernel]
            if not fits(entry, name, problem):
                continue
            tools = {"ours": ours(entry.kernel, problem.problem, entry.settings)}
            if has_peer(kernel):
                tools["peer"] = KERNEL_PEERS[kernel](problem, entry.peers or entry.settings)
            rounds = in_turn(tools, problem.moments, problem.moments, num_rounds)
            yield {"part": "kernels", "posterior": name, "kernel": kernel, "rounds": rounds}


def gibbs_rows(num_rounds: int) -> Iterator[dict[str, Any]]:
    if importlib.util.find_spec("numpyro") is None:
        return
    for name, (make, sites) in GIBBS_PROBLEMS.items():
        problem = make()
        tools = {
            "ours": ours(inference.Gibbs.auto(), problem, GIBBS_RUN),
            "peer": GIBBS_PEERS[name](problem, GIBBS_RUN),
        }
        rounds = in_turn(tools, {}, sites, num_rounds)
        yield {"part": "gibbs", "posterior": name, "kernel": "NumPyro Gibbs", "rounds": rounds}


def classic_rows(names: Iterable[str], num_rounds: int) -> Iterator[dict[str, Any]]:
    for name in names:
        problem = classic(name)
        kernels = {"ours": inference.Gibbs.auto(), "peer": inference.NUTS()}
        tools = {key: ours(kernel, problem, GIBBS_RUN) for key, kernel in kernels.items()}
        rounds = in_turn(tools, {}, None, num_rounds)
        yield {"part": "classics", "posterior": name, "kernel": "NUTS", "rounds": rounds}


def counts(one: Mapping[str, Any], key: str) -> bool:
    """Whether a round has a figure; effective draws need chains that have missed nothing."""
    has_missed = one.get("rhat", 1.0) >= MAX_RHAT or one.get("error", 0.0) >= MAX_ERROR
    return key in one and not (key.startswith("ess") and has_missed)


def figure(rounds: list[dict[str, Any]] | None, key: str, summary: Callable[..., Any]) -> str:
    """A figure over rounds, to three digits."""
    found = [x[key] for x in rounds or () if counts(x, key)]
    return format_number(summary(found)) if found else ""


def format_number(x: float) -> str:
    return f"{x:,.0f}" if x >= 1000 else f"{x:.3g}"


def ratio(rounds: Mapping[str, list[dict[str, Any]]], key: str) -> str:
    """Ratio of ours to the peer's: the median, and the least and largest of rounds."""
    pairs = zip(rounds["ours"], rounds.get("peer", ()), strict=False)
    found = [a[key] / b[key] for a, b in pairs if counts(a, key) and counts(b, key)]
    if not found:
        return ""
    least, largest = format_number(min(found)), format_number(max(found))
    return f"{format_number(statistics.median(found))} ({least} to {largest})"


def lines(part: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """A table of a part, in Markdown."""
    heads = {
        "kernels": "posterior | kernel | ESS per 1000 evaluations | peer | ratio | "
        "ESS a CPU second | peer | ratio | set-up (s) | R-hat | peer | error | peer",
        "gibbs": "model | beside | ESS a CPU second | peer | ratio | set-up (s) | R-hat | peer",
        "classics": "model | beside | ESS a CPU second | NUTS | ratio | set-up (s) | R-hat | NUTS",
    }
    keys = ("ess_per_1000", "ess_per_cpu_second") if part == "kernels" else ("ess_per_cpu_second",)
    yield f"| {heads[part]} |"
    yield "|" + "---|" * (heads[part].count("|") + 1)
    for row in rows:
        rounds = row["rounds"]
        both = [rounds["ours"], rounds.get("peer")]
        cells = [row["posterior"], row["kernel"]]
        for key in keys:
            cells += [figure(x, key, statistics.median) for x in both]
            cells.append(ratio(rounds, key))
        cells.append(figure(rounds["ours"], "set_up_cpu_seconds", statistics.median))
        cells += [figure(x, "rhat", max) for x in both]
        if part == "kernels":
            cells += [figure(x, "error", statistics.median) for x in both]
        yield f"| {' | '.join(cells)} |"


def place(row: Mapping[str, Any]) -> tuple[int, int, int, str]:
    """Place of a row in the report; a row that is measured again takes it."""
    posteriors = [*KERNEL_PROBLEMS, *GIBBS_PROBLEMS] if row["part"] != "classics" else CLASSICS
    kernels = list(ENTRIES)
    number = kernels.index(row["kernel"]) if row["kernel"] in kernels else len(kernels)
    where = list(posteriors).index(row["posterior"])
    return PARTS.index(row["part"]), where, number, row["kernel"]


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=place)


def report(rows: list[dict[str, Any]], note: str = "") -> str:
    """All tables, in Markdown."""
    about = "Made by `benchmarks/kernels.py`, which explains the columns."
    text = ["# Kernels", "", f"{about} {note}".strip(), ""]
    for part in PARTS:
        some = [row for row in rows if row["part"] == part]
        if some:
            text += [f"## {part.capitalize()}", "", *lines(part, some), ""]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--posteriors", nargs="+", default=list(KERNEL_PROBLEMS))
    parser.add_argument("--kernels", nargs="+", choices=list(ENTRIES), default=list(ENTRIES))
    parser.add_argument("--classics", nargs="+", choices=list(CLASSICS), default=list(CLASSICS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--name", default="kernels")
    parser.add_argument("--note", default="", help="a remark that is kept, as on the machine")
    settings = parser.parse_args()
    parts: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "kernels": partial(kernel_rows, settings.posteriors, settings.kernels, settings.rounds),
        "gibbs": partial(gibbs_rows, settings.rounds),
        "classics": partial(classic_rows, settings.classics, settings.rounds),
    }
    about = {"python": sys.version.split()[0], "jax": jax.__version__, "note": settings.note}
    file = settings.out / f"{settings.name}.json"
    rows = json.loads(file.read_text())["rows"] if file.exists() else []
    for part in settings.parts:
        for row in parts[part]():
            rows = in_order([*(old for old in rows if place(old) != place(row)), row])
            print(list(lines(part, [row]))[-1], flush=True)
            file.write_text(json.dumps({"about": about, "rows": rows}) + "\n")
            file.with_suffix(".md").write_text(report(rows, settings.note))


if __name__ == "__main__":
    main()
