"""Worker process for one tool on one problem: times, numbers of gradients, and ESS of the draws.

    python -m benchmarks.comparison.worker TASK FILE

Appends a line of JSON to FILE for each number of chains.
"""

import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

import inference
from benchmarks.comparison.ensembles import ENSEMBLES
from benchmarks.comparison.problems import PROBLEMS, Problem
from benchmarks.comparison.tools import TOOLS, Output, Settings, Tool


@dataclasses.dataclass(frozen=True)
class Task:
    """The task of a worker.

    Attributes:
        tool: Key in `TOOLS`.
        problem: Key in `PROBLEMS`.
        chains: Numbers of chains, in turn.
        num_warmup: Warm-up iterations of a chain.
        num_draws: Draws of a chain.
        repeats: Number of calls after the first.
        is_execution_only: Whether to leave out calls that compile again each time.
        is_mapped: Whether our chains are mapped over, as on an accelerator.
    """

    tool: str
    problem: str
    chains: list[int]
    num_warmup: int
    num_draws: int
    repeats: int
    is_execution_only: bool = False
    is_mapped: bool = False


def main(task: Task, path: str) -> None:
    _, is_float64, make = (TOOLS | ENSEMBLES)[task.tool]
    jax.config.update("jax_enable_x64", is_float64)
    problem = PROBLEMS[task.problem]()
    jax.block_until_ready(jax.jit(lambda x: x + 1)(1.0))  # starts JAX itself
    for num_chains in task.chains:
        settings = Settings(
            num_chains=num_chains,
            num_warmup=task.num_warmup,
            num_draws=task.num_draws,
            is_mapped=task.is_mapped,
        )
        entry = {
            "tool": task.tool,
            "problem": task.problem,
            "chains": num_chains,
            "num_warmup": task.num_warmup,
            "num_draws": task.num_draws,
            "float": 64 if is_float64 else 32,
            "device": jax.devices()[0].device_kind if task.tool != "nutpie" else "cpu",
        }
        entry |= measured(task, lambda s=settings: make(task.problem, problem, s), problem)
        with open(path, "a") as file:
            file.write(json.dumps(entry) + "\n")


def measured(task: Task, make: Callable[[], Tool], problem: Problem) -> dict[str, Any]:
    began = time.perf_counter()
    tool = make()
    execute, call = tool.execute or tool.call, tool.call
    if task.is_execution_only and tool.is_compiled_again:
        call = execute
    call(0)
    first, again, executions, outputs = time.perf_counter() - began, [], [], []
    if execute is not call:
        execute(0)
    for seed in range(1, task.repeats + 1):
        if execute is not call:
            again.append(timed(call, seed)[0])
        seconds, output = timed(execute, seed)
        executions.append(seconds)
        outputs.append(output)
    draws = [problem.derived(dict(tool.finish(output.draws))) for output in outputs]
    return {
        "note": tool.note,
        "first_s": first,
        "again_s": again or executions,
        "exec_s": executions,
        "is_compiled_again": tool.is_compiled_again and execute is not call,
        "warmup_gradients": statistics.median(int(np.sum(x.warmup)) for x in outputs),
        "draw_gradients": statistics.median(int(np.sum(x.sampling)) for x in outputs),
        "executed_over_useful": statistics.median(executed(tool, x) for x in outputs),
    } | worth(draws, problem)


def timed(function: Callable[[int], Output], seed: int) -> tuple[float, Output]:
    began = time.perf_counter()
    output = function(seed)
    return time.perf_counter() - began, output


def executed(tool: Tool, output: Output) -> float:
    """Ratio of gradients evaluated to gradients used."""
    if output.executed is not None:
        return output.executed / int(np.sum(output.warmup) + np.sum(output.sampling))
    if not tool.is_lockstep:
        return 1.0
    steps = np.concatenate([output.warmup, output.sampling], 1)
    return float(len(steps) * steps.max(0).sum() / steps.sum())


def worth(draws: Sequence[Mapping[str, Any]], problem: Problem) -> dict[str, Any]:
    """The smallest ESS and largest R-hat of each run, and the means of all runs together."""
    names = scalar_names(draws[0])
    flat = [flattened(x) for x in draws]
    error = np.sqrt(sum(inference.mcse_mean(x) ** 2 for x in flat)) / len(flat)
    mean = np.mean([x.mean((0, 1)) for x in flat], 0)
    means = {name: (float(m), float(e)) for name, m, e in zip(names, mean, error, strict=True)}
    result = {
        "min_ess": [float(np.min(inference.ess_bulk(x))) for x in flat],
        "max_rhat": max(float(np.max(inference.rhat(x))) for x in flat),
    }
    if problem.means:
        return result | {"z": distance(means, problem.means), "z_to": "reference"}
    return result | {"means": means}


def distance(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    """The largest difference of means, in combined standard errors."""
    pairs = [(*ours[name], *theirs[name]) for name in theirs]
    return max(abs(a - b) / float(np.hypot(da, db)) for a, da, b, db in pairs)


def scalar_names(draws: Mapping[str, Any]) -> list[str]:
    return [
        name if np.ndim(x) == 2 else f"{name}[{i + 1}]"
        for name, x in sorted(draws.items())
        for i in range(int(np.prod(np.shape(x)[2:])))
    ]


def flattened(draws: Mapping[str, Any]) -> np.ndarray:
    arrays = [np.reshape(x, (*np.shape(x)[:2], -1)) for _, x in sorted(draws.items())]
    return np.concatenate(arrays, -1).astype(np.float64)


if __name__ == "__main__":
    main(Task(**json.loads(sys.argv[1])), sys.argv[2])
