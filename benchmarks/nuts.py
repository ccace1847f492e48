"""How many effective draws a second does NUTS make, beside NumPyro's and BlackJAX's?

Every tool is given the same log density of unconstrained parameters, as `ppl` derives it, and runs
4 chains in float32 with 1000 iterations of warm-up and 1000 draws, target acceptance rate 0.8.
Another number of chains can be given on the command line.

"first" is the first call, with tracing and compiling; "again" the median of three more calls, with
other keys, of all that a user waits for; ESS the smallest bulk ESS over all values of all sites;
"grads" the gradients of the draws. "z" is the largest difference of posterior means to ours, in
standard errors of the two: it must stay below about 5, or one is wrong. BlackJAX is left out
where it is not installed.

    python benchmarks/nuts.py [chains] [model ...]
"""

import importlib.util
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import distributions as dist
import inference
import ppl
from examples.catalogue import MODELS

NUM_WARMUP, NUM_DRAWS = 1000, 1000
Model = tuple[Callable[..., Any], tuple[Any, ...]]


def from_catalogue(name: str) -> Model:
    entry = MODELS[name]
    args, observed = jax.tree.map(jnp.asarray, entry.data())
    return ppl.condition(entry.model, observed), args


def logistic(num_rows: int) -> Model:
    """A logistic regression on 25 standard normal predictors."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, 25))
    y = rng.uniform(size=num_rows) < 1 / (1 + np.exp(-x @ rng.normal(size=25) / 5))

    def model(key: Any, x: Any) -> None:
        intercept = ppl.sample(key, dist.Normal(0.0, 1.0), name="intercept")
        weight = ppl.sample(key, dist.Normal(jnp.zeros(25), 1.0), name="weight")
        ppl.sample(key, dist.Bernoulli(logits=intercept + x @ weight), name="y")

    return ppl.condition(model, {"y": jnp.asarray(y, int)}), (jnp.asarray(x, float),)


def radon() -> Model:
    """A hierarchy of 85 counties, 919 houses and 89 parameters, non-centred."""
    rng = np.random.default_rng(1)
    county, floor = rng.integers(0, 85, 919), rng.uniform(size=919) < 0.2
    level = rng.normal(1.5, 0.35, 85)
    y = level[county] - 0.7 * floor + rng.normal(0, 0.75, 919)

    def model(key: Any, county: Any, floor: Any) -> None:
        mu = ppl.sample(key, dist.Normal(0.0, 10.0), name="mu")
        tau = ppl.sample(key, dist.HalfNormal(1.0), name="tau")
        slope = ppl.sample(key, dist.Normal(0.0, 10.0), name="slope")
        sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
        z = ppl.sample(key, dist.Normal(jnp.zeros(85), 1.0), name="z")
        ppl.sample(key, dist.Normal((mu + tau * z)[county] + slope * floor, sigma), name="y")

    data = jnp.asarray(county), jnp.asarray(floor, float)
    return ppl.condition(model, {"y": jnp.asarray(y, float)}), data


def gaussian() -> Model:
    """100 dimensions, variances from 0.01 to 100."""

    def model(key: Any, scale: Any) -> None:
        ppl.sample(key, dist.Normal(jnp.zeros(100), scale), name="x")

    return model, (jnp.logspace(-1, 1, 100),)


PROBLEMS: dict[str, Callable[[], Model]] = {
    "eight schools": lambda: from_catalogue("eight_schools_noncentered"),
    "radon": radon,
    "logistic, 1,000 rows": lambda: logistic(1_000),
    "logistic, 10,000 rows": lambda: logistic(10_000),
    "Gaussian, 100 dimensions": gaussian,
    "garch": lambda: from_catalogue("garch"),
    "hidden Markov model": lambda: from_catalogue("hidden_markov_model"),
    "rats": lambda: from_catalogue("growth_of_rats"),
    "autoregression": lambda: from_catalogue("autoregression"),
    "item response": lambda: from_catalogue("item_response_1pl"),
}


def with_ours(target: Any, model: Model, num_chains: int) -> Callable[[int], Any]:
    def run(seed: int) -> Any:
        result = inference.mcmc(
            jax.random.key(seed),
            model[0],
            *model[1],
            num_chains=num_chains,
            num_warmup=NUM_WARMUP,
            num_draws=NUM_DRAWS,
        )
        return result.draws, int(np.sum(result.stats["num_steps"]))

    return run


def starts(target: Any, seed: int, num_chains: int) -> Any:
    return jax.vmap(target.initial)(jax.random.split(jax.random.key(seed), num_chains))


def with_numpyro(target: Any, model: Model, num_chains: int) -> Callable[[int], Any]:
    from numpyro.infer import MCMC, NUTS

    kernel = NUTS(potential_fn=lambda position: -target.log_density(position))
    mcmc = MCMC(
        kernel,
        num_warmup=NUM_WARMUP,
        num_samples=NUM_DRAWS,
        num_chains=num_chains,
        chain_method="vectorized",
        progress_bar=False,
    )

    def run(seed: int) -> Any:
        mcmc.run(
            jax.random.PRNGKey(seed),
            init_params=starts(target, seed, num_chains),
            extra_fields=("num_steps",),
        )
        draws = jax.block_until_ready(mcmc.get_samples(group_by_chain=True))
        return draws, int(np.sum(mcmc.get_extra_fields()["num_steps"]))

    return run


def with_blackjax(target: Any, model: Model, num_chains: int) -> Callable[[int], Any]:
    import blackjax

    def chain(key: Any, position: Any) -> Any:
        keys = jax.random.split(key)
        adaptation = blackjax.window_adaptation(
            blackjax.nuts, target.log_density, target_acceptance_rate=0.8
        )
        (state, parameters), _ = adaptation.run(keys[0], position, NUM_WARMUP)
        kernel = blackjax.nuts(target.log_density, **parameters)

        def step(state: Any, key: Any) -> Any:
            state, info = kernel.step(key, state)
            return state, (state.position, info.num_integration_steps)

        return jax.lax.scan(step, state, jax.random.split(keys[1], NUM_DRAWS))[1]

    chains = jax.jit(jax.vmap(chain))

    def run(seed: int) -> Any:
        keys = jax.random.split(jax.random.key(seed), num_chains)
        draws, steps = jax.block_until_ready(chains(keys, starts(target, seed, num_chains)))
        return draws, int(np.sum(steps))

    return run


def values_of(target: Any, tool: str, draws: Any) -> Any:
    """Values of sites; peers draw unconstrained positions."""
    return draws if tool == "ppl" else jax.jit(jax.vmap(jax.vmap(target.constrain)))(draws)


def moments(draws: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Means, their standard errors, and the smallest bulk ESS."""
    flat = np.concatenate([np.reshape(x, (*x.shape[:2], -1)) for x in jax.tree.leaves(draws)], -1)
    flat = np.asarray(flat, np.float64)
    chains = [flat[..., i] for i in range(flat.shape[-1])]
    ess = min(float(inference.ess_bulk(chain)) for chain in chains)
    errors = np.array([float(inference.mcse_mean(chain)) for chain in chains])
    return flat.mean((0, 1)), errors, ess


