"""Ten latent Gaussian models: all marginals by nested Laplace, beside NUTS on the full model.

For each model and tool a fresh process with one call: `inference.nested_laplace` by its defaults;
`inference.mcmc` on the full model with 4 chains of 1000 + 1000 iterations; NumPyro's NUTS, as many,
on a model written for it (`comparison/latent_numpyro.py`), chains vectorized; and pymc-extras'
`fit(method="laplace")`, one normal about the mode of all variables, of a model written for PyMC
(`comparison/latent_pymc.py`). In single precision, but for PyMC.

- s, CPU s: from the start of the process to all draws, imports and compiling included; CPU time
  has that of compilers, which are processes of their own
- ratio: CPU seconds of that tool over those of nested Laplace; none where an R-hat is 1.05 or more
- means: distance of the means of all elements from those of a long run of NUTS (4 chains of 1000 +
  `--reference` iterations, the second call of the process of ours), in its standard deviations:
  root mean square, and the largest
- sds: distance of the standard deviations, in those of the long run, likewise. Positive sites are
  compared by logarithms
- ESS or k: the smallest bulk ESS of a sampler's draws, with the largest R-hat if that is 1.01 or
  more; for the long run the root mean square standard error of its means, in standard deviations;
  the ESS of the weights and Pareto k of ours

    python benchmarks/nested_laplace.py [--models NAME...] [--tools NAME...] [--reference 4000]

Results go to `benchmarks/results/nested_laplace.json` and `.md`, anew after each model; what is
measured again replaces its row. Tools that are not installed are left out (`pip install
pymc-extras`). `--long-runs FOLDER` keeps the moments of the long runs, which are then not run
again, for tools that are measured later or in another environment.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

RESULTS = ROOT / "benchmarks" / "results" / "nested_laplace"
# The module that must be installed, and the packages whose versions count.
TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "nested_laplace": ("inference", ("jax",)),
    "NUTS": ("inference", ("jax",)),
    "NumPyro": ("numpyro", ("numpyro", "jax")),
    "pymc-extras": ("pymc_extras", ("pymc-extras", "pymc", "pytensor")),
}
REFERENCE = "long run"
POSITIVE = ("tau", "sigma", "amplitude", "length", "persistence")  # names begin so
NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 4, 1000, 1000
LARGEST_RHAT = 1.05  # of chains that are compared
CLOSE = 0.1  # standard deviations
AGREES = 0.2  # standard deviations, of the largest error of a mean
HEADINGS = [
    *("model", "tool", "s", "CPU s", "ratio"),
    *("means", "largest", "sds", "largest", "ESS or k"),
]
Entry = dict[str, Any]
Found = tuple[Mapping[str, Any], Any, str]


def nested_laplace(name: str, problem: Any, num_draws: int) -> Found:
    """Draws `(chain, draw, ...)`, their weights, and a remark."""
    import jax

    import inference

    result = inference.nested_laplace(
        jax.random.key(0), problem.model, *problem.args, num_draws=num_draws
    )
    how = "" if result.is_corrected else ", Laplace's weights"
    note = f"{result.ess:.0f}, k {result.pareto_k:.2f}{how}"
    return result.draws, result.weights, note


def nuts(name: str, problem: Any, num_draws: int) -> Found:
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


def numpyro(name: str, problem: Any, num_draws: int) -> Found:
    """NumPyro's NUTS on its own model."""
    from benchmarks.comparison.latent_numpyro import sample
    from benchmarks.comparison.tools import Settings

    return sample(name, problem, Settings(NUM_CHAINS, NUM_WARMUP, num_draws)), None, ""


def pymc_extras(name: str, problem: Any, num_draws: int) -> Found:
    """A normal about the mode of all variables, as many draws as of the chains."""
    from benchmarks.comparison.latent_pymc import fit_laplace

    return fit_laplace(name, problem, NUM_CHAINS * num_draws), None, "one normal"


CALLS: dict[str, Callable[[str, Any, int], Found]] = {
    "nested_laplace": nested_laplace,
    "NUTS": nuts,
    "NumPyro": numpyro,
    "pymc-extras": pymc_extras,
}


def run(tool: str, name: str, num_reference: int, file: str, long_file: str) -> None:
    """One call; moments go to a file, times to standard output."""
    import ppl
    from benchmarks.comparison.latent_models import LATENT_MODELS

    problem = LATENT_MODELS[name]()
    found = CALLS[tool](name, problem, NUM_DRAWS)
    times = {"cpu": cpu_seconds(), "until": time.time()}
    sites = ppl.unconstrain(problem.model, *problem.args).position_shapes
    entry: Entry = {**times, **moments(found, sites, file)}
    if tool == "NUTS" and not os.path.exists(long_file):
        start = cpu_seconds(), time.time()
        long = nuts(name, problem, num_reference)
        more = {"cpu": cpu_seconds() - start[0], "seconds": time.time() - start[1]}
        entry[REFERENCE] = {**more, **moments(long, sites, long_file)}
    print(json.dumps(entry))


