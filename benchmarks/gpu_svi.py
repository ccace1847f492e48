"""How many steps a second does variational inference take on an accelerator, beside NumPyro?

    regression   mean field, logistic regression of 10,000 rows and 25 predictors
    full rank    full covariance over 1,000 coordinates of a normal density
    flow         inverse autoregressive flow of two layers, 100 units each, over 100 coordinates
    batches      mean field, a batch of 10,000 rows of 10,000,000 for each step, drawn on the device

Both take steps of Adam(1e-2) with one draw each. Ours are the extra steps of a longer call of
`inference.svi` over the extra time, after both lengths have run once; NumPyro's are those of its
`svi.update` in a `lax.scan` under `jit`, which its own interface does not offer. Medians of rounds
in which both take turns.

    python benchmarks/gpu_svi.py [--rows 10000000] [--rounds 3] [case ...]
"""

import argparse
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as theirs
import optax
from jax import lax
from numpyro.infer import SVI, Trace_ELBO, autoguide

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import distributions as dist
import inference
import ppl

COLUMNS, BATCH, FEW, MANY = 25, 10_000, 1_000, 9_000
Steps = Callable[[int], float]


def rows(num_rows: int) -> tuple[jax.Array, jax.Array]:
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (num_rows, COLUMNS))
    logits = x @ jax.random.normal(keys[1], (COLUMNS,))
    return x, (jax.random.uniform(keys[2], (num_rows,)) < jax.nn.sigmoid(logits)).astype(jnp.int32)


def ours(model: Any, *args: Any, **settings: Any) -> Steps:
    """Steps of a second of `inference.svi`, by the number of the round."""

    def seconds(seed: int, num_steps: int) -> float:
        start = time.perf_counter()
        inference.svi(
            jax.random.key(seed),
            model,
            *args,
            num_steps=num_steps,
            num_draws=1,
            optimizer=optax.adam(1e-2),
            **settings,
        )
        return time.perf_counter() - start

    def steps(seed: int) -> float:
        return (MANY - FEW) / (seconds(seed, MANY) - seconds(seed, FEW))

    seconds(0, FEW)
    return steps


def numpyros(model: Any, guide: Any, *args: Any) -> Steps:
    """Steps of a second of NumPyro's update in one compiled loop."""
    svi = SVI(model, guide, numpyro.optim.Adam(1e-2), Trace_ELBO())

    @jax.jit
    def run(state: Any, *args: Any) -> Any:
        return lax.scan(lambda state, _: svi.update(state, *args), state, length=MANY)

    def steps(seed: int) -> float:
        state = svi.init(jax.random.key(seed), *args)
        start = time.perf_counter()
        jax.block_until_ready(run(state, *args))
        return MANY / (time.perf_counter() - start)

    steps(0)
    return steps


def logistic(key: jax.Array, x: jax.Array, y: jax.Array, num_rows: int) -> None:
    slopes = ppl.sample(key, dist.Normal(jnp.zeros(COLUMNS), 1.0), name="slopes")
    log_probs = dist.Bernoulli(logits=x @ slopes).log_prob(y)
    ppl.factor(num_rows / len(y) * jnp.sum(log_probs), name="rows")


def their_logistic(x: jax.Array, y: jax.Array) -> None:
    slopes = numpyro.sample("slopes", theirs.Normal(jnp.zeros(COLUMNS), 1.0).to_event(1))
    with numpyro.plate("rows", len(x), subsample_size=min(BATCH, len(x))) as index:
        part = (x, y) if len(x) <= BATCH else (x[index], y[index])
        numpyro.sample("y", theirs.Bernoulli(logits=part[0] @ slopes), obs=part[1])


def regression(num_rows: int) -> tuple[Steps, Steps]:
    x, y = rows(BATCH)
    mean_field = autoguide.AutoNormal(their_logistic)
    return ours(logistic, x, y, BATCH), numpyros(their_logistic, mean_field, x, y)


def normal(size: int) -> tuple[Any, Any]:
    scale = np.geomspace(0.1, 10, size).astype(np.float32)
    model = lambda key: ppl.sample(key, dist.Normal(jnp.zeros(size), scale), name="x")  # noqa: E731
    their = lambda: numpyro.sample("x", theirs.Normal(jnp.zeros(size), scale).to_event(1))  # noqa: E731
    return model, their


def full_rank(num_rows: int) -> tuple[Steps, Steps]:
    model, their = normal(1_000)
    covariance = autoguide.AutoMultivariateNormal(their)
    return ours(model, guide=inference.FullRank()), numpyros(their, covariance)


def flow(num_rows: int) -> tuple[Steps, Steps]:
    model, their = normal(100)
    guide = inference.InverseAutoregressive(num_layers=2, hidden_sizes=(100,))
    theirs = autoguide.AutoIAFNormal(their, num_flows=2, hidden_dims=[100])
    return ours(model, guide=guide), numpyros(their, theirs)


def batches(num_rows: int) -> tuple[Steps, Steps]:
    x, y = rows(num_rows)

    def batch(key: jax.Array, x: jax.Array, y: jax.Array, num_rows: int) -> Any:
        index = jax.random.randint(key, (BATCH,), 0, len(x))
        return x[index], y[index], num_rows

    mean_field = autoguide.AutoNormal(their_logistic)
    part = ours(logistic, x, y, num_rows, batch=batch)
    return part, numpyros(their_logistic, mean_field, x, y)


CASES = {"regression": regression, "full rank": full_rank, "flow": flow, "batches": batches}


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    versions = f"JAX {jax.__version__}, NumPyro {numpyro.__version__}"
    print(f"{jax.devices()[0].device_kind}, {versions}; steps a second")
    print(f"{'':14}{'ppl':>10}{'numpyro':>10}{'ratio':>8}", flush=True)
    for case in options.cases:
        pair = CASES[case](options.rows)
        rates = [[tool(1 + number) for tool in pair] for number in range(options.rounds)]
        a, b = (statistics.median(column) for column in zip(*rates, strict=True))
        print(f"{case:14}{a:10.0f}{b:10.0f}{a / b:8.2f}", flush=True)


if __name__ == "__main__":
    main()
