"""Calibration and many data sets: how long do 1000 simulations take, and how much does a pool save?

    python benchmarks/calibration.py [schools] [each]

| part      | question                                                                        |
|-----------|---------------------------------------------------------------------------------|
| `schools` | seconds of 1000 simulations of eight schools, with 4 chains x (300 + 250)       |
| `each`    | seconds of 10,000 short series under `mcmc_each`, beside a loop of `mcmc` over  |
|           | 20 of them                                                                      |

Where NumPyro is installed, a loop of its NUTS over 5 simulated data sets runs beside the first.
"""

import importlib.util
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import distributions as dist
import inference
import ppl

SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)
BRIEF = {"num_warmup": 300, "num_draws": 250}
NUM_SERIES, LENGTH, NUM_LOOP = 10_000, 20, 20


def schools(key, sigma):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfNormal(5.0), name="tau")
    z = ppl.sample(key, dist.Normal(jnp.zeros(8), 1.0), name="z")
    return ppl.sample(key, dist.Normal(mu + tau * z, sigma), name="y")


def series(key, y):
    """Autoregression of order 1."""

    def model(key):
        level = ppl.sample(key, dist.Normal(0.0, 2.0), name="level")
        slope = ppl.sample(key, dist.Uniform(-1.0, 1.0), name="slope")
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        mean = level + slope * (y[:-1] - level)
        return ppl.sample(key, dist.Normal(mean, scale), name="next")

    return ppl.condition(model, {"next": y[1:]})(key)


def timed(function):
    began = time.perf_counter()
    result = function()
    return time.perf_counter() - began, result


def run_schools():
    def calibrate(seed):
        key = jax.random.key(seed)
        settings = {"observed": ["y"], "progress": False, **BRIEF}
        return inference.calibrate(key, schools, SIGMA, **settings)

    first, _ = timed(lambda: calibrate(0))
    again, report = timed(lambda: calibrate(1))
    print(report)
    print(f"calibrate, 1000 simulations: {first:.1f} s with compiling, {again:.1f} s again")
    if importlib.util.find_spec("numpyro") is not None:
        run_numpyro()


def run_numpyro():
    import numpyro
    import numpyro.distributions as npd
    from numpyro.infer import MCMC, NUTS

    def model(sigma, y=None):
        mu = numpyro.sample("mu", npd.Normal(0.0, 5.0))
        tau = numpyro.sample("tau", npd.HalfNormal(5.0))
        z = numpyro.sample("z", npd.Normal(jnp.zeros(8), 1.0))
        numpyro.sample("y", npd.Normal(mu + tau * z, sigma), obs=y)

    numbers = {"num_warmup": 300, "num_samples": 250, "num_chains": 4}
    sampler = MCMC(NUTS(model), chain_method="vectorized", progress_bar=False, **numbers)
    y = np.random.default_rng(0).normal(0, 15, (6, 8)).astype(np.float32)
    sampler.run(jax.random.key(0), SIGMA, y[0])
    seconds, _ = timed(lambda: [sampler.run(jax.random.key(i), SIGMA, y[i]) for i in range(1, 6)])
    print(f"NumPyro {numpyro.__version__}, a loop of vectorized chains: {seconds / 5:.2f} s a fit")


def run_each():
    data = np.random.default_rng(0).normal(size=(NUM_SERIES, LENGTH)).astype(np.float32)
    key, quiet = jax.random.key(0), {"progress": False, **BRIEF}
    inference.mcmc_each(key, series, data, **quiet)
    each, fits = timed(lambda: inference.mcmc_each(key, series, data, **quiet))
    inference.mcmc(key, series, data[0], **quiet)
    loop, _ = timed(lambda: [inference.mcmc(key, series, y, **quiet) for y in data[:NUM_LOOP]])
    share = loop / NUM_LOOP / (each / NUM_SERIES)
    print(fits.summary())
    print(f"mcmc_each, {NUM_SERIES} series: {each:.1f} s, {1e3 * each / NUM_SERIES:.2f} ms each")
    print(f"loop of mcmc: {1e3 * loop / NUM_LOOP:.1f} ms each, {share:.0f} times as long")


if __name__ == "__main__":
    parts = sys.argv[1:] or ["schools", "each"]
    print(f"JAX {jax.__version__}, {jax.devices()[0]}, keys 0 and 1")
    for part in parts:
        {"schools": run_schools, "each": run_each}[part]()
