"""How long does a model's log density run, beside the same density by hand in jax.numpy?

For three models, the log density over unconstrained space and its gradient, derived by `ppl` and
written by hand. Each is evaluated many times in one compiled loop, as in a sampler, with the data
as arguments. Both take turns in one process; figures are medians over rounds, of the times and of
their ratio. The largest relative difference of values and gradients stands beside them.

    python benchmarks/log_density.py
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
from jax import lax
from jax.flatten_util import ravel_pytree

import distributions as dist
import ppl

ROUNDS = 101
LOG_2PI = jnp.log(2 * jnp.pi)


def normal(x: Any, loc: Any, scale: Any) -> jax.Array:
    return -0.5 * ((x - loc) / scale) ** 2 - jnp.log(scale) - 0.5 * LOG_2PI


def eight_schools() -> tuple[Any, Callable[..., Any], tuple[Any, ...]]:
    y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def model(key, sigma):
        mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
        tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
        theta = ppl.sample(key, dist.Normal(mu * jnp.ones(8), tau), name="theta")
        ppl.sample(key, dist.Normal(theta, sigma), name="y")

    def by_hand(position, sigma, y):
        mu, tau, theta = position["mu"], jnp.exp(position["tau"]), position["theta"]
        prior = normal(mu, 0.0, 5.0) + jnp.log(2 / jnp.pi / 5) - jnp.log1p((tau / 5) ** 2)
        schools = normal(theta, mu, tau).sum() + normal(y, theta, sigma).sum()
        return prior + position["tau"] + schools

    return ppl.unconstrain(ppl.condition(model, {"y": y}), sigma), by_hand, (sigma, y)


def logistic_regression() -> tuple[Any, Callable[..., Any], tuple[Any, ...]]:
    keys = jax.random.split(jax.random.key(1), 3)
    x = jax.random.normal(keys[0], (10_000, 25))
    logits = x @ jax.random.normal(keys[1], (25,)) / 5
    y = jax.random.bernoulli(keys[2], jax.nn.sigmoid(logits)).astype(jnp.int32)

    def model(key, x):
        intercept = ppl.sample(key, dist.Normal(0.0, 2.5), name="intercept")
        beta = ppl.sample(key, dist.Normal(jnp.zeros(25), 1.0), name="beta")
        ppl.sample(key, dist.Bernoulli(logits=intercept + x @ beta), name="y")

    def by_hand(position, x, y):
        intercept, beta = position["intercept"], position["beta"]
        logits = intercept + x @ beta
        likelihood = (y * logits - jax.nn.softplus(logits)).sum()
        return normal(intercept, 0.0, 2.5) + normal(beta, 0.0, 1.0).sum() + likelihood

    return ppl.unconstrain(ppl.condition(model, {"y": y}), x), by_hand, (x, y)


def scan_of_500_steps() -> tuple[Any, Callable[..., Any], tuple[Any, ...]]:
    y = jnp.cumsum(jax.random.normal(jax.random.key(2), (500,))) * 0.1

    def model(key, size):
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")

        def step(x, key):
            x = ppl.sample(key, dist.Normal(x, scale), name="x")
            ppl.sample(key, dist.StudentT(4.0, x, 0.5), name="y")
            return x, None

        lax.scan(step, 0.0, jax.random.split(key, size))

    def by_hand(position, y):
        scale, x = jnp.exp(position["scale"]), position["x"]
        constant = jax.scipy.special.gammaln(2.5) - jax.scipy.special.gammaln(2.0)
        constant = constant - 0.5 * jnp.log(4 * jnp.pi) - jnp.log(0.5)

        def step(state, inputs):
            previous, total = state
            x, y = inputs
            observed = constant - 2.5 * jnp.log1p(((y - x) / 0.5) ** 2 / 4)
            return (x, total + normal(x, previous, scale) + observed), None

        prior = normal(scale, 0.0, 1.0) + jnp.log(2.0) + position["scale"]
        (_, total), _ = lax.scan(step, (0.0, jnp.zeros(())), (x, y))
        return prior + total

    return ppl.unconstrain(ppl.condition(model, {"y": y}), 500), by_hand, (y,)


def in_a_loop(density: Callable[..., Any], repeats: int) -> Callable[..., Any]:
    """A loop of `repeats` evaluations, each at a point that depends on the last gradient."""
    value_and_gradient = jax.value_and_grad(density)

    def run(position: Any, *data: Any) -> Any:
        def step(_: int, state: Any) -> Any:
            position, total = state
            value, slope = value_and_gradient(position, *data)
            position = jax.tree.map(lambda x, g: x + 1e-12 * g, position, slope)
            return position, total + value

        return lax.fori_loop(0, repeats, step, (position, jnp.zeros(())))

    return jax.jit(run)


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - start


def compare(
    target: Any, by_hand: Callable[..., Any], data: tuple[Any, ...], repeats: int
) -> tuple[float, ...]:
    """Median seconds of both densities, the median ratio, and the largest difference."""
    position = jax.tree.map(lambda x: 0.3 * x, target.initial(jax.random.key(3)))
    ours = lambda position, target: target.log_density(position)  # noqa: E731
    a, b = (
        ravel_pytree(jax.jit(jax.value_and_grad(f))(position, *args))[0]
        for f, args in ((ours, (target,)), (by_hand, data))
    )
    ours, theirs = in_a_loop(ours, repeats), in_a_loop(by_hand, repeats)
    calls = [lambda: ours(position, target), lambda: theirs(position, *data)]
    for call in calls:
        seconds(call)
    rounds = [[seconds(call) / repeats for call in calls] for _ in range(ROUNDS)]
    columns = zip(*[(x, y, x / y) for x, y in rounds], strict=True)
    return *map(statistics.median, columns), float(jnp.max(jnp.abs(a - b) / (1 + jnp.abs(b))))


def main() -> None:
    python, device = sys.version.split()[0], jax.devices()[0].platform
    versions = f"Python {python}, jax {jax.__version__}, jaxlib {jaxlib.__version__}"
    print(f"{versions}, {device}, float32, seeds 1, 2, 3")
    print(f"{'model':28} {'ppl us':>9} {'by hand us':>11} {'ratio':>6} {'difference':>11}")
    models = {eight_schools: 100_000, logistic_regression: 60, scan_of_500_steps: 1000}
    for make, repeats in models.items():
        ours, theirs, ratio, difference = compare(*make(), repeats)
        row = f"{1e6 * ours:9.3f} {1e6 * theirs:11.3f} {ratio:6.3f} {difference:11.1e}"
        print(f"{make.__name__.replace('_', ' '):28} {row}")


if __name__ == "__main__":
    main()
