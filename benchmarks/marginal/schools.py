"""Eight schools, with effects integrated out, and not centered."""

import jax.numpy as jnp

import distributions as dist
import ppl
from benchmarks.marginal.problems import EFFECTS


def centered(key, error):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    theta = ppl.sample(key, dist.Normal(mu, tau * jnp.ones(8)), name="theta")
    ppl.sample(key, dist.Normal(theta, error), name="y")


def non_centered(key, error):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    z = ppl.sample(key, dist.Normal(jnp.zeros(8), 1.0), name="z")
    ppl.sample(key, dist.Normal(mu + tau * z, error), name="y")


SCHOOLS = ppl.condition(centered, {"y": EFFECTS})
FIRST = "not centered"
POSTERIORS = {
    FIRST: ppl.condition(non_centered, {"y": EFFECTS}),
    "effects integrated out": ppl.marginalize(SCHOOLS, {"theta": ppl.Gaussian()}),
    "effects and their mean integrated out": ppl.marginalize(
        SCHOOLS, dict.fromkeys(["mu", "theta"], ppl.Gaussian())
    ),
}
