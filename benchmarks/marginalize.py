"""Does a sum that `ppl.marginalize` makes cost as much as one written by hand?

A hidden Markov model with 3 states: time of density and gradient beside the forward algorithm by
hand, and time to trace and compile, for 10 steps and for 10,000. Both values are compared.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import distributions as dist
import ppl

PROBS = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])


def model(key, y):
    """The model, as a user would write it."""
    mu = ppl.sample(key, dist.Normal(jnp.array([-2.0, 0.0, 2.0]), 1.0), name="mu")

    def step(z, inputs):
        key, y = inputs
        z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(PROBS)[z]), name="z")
        ppl.factor(dist.Normal(mu[z], 1.0).log_prob(y), name="y")
        return z, None

    lax.scan(step, 0, (jax.random.split(key, y.size), y))


def by_hand(values, y):
    """The same density by the forward algorithm, rescaled so that float32 keeps its accuracy."""
    mu = values["mu"]
    prior = dist.Normal(jnp.array([-2.0, 0.0, 2.0]), 1.0).log_prob(mu).sum()
    log_probs, log_steps = dist.Normal(mu, 1.0).log_prob(y[:, None]), jnp.log(PROBS)

    def step(alpha, log_prob):
        top = lax.stop_gradient(alpha.max())
        return jax.nn.logsumexp(alpha[:, None] - top + log_steps, 0) + log_prob, top

    alpha, tops = lax.scan(step, log_steps[0] + log_probs[0], log_probs[1:])
    return prior + tops.sum() + jax.nn.logsumexp(alpha)


def measure(f, *args):
    """Seconds to trace, to compile and to run, and the result."""
    start = time.perf_counter()
    lowered = jax.jit(jax.value_and_grad(f)).lower(*args)
    traced = time.perf_counter()
    program = lowered.compile()
    compiled = time.perf_counter()
    result = jax.block_until_ready(program(*args))
    runs = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(20):
            result = jax.block_until_ready(program(*args))
        runs.append((time.perf_counter() - begin) / 20)
    return traced - start, compiled - traced, min(runs), result


def main():
    """Print a table."""
    print(f"JAX {jax.__version__} on {jax.devices()[0].device_kind}; seed 0")
    print("steps   what      trace s  compile s  run us  value")
    summed = ppl.log_density(ppl.marginalize(model, ["z"]))
    values = {"mu": jnp.array([-1.5, 0.2, 1.8])}
    for num in (10, 10_000):
        y = jnp.asarray(np.random.default_rng(0).normal(size=num), jnp.float32)
        for name, f in (("by hand", by_hand), ("summed", summed)):
            trace, compiling, run, (value, _) = measure(f, values, y)
            print(
                f"{num:6d}  {name:8s} {trace:8.2f} {compiling:10.2f} {run * 1e6:7.0f}  {value:.3f}"
            )


if __name__ == "__main__":
    main()
