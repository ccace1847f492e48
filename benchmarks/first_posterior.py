"""How long does a newcomer wait for the first posterior, and where does the time go?

A fresh process imports the tool, samples eight schools (non-centered, 4 chains of 1000 draws,
float32) and makes the summary. Processes with our tool and with NumPyro take turns. The events that
JAX reports split the time into import, trace (to a jaxpr and to MLIR), compile (XLA) and run (the
rest). The posterior means stand beside the times: both tools must agree with the reference (mu
4.41, tau 3.60).

    python benchmarks/first_posterior.py [rounds]
"""

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

EFFECT = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]
STANDARD_ERROR = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]
PARTS = ("import", "trace", "compile", "run", "total")


def union(intervals: list[tuple[float, float]]) -> float:
    """The length of a union of intervals: events of nested functions overlap."""
    length, end = 0.0, -1.0
    for start, stop in sorted(intervals):
        length += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return length


class Events:
    """The time intervals in which JAX traced and XLA compiled."""

    def __init__(self) -> None:
        import jax

        self.trace: list[tuple[float, float]] = []
        self.compile: list[tuple[float, float]] = []
        jax.monitoring.register_event_duration_secs_listener(self._record)

    def _record(self, event: str, duration: float, **_: Any) -> None:
        now = time.perf_counter()
        if event.endswith("backend_compile_duration"):
            self.compile.append((now - duration, now))
        elif event.endswith(("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration")):
            self.trace.append((now - duration, now))


def sample_with_ppl() -> dict[str, float]:
    import jax
    import jax.numpy as jnp

    import distributions as dist
    import inference
    import ppl

    imported, events = time.perf_counter(), Events()

    def model(key, standard_error):
        mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
        tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
        z = ppl.sample(key, dist.Normal(jnp.zeros(8), 1.0), name="z")
        ppl.sample(key, dist.Normal(mu + tau * z, standard_error), name="effect")

    posterior = ppl.condition(model, {"effect": jnp.array(EFFECT)})
    result = inference.mcmc(jax.random.key(0), posterior, jnp.array(STANDARD_ERROR))
    summary = result.summary()
    str(summary)
    ess = min(summary.ess_bulk)
    return timings(imported, events, summary["mu"].mean, summary["tau"].mean, ess)


def sample_with_numpyro() -> dict[str, float]:
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.diagnostics import summary as summarize
    from numpyro.infer import MCMC, NUTS

    imported, events = time.perf_counter(), Events()

    def model(standard_error, effect):
        mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
        tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
        with numpyro.plate("schools", 8):
            z = numpyro.sample("z", dist.Normal(0.0, 1.0))
            numpyro.sample("effect", dist.Normal(mu + tau * z, standard_error), obs=effect)

    mcmc = MCMC(
        NUTS(model),
        num_warmup=1000,
        num_samples=1000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), jnp.array(STANDARD_ERROR), jnp.array(EFFECT))
    table = summarize(mcmc.get_samples(group_by_chain=True))
    ess = min(float(table[name]["n_eff"].min()) for name in table)
    return timings(imported, events, float(table["mu"]["mean"]), float(table["tau"]["mean"]), ess)


def timings(imported: float, events: Events, mu: float, tau: float, ess: float) -> dict[str, float]:
    done = time.perf_counter()
    compiling = union(events.compile)
    tracing = union(events.trace + events.compile) - compiling
    run = done - imported - tracing - compiling
    return {
        "import": imported - START,
        "trace": tracing,
        "compile": compiling,
        "run": run,
        "total": done - START,
        "mu": mu,
        "tau": tau,
        "ess": ess,
    }


TOOLS = {"ppl": sample_with_ppl, "numpyro": sample_with_numpyro}


def in_a_fresh_process(tool: str) -> dict[str, float]:
    command = [sys.executable, __file__, tool]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    return json.loads(out.stdout.splitlines()[-1])


def main(rounds: int) -> None:
    import jax
    import jaxlib

    python = sys.version.split()[0]
    print(f"Python {python}, jax {jax.__version__}, jaxlib {jaxlib.__version__}, seed 0, seconds")
    print(f"{'':10}" + "".join(f"{part:>9}" for part in PARTS) + "     mu   tau  min ESS")
    runs: dict[str, list[dict[str, float]]] = {tool: [] for tool in TOOLS}
    for _ in range(rounds):
        for tool in TOOLS:
            runs[tool].append(in_a_fresh_process(tool))
    median = {
        tool: {k: statistics.median(run[k] for run in of_tool) for k in of_tool[0]}
        for tool, of_tool in runs.items()
    }
    for tool, row in median.items():
        times = "".join(f"{row[part]:9.2f}" for part in PARTS)
        print(f"{tool:10}{times} {row['mu']:6.2f} {row['tau']:5.2f} {row['ess']:8.0f}")
    ratios = "".join(f"{median['ppl'][p] / median['numpyro'][p]:9.2f}" for p in PARTS)
    print(f"{'ratio':10}{ratios}")


START = time.perf_counter()
if __name__ == "__main__":
    argument = sys.argv[1] if len(sys.argv) > 1 else "5"
    if argument in TOOLS:
        print(json.dumps(TOOLS[argument]()))
    else:
        main(int(argument))
