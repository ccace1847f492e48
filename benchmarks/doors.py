"""Models of PyMC, Bambi and Stan by our sampler, through the doors, beside the tools they are of.

Three parts, each a table: twelve models of PyMC's gallery and five of Bambi's, on published tables
(`comparison/door_models.py`), by `mcmc` of `ppl.from_pymc(model)`, by `pm.sample` and by nutpie;
and fifteen posteriors of posteriordb in Stan's language, by `mcmc` of `ppl.from_stan(program,
data)`, by the sampler of stanli, which interprets the program as our door does, and by Stan's own
in C++, that of PyStan. All by their defaults in double precision, 4 chains of 1000 + 1000
iterations, a fresh process for each model and tool, which calls twice, with two seeds.

- first s, CPU s: the first call, compiling included, by the clock, and in CPU time of all processes
  and threads. What the call does not need to build (the model of PyMC, imports) does not count
- again CPU s: the second call. `pm.sample` compiles again, from its files of compiled functions,
  which all models share; nutpie and PyStan keep the compiled model, and ours is found again
- min ESS: the smallest bulk ESS of all entries of continuous free variables (of the published
  parameters for Stan), by one estimator, mean of both calls; and ESS a CPU second of each call
- ratios: of ESS a CPU second, ours over that tool's; none where an R-hat is 1.05 or more
- R-hat, z: of both calls together. `z` is the largest distance of means from ours (from the
  published ones for Stan) in standard errors of the difference, of so many entries; for 100 entries
  with equal means, 2.7 is expected

Our posteriors sum out discrete variables. nutpie has none, `pm.sample` draws them.

    python benchmarks/doors.py [--parts pymc bambi stan] [--models NAME...] [--tools NAME...]

The environment is that of `make bench`. Posteriors are read from the folder `$PPL_POSTERIORDB`, and
left out if it is not there. Results go to `benchmarks/results/` as JSON and table, anew after each
model; what is measured again replaces its row.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from benchmarks.comparison.problems import POSTERIORDB
from benchmarks.comparison.report import rounded
from benchmarks.comparison.run import RESULTS, provenance, reason
from benchmarks.comparison.tools import num_cores
from tests.models.stan_programs import PROGRAMS

TOOLS = {
    "pymc": ("ppl", "PyMC", "nutpie"),
    "bambi": ("ppl", "PyMC", "nutpie"),
    "stan": ("ppl", "stanli", "PyStan"),
}
TITLES = {"pymc": "PyMC's gallery", "bambi": "Bambi", "stan": "Stan: posteriordb"}
HEADINGS = [
    *("model", "tool", "first s", "CPU s", "again CPU s", "min ESS"),
    *("ESS/CPU s, first", "ESS/CPU s, again", "ratio, first", "ratio, again"),
    *("R-hat", "divergences", "z"),
]
NUM_REFERENCE_DRAWS = 10_000
LARGEST_RHAT = 1.05  # of chains that are compared
Draws = dict[str, np.ndarray]
Call = Callable[[int], tuple[Draws, int]]  # of a seed: draws by name, number of divergences


def settings_of_ours(chains: int, draws: int) -> dict[str, Any]:
    """Settings of `inference.mcmc`."""
    return {"num_chains": chains, "num_warmup": draws, "num_draws": draws, "progress": False}


def ours_of_pymc(name: str, chains: int, draws: int) -> Call:
    """`mcmc` of the model, through the door in the first call."""
    import jax

    import inference
    import ppl

    jax.config.update("jax_enable_x64", True)
    model, names = pymc_model(name)
    discrete = [v.name for v in model.free_RVs if v.dtype.startswith("int")]
    how = settings_of_ours(chains, draws)
    made: list[Any] = []

    def call(seed: int) -> tuple[Draws, int]:
        if not made:
            posterior = ppl.from_pymc(model)
            made.append(ppl.marginalize(posterior, discrete) if discrete else posterior)
        result = inference.mcmc(jax.random.key(seed), made[0], **how)
        found = {x: np.asarray(result.draws[x]) for x in names}
        return found, int(np.sum(result.stats["is_divergent"]))

    return call


def pymc(name: str, chains: int, draws: int) -> Call:
    """`pm.sample` on all cores."""
    import pymc as pm

    model, names = pymc_model(name)
    how: dict[str, Any] = {
        "chains": chains,
        "tune": draws,
        "draws": draws,
        "cores": min(chains, num_cores()),
    }

    def call(seed: int) -> tuple[Draws, int]:
        with model:
            found = pm.sample(random_seed=seed, progressbar=False, **how)
        return of_arviz(found, names)

    return call


def nutpie(name: str, chains: int, draws: int) -> Call:
    """nutpie, which compiles by Numba in the first call."""
    import nutpie

    model, names = pymc_model(name)
    if len(names) < len(model.free_RVs):
        raise TypeError("nutpie samples no discrete variable")
    how: dict[str, Any] = {
        "chains": chains,
        "tune": draws,
        "draws": draws,
        "cores": min(chains, num_cores()),
    }
    compiled: list[Any] = []

    def call(seed: int) -> tuple[Draws, int]:
        if not compiled:
            compiled.append(nutpie.compile_pymc_model(model))
        found = nutpie.sample(compiled[0], seed=seed, progress_bar=False, **how)
        return of_arviz(found, names)

    return call


def pymc_model(name: str) -> tuple[Any, list[str]]:
    """A model, and its continuous free variables."""
    from benchmarks.comparison.door_models import BAMBI_MODELS, PYMC_MODELS

    model = {**PYMC_MODELS, **BAMBI_MODELS}[name]()
    return model, [v.name for v in model.free_RVs if v.dtype.startswith("float")]


def of_arviz(container: Any, names: list[str]) -> tuple[Draws, int]:
    found = {name: container.posterior[name].values for name in names}
    return found, int(np.sum(container.sample_stats["diverging"].values))


def ours_of_stan(name: str, chains: int, draws: int) -> Call:
    """`mcmc` of the program, through the door in the first call."""
    import jax

    import inference
    import ppl

    jax.config.update("jax_enable_x64", True)
    published = published_of(name)
    how = settings_of_ours(chains, draws)
    made: list[Any] = []

    def call(seed: int) -> tuple[Draws, int]:
        if not made:
            made.append(ppl.from_stan(PROGRAMS[name], published["data"]))
        result = inference.mcmc(jax.random.key(seed), made[0], **how)
        found = {x: scalar(result.draws, x) for x in published["reference"]}
        return found, int(np.sum(result.stats["is_divergent"]))

    return call


def stanli(name: str, chains: int, draws: int) -> Call:
    """The sampler of stanli, which compiles to what it interprets in the first call."""
    import stanli

    published = published_of(name)
    how: dict[str, Any] = {"chains": chains, "warmup": draws, "samples": draws, "refresh": 0}
    made: list[Any] = []

    def call(seed: int) -> tuple[Draws, int]:
        if not made:
            made.append(stanli.Model(stan_code=PROGRAMS[name], data=published["data"]))
        fit = made[0].sample(seed=seed + 1, **how)
        found = {x: np.asarray(fit.draws(x)) for x in published["reference"]}
        return found, int(np.sum(fit.divergences))

    return call


def pystan(name: str, chains: int, draws: int) -> Call:
    """Stan's own sampler, which PyStan compiles in C++ in the first call."""
    import stan

    published = published_of(name)
    how: dict[str, Any] = {"num_chains": chains, "num_warmup": draws, "num_samples": draws}
    made: list[Any] = []

    def call(seed: int) -> tuple[Draws, int]:
        made.append(stan.build(PROGRAMS[name], data=published["data"], random_seed=seed + 1))
        fit = made[-1].sample(**how)

        def by_chain(parameter: str) -> np.ndarray:
            flat = fit[parameter.partition("[")[0]]  # (*shape, draw x chain), chains fastest
            place = parameter.partition("[")[2].rstrip("]")
            index = tuple(int(i) - 1 for i in place.split(",")) if place else (0,)
            return flat[index].reshape(draws, chains).T

        found = {x: by_chain(x) for x in published["reference"]}
        return found, int(np.sum(fit["divergent__"]))

    return call


