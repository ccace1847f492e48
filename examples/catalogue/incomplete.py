"""Data that are censored, missing or measured with error."""

import jax.numpy as jnp
import numpy as np

import distributions as dist
import ppl
from examples.catalogue.entry import Entry, nonnegative
from examples.catalogue.log_probs import gamma, half_normal, normal


def weibull_survival(key, x, time, died):
    """Weibull survival: times of death, censored for survivors of the study."""
    shape = ppl.sample(key, dist.Gamma(2.0, 1.0), name="shape")
    beta = ppl.sample(key, dist.Normal(jnp.zeros(x.shape[1]), 1.0), name="beta")
    log_z = jnp.log(time) - x @ beta
    log_hazard = jnp.log(shape) + shape * log_z - jnp.log(time)
    survival = -jnp.exp(shape * log_z)
    ppl.factor(jnp.where(died, log_hazard, 0.0) + survival, name="time")


def weibull_survival_density(v, x, time, died):
    shape, log_time, log_scale = v["shape"], jnp.log(time), x @ v["beta"]
    hazards = jnp.sum(died * ((shape - 1) * log_time - shape * log_scale))
    survival = -jnp.sum(jnp.exp(shape * (log_time - log_scale)))
    prior = gamma(shape, 2.0, 1.0) + normal(v["beta"], 0.0, 1.0)
    return prior + hazards + jnp.sum(died) * jnp.log(shape) + survival


def weibull_survival_data(rng):
    x = np.stack([np.ones(30), rng.normal(size=30)], axis=1)
    time = np.exp(x @ [0.5, 0.3]) * rng.weibull(1.5, 30)
    return (x, np.minimum(time, 2.0), time < 2.0), {}


def missing_data(key, num_present=24, num_missing=6):
    """Regression with a covariate that is missing, and so latent, in the last rows."""
    loc = ppl.sample(key, dist.Normal(0.0, 2.0), name="loc")
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
    beta = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="beta")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
    present = ppl.sample(key, dist.Normal(loc * jnp.ones(num_present), scale), name="x_present")
    missing = ppl.sample(key, dist.Normal(loc * jnp.ones(num_missing), scale), name="x_missing")
    x = jnp.concatenate([present, missing])
    return ppl.sample(key, dist.Normal(beta[0] + beta[1] * x, sigma), name="y")


def missing_data_density(v):
    beta, x = v["beta"], jnp.concatenate([v["x_present"], v["x_missing"]])
    prior = normal(v["loc"], 0.0, 2.0) + half_normal(v["scale"], 2.0)
    prior += normal(beta, 0.0, 2.0) + half_normal(v["sigma"], 1.0)
    prior += normal(x, v["loc"], v["scale"])
    return prior + normal(v["y"], beta[0] + beta[1] * x, v["sigma"])


def missing_data_data(rng):
    x = rng.normal(size=30)
    return (), {"x_present": x[:24], "y": 1 + 2 * x + 0.5 * rng.normal(size=30)}


def measurement_error(key, error_sd):
    """Regression on a covariate measured with known error (Richardson and Gilks 1993)."""
    loc = ppl.sample(key, dist.Normal(0.0, 2.0), name="loc")
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
    beta = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="beta")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
    x = ppl.sample(key, dist.Normal(loc * jnp.ones(error_sd.size), scale), name="x")
    ppl.sample(key, dist.Normal(x, error_sd), name="x_measured")
    return ppl.sample(key, dist.Normal(beta[0] + beta[1] * x, sigma), name="y")


def measurement_error_density(v, error_sd):
    x, beta = v["x"], v["beta"]
    prior = normal(v["loc"], 0.0, 2.0) + half_normal(v["scale"], 2.0)
    prior += normal(beta, 0.0, 2.0) + half_normal(v["sigma"], 1.0)
    prior += normal(x, v["loc"], v["scale"])
    return (
        prior
        + normal(v["x_measured"], x, error_sd)
        + normal(v["y"], beta[0] + beta[1] * x, v["sigma"])
    )


def measurement_error_data(rng):
    x, error_sd = rng.normal(size=30), rng.uniform(0.2, 0.6, 30)
    y = 1 + x + 0.5 * rng.normal(size=30)
    return (error_sd,), {"x_measured": x + error_sd * rng.normal(size=30), "y": y}


ENTRIES = [
    Entry(
        weibull_survival, weibull_survival_density, weibull_survival_data, {"shape": nonnegative}
    ),
    Entry(
        missing_data,
        missing_data_density,
        missing_data_data,
        {"scale": nonnegative, "sigma": nonnegative},
    ),
    Entry(
        measurement_error,
        measurement_error_density,
        measurement_error_data,
        {"scale": nonnegative, "sigma": nonnegative},
    ),
]
