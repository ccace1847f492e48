"""Ten latent Gaussian models: marginals by nested Laplace, beside NUTS on the full model.

For each model and tool a fresh process with one call: `inference.nested_laplace` by its defaults,
`inference.mcmc` on the full model with 4 chains of 1000 + 1000 iterations, and NumPyro's NUTS on
the same density, chains vectorized. In single precision.

- s, CPU s: from the start of the process to all draws, imports and compiling included
- means: distance of the means of all elements from those of a long run of NUTS (4 chains of 1000 +
  `--reference` iterations, the second call of the process of ours), in its standard deviations:
  root mean square, and the largest
- sds: distance of the standard deviations, in those of the long run, likewise. Positive sites are
  compared by logarithms
- ESS or k: the smallest bulk ESS of a sampler's draws, and for the long run the root mean square
  standard error of its means, in standard deviations; the ESS of the weights and Pareto k of ours
- ratio: CPU seconds of that tool over those of nested Laplace

    python benchmarks/nested_laplace.py [--models NAME...] [--tools NAME...] [--reference 4000]

Results go to `benchmarks/results/nested_laplace.json` and `.md`, anew after each model; what is
measured again replaces its row. NumPyro is left out where it is not installed.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

RESULTS = ROOT / "benchmarks" / "results" / "nested_laplace"
TOOLS = ["nested_laplace", "NUTS", "NumPyro"]
REFERENCE = "long run"
POSITIVE = ("tau", "sigma", "amplitude", "length", "persistence")  # names begin so
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 4, 1000, 1000
HEADINGS = [
    *("model", "tool", "s", "CPU s", "ratio"),
    *("means", "largest", "sds", "largest", "ESS or k"),
]
Entry = dict[str, Any]


def nested_laplace(problem: Any, _: int) -> tuple[Mapping[str, Any], Any, str]:
    """Draws `(chain, draw, ...)`, their weights, and a remark."""
    import jax

    import inference

    result = inference.nested_laplace(jax.random.key(0), problem.model, *problem.args)
    how = "" if result.is_corrected else ", Laplace's weights"
    note = f"{result.ess:.0f}, k {result.pareto_k:.2f}{how}"
    return result.draws, result.weights, note


def nuts(problem: Any, num_draws: int) -> tuple[Mapping[str, Any], Any, str]:
    """Our NUTS on the full model."""
    import jax

    import inference

    result = inference.mcmc(
        jax.random.key(num_draws),
        problem.model,
        *problem.args,
        num_chains=NUM_CHAINS,
        num_warmup=NUM_WARMUP,
        num_draws=num_draws,
        progress=False,
    )
    return result.draws, None, ""


def numpyro(problem: Any, num_draws: int) -> tuple[Mapping[str, Any], Any, str]:
    """NumPyro's NUTS on the same density of unconstrained positions."""
    from benchmarks.comparison.tools import Settings
    from benchmarks.comparison.tools import numpyro as tool_of

    tool = tool_of("", problem, Settings(NUM_CHAINS, NUM_WARMUP, num_draws))
    return tool.finish(tool.call(0).draws), None, ""


CALLS: dict[str, Callable[[Any, int], tuple[Mapping[str, Any], Any, str]]] = {
    "nested_laplace": nested_laplace,
    "NUTS": nuts,
    "NumPyro": numpyro,
}


def run(tool: str, name: str, num_reference: int, file: str) -> None:
    """One call; moments go to a file, times to standard output."""
    from benchmarks.comparison.latent_models import LATENT_MODELS

    problem = LATENT_MODELS[name]()
    found = CALLS[tool](problem, NUM_DRAWS)
    times = {"cpu": time.process_time(), "until": time.time()}
    entry: Entry = {**times, **moments(found, file)}
    if tool == "NUTS":
        start = time.process_time(), time.time()
        long = nuts(problem, num_reference)
        more = {"cpu": time.process_time() - start[0], "seconds": time.time() - start[1]}
        entry[REFERENCE] = {**more, **moments(long, f"{file}.long")}
    print(json.dumps(entry))


def moments(found: tuple[Mapping[str, Any], Any, str], file: str) -> Entry:
    """The remark on a call; means and standard deviations go to a file."""
    from inference import ess_bulk

    draws, weights, note = found
    columns = np.concatenate([_columns(x, draws[x]) for x in sorted(draws)], axis=-1)
    more: Entry = {}
    if weights is None:
        ess = np.array([float(ess_bulk(columns[..., i])) for i in range(columns.shape[-1])])
        note = f"{ess.min():.0f}"
        more["floor"] = float(np.sqrt(np.mean(1 / ess)))
        weights = np.full(columns.shape[:2], 1 / columns[..., 0].size)
    mean = np.einsum("cd,cdi->i", weights, columns)
    sd = np.sqrt(np.einsum("cd,cdi->i", weights, (columns - mean) ** 2))
    np.savez(file, mean=mean, sd=sd)
    return {"note": note, **more}


def _columns(name: str, x: Any) -> np.ndarray:
    """Draws of the elements of a site, of a positive one by logarithm."""
    x = np.asarray(x, np.float64)
    x = np.log(x) if name.startswith(POSITIVE) else x
    return x.reshape(*x.shape[:2], -1)


def run_apart(tool: str, name: str, num_reference: int, file: str) -> Entry:
    """The entry of a fresh process, or its error."""
    from benchmarks.comparison.run import reason

    command = [sys.executable, __file__, "--run", tool, name, str(num_reference), file]
    env = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "0"}
    start = time.time()
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    entry: Entry = {"problem": name, "tool": tool}
    if done.returncode:
        return {**entry, "error": reason(done.stderr)}
    found = json.loads(done.stdout.splitlines()[-1])
    return {**entry, **found, "seconds": found["until"] - start}


