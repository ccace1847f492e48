"""How long do people wait from the data to the report, beside PyMC?

Seven models of PyMC's gallery of examples (`comparison/gallery.py`), a fresh process for each model
and tool, in turns, without compiled programs from earlier processes. Both tools draw 4 chains of
1000 + 1000 iterations by their defaults, on all cores. The columns, in seconds:

- fit: the call that samples, compiling included
- summary: the table of means, standard deviations and diagnostics
- container: ArviZ's, with log likelihood, prior where it is proper, and posterior predictive
- report: the page of HTML, which PyMC does not have

`R-hat` is the largest; `apart` is the largest distance between the means of both tools, over the
standard deviation of the draws, of all entries of the sites that both have.

    python benchmarks/everyday.py [--models NAME...] [--report FOLDER]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

TOOLS = "ppl", "pymc"
STEPS = "fit", "summary", "container", "report"


def run_ours(name: str, folder: str | None) -> dict[str, Any]:
    """Seconds of each step, and moments of the sites."""
    import jax

    import inference
    from benchmarks.comparison.gallery import EXAMPLES

    example = EXAMPLES[name]()
    posterior = example.posterior()
    start = time.perf_counter()
    result = inference.mcmc(jax.random.key(0), posterior, *example.args, progress=None)
    times = [time.perf_counter()]
    summary = result.summary()
    str(summary)
    times.append(time.perf_counter())
    container = result.to_arviz(posterior, *example.args, key=jax.random.key(1))
    times.append(time.perf_counter())
    path = pathlib.Path(folder or os.devnull) / f"{name.replace(', ', '-').replace(' ', '-')}.html"
    if folder:
        result.report(path, posterior, *example.args, key=jax.random.key(2))
    times.append(time.perf_counter())
    return _outcome(example, container, start, times if folder else times[:-1])


def run_pymc(name: str, _: str | None) -> dict[str, Any]:
    """The same of PyMC."""
    import arviz
    import pymc as pm

    from benchmarks.comparison.gallery import EXAMPLES

    example = EXAMPLES[name]()
    with pm.Model(coords=dict(example.coords)):
        example.pymc(pm, example.args, example.data)
        start = time.perf_counter()
        container = pm.sample(random_seed=0, progressbar=False)
        times = [time.perf_counter()]
        arviz.summary(container, round_to="none")
        times.append(time.perf_counter())
        pm.compute_log_likelihood(container, progressbar=False)
        if example.is_proper:
            container.extend(pm.sample_prior_predictive(random_seed=0))
        container.extend(pm.sample_posterior_predictive(container, progressbar=False))
        times.append(time.perf_counter())
    return _outcome(example, container, start, times)


def _outcome(example: Any, container: Any, start: float, times: list[float]) -> dict[str, Any]:
    import arviz

    draws = {name: np.asarray(container["posterior"][name]) for name in example.shared}
    rhat = arviz.rhat(container, var_names=list(example.shared))
    return {
        "seconds": np.diff([start, *times]).tolist(),
        "mean": {name: x.mean((0, 1)).ravel().tolist() for name, x in draws.items()},
        "sd": {name: x.std((0, 1)).ravel().tolist() for name, x in draws.items()},
        "rhat": float(max(np.max(rhat[name]) for name in example.shared)),
        "groups": sorted(str(name).strip("/") for name in container.groups()),
    }


def run_apart(tool: str, name: str, folder: str | None) -> dict[str, Any]:
    """The outcome of a fresh process, or its last line of error."""
    command = [sys.executable, __file__, "--run", tool, name, *([folder] if folder else [])]
    root = str(pathlib.Path(__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "JAX_ENABLE_COMPILATION_CACHE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        said = [x for x in done.stderr.splitlines() if "Error" in x]
        return {"error": (said or ["no output"])[-1]}
    return json.loads(lines[-1])


def distance(ours: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The largest distance of two means, in standard deviations."""
    return max(
        float(np.max(np.abs(np.subtract(ours["mean"][x], theirs["mean"][x])) / ours["sd"][x]))
        for x in ours["mean"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--report", help="folder for reports")
    parser.add_argument("--run", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        tool, name, *folder = options.run
        warnings.simplefilter("ignore")
        run = {"ppl": run_ours, "pymc": run_pymc}[tool]
        print(json.dumps(run(name, folder[0] if folder else None)))
        return
    from benchmarks.comparison.gallery import EXAMPLES

    print(f"{'model':18} {'tool':5}" + "".join(f"{x:>11}" for x in STEPS) + "   R-hat  apart")
    for name in options.models or EXAMPLES:
        found = {tool: run_apart(tool, name, options.report) for tool in TOOLS}
        is_whole = not any("error" in x for x in found.values())
        apart = f"{distance(found['ppl'], found['pymc']):7.2f}" if is_whole else ""
        for tool, outcome in found.items():
            if "error" in outcome:
                print(f"{name:18} {tool:5} {outcome['error']}", flush=True)
                continue
            cells = [f"{x:11.2f}" for x in outcome["seconds"]]
            cells += [" " * 11] * (len(STEPS) - len(cells))
            print(f"{name:18} {tool:5}{''.join(cells)} {outcome['rhat']:7.3f}{apart}", flush=True)


if __name__ == "__main__":
    main()
