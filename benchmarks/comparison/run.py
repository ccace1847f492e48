"""The comparison: runs all workers in turn, and writes the results after each problem."""

import argparse
import dataclasses
import datetime
import importlib.metadata
import importlib.util
import json
import pathlib
import platform
import shlex
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks.comparison.ensembles import ENSEMBLES
from benchmarks.comparison.report import write
from benchmarks.comparison.tools import TOOLS, installed, num_cores
from benchmarks.comparison.worker import Task, distance

ROOT = pathlib.Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = [
    "jax",
    "jaxlib",
    "numpy",
    "numpyro",
    "blackjax",
    "nutpie",
    "pymc",
    "pytensor",
    "numba",
    "arviz",
    "bambi",
    "stanli",
    "pystan",
]


def arguments(description: str | None, **defaults: Any) -> argparse.ArgumentParser:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=form)
    parser.add_argument("--models", nargs="+", default=defaults["models"])
    parser.add_argument("--chains", nargs="+", type=int, default=defaults["chains"])
    parser.add_argument("--tools", nargs="+", default=installed(), help="the first one is ours")
    parser.add_argument("--warmup", type=int, default=defaults["warmup"])
    parser.add_argument("--draws", type=int, default=defaults["draws"])
    parser.add_argument("--repeats", type=int, default=defaults["repeats"])
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for a tool on a model")
    parser.add_argument(
        "--execution-only",
        action="store_true",
        default=defaults["execution_only"],
        help="leave out calls that compile again each time",
    )
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--name", default=defaults["name"], help="of the files in --out")
    return parser


def compare(options: argparse.Namespace, is_mapped: bool = False) -> list[dict[str, Any]]:
    """Measures all tools on all models; files are written anew after each model."""
    missing = set(options.tools) - set(installed(TOOLS | ENSEMBLES))
    if missing:
        raise SystemExit(f"not installed: {', '.join(sorted(missing))}")
    entries: list[dict[str, Any]] = []
    head = provenance({"first call": 0, "repeated calls": [1, options.repeats]})
    for problem in options.models:
        for tool in options.tools:
            task = Task(
                tool=tool,
                problem=problem,
                chains=options.chains,
                num_warmup=options.warmup,
                num_draws=options.draws,
                repeats=options.repeats,
                is_execution_only=options.execution_only,
                is_mapped=is_mapped,
            )
            found = results_of(task, options.timeout)
            entries += found
            for entry in found:
                print(line(entry), flush=True)
        write(options.out / options.name, head, with_distances(entries))
    return entries


def results_of(task: Task, timeout: float) -> list[dict[str, Any]]:
    """The entries of a worker; those that it has not finished say why."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "entries"
        path.touch()
        module = "benchmarks.comparison.worker"
        command = [sys.executable, "-m", module, json.dumps(dataclasses.asdict(task)), str(path)]
        error = ""
        try:
            done = subprocess.run(
                command, cwd=ROOT, timeout=timeout, capture_output=True, text=True
            )
            if done.returncode:
                error = reason(done.stderr) or f"ended with {done.returncode}"
        except subprocess.TimeoutExpired:
            error = f"not finished after {timeout:.0f} s"
        entries = [json.loads(text) for text in path.read_text().splitlines()]
    failed = [
        {"tool": task.tool, "problem": task.problem, "chains": number, "error": error}
        for number in task.chains[len(entries) :]
    ]
    return entries + failed


def reason(stderr: str) -> str:
    """The line of a traceback that names the error; JAX may write more below it."""
    lines = [x.strip() for x in stderr.splitlines() if x.strip()]
    named = [x for x in lines if x.split(":")[0].endswith(("Error", "Exception", "Exit"))]
    return (named or lines or [""])[-1][:200]


def with_distances(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries without means, and with `z` relative to our means where no reference exists."""
    ours = {
        (entry["problem"], entry["chains"]): entry["means"]
        for entry in entries
        if entry["tool"] == "ppl" and "means" in entry
    }
    result = []
    for entry in entries:
        kept = {name: x for name, x in entry.items() if name != "means"}
        theirs = ours.get((entry["problem"], entry["chains"]))
        if "means" in entry and entry["tool"] != "ppl" and theirs:
            kept |= {"z": distance(entry["means"], theirs), "z_to": "ppl"}
        result.append(kept)
    return result


def provenance(seeds: Any) -> dict[str, Any]:
    """Date, command, machine, versions and seeds of the measurement."""
    versions = {
        name: importlib.metadata.version(name)
        for name in PACKAGES
        if importlib.util.find_spec(name)
    }
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", *map(relative, sys.argv)]),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": num_cores(),
        "versions": versions,
        "seeds": seeds,
    }


def relative(argument: str) -> str:
    """A file of the repository as a path relative to its root; other arguments unchanged."""
    path = pathlib.Path(argument).resolve()
    is_file = path.is_file() and path.is_relative_to(ROOT)
    return str(path.relative_to(ROOT)) if is_file else argument


def line(entry: dict[str, Any]) -> str:
    start = f"{entry['problem']:24}{entry['tool']:10}{entry['chains']:5} chains"
    if "error" in entry:
        return f"{start}  {entry['error']}"
    return f"{start}  first {entry['first_s']:.2f} s, exec {min(entry['exec_s']):.3f} s"
