"""Unknown functions: Gaussian processes and a neural network."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.random import split

import distributions as dist
import ppl
from examples.catalogue.entry import Entry, count, nonnegative
from examples.catalogue.log_probs import gamma, half_normal, multivariate_normal, normal, poisson


def squared_exponential(x, length, scale):
    return scale**2 * jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2)


def gaussian_process_regression(key, x):
    """Gaussian process regression, with the function integrated out."""
    length = ppl.sample(key, dist.InverseGamma(5.0, 5.0), name="length")
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
    covariance = squared_exponential(x, length, scale) + sigma**2 * jnp.eye(x.size)
    return ppl.sample(key, dist.MultivariateNormal(0.0, covariance=covariance), name="y")


def gaussian_process_regression_density(v, x):
    length, sigma = v["length"], v["sigma"]
    prior = 5 * math.log(5) - math.lgamma(5) - 6 * jnp.log(length) - 5 / length
    prior += half_normal(v["scale"], 2.0) + half_normal(sigma, 1.0)
    covariance = squared_exponential(x, length, v["scale"]) + sigma**2 * jnp.eye(x.size)
    return prior + multivariate_normal(v["y"], 0.0, covariance)


def gaussian_process_regression_data(rng):
    x = np.sort(rng.uniform(-3, 3, 20))
    return (x,), {"y": np.sin(x) + 0.3 * rng.normal(size=20)}


def gaussian_process_poisson(key, x):
    """Poisson counts with a Gaussian process as log rate, non-centered."""
    length = ppl.sample(key, dist.Gamma(4.0, 4.0), name="length")
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    z = ppl.sample(key, dist.Normal(jnp.zeros(x.size), 1.0), name="z")
    covariance = squared_exponential(x, length, scale) + 1e-4 * jnp.eye(x.size)
    log_rate = ppl.deterministic(jnp.linalg.cholesky(covariance) @ z, name="log_rate")
    return ppl.sample(key, dist.Poisson(log_rate=log_rate), name="y")


def gaussian_process_poisson_density(v, x):
    prior = gamma(v["length"], 4.0, 4.0) + half_normal(v["scale"], 1.0) + normal(v["z"], 0.0, 1.0)
    covariance = squared_exponential(x, v["length"], v["scale"]) + 1e-4 * jnp.eye(x.size)
    return prior + poisson(v["y"], jnp.linalg.cholesky(covariance) @ v["z"])


def gaussian_process_poisson_data(rng):
    x = np.linspace(-2.0, 2.0, 15)
    return (x,), {"y": rng.poisson(np.exp(np.sin(2 * x)))}


def layer(key, x, size):
    weights = dist.Normal(jnp.zeros((x.shape[1], size)), 1 / math.sqrt(x.shape[1]))
    w = ppl.sample(key, weights, name="w")
    b = ppl.sample(key, dist.Normal(jnp.zeros(size), 1.0), name="b")
    return x @ w + b


def neural_network(key, x):
    """Bayesian neural network: two checkpointed hidden layers, and an output layer under jit."""
    keys = split(key, 3)
    for i in range(2):
        hidden = ppl.nest(functools.partial(layer, size=8), scope=f"hidden_{i}")
        x = jnp.tanh(jax.checkpoint(hidden)(keys[i], x))
    output = jax.jit(ppl.nest(functools.partial(layer, size=1), scope="output"))
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
    return ppl.sample(key, dist.Normal(output(keys[2], x)[:, 0], sigma), name="y")


def neural_network_density(v, x):
    total = half_normal(v["sigma"], 1.0)
    for name in ("hidden_0", "hidden_1", "output"):
        w, b = v[name]["w"], v[name]["b"]
        total += normal(w, 0.0, 1 / math.sqrt(x.shape[1])) + normal(b, 0.0, 1.0)
        x = x @ w + b
        x = x if name == "output" else jnp.tanh(x)
    return total + normal(v["y"], x[:, 0], v["sigma"])


def neural_network_data(rng):
    x = rng.uniform(-2, 2, (40, 2))
    return (x,), {"y": np.sin(x[:, 0]) * x[:, 1] + 0.1 * rng.normal(size=40)}


ENTRIES = [
    Entry(
        gaussian_process_regression,
        gaussian_process_regression_density,
        gaussian_process_regression_data,
        {"length": nonnegative, "scale": nonnegative, "sigma": nonnegative},
    ),
    Entry(
        gaussian_process_poisson,
        gaussian_process_poisson_density,
        gaussian_process_poisson_data,
        {"length": nonnegative, "scale": nonnegative, "y": count},
    ),
    Entry(neural_network, neural_network_density, neural_network_data, {"sigma": nonnegative}),
]
