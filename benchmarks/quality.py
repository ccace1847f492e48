"""Are the draws of NUTS right, and its warm-up safe? Ours beside NumPyro's with both matrices.

Posteriors whose curvature varies, posteriors from some of whose starts chains do not arrive, all
posteriors of posteriordb that are here as models, and a normal density: 4 chains of 1000 iterations
of warm-up and 1000 draws, with all defaults, over a range of seeds; beside our NUTS also WALNUTS.
These two are in the coordinates of the model. On posteriors with sites for it, there is NUTS with
learned centering, too, as `mcmc` has it by default.
Each tool runs in a process of its own, on the same densities and with double and single precision.

    divergences   of 4000 draws: the median over seeds, and the largest
    acceptance    realized acceptance rate of the chains: the median of all, and the lowest
    ESS / 1000    smallest bulk ESS of all parameters per 1000 gradients of the draws, median
    warm-up       thousands of gradients of starts and warm-up of all chains, where counted: median
    R-hat         the largest of all parameters: median over seeds, and the largest
    z             the largest difference from a known mean in standard errors: median and largest
    sd            ratio to a known standard deviation that is furthest from 1, median over seeds

Ours takes some minutes; NumPyro takes an hour or more, as chains that are stuck make 1023 steps for
a draw.

    python benchmarks/quality.py [--models banana ...] [--tools ppl NumPyro] [--seeds 100 110]
    python benchmarks/quality.py --jobs 8 --seconds 300      # what is missing, the cheapest first
    python benchmarks/quality.py --table                     # measures nothing

Results are lines of JSON in `benchmarks/results/quality.jsonl`, added as they come; those there are
not measured again. The table is `quality.md` there. The order is by the time that it may take;
NumPyro with single precision comes last.
"""

import argparse
import dataclasses
import importlib.util
import itertools
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from benchmarks.comparison.jobs import append, entries_of, run_jobs
from benchmarks.comparison.quality import (
    PROBLEMS,
    TOOLS,
    Task,
    default_names,
    learns_centering,
)
from benchmarks.comparison.run import RESULTS, provenance

HEADINGS = ("divergences", "acceptance", "ESS / 1000", "warm-up", "R-hat", "z", "sd")


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--models", nargs="+", default=default_names())
    parser.add_argument("--tools", nargs="+", default=installed(), choices=list(TOOLS))
    parser.add_argument("--seeds", nargs=2, type=int, default=[100, 110], help="first and end")
    parser.add_argument("--floats", nargs="+", type=int, default=[64, 32], choices=[64, 32])
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--limit", type=float, default=3600, help="seconds for a tool on a model")
    parser.add_argument("--seconds", type=float, default=36000, help="seconds for all")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--name", default="quality", help="of the files in --out")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    unknown = set(options.models) - set(PROBLEMS)
    if unknown:
        raise SystemExit(f"no model {', '.join(sorted(unknown))}; there are {', '.join(PROBLEMS)}")
    options.out.mkdir(exist_ok=True)
    path = options.out.resolve() / f"{options.name}.jsonl"
    if not options.table:
        tasks = missing(options, entries_of(path))
        append(path, {"provenance": provenance(options.seeds)})
        module = [sys.executable, "-m", "benchmarks.comparison.quality"]
        jobs = {
            f"{task.problem}, {task.tool}, float{task.float}": [
                *module,
                json.dumps(dataclasses.asdict(task)),
                str(path),
            ]
            for task in tasks
        }
        run_jobs(jobs, options.jobs, options.limit, options.seconds)
    report = "\n".join(lines(entries_of(path))) + "\n"
    path.with_suffix(".md").write_text(report)
    print(report)


def installed() -> list[str]:
    return [tool for tool in TOOLS if tool.startswith("ppl") or importlib.util.find_spec("numpyro")]


def missing(options: argparse.Namespace, entries: list[dict[str, Any]]) -> list[Task]:
    """What is not measured yet, the cheapest first."""
    runs = {(x["problem"], x["tool"], x["float"], x["seed"]): x for x in entries if "tool" in x}

    def cost(task: Task) -> tuple[bool, float]:
        is_ours = task.tool.startswith("ppl")
        seconds = {
            tool: [
                x["seconds"]
                for x in runs.values()
                if (x["problem"], x["tool"]) == (task.problem, tool)
            ]
            for tool in (task.tool, "ppl")
        }
        guess = (1 if is_ours else 10) * np.mean(seconds["ppl"] or [10.0])
        each = np.mean(seconds[task.tool] or [guess])
        return not is_ours and task.float == 32, float(each * len(task.seeds))

    learned = "ppl, learned"
    needs = learned in options.tools
    without = {name for name in options.models if needs and not learns_centering(name)}
    tasks = []
    for bits, tool, name in itertools.product(options.floats, options.tools, options.models):
        if tool == learned and name in without:
            continue
        new = [s for s in range(*options.seeds) if (name, tool, bits, s) not in runs]
        tasks += [Task(tool, name, new, bits)] if new else []
    return sorted(tasks, key=cost)


def lines(entries: list[dict[str, Any]]) -> Iterator[str]:
    """The report in Markdown: a table for each precision."""
    yield from (
        "# Quality of draws",
        "",
        "Written by `benchmarks/quality.py`, which explains it.",
        "",
    )
    runs = [x for x in entries if "tool" in x]
    for head in (x["provenance"] for x in entries if "provenance" in x):
        versions = ", ".join(f"{name} {version}" for name, version in head["versions"].items())
        machine = f"{head['platform']}, {head['cores']} cores"
        yield f"- {head['date'][:10]}, `{head['command']}`: {machine}, {versions}"
    for bits in sorted({run["float"] for run in runs}, reverse=True):
        yield from ("", f"## float{bits}", "")
        yield "| posterior | tool | seeds | " + " | ".join(HEADINGS) + " |"
        yield "|---" * (3 + len(HEADINGS)) + "|"
        for problem, tool in itertools.product(PROBLEMS, TOOLS):
            some = [
                x for x in runs if (x["problem"], x["tool"], x["float"]) == (problem, tool, bits)
            ]
            if some:
                yield f"| {problem} | {tool} | {len(some)} | " + " | ".join(cells(some)) + " |"


def cells(runs: list[dict[str, Any]]) -> list[str]:
    column = lambda name: np.array([run[name] for run in runs if name in run])  # noqa: E731
    divergences, rates, rhat = map(column, ("divergences", "acceptance", "rhat"))
    warmup = column("warmup_gradients")
    texts = [
        f"{np.median(divergences):.0f}, {divergences.max()}",
        f"{np.median(rates):.2f}, {rates.min():.2f}",
        f"{np.median(column('ess_per_1000')):.3g}",
        f"{np.median(warmup) / 1000:.3g}" if len(warmup) else "",
        f"{np.median(rhat):.3f}, {rhat.max():.3f}",
    ]
    z = column("z")
    if not len(z):
        return [*texts, "", ""]
    return [*texts, f"{np.median(z):.1f}, {z.max():.1f}", f"{np.median(column('sd_ratio')):.3f}"]


if __name__ == "__main__":
    main()