def published_of(name: str) -> dict[str, Any]:
    return json.loads((POSTERIORDB / f"{name}.json").read_text())


def scalar(draws: Any, parameter: str) -> np.ndarray:
    """Draws of a parameter that is named as in Stan."""
    name, _, place = parameter.partition("[")
    index = tuple(int(i) - 1 for i in place.rstrip("]").split(",")) if place else ()
    return np.asarray(draws[name])[(..., *index)]


CALLS: dict[tuple[str, str], Callable[[str, int, int], Call]] = {
    **{(part, "ppl"): ours_of_pymc for part in ("pymc", "bambi")},
    **{(part, "PyMC"): pymc for part in ("pymc", "bambi")},
    **{(part, "nutpie"): nutpie for part in ("pymc", "bambi")},
    ("stan", "ppl"): ours_of_stan,
    ("stan", "stanli"): stanli,
    ("stan", "PyStan"): pystan,
}


def cpu_seconds() -> float:
    """CPU time of this process and of all that came of it, those that run included."""
    ticks: dict[int, tuple[int, float]] = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # It has ended.
            continue
        ticks[int(folder.name)] = int(fields[1]), float(sum(map(int, fields[11:15])))
    family = {os.getpid()}
    while more := {pid for pid, (parent, _) in ticks.items() if parent in family} - family:
        family |= more
    return sum(ticks[pid][1] for pid in family) / os.sysconf("SC_CLK_TCK")