def measure(name: str, tools: list[str], num_reference: int) -> list[Entry]:
    """The entries of a model, with the distances from the long run if NUTS is among the tools."""
    with tempfile.TemporaryDirectory() as folder:
        files = {tool: f"{folder}/{tool}.npz" for tool in tools}
        entries = [run_apart(tool, name, num_reference, files[tool]) for tool in tools]
        long = [x.pop(REFERENCE) for x in entries if REFERENCE in x]
        if not long:
            return entries
        truth = np.load(f"{files['NUTS']}.long.npz")
        for entry in entries:
            if "error" in entry:
                continue
            found = np.load(files[entry["tool"]])
            for what, error in (
                ("means", (found["mean"] - truth["mean"]) / truth["sd"]),
                ("sds", found["sd"] / truth["sd"] - 1),
            ):
                entry[what] = float(np.sqrt(np.mean(error**2))), float(np.max(np.abs(error)))
    return [*entries, {"problem": name, "tool": REFERENCE, **long[0]}]


def rows(group: list[Entry]) -> list[str]:
    """The lines of a model."""
    ours = next((x for x in group if x["tool"] == "nested_laplace" and "cpu" in x), None)
    found = []
    for entry in group:
        name = entry["problem"] if entry is group[0] else ""
        if "error" in entry:
            cells = [name, entry["tool"], entry["error"].replace("|", "/"), *[""] * 7]
        else:
            is_peer = entry["tool"] in TOOLS[1:]
            ratio = f"{entry['cpu'] / ours['cpu']:.1f}" if ours and is_peer else ""
            errors = [*entry.get("means", ()), *entry.get("sds", ())]
            note = entry["note"]
            if entry["tool"] == REFERENCE:
                note += f", error {entry['floor']:.3f}"
            times = [f"{entry['seconds']:.0f}", f"{entry['cpu']:.1f}", ratio]
            cells = [name, entry["tool"], *times]
            cells += [*(f"{x:.3f}" for x in errors), *[""] * (4 - len(errors)), note]
        found.append(f"| {' | '.join(cells)} |")
    return found


def markdown(head: dict[str, Any], entries: list[Entry]) -> str:
    """The page of results."""
    versions = ", ".join(f"{name} {version}" for name, version in head["versions"].items())
    lines = [
        "# Nested Laplace",
        "",
        "Made by `benchmarks/nested_laplace.py`, which explains the columns.",
        "",
        f"`{head['command']}`, {head['date'][:10]}{head['note']}",
        "",
        f"Python {head['python']}, {versions}; {head['platform']}, {head['cores']} cores",
        "",
        f"| {' | '.join(HEADINGS)} |",
        "| --- | --- |" + " ---: |" * (len(HEADINGS) - 2),
    ]
    names = list(dict.fromkeys(x["problem"] for x in entries))
    groups = [[x for x in entries if x["problem"] == name] for name in names]
    for group in groups:
        lines += rows(group)
    lines += ["", *summary(groups)]
    return "\n".join(lines) + "\n"


def summary(groups: list[list[Entry]]) -> list[str]:
    """Lines on how often nested Laplace is as fast and as right as was aimed at."""
    found = []
    for tool in TOOLS[1:]:
        both = [{x["tool"]: x for x in group if "cpu" in x} for group in groups]
        pairs = [(x["nested_laplace"], x[tool]) for x in both if {"nested_laplace", tool} <= set(x)]
        ratios = [b["cpu"] / a["cpu"] for a, b in pairs]
        if ratios:
            found.append(
                f"- {tool} over nested Laplace, CPU seconds: median {np.median(ratios):.1f}, from "
                f"{min(ratios):.1f} to {max(ratios):.1f}; above 1 in {sum(r > 1 for r in ratios)} "
                f"of {len(ratios)}, above 10 in {sum(r > 10 for r in ratios)}."
            )
    errors = [
        x for group in groups for x in group if x["tool"] == "nested_laplace" and "means" in x
    ]
    good = sum(max(x["means"][0], x["sds"][0]) < 0.1 for x in errors)
    found.append(
        f"- Errors of nested Laplace, root mean square: below 0.1 sd in {good} of {len(errors)}."
    )
    return found


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--models", nargs="+", help="all without")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, help="all without")
    parser.add_argument("--reference", type=int, default=4000, help="draws a chain of the long run")
    parser.add_argument("--note", default="", help="a remark on the page, as on the machine")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        warnings.simplefilter("ignore")
        tool, name, num_draws, file = options.run
        run(tool, name, int(num_draws), file)
        return
    from benchmarks.comparison.latent_models import LATENT_MODELS
    from benchmarks.comparison.run import provenance

    has_numpyro = importlib.util.find_spec("numpyro") is not None
    tools = [x for x in options.tools or TOOLS if x != "NumPyro" or has_numpyro]
    head = provenance([0, 1]) | {"note": options.note and f"; {options.note}"}
    file = options.out.with_suffix(".json")
    entries = json.loads(file.read_text())["entries"] if file.exists() else []
    for name in options.models or LATENT_MODELS:
        found = measure(name, tools, options.reference)
        print("\n".join(rows(found)), flush=True)
        places = {(x["problem"], x["tool"]): x for x in [*entries, *found]}
        order = [*TOOLS, REFERENCE]
        known = list(LATENT_MODELS)
        entries = sorted(
            places.values(), key=lambda x: (known.index(x["problem"]), order.index(x["tool"]))
        )
        file.write_text(json.dumps({"made": head, "entries": entries}, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(markdown(head, entries))


if __name__ == "__main__":
    main()
