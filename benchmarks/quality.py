"""Are the draws of NUTS right, and its warm-up safe? Ours beside NumPyro's with both matrices.

Posteriors whose curvature varies, posteriors from some of whose starts chains do not arrive, all
posteriors of posteriordb that are here as models, and a normal density: 4 chains of 1000 iterations
of warm-up and 1000 draws, with all defaults, over a range of seeds. Each tool runs in a process of
its own, on the same densities and with double and single precision.

    divergences   of 4000 draws: the median over seeds, and the largest
    acceptance    realised acceptance rate of the chains: the median of all, and the lowest
    ESS / 1000    smallest bulk ESS of all parameters per 1000 gradients of the draws, median
    R-hat         the largest of all parameters: median over seeds, and the largest
    z             the largest difference from a known mean in standard errors: median and largest
    sd            ratio to a known standard deviation that is furthest from 1, median over seeds

Ours takes some minutes; NumPyro takes an hour or more, as chains that are stuck make 1023 steps for
a draw.

    python benchmarks/quality.py [--models banana ...] [--tools ppl NumPyro] [--seeds 100 110]

Results go to `benchmarks/results/quality.json` and `quality.md`.
"""

import argparse
import dataclasses
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from benchmarks.comparison.quality import PROBLEMS, TOOLS, Task, default_names
from benchmarks.comparison.run import RESULTS, ROOT, provenance

HEADINGS = ("divergences", "acceptance", "ESS / 1000", "R-hat", "z", "sd")


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--models", nargs="+", default=default_names())
    parser.add_argument("--tools", nargs="+", default=installed(), choices=list(TOOLS))
    parser.add_argument("--seeds", nargs=2, type=int, default=[100, 110], help="first and end")
    parser.add_argument("--floats", nargs="+", type=int, default=[64, 32], choices=[64, 32])
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--name", default="quality", help="of the files in --out")
    options = parser.parse_args()
    unknown = set(options.models) - set(PROBLEMS)
    if unknown:
        raise SystemExit(f"no model {', '.join(sorted(unknown))}; there are {', '.join(PROBLEMS)}")
    options.repeats, entries = options.seeds[1], []
    head = provenance(options) | {"seeds": options.seeds}
    for bits in options.floats:
        for tool in options.tools:
            task = Task(tool, options.models, list(range(*options.seeds)), bits)
            entries += results_of(task)
            print(f"{tool}, float{bits}: {len(entries)} runs so far", flush=True)
            options.out.mkdir(exist_ok=True)
            text = json.dumps(head | {"results": entries}, indent=1)
            (options.out / f"{options.name}.json").write_text(text + "\n")
            report = "\n".join(lines(head, entries)) + "\n"
            (options.out / f"{options.name}.md").write_text(report)
    print(report)


def installed() -> list[str]:
    return [tool for tool in TOOLS if tool == "ppl" or importlib.util.find_spec("numpyro")]


def results_of(task: Task) -> list[dict[str, Any]]:
    """The entries of a worker, up to an error if there is one."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "entries"
        path.touch()
        module = "benchmarks.comparison.quality"
        command = [sys.executable, "-m", module, json.dumps(dataclasses.asdict(task)), str(path)]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            print(f"{task.tool}, float{task.float}: ended with an error", flush=True)
        return [json.loads(text) for text in path.read_text().splitlines()]


def lines(head: dict[str, Any], entries: list[dict[str, Any]]) -> Iterator[str]:
    """The report in Markdown: a table for each precision."""
    yield "# Quality of draws"
    yield ""
    first, end = head["seeds"]
    yield f"Seeds {first} to {end - 1}; written by `{head['command']}` on {head['date'][:10]},"
    yield f"{head['platform']}, {head['cores']} cores, " + ", ".join(
        f"{name} {version}" for name, version in head["versions"].items()
    )
    for bits in sorted({entry["float"] for entry in entries}, reverse=True):
        yield from ("", f"## float{bits}", "")
        yield "| posterior | tool | " + " | ".join(HEADINGS) + " |"
        yield "|---" * (2 + len(HEADINGS)) + "|"
        for problem in PROBLEMS:
            for tool in TOOLS:
                runs = [
                    x
                    for x in entries
                    if (x["problem"], x["tool"], x["float"]) == (problem, tool, bits)
                ]
                if runs:
                    yield f"| {problem} | {tool} | " + " | ".join(cells(runs)) + " |"


def cells(runs: list[dict[str, Any]]) -> list[str]:
    column = lambda name: np.array([run[name] for run in runs if name in run])  # noqa: E731
    divergences, rates, rhat = map(column, ("divergences", "acceptance", "rhat"))
    texts = [
        f"{np.median(divergences):.0f}, {divergences.max()}",
        f"{np.median(rates):.2f}, {rates.min():.2f}",
        f"{np.median(column('ess_per_1000')):.3g}",
        f"{np.median(rhat):.3f}, {rhat.max():.3f}",
    ]
    z = column("z")
    if not len(z):
        return [*texts, "", ""]
    return [*texts, f"{np.median(z):.1f}, {z.max():.1f}", f"{np.median(column('sd_ratio')):.3f}"]


if __name__ == "__main__":
    main()
