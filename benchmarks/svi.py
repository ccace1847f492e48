"""How many steps a second does variational inference take, and how long is the first fit?

A mean-field guide is fitted to a logistic regression with 1,000 and 10,000 rows of 25 predictors,
by 10,000 steps of Adam(1e-2) with one draw each, in float32, beside NumPyro.

    loop   seconds of the compiled loop alone: ours in calls of up to 4,096 steps; NumPyro's
           `svi.update` in a `lax.scan` under `jit`, which its own interface does not offer
    call   seconds that a user waits for a fit with a new key: `inference.svi`, with its 1,000 draws
           and Pareto k, and NumPyro's `SVI.run`, which compiles again
    fresh  seconds of a fresh process, from its start to the fitted guide
    ELBO   of the fit, from 1,000 draws of each tool's guide; NumPyro's last parameters are noisier
           than our average over steps

Both tools take turns in one process; figures are medians over rounds.

    python benchmarks/svi.py [rounds]

How long does a step take with other guides? The densities are normal: full rank has 1,000
coordinates, flows have 100, mean field and a structured guide have 100,000. For each, in a process
of its own, the time of a step of the compiled loop and the peak memory of the process.

    python benchmarks/svi.py guides
"""

import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np

ROWS, COLUMNS, STEPS = (1_000, 10_000), 25, 10_000
FRESH = 3


def data(num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, COLUMNS)).astype(np.float32)
    logits = x @ rng.normal(size=COLUMNS) + 0.5
    return x, (rng.uniform(size=num_rows) < 1 / (1 + np.exp(-logits))).astype(np.int32)


class Ours:
    """This library's fit to `num_rows` rows."""

    def __init__(self, num_rows: int) -> None:
        import jax
        import jax.numpy as jnp

        import distributions as dist
        import inference
        import ppl

        def model(key, x):
            intercept = ppl.sample(key, dist.Normal(0.0, 3.0), name="intercept")
            slopes = ppl.sample(key, dist.Normal(jnp.zeros(COLUMNS), 1.0), name="slopes")
            ppl.sample(key, dist.Bernoulli(logits=intercept + x @ slopes), name="y")

        x, y = map(jnp.asarray, data(num_rows))
        self.posterior, self.x = ppl.condition(model, {"y": y}), x
        self.key, self.svi = jax.random.key, inference.svi

    def call(self, seed: int) -> float:
        """The ELBO of a fit."""
        return float(self.svi(self.key(seed), self.posterior, self.x, num_steps=STEPS).elbo)

    def loop(self) -> Any:
        """A function that takes all steps and waits for them."""
        import jax

        import ppl
        from inference.drivers.svi_problem import problem_of
        from inference.guides.normal import MeanField
        from inference.variational.elbo import ELBO
        from inference.variational.svi_loop import fit

        target = ppl.unconstrain(self.posterior, self.x)
        problem = problem_of(jax.random.key(0), target, MeanField(), ELBO(), None, 1)
        more = {"tolerance": None, "init": "uniform", "on_progress": lambda *_: None}
        state = fit(self.key(0), problem, num_steps=1, state=None, **more).state
        return lambda: fit(self.key(0), problem, num_steps=STEPS, state=state, **more)


class NumPyro:
    """NumPyro's fit to `num_rows` rows."""

    def __init__(self, num_rows: int) -> None:
        import jax
        import jax.numpy as jnp
        import numpyro
        import numpyro.distributions as dist
        from numpyro.infer import SVI, Trace_ELBO
        from numpyro.infer.autoguide import AutoNormal

        def model(x, y):
            intercept = numpyro.sample("intercept", dist.Normal(0.0, 3.0))
            prior = dist.Normal(jnp.zeros(COLUMNS), 1.0).to_event(1)
            slopes = numpyro.sample("slopes", prior)
            numpyro.sample("y", dist.Bernoulli(logits=intercept + x @ slopes), obs=y)

        self.data, self.key = tuple(map(jnp.asarray, data(num_rows))), jax.random.key
        self.model, self.guide = model, AutoNormal(model)
        self.svi = SVI(model, self.guide, numpyro.optim.Adam(1e-2), Trace_ELBO())
        self.elbo = Trace_ELBO(num_particles=1000)

    def call(self, seed: int, *, has_elbo: bool = False) -> float:
        """The ELBO of a fit; NaN unless `has_elbo`."""
        import jax

        result = self.svi.run(self.key(seed), STEPS, *self.data, progress_bar=False)
        jax.block_until_ready(result.params)
        if not has_elbo:
            return float("nan")
        loss = self.elbo.loss(self.key(1), result.params, self.model, self.guide, *self.data)
        return -float(loss)

    def loop(self) -> Any:
        """A function that takes all steps and waits for them."""
        import jax
        from jax import lax

        @jax.jit
        def steps(state, *data):
            update = lambda state, _: self.svi.update(state, *data)  # noqa: E731
            return lax.scan(update, state, None, length=STEPS)

        state = self.svi.init(self.key(0), *self.data)
        return lambda: jax.block_until_ready(steps(state, *self.data))


