"""How long do people wait from the data to the report, beside PyMC?

Seven models of PyMC's gallery of examples (`comparison/gallery.py`), a fresh process for each model
and tool, in turns. Both tools draw 4 chains of 1000 + 1000 iterations by their defaults, on all
cores; PyMC counts physical ones, and is told the number. Ours keeps no compiled programs; PyMC
keeps the functions in C of the models above, as its users have those of their last models.
The columns, in seconds:

- fit: the call that samples, compiling included
- summary: the table of means, standard deviations and diagnostics
- container: ArviZ's, with log likelihood, prior where it is proper, and posterior predictive
- report: the page of HTML, which PyMC does not have

The others are of all entries of the sites that both tools have, but for divergences: the largest
R-hat, the smallest ESS, and `z`, the largest distance between the means of both tools, in standard
errors of their difference. For 100 entries with equal means, 2.7 is expected.

    python benchmarks/everyday.py [--models NAME...] [--draws N] [--report FOLDER] [--timeout S]

Results go to `benchmarks/results/` as JSON and table, anew after each model.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from benchmarks.comparison.gallery import EXAMPLES
from benchmarks.comparison.report import rounded
from benchmarks.comparison.run import RESULTS, provenance, reason
from benchmarks.comparison.tools import num_cores

STEPS = "fit", "summary", "container", "report"
BOTH = STEPS[:3]  # the steps that both tools have
HEADINGS = [
    "model",
    "tool",
    *(f"{step} s" for step in STEPS),
    "first three, ratio",
    "divergences",
    "R-hat",
    "min ESS",
    "z",
]


def run_ours(name: str, num_draws: int, folder: pathlib.Path) -> dict[str, Any]:
    """Seconds of each step, diagnostics, and moments of the sites."""
    import jax

    import inference

    example = EXAMPLES[name]()
    posterior = example.posterior()
    args = example.args
    numbers: dict[str, Any] = {"num_warmup": num_draws, "num_draws": num_draws}
    clock = Clock()
    result = inference.mcmc(jax.random.key(0), posterior, *args, progress=None, **numbers)
    clock.stop("fit")
    str(result.summary())
    clock.stop("summary")
    container = result.to_arviz(posterior, *args, key=jax.random.key(1))
    clock.stop("container")
    page = folder / f"{name.replace(', ', '-').replace(' ', '-')}.html"
    result.report(page, posterior, *args, key=jax.random.key(2))
    clock.stop("report")
    return outcome(example, container, clock)


def run_pymc(name: str, num_draws: int, _: pathlib.Path) -> dict[str, Any]:
    """The same steps with PyMC, without the report."""
    import arviz
    import pymc as pm

    example = EXAMPLES[name]()
    quiet = {"progressbar": False, "random_seed": 0}
    with pm.Model(coords=dict(example.coords)):
        example.pymc(pm, example.args, example.data)
        clock = Clock()
        numbers = {"draws": num_draws, "tune": num_draws, "chains": 4, "cores": min(4, num_cores())}
        container = pm.sample(**numbers, **quiet)
        clock.stop("fit")
        str(arviz.summary(container, round_to="none"))
        clock.stop("summary")
        pm.compute_log_likelihood(container, progressbar=False)
        if example.is_proper:
            container.extend(pm.sample_prior_predictive(random_seed=0))
        container.extend(pm.sample_posterior_predictive(container, **quiet))
        clock.stop("container")
    return outcome(example, container, clock)


RUNS = {"ppl": run_ours, "PyMC": run_pymc}


class Clock:
    """Seconds of steps, each from the end of the one before."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = time.perf_counter()

    def stop(self, step: str) -> None:
        """Write down the seconds of the step that ends."""
        now = time.perf_counter()
        self.seconds[step] = now - self._start
        self._start = now


def outcome(example: Any, container: Any, clock: Clock) -> dict[str, Any]:
    """The entry of a run; `means` and `errors` are of all entries of all shared sites."""
    import arviz

    names = list(example.shared)
    posterior = container["posterior"][names]

    def flat(values: Any) -> np.ndarray:
        return np.concatenate([np.ravel(values[name]) for name in names])

    return {
        "seconds": clock.seconds,
        "divergences": int(np.sum(container["sample_stats"]["diverging"])),
        "max_rhat": float(np.max(flat(arviz.rhat(posterior)))),
        "min_ess": float(np.min(flat(arviz.ess(posterior)))),
        "means": flat(posterior.mean(("chain", "draw"))).tolist(),
        "errors": flat(arviz.mcse(posterior)).tolist(),
    }