def run(part: str, tool: str, name: str, chains: int, draws: int) -> dict[str, Any]:
    """The entry of two calls; `means` and `errors` are of all entries of all variables."""
    from inference import ess_bulk, rhat
    from inference.results.diagnostics import mcse_mean

    call = CALLS[part, tool](name, chains, draws)
    outputs = []
    seconds, cpu = [], []
    for seed in range(2):
        start = time.perf_counter(), cpu_seconds()
        outputs.append(call(seed))
        seconds.append(time.perf_counter() - start[0])
        cpu.append(cpu_seconds() - start[1])
    both = {x: np.concatenate([draws[x] for draws, _ in outputs]) for x in outputs[0][0]}

    def flat(statistic: Callable[[Any], Any], values: Draws) -> np.ndarray:
        return np.concatenate([np.ravel(statistic(np.asarray(x))) for x in values.values()])

    return {
        "seconds": seconds,
        "cpu": cpu,
        "ess": [float(flat(ess_bulk, draws).min()) for draws, _ in outputs],
        "max_rhat": float(flat(rhat, both).max()),
        "divergences": sum(number for _, number in outputs),
        "means": flat(lambda x: x.mean((0, 1)), both).tolist(),
        "errors": flat(mcse_mean, both).tolist(),
    }


def run_apart(part: str, tool: str, name: str, options: Any, compiled: str) -> dict[str, Any]:
    """The entry of a fresh process, or its error."""
    command = [sys.executable, __file__, "--run", part, tool, name]
    command += ["--chains", str(options.chains), "--draws", str(options.draws)]
    caches = {
        "JAX_ENABLE_COMPILATION_CACHE": "0",
        "PYTENSOR_FLAGS": f"base_compiledir={compiled}",
        "XDG_CACHE_HOME": compiled,  # of PyStan
    }
    settings: dict[str, Any] = {
        "capture_output": True,
        "text": True,
        "env": {**os.environ, **caches},
    }
    entry = {"part": part, "problem": name, "tool": tool}
    try:
        done = subprocess.run(command, timeout=options.timeout, **settings)
    except subprocess.TimeoutExpired:
        return {**entry, "error": f"not finished after {options.timeout:.0f} s"}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {**entry, "error": reason(done.stderr) or f"ended with {done.returncode}"}
    return {**entry, **json.loads(lines[-1])}


