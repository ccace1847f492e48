"""How far are approximations of real posteriors from published draws, and does Pareto k tell?

One row for each approximation of each posterior of posteriordb that we have as a model:

    mean             largest distance of a mean from the reference mean, in reference standard
                     deviations
    lowest, highest  extreme ratios of a standard deviation to the reference standard deviation
    Pareto k         at most 0.7 for a good approximation; "!" marks larger values
    seconds          one call, compiling included

All in float64, with seed 0. Guides are fitted by 20,000 steps of Adam, with a rate that starts at
0.02 and halves every 3,000 steps. They start at the result of Pathfinder, which has its own row.

The data are read from the folder `$PPL_POSTERIORDB`, by default `../shared/posteriordb`.

    python benchmarks/approximations.py [--steps 20000] [posterior ...]
"""

import argparse
import json
import os
import pathlib
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import inference  # noqa: E402
from inference import FullRank, LowRank, MeanField  # noqa: E402
from tests.models.posteriors import POSTERIORS, Posterior  # noqa: E402

POSTERIORDB = pathlib.Path(os.environ.get("PPL_POSTERIORDB") or ROOT / "../shared/posteriordb")
GUIDES = {"mean field": MeanField(), "full rank": FullRank(), "low rank 5": LowRank(5)}


DRAWS = {"num_draws": 4000}


def fit(guide: Any, num_steps: int) -> Callable[..., Any]:
    rate = optax.exponential_decay(0.02, 3000, 0.5)
    settings = {"guide": guide, "optimizer": optax.adam(rate), "num_steps": num_steps} | DRAWS
    return lambda start, *args: inference.svi(
        jax.random.key(0), *args, init=start or "optimum", **settings
    )


def laplace(_: Any, *args: Any) -> Any:
    return inference.laplace(jax.random.key(0), *args, **DRAWS)


def pathfinder(_: Any, *args: Any) -> Any:
    return inference.pathfinder(jax.random.key(0), *args, **DRAWS)


def scalar(draws: dict[str, Any], name: str) -> np.ndarray:
    """The draws of a scalar parameter, named as in Stan, `theta[1]`."""
    site, _, index = name.partition("[")
    array = np.asarray(draws[site])
    return array[..., int(index[:-1]) - 1] if index else array


def distances(draws: dict[str, Any], reference: dict[str, Any]) -> tuple[float, float, float]:
    """The largest distance of a mean, and the extreme ratios of standard deviations."""
    means, ratios = [], []
    for name, value in reference.items():
        found = scalar(draws, name)
        means.append(abs(found.mean() - value["mean"]) / value["sd"])
        ratios.append(found.std() / value["sd"])
    return max(means), min(ratios), max(ratios)


def row(
    posterior: Posterior, published: dict[str, Any], approximate: Callable[..., Any], start: Any
) -> tuple[str, Any]:
    """One row of the table, and the result; `None` if the approximation fails."""
    model, args = posterior.condition(published["data"])
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the summary tells of a run that stops early
            result = approximate(start, model, *args)
    except ValueError as error:
        return f"  {str(error).partition(':')[0]}", None
    seconds = time.perf_counter() - began
    mean, low, high = distances(posterior.derived(dict(result.draws)), published["reference"])
    mark = " " if result.pareto_k <= 0.7 else "!"
    return f"{mean:8.2f}{low:8.2f}{high:8.2f}{result.pareto_k:9.2f}{mark}{seconds:8.1f}", result


def main(names: list[str], num_steps: int) -> None:
    tools = {"pathfinder": pathfinder, "laplace": laplace}
    tools |= {name: fit(guide, num_steps) for name, guide in GUIDES.items()}
    print(f"jax {jax.__version__}, {jax.default_backend()}, float64, seed 0, {num_steps} steps")
    print(f"{'':52}    mean  lowest highest Pareto k   seconds")
    for posterior in POSTERIORS:
        path = POSTERIORDB / f"{posterior.name}.json"
        if (names and posterior.name not in names) or not path.is_file():
            continue
        published = json.loads(path.read_text())
        start = None
        for name, approximate in tools.items():
            shown, result = row(posterior, published, approximate, start)
            start = start or result  # Pathfinder's, as it comes first
            print(f"{posterior.name:40} {name:11}{shown}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="posterior")
    parser.add_argument("--steps", type=int, default=20_000)
    options = parser.parse_args()
    with jax.enable_x64(True):
        main(options.names, options.steps)
