"""Worker process of `benchmarks/quality.py`: one tool on one problem, over several seeds.

    python -m benchmarks.comparison.quality TASK FILE

Appends a line of JSON to FILE for each seed.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import inference
import ppl
from benchmarks.comparison.centered_problems import CENTERED
from benchmarks.comparison.counting import counted_runs
from benchmarks.comparison.hard_problems import HARD
from benchmarks.comparison.jobs import append
from benchmarks.comparison.problems import MADE, POSTERIORDB, Problem, posteriordb
from benchmarks.comparison.worker import flattened, scalar_names
from inference.chains import sampling
from tests.models.posteriors import POSTERIORS

NUM_CHAINS, NUM_WARMUP, NUM_DRAWS = 4, 1000, 1000
REFERENCED: dict[str, Callable[[], Problem]] = {
    posterior.name: partial(posteriordb, posterior.name) for posterior in POSTERIORS
}
PROBLEMS = HARD | CENTERED | {"Gaussian": MADE["Gaussian"]} | REFERENCED
SETTINGS: dict[str, Any] = {
    "num_warmup": NUM_WARMUP,
    "num_draws": NUM_DRAWS,
    "num_chains": NUM_CHAINS,
}


class Run(NamedTuple):
    """Draws and statistics of a run, and the gradients of its warm-up, if they were counted."""

    draws: Mapping[str, Any]
    stats: Mapping[str, np.ndarray]
    warmup_gradients: int | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """The task of a worker: a key of `TOOLS`, one of `PROBLEMS`, seeds and number of bits."""

    tool: str
    problem: str
    seeds: list[int]
    float: int


def default_names() -> list[str]:
    """All problems; without posteriordb, those that need no published data."""
    return [name for name in PROBLEMS if name not in REFERENCED or POSTERIORDB.is_dir()]


def ours(problem: Problem, kernel: inference.Kernel) -> Callable[[int], Run]:
    """This library, with all defaults but for the kernel, in the coordinates of the model."""
    target = ppl.unconstrain(problem.model, *problem.args)

    def run(seed: int) -> Any:
        key = jax.random.key(seed)
        return sampling.sample(key, target, kernel, target_acceptance_rate=0.8, **SETTINGS)

    return with_warmup_gradients(run)


def learned(problem: Problem) -> Callable[[int], Run]:
    """This library, with learned centering as by default."""
    model = with_learned_centering(problem)

    def run(seed: int) -> Any:
        key = jax.random.key(seed)
        return inference.mcmc(key, model, *problem.args, progress=False, **SETTINGS)

    return with_warmup_gradients(run)


def with_warmup_gradients(run: Callable[[int], Any]) -> Callable[[int], Run]:
    """A run by its seed, with its gradients before draws counted: of starts and all warm-up."""

    def counted(seed: int) -> Run:
        with counted_runs() as runs:
            result = run(seed)
        num_gradients = sum(run.num_useful for run in runs)
        num_drawn = int(np.sum(result.stats["num_steps"]))
        return Run(result.draws, result.stats, num_gradients - num_drawn)

    return counted


def with_learned_centering(problem: Problem) -> Callable[..., Any]:
    """The model with learned centering where `ppl.auto_reparam` has it, as it is elsewhere."""

    def rule(name: str, d: Any, is_constant: bool | None = None) -> Any:
        strategy = ppl.auto_reparam(name, d, is_constant)
        return strategy if isinstance(strategy, ppl.LearnedCentering) else None

    return ppl.reparam(problem.model, rule)


def learns_centering(name: str) -> bool:
    """Whether a problem has sites whose centering can be learned."""
    problem = PROBLEMS[name]()
    return bool(ppl.unconstrain(with_learned_centering(problem), *problem.args).centering)


def numpyro(problem: Problem, is_dense: bool) -> Callable[[int], Run]:
    """NumPyro's kernel and warm-up, with its defaults but for the matrix, in one jitted function.

    Chains start at the first of ten uniform points whose density is finite.
    """
    from numpyro.infer import NUTS

    target = ppl.unconstrain(problem.model, *problem.args)

    def start(key: jax.Array) -> Any:
        points = jax.vmap(target.initial)(jax.random.split(key, 10))
        is_finite = jnp.isfinite(jax.vmap(target.log_density)(points))
        return jax.tree.map(lambda x: x[jnp.argmax(is_finite)], points)

    @jax.jit
    def chains(keys: jax.Array) -> Any:
        kernel = NUTS(
            potential_fn=lambda position: -target.log_density(position), dense_mass=is_dense
        )
        state = kernel.init(jax.vmap(jax.random.key_data)(keys), NUM_WARMUP, jax.vmap(start)(keys))

        def step(is_kept: bool, state: Any, _: Any) -> Any:
            state = kernel.sample(state, (), {})
            stats = {
                "num_steps": state.num_steps,
                "acceptance_rate": state.accept_prob,
                "is_divergent": state.diverging,
            }
            return state, (state.z, stats) if is_kept else None

        state, _ = jax.lax.scan(partial(step, False), state, length=NUM_WARMUP)
        _, (positions, stats) = jax.lax.scan(partial(step, True), state, length=NUM_DRAWS)
        draws = jax.vmap(jax.vmap(target.constrain))(positions)
        return jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (draws, stats))

    def run(seed: int) -> Run:
        return Run(*jax.device_get(chains(jax.random.split(jax.random.key(seed), NUM_CHAINS))))

    return run


TOOLS: dict[str, Callable[[Problem], Callable[[int], Run]]] = {
    "ppl": partial(ours, kernel=inference.NUTS()),
    "ppl, learned": learned,
    "ppl, WALNUTS": partial(ours, kernel=inference.WALNUTS()),
    "NumPyro": partial(numpyro, is_dense=False),
    "NumPyro, dense": partial(numpyro, is_dense=True),
}


def measured(problem: Problem, run: Run) -> dict[str, Any]:
    """What a run is worth; see `benchmarks/quality.py`."""
    stats = run.stats
    draws = problem.derived(dict(run.draws))
    values, names = flattened(draws), scalar_names(draws)
    moves = np.std(values, (0, 1)) > 0
    ess = inference.ess_bulk(values)[moves]
    rates = np.mean(stats["acceptance_rate"], 1)
    found = {
        "divergences": int(np.sum(stats["is_divergent"])),
        "acceptance": [round(float(x), 4) for x in rates],
        "ess_per_1000": float(1000 * np.min(ess) / np.sum(stats["num_steps"])),
        "rhat": float(np.max(inference.rhat(values)[moves])),
    }
    if run.warmup_gradients is not None:
        found["warmup_gradients"] = run.warmup_gradients
    if not problem.means:
        return found
    which = [names.index(name) for name in problem.means]
    known = np.array(list(problem.means.values()))
    error = np.hypot(inference.mcse_mean(values[..., which]), known[:, 1])
    z = np.abs(values[..., which].mean((0, 1)) - known[:, 0]) / error
    sds = np.array([problem.sds[name] for name in problem.means])
    ratios = values[..., which].std((0, 1)) / sds
    return found | {
        "z": float(np.max(z)),
        "sd_ratio": float(ratios[np.argmax(np.abs(np.log(ratios)))]),
    }


def main(task: Task, path: str) -> None:
    jax.config.update("jax_enable_x64", task.float == 64)
    problem = PROBLEMS[task.problem]()
    run = TOOLS[task.tool](problem)
    for seed in task.seeds:
        began = time.perf_counter()
        found = measured(problem, run(seed))
        head = {"tool": task.tool, "problem": task.problem, "float": task.float, "seed": seed}
        append(path, head | found | {"seconds": round(time.perf_counter() - began, 3)})


if __name__ == "__main__":
    main(Task(**json.loads(sys.argv[1])), sys.argv[2])