def measure(tool: str, make: Any, target: Any, model: Model, num_chains: int, ours: Any) -> Any:
    run, began = make(target, model, num_chains), time.perf_counter()
    run(0)
    first, times = time.perf_counter() - began, []
    ess, grads, distances = [], [], [0.0]
    for seed in range(1, 4):
        began = time.perf_counter()
        draws, num_grads = run(seed)
        times.append(time.perf_counter() - began)
        mean, error, least = moments(values_of(target, tool, draws))
        ess.append(least)
        grads.append(num_grads)
        if ours is not None:
            distances.append(float(np.max(np.abs(mean - ours[0]) / np.hypot(error, ours[1]))))
    again = statistics.median(times)
    rate = statistics.median(ess) / again
    print(
        f"{'':4}{tool:12}{first:8.2f}{again:9.3f}{statistics.median(grads) / 1e3:9.0f}k"
        f"{statistics.median(ess):8.0f}{rate:10.0f}{max(distances):6.1f}",
        flush=True,
    )
    return mean, error, rate


def main(num_chains: int, names: list[str]) -> None:
    print(
        f"Python {platform.python_version()}, jax {jax.__version__}, {jax.devices()[0].platform}, "
        f"float32, {num_chains} chains"
    )
    tools = {"ppl": with_ours, "NumPyro": with_numpyro}
    if importlib.util.find_spec("blackjax"):
        tools["BlackJAX"] = with_blackjax
    print(f"{'':16}{'first':>8}{'again':>9}{'grads':>10}{'ESS':>8}{'ESS/s':>10}{'z':>6}")
    ratios = []
    for name in names or PROBLEMS:
        model = PROBLEMS[name]()
        target = ppl.unconstrain(model[0], *model[1])
        print(name)
        ours, peers = None, []
        for tool, make in tools.items():
            found = measure(tool, make, target, model, num_chains, ours)
            if ours is None:
                ours = found
            else:
                peers.append(found[2])
        ratios.append(ours[2] / max(peers))
        print(f"{'':4}ours over the best peer, ESS per second: {ratios[-1]:.1f}", flush=True)
    print(f"geometric mean of the ratios: {statistics.geometric_mean(ratios):.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4, sys.argv[2:])