def cpu_seconds() -> float:
    """CPU time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def moments(found: Found, sites: Iterable[str], file: str) -> Entry:
    """The remark on a call; means and standard deviations of some sites go to a file."""
    from inference import ess_bulk, rhat

    draws, weights, note = found
    columns = {x: _columns(x, draws[x]) for x in sites}
    more: Entry = {}
    if weights is None:
        weights = np.full(next(iter(columns.values())).shape[:2], 1.0)
        weights /= weights.size
        if not note:
            ess, hats = (
                np.concatenate([[float(of(x[..., i])) for i in range(x.shape[-1])] for x in each])
                for of, each in ((ess_bulk, columns.values()), (rhat, columns.values()))
            )
            more = {"floor": float(np.sqrt(np.mean(1 / ess))), "rhat": float(hats.max())}
            note = f"{ess.min():.0f}"
    kept = {}
    for name, x in columns.items():
        mean = np.einsum("cd,cdi->i", weights, x)
        kept[f"mean/{name}"] = mean
        kept[f"sd/{name}"] = np.sqrt(np.einsum("cd,cdi->i", weights, (x - mean) ** 2))
    np.savez(file, **kept)
    return {"note": note, **more}


def _columns(name: str, x: Any) -> np.ndarray:
    """Draws of the elements of a site, of a positive one by logarithm."""
    x = np.asarray(x, np.float64)
    x = np.log(x) if name.startswith(POSITIVE) else x
    return x.reshape(*x.shape[:2], -1)


def errors(file: str, truth_file: str) -> Entry:
    """Distances of means and standard deviations of all elements of the long run."""
    found, truth = np.load(file), np.load(truth_file)
    names = [x.removeprefix("mean/") for x in truth if x.startswith("mean/")]
    means, sds, true_means, true_sds = (
        np.concatenate([of[f"{what}/{x}"] for x in names])
        for of in (found, truth)
        for what in ("mean", "sd")
    )
    apart = {"means": (means - true_means) / true_sds, "sds": sds / true_sds - 1}
    return {
        what: (float(np.sqrt(np.mean(x**2))), float(np.max(np.abs(x)))) for what, x in apart.items()
    }


def run_apart(tool: str, name: str, options: Any, file: str, long_file: str) -> Entry:
    """The entry of a fresh process, or its error."""
    from benchmarks.comparison.run import reason

    command = [sys.executable, __file__, "--run", tool, name, str(options.reference)]
    caches = {
        "JAX_ENABLE_COMPILATION_CACHE": "0",
        "PYTENSOR_FLAGS": f"base_compiledir={pathlib.Path(file).parent / 'pytensor'}",
    }
    how: dict[str, Any] = {"capture_output": True, "text": True, "check": False}
    entry: Entry = {"problem": name, "tool": tool}
    start = time.time()
    try:
        done = subprocess.run(
            [*command, file, long_file],
            env={**os.environ, **caches},
            timeout=options.timeout,
            **how,
        )
    except subprocess.TimeoutExpired:
        return {**entry, "error": f"not finished after {options.timeout:.0f} s"}
    if done.returncode:
        return {**entry, "error": reason(done.stderr) or f"ended with {done.returncode}"}
    found = json.loads(done.stdout.splitlines()[-1])
    versions = {x: importlib.metadata.version(x) for x in TOOLS[tool][1]}
    return {**entry, **found, "seconds": found["until"] - start, "versions": versions}


def measure(name: str, tools: list[str], options: Any) -> list[Entry]:
    """The entries of a model, with the distances from the long run if there is one."""
    with tempfile.TemporaryDirectory() as folder:
        long_file = pathlib.Path(options.long_runs or folder) / f"{name}.npz"
        files = {tool: f"{folder}/{tool}.npz" for tool in tools}
        entries = [run_apart(x, name, options, files[x], str(long_file)) for x in tools]
        long = [x.pop(REFERENCE) for x in entries if REFERENCE in x]
        for entry in entries:
            if "error" not in entry and long_file.exists():
                entry |= errors(files[entry["tool"]], str(long_file))
    return [*entries, *({"problem": name, "tool": REFERENCE, **x} for x in long)]


def are_comparable(*entries: Entry) -> bool:
    """Whether all have marginals: chains that disagree have not."""
    return all("cpu" in x and x.get("rhat", 1.0) < LARGEST_RHAT for x in entries)


def rows(group: list[Entry]) -> list[str]:
    """The lines of a model."""
    ours = next((x for x in group if x["tool"] == "nested_laplace"), {})
    found = []
    for entry in group:
        name = entry["problem"] if entry is group[0] else ""
        if "error" in entry:
            cells = [name, entry["tool"], entry["error"].replace("|", "/"), *[""] * 7]
        else:
            is_other = entry["tool"] not in ("nested_laplace", REFERENCE)
            has_ratio = is_other and are_comparable(ours, entry)
            ratio = f"{entry['cpu'] / ours['cpu']:.1f}" if has_ratio else ""
            apart = [*entry.get("means", ()), *entry.get("sds", ())]
            note = entry["note"]
            if entry.get("rhat", 1.0) >= 1.01:
                note += f", R-hat {entry['rhat']:.2f}"
            if entry["tool"] == REFERENCE:
                note += f", error {entry['floor']:.3f}"
            times = [f"{entry['seconds']:.0f}", f"{entry['cpu']:.1f}", ratio]
            errors = [f"{x:.3f}" if x < 1000 else "> 1000" for x in apart]
            cells = [name, entry["tool"], *times, *errors, *[""] * (4 - len(errors)), note]
        found.append(f"| {' | '.join(cells)} |")
    return found


def markdown(head: dict[str, Any], entries: list[Entry]) -> str:
    """The page of results."""
    lines = [
        "# Nested Laplace",
        "",
        "Made by `benchmarks/nested_laplace.py`, which explains the columns.",
        "",
        f"`{head['command']}`, {head['date'][:10]}{head['note']}",
        "",
        f"Python {head['python']}, {versions(entries)}; {head['platform']}, {head['cores']} cores",
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


def versions(entries: list[Entry]) -> str:
    """Versions of all tools; of packages that were measured in several, all."""
    found: dict[str, dict[str, None]] = {}
    for entry in entries:
        for name, version in entry.get("versions", {}).items():
            found.setdefault(name, {})[version] = None
    return ", ".join(f"{name} {' and '.join(x)}" for name, x in found.items())


def summary(groups: list[list[Entry]]) -> list[str]:
    """Lines on how often nested Laplace is as fast and as right as was aimed at."""
    by_tool = [{x["tool"]: x for x in group} for group in groups]
    ours = "nested_laplace"
    right = [x for x in by_tool if is_close(x.get(ours, {}))]
    found = [
        f"- Errors of nested Laplace, root mean square: below {CLOSE} sd in {len(right)} of "
        f"{sum('means' in x.get(ours, {}) for x in by_tool)}."
    ]
    for tool in [x for x in TOOLS if x != ours]:
        some = [x for x in by_tool if tool in x and ours in x]
        both = [x for x in some if are_comparable(x[ours], x[tool])]
        ratios = [x[tool]["cpu"] / x[ours]["cpu"] for x in both]
        if not ratios:
            continue
        fast = sum(x[tool]["cpu"] > 10 * x[ours]["cpu"] for x in both if x in right)
        found.append(
            f"- {tool} over nested Laplace, CPU seconds: median {np.median(ratios):.1f}, from "
            f"{min(ratios):.1f} to {max(ratios):.1f}; above 1 in {sum(r > 1 for r in ratios)} of "
            f"{len(ratios)}, above 10 at an error below {CLOSE} sd in {fast}."
        )
    for tool in [x for x in TOOLS if x not in (ours, "NUTS")]:
        some = [x[tool] for x in by_tool if "means" in x.get(tool, {})]
        agree = sum(x["means"][1] < AGREES for x in some)
        if some:
            found.append(
                f"- {tool}: errors below {CLOSE} sd in {sum(map(is_close, some))} of {len(some)}, "
                f"all means within {AGREES} sd in {agree}."
            )
    return found


def is_close(entry: Entry) -> bool:
    """Whether means and standard deviations are those of the long run, root mean square."""
    return "means" in entry and max(entry["means"][0], entry["sds"][0]) < CLOSE


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--models", nargs="+", help="all without")
    parser.add_argument("--tools", nargs="+", choices=list(TOOLS), help="all without")
    parser.add_argument("--reference", type=int, default=4000, help="draws a chain of the long run")
    parser.add_argument("--long-runs", type=pathlib.Path, help="a folder that keeps their moments")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for a tool on a model")
    parser.add_argument("--note", default="", help="a remark on the page, as on the machine")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--run", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        warnings.simplefilter("ignore")
        tool, name, num_draws, *files = options.run
        run(tool, name, int(num_draws), *files)
        return
    from benchmarks.comparison.latent_models import LATENT_MODELS
    from benchmarks.comparison.run import provenance

    installed = [x for x, (module, _) in TOOLS.items() if importlib.util.find_spec(module)]
    tools = [x for x in options.tools or TOOLS if x in installed]
    head = provenance([0, 1]) | {"note": options.note and f"; {options.note}"}
    file = options.out.with_suffix(".json")
    entries = json.loads(file.read_text())["entries"] if file.exists() else []
    for name in options.models or LATENT_MODELS:
        found = measure(name, tools, options)
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