def compared(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of a model without means, with the largest distance from ours or published."""
    against = entries[0]
    if against["part"] == "stan":
        reference = published_of(against["problem"])["reference"].values()
        against = {
            "means": [x["mean"] for x in reference],
            "errors": [x["sd"] / math.sqrt(NUM_REFERENCE_DRAWS) for x in reference],
        }
    for entry in entries:
        if entry is against or "means" not in entry or "means" not in against:
            continue
        apart = np.subtract(entry["means"], against["means"])
        error = np.hypot(entry["errors"], against["errors"])
        entry["z"] = float(np.max(np.abs(apart) / error))
        entry["num_entries"] = len(apart)
    return [{k: x for k, x in e.items() if k not in ("means", "errors")} for e in entries]


def rate(entry: dict[str, Any], call: int) -> float:
    return entry["ess"][call] / entry["cpu"][call]


def are_comparable(ours: dict[str, Any], entry: dict[str, Any]) -> bool:
    """Whether both have effective draws: of chains that disagree, their number means nothing."""
    return all("error" not in e and e["max_rhat"] < LARGEST_RHAT for e in (ours, entry))


def row(entry: dict[str, Any], group: list[dict[str, Any]]) -> str:
    """A line of the table, of a model's group; ratios are ours over this tool's."""
    names = [entry["problem"] if entry is group[0] else "", entry["tool"]]
    if "error" in entry:
        cells = [*names, entry["error"].replace("|", "/"), *[""] * (len(HEADINGS) - 3)]
        return f"| {' | '.join(cells)} |"
    ratios = ["", ""]
    ours = group[0]
    if entry is not ours and ours["tool"] == "ppl" and are_comparable(ours, entry):
        ratios = [short(rate(ours, call) / rate(entry, call)) for call in (0, 1)]
    cells = [
        *names,
        f"{entry['seconds'][0]:.1f}",
        *(f"{x:.1f}" if x >= 1 else f"{x:.2f}" for x in entry["cpu"]),
        short(statistics.mean(entry["ess"])),
        *(short(rate(entry, call)) for call in (0, 1)),
        *ratios,
        f"{entry['max_rhat']:.3f}",
        str(entry["divergences"]),
        f"{entry['z']:.1f} of {entry['num_entries']}" if "z" in entry else "",
    ]
    return f"| {' | '.join(cells)} |"


def short(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def replaced(entries: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All entries, those that are measured again in place of the old ones."""

    def key(entry: dict[str, Any]) -> tuple[str, str, str]:
        return entry["part"], entry["problem"], entry["tool"]

    return list(({key(e): e for e in entries} | {key(e): e for e in found}).values())


def in_order(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries by part and tool; models as they came first."""
    names = list(dict.fromkeys(entry["problem"] for entry in entries))

    def place(entry: dict[str, Any]) -> tuple[int, int, int]:
        tools = TOOLS[entry["part"]]
        return (
            list(TOOLS).index(entry["part"]),
            names.index(entry["problem"]),
            tools.index(entry["tool"]),
        )

    return sorted(entries, key=place)


def by_model(entries: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for name in dict.fromkeys(entry["problem"] for entry in entries):
        yield [entry for entry in entries if entry["problem"] == name]


def markdown(head: dict[str, Any], entries: list[dict[str, Any]]) -> Iterator[str]:
    """Lines of the page of results."""
    versions = ", ".join(f"{name} {version}" for name, version in head["versions"].items())
    yield from (
        "# Doors",
        "",
        "Made by `benchmarks/doors.py`, which explains the columns. "
        "Ratios are of ESS a CPU second, ours over that tool's.",
        "",
        f"`{head['command']}`, {head['date'][:10]}{head['note']}",
        "",
        f"Python {head['python']}, {versions}; {head['platform']}, {head['cores']} cores",
    )
    for part, tools in TOOLS.items():
        some = [entry for entry in entries if entry["part"] == part]
        if not some:
            continue
        yield from ("", f"## {TITLES[part]}", "", f"| {' | '.join(HEADINGS)} |")
        yield "| --- | --- |" + " ---: |" * (len(HEADINGS) - 2)
        for group in by_model(some):
            yield from (row(entry, group) for entry in group)
        yield ""
        yield from (summary(tool, list(by_model(some))) for tool in tools[1:])


def summary(tool: str, groups: list[list[dict[str, Any]]]) -> str:
    """A line on the ratios of all models to a tool."""
    with_ours = [group for group in groups if group[0]["tool"] == "ppl"]
    pairs = [(group[0], entry) for group in with_ours for entry in group if entry["tool"] == tool]
    both = [(a, b) for a, b in pairs if are_comparable(a, b)]
    if not both:
        return f"- {tool}: none."
    first, again = (
        statistics.geometric_mean([rate(a, call) / rate(b, call) for a, b in both])
        for call in (0, 1)
    )
    slower = sum(rate(a, 1) < rate(b, 1) for a, b in both)
    text = f"- Ours over {tool}, geometric: {short(first)} in first calls, {short(again)} again"
    return f"{text}; below 1 again in {slower} of {len(both)}."


def models_of(part: str) -> list[str]:
    if part == "stan":
        return list(PROGRAMS) if POSTERIORDB.is_dir() else []
    from benchmarks.comparison.door_models import BAMBI_MODELS, PYMC_MODELS

    return list(PYMC_MODELS if part == "pymc" else BAMBI_MODELS)


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--parts", nargs="+", default=list(TOOLS), choices=list(TOOLS))
    parser.add_argument("--models", nargs="+", help="all of the parts without")
    parser.add_argument("--tools", nargs="+", help="all without; z of PyMC's needs ppl among them")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--draws", type=int, default=1000, help="of a chain, after as many more")
    parser.add_argument("--timeout", type=float, default=900, help="seconds for a tool on a model")
    parser.add_argument("--note", default="", help="a remark on the page, as on the machine")
    parser.add_argument("--out", type=pathlib.Path, default=RESULTS)
    parser.add_argument("--name", default="doors", help="of the files in --out")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        warnings.simplefilter("ignore")
        part, tool, name = options.run
        print(json.dumps(run(part, tool, name, options.chains, options.draws)))
        return
    head = provenance({"all": [0, 1]}) | {"note": options.note and f"; {options.note}"}
    path = options.out / options.name
    file = path.with_suffix(".json")
    entries = json.loads(file.read_text())["entries"] if file.exists() else []
    with tempfile.TemporaryDirectory() as compiled:
        for part in options.parts:
            for name in (x for x in models_of(part) if x in (options.models or models_of(part))):
                tools = [x for x in TOOLS[part] if x in (options.tools or TOOLS[part])]
                found = compared([run_apart(part, x, name, options, compiled) for x in tools])
                entries = in_order(rounded(replaced(entries, found)))
                group = [e for e in entries if (e["part"], e["problem"]) == (part, name)]
                print("\n".join(row(entry, group) for entry in group), flush=True)
                file.write_text(json.dumps({"made": head, "entries": entries}, indent=1) + "\n")
                path.with_suffix(".md").write_text("\n".join(markdown(head, entries)) + "\n")


if __name__ == "__main__":
    main()
