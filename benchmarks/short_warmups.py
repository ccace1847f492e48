"""How much of a warm-up do Pathfinder's starts save?

NUTS with its defaults, 4 chains of 1000 draws, on some of the posteriors of `nuts.py`, after
warm-ups of several lengths. Chains start at uniform points, or at a result of
`inference.pathfinder`, which gives points and the first mass matrix. Means over three seeds:

    gradients of warm-up  in thousands; Pathfinder's own steps, about 4 paths of 10 to 60, are not
                          counted
    ESS per k of draws    smallest bulk ESS of all parameters per 1000 gradients of the draws
    divergences           divergent draws of a run

These are counts, not times.

    python benchmarks/short_warmups.py [model ...]
"""

import pathlib
import sys
from typing import Any

import jax
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import inference
from benchmarks.comparison.counting import CountingRun
from benchmarks.comparison.problems import PROBLEMS
from inference.chains import sampling

MODELS = ("eight schools", "autoregression", "garch", "nes", "normal mixture", "radon")
WARMUPS, SEEDS = (50, 100, 200, 1000), 3


def run(problem: Any, seed: int, num_warmup: int, init: Any) -> tuple[float, float, float]:
    """Gradients of warm-up in thousands, ESS per thousand gradients of draws, and divergences."""
    key = jax.random.key(seed)
    result = inference.mcmc(key, problem.model, *problem.args, num_warmup=num_warmup, init=init)
    num_draws = int(result.stats["num_steps"].sum())
    ess = float(np.min(result.summary().ess_bulk))
    divergences = float(result.stats["is_divergent"].sum())
    warmup = (CountingRun.last.num_useful - num_draws) / 1e3
    return warmup, 1e3 * ess / num_draws, divergences


def main(names: list[str]) -> None:
    sampling._HamiltonianRun = CountingRun
    print(f"{'':18}warm-up  starts      gradients of warm-up, k  ESS per k of draws  divergences")
    for name in names or MODELS:
        problem = PROBLEMS[name]()
        found = [
            inference.pathfinder(jax.random.key(100 + seed), problem.model, *problem.args)
            for seed in range(SEEDS)
        ]
        for num_warmup in WARMUPS:
            for starts, inits in (("uniform", ["uniform"] * SEEDS), ("pathfinder", found)):
                runs = [run(problem, s, num_warmup, init) for s, init in enumerate(inits)]
                numbers = np.mean(runs, axis=0)
                columns = f"{numbers[0]:23.1f}{numbers[1]:20.1f}{numbers[2]:13.1f}"
                print(f"{name:18}{num_warmup:7}  {starts:10}{columns}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