def run_apart(
    tool: str, name: str, options: argparse.Namespace, reports: str, compiled: str
) -> dict[str, Any]:
    """The entry of a fresh process, or its error."""
    command = [sys.executable, __file__, "--run", tool, name, "--report", reports]
    command += ["--draws", str(options.draws)]
    caches = {
        "JAX_ENABLE_COMPILATION_CACHE": "0",
        "PYTENSOR_FLAGS": f"base_compiledir={compiled}",
    }
    settings = {"capture_output": True, "text": True, "env": {**os.environ, **caches}}
    try:
        done = subprocess.run(command, timeout=options.timeout, **settings)
    except subprocess.TimeoutExpired:
        error = f"not finished after {options.timeout:.0f} s"
        return {"problem": name, "tool": tool, "error": error}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        found = {"error": reason(done.stderr) or f"ended with {done.returncode}"}
    else:
        found = json.loads(lines[-1])
    return {"problem": name, "tool": tool, **found}


def compared(ours: dict[str, Any], theirs: dict[str, Any]) -> list[dict[str, Any]]:
    """Both entries without means, theirs with the largest distance from ours."""
    entries = [dict(ours), dict(theirs)]
    if "means" in ours and "means" in theirs:
        apart = np.subtract(ours["means"], theirs["means"])
        error = np.hypot(ours["errors"], theirs["errors"])
        entries[1]["z"] = float(np.max(np.abs(apart) / error))
        entries[1]["num_entries"] = len(apart)
    return [{k: x for k, x in e.items() if k not in ("means", "errors")} for e in entries]


def markdown(head: dict[str, Any], entries: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of the page of results; a ratio is our time over theirs."""
    versions = ", ".join(f"{name} {version}" for name, version in head["versions"].items())
    yield from (
        "# From the data to the report",
        "",
        "Written by `benchmarks/everyday.py`, which explains it.",
        "",
        f"`{head['command']}`, {head['date'][:10]}",
        "",
        f"Python {head['python']}, {versions}; {head['platform']}, {head['cores']} cores",
        "",
        "| " + " | ".join(HEADINGS) + " |",
        "| --- | --- |" + " ---: |" * (len(HEADINGS) - 2),
    )
    ratios = []
    for ours, theirs in zip(entries[::2], entries[1::2], strict=True):
        both = "error" not in ours and "error" not in theirs
        if both:
            ratios.append(sum(ours["seconds"][x] for x in BOTH))
            ratios[-1] /= sum(theirs["seconds"][x] for x in BOTH)
        yield row(ours, f"{ratios[-1]:.2f}" if both else "")
        yield row(theirs, "")
    if ratios:
        mean = statistics.geometric_mean(ratios)
        yield from ("", f"Fit, summary and container, ours over PyMC's: {mean:.2f} (geometric).")


def row(entry: dict[str, Any], ratio: str) -> str:
    names = [entry["problem"] if entry["tool"] == "ppl" else "", entry["tool"]]
    if "error" in entry:
        cells = [*names, entry["error"].replace("|", "/"), *[""] * (len(HEADINGS) - 3)]
    else:
        seconds = entry["seconds"]
        cells = [
            *names,
            *(f"{seconds[step]:.2f}" if step in seconds else "" for step in STEPS),
            ratio,
            str(entry["divergences"]),
            f"{entry['max_rhat']:.3f}",
            f"{entry['min_ess']:,.0f}",
            f"{entry['z']:.1f}" if "z" in entry else "",
        ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--models", nargs="+", default=list(EXAMPLES), choices=list(EXAMPLES))
    parser.add_argument("--report", type=pathlib.Path, help="folder for reports; not kept without")
    parser.add_argument("--draws", type=int, default=1000, help="of a chain, after as many more")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for a tool on a model")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--name", default="everyday", help="of the files in --out")
    parser.add_argument("--run", nargs=2, metavar=("TOOL", "MODEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        tool, name = options.run
        warnings.simplefilter("ignore")
        print(json.dumps(RUNS[tool](name, options.draws, options.report)))
        return
    head = provenance({"all": 0})
    entries: list[dict[str, Any]] = []
    for wanted in (options.out, options.report or options.out):
        wanted.mkdir(parents=True, exist_ok=True)
    path = options.out / options.name
    with tempfile.TemporaryDirectory() as folder:
        reports = str(options.report or folder)
        for name in options.models:
            found = [run_apart(x, name, options, reports, f"{folder}/compiled") for x in RUNS]
            entries += compared(*found)
            print("\n".join(row(entry, "") for entry in entries[-2:]), flush=True)
            document = {"made": head, "entries": rounded(entries)}
            path.with_suffix(".json").write_text(json.dumps(document, indent=1) + "\n")
            path.with_suffix(".md").write_text("\n".join(markdown(head, entries)) + "\n")
    print(path.with_suffix(".md").read_text())


if __name__ == "__main__":
    main()