TOOLS = {"ppl": Ours, "numpyro": NumPyro}


def in_a_fresh_process(tool: str, num_rows: int) -> float:
    began = time.perf_counter()
    command = [sys.executable, __file__, tool, str(num_rows)]
    subprocess.run(command, check=True, capture_output=True, env=os.environ)
    return time.perf_counter() - began


def seconds(function: Any, *arguments: Any) -> float:
    began = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - began


def measure(num_rows: int, rounds: int) -> dict[str, dict[str, float]]:
    tools = {name: tool(num_rows) for name, tool in TOOLS.items()}
    loops = {name: tool.loop() for name, tool in tools.items()}
    elbos = {
        name: tool.call(0, has_elbo=True) if name == "numpyro" else tool.call(0)
        for name, tool in tools.items()
    }
    times: dict[str, dict[str, list[float]]] = {
        name: {"loop": [], "call": [], "fresh": []} for name in TOOLS
    }
    for loop in loops.values():
        loop()
    for i in range(rounds):
        for name, loop in loops.items():
            times[name]["loop"].append(seconds(loop))
        for name, tool in tools.items():
            times[name]["call"].append(seconds(tool.call, i + 1))
    for _ in range(FRESH):
        for name in TOOLS:
            times[name]["fresh"].append(in_a_fresh_process(name, num_rows))
    medians = {
        name: {part: statistics.median(values) for part, values in of_tool.items()}
        for name, of_tool in times.items()
    }
    return {name: row | {"elbo": elbos[name]} for name, row in medians.items()}


def main(rounds: int) -> None:
    import jax
    import jaxlib
    import numpyro

    versions = f"jax {jax.__version__}, jaxlib {jaxlib.__version__}, numpyro {numpyro.__version__}"
    print(f"Python {sys.version.split()[0]}, {versions}, {jax.default_backend()}, seeds 0 and on")
    print("            rows   steps/s   loop s   call s  fresh s       ELBO")
    for num_rows in ROWS:
        rows = measure(num_rows, rounds)
        for name, row in rows.items():
            times = "".join(f"{row[part]:9.3f}" for part in ("loop", "call", "fresh"))
            rate = STEPS / row["loop"]
            print(f"{name:8}{num_rows:8}{rate:10.0f}{times}{row['elbo']:11.2f}", flush=True)
        ours, theirs = rows.values()
        ratios = "".join(f"{ours[part] / theirs[part]:9.2f}" for part in ("loop", "call", "fresh"))
        print(f"{'ratio':16}{theirs['loop'] / ours['loop']:10.2f}{ratios}", flush=True)


GUIDES = {
    "FullRank()": 1_000,
    "InverseAutoregressive()": 100,
    "MaskedAutoregressive()": 100,
    "NeuralSpline()": 100,
    "MeanField()": 100_000,
    "Structured('mu')": 100_000,
}


def step_of(name: str) -> None:
    """Prints the time of a step with one guide, and the memory of the process."""
    import resource

    import jax
    import jax.numpy as jnp

    import distributions as dist
    import inference
    import ppl

    size, guide = GUIDES[name], eval(name, vars(inference))

    def model(key):
        mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
        ppl.sample(key, dist.Normal(mu * jnp.ones(size - 1), 1.0), name="x")

    def run(num_steps: int) -> None:
        inference.svi(jax.random.key(0), model, guide=guide, num_steps=num_steps, num_draws=1)

    first, few, many = seconds(run, 1), seconds(run, 101), seconds(run, 601)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    step = (many - few) / 500 * 1e3
    print(f"{name:25}{size:8}{first:10.1f} s{step:10.2f} ms{memory:10.0f} MB", flush=True)


def guides() -> None:
    """Prints the time and memory of each guide, in processes of their own."""
    print(f"{'':28}size  first call        step      memory")
    for name in GUIDES:
        subprocess.run([sys.executable, __file__, "guides", name], check=True, env=os.environ)


if __name__ == "__main__":
    if sys.argv[1:] == ["guides"]:
        guides()
    elif sys.argv[1:2] == ["guides"]:
        step_of(sys.argv[2])
    elif len(sys.argv) == 3:
        tool, num_rows = sys.argv[1:]
        result = TOOLS[tool](int(num_rows)).call(0)
        print(json.dumps(result))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
