"""Hierarchical models: groups that share a population."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.random import split

import distributions as dist
import ppl
from examples.catalogue.entry import Entry, at_most, interval, nonnegative
from examples.catalogue.log_probs import (
    beta,
    binomial,
    exponential,
    half_cauchy,
    half_normal,
    multivariate_normal,
    normal,
)


def eight_schools_centered(key, sigma):
    """The effects of coaching in eight schools (Rubin 1981)."""
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    theta = ppl.sample(key, dist.Normal(mu * jnp.ones(8), tau), name="theta")
    return ppl.sample(key, dist.Normal(theta, sigma), name="y")


def eight_schools_centered_density(v, sigma):
    prior = normal(v["mu"], 0.0, 5.0) + half_cauchy(v["tau"], 5.0)
    return prior + normal(v["theta"], v["mu"], v["tau"]) + normal(v["y"], v["theta"], sigma)


def eight_schools_data(_):
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    return (sigma,), {"y": np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])}


def eight_schools_noncentered(key, sigma):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
    z = ppl.sample(key, dist.Normal(jnp.zeros(8), 1.0), name="z")
    theta = ppl.deterministic(mu + tau * z, name="theta")
    return ppl.sample(key, dist.Normal(theta, sigma), name="y")


def eight_schools_noncentered_density(v, sigma):
    prior = normal(v["mu"], 0.0, 5.0) + half_cauchy(v["tau"], 5.0) + normal(v["z"], 0.0, 1.0)
    return prior + normal(v["y"], v["mu"] + v["tau"] * v["z"], sigma)


def radon(key, uranium, county, floor):
    """Log radon in houses: correlated intercepts and slopes by county."""
    slopes = ppl.sample(key, dist.Normal(jnp.zeros(3), 2.0), name="slopes")
    scales = ppl.sample(key, dist.HalfNormal(jnp.ones(2)), name="scales")
    rho = ppl.sample(key, dist.Uniform(-1.0, 1.0), name="rho")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
    correlation = jnp.eye(2) + rho * jnp.eye(2)[::-1]
    covariance = scales[:, None] * correlation * scales

    def draw_county(key, uranium):
        loc = jnp.stack([slopes[0] + slopes[1] * uranium, slopes[2]])
        return ppl.sample(key, dist.MultivariateNormal(loc, covariance=covariance), name="effects")

    effects = jax.vmap(draw_county)(split(key, len(uranium)), uranium)[county]
    level = effects[:, 0] + effects[:, 1] * floor
    return ppl.sample(key, dist.Normal(level, sigma), name="log_radon")


def radon_density(v, uranium, county, floor):
    slopes, scales, effects = v["slopes"], v["scales"], v["effects"]
    prior = normal(slopes, 0.0, 2.0) + half_normal(scales, 1.0) + half_normal(v["sigma"], 1.0)
    between = v["rho"] * scales[0] * scales[1]
    covariance = jnp.array([[scales[0] ** 2, between], [between, scales[1] ** 2]])
    loc = jnp.stack([slopes[0] + slopes[1] * uranium, jnp.full_like(uranium, slopes[2])], axis=1)
    prior += multivariate_normal(effects, loc, covariance) - jnp.log(2.0)
    houses = effects[county]
    return prior + normal(v["log_radon"], houses[:, 0] + houses[:, 1] * floor, v["sigma"])


def radon_data(rng):
    county, floor = rng.integers(6, size=40), rng.binomial(1, 0.3, 40).astype(float)
    log_radon = 1.3 - 0.7 * floor + rng.normal(size=6)[county] + 0.7 * rng.normal(size=40)
    return (rng.normal(size=6), county, floor), {"log_radon": log_radon}


def growth_of_rats(key, age, num_rats=10):
    """A line for each rat, all from one population (Gelfand et al. 1990)."""
    size = ppl.sample(key, dist.Normal(250.0, 100.0), name="size")
    slope = ppl.sample(key, dist.Normal(6.0, 5.0), name="slope")
    size_sd = ppl.sample(key, dist.HalfCauchy(0.0, 25.0), name="size_sd")
    slope_sd = ppl.sample(key, dist.HalfCauchy(0.0, 2.5), name="slope_sd")
    sigma = ppl.sample(key, dist.HalfCauchy(0.0, 25.0), name="sigma")

    def rat(key):
        own_size = ppl.sample(key, dist.Normal(size, size_sd), name="own_size")
        own_slope = ppl.sample(key, dist.Normal(slope, slope_sd), name="own_slope")
        line = own_size + own_slope * (age - age.mean())
        return ppl.sample(key, dist.Normal(line, sigma), name="weight")

    return jax.vmap(rat)(split(key, num_rats))


def growth_of_rats_density(v, age):
    prior = normal(v["size"], 250.0, 100.0) + normal(v["slope"], 6.0, 5.0)
    prior += half_cauchy(v["size_sd"], 25.0) + half_cauchy(v["slope_sd"], 2.5)
    prior += half_cauchy(v["sigma"], 25.0)
    rats = normal(v["own_size"], v["size"], v["size_sd"])
    rats += normal(v["own_slope"], v["slope"], v["slope_sd"])
    lines = v["own_size"][:, None] + v["own_slope"][:, None] * (age - age.mean())
    return prior + rats + normal(v["weight"], lines, v["sigma"])


def growth_of_rats_data(rng):
    age = np.array([8.0, 15.0, 22.0, 29.0, 36.0])
    size, slope = rng.normal(240.0, 15.0, (10, 1)), rng.normal(6.0, 0.5, (10, 1))
    return (age,), {"weight": size + slope * (age - 22) + rng.normal(0.0, 6.0, (10, 5))}


def baseball(key, at_bats):
    """Batting averages, partially pooled (Efron and Morris 1975)."""
    phi = ppl.sample(key, dist.Beta(2.0, 4.0), name="phi")
    log_kappa = ppl.sample(key, dist.Exponential(1.5), name="log_kappa")
    a, b = phi * jnp.exp(log_kappa), (1 - phi) * jnp.exp(log_kappa)

    def player(key, at_bats):
        theta = ppl.sample(key, dist.Beta(a, b), name="theta")
        return ppl.sample(key, dist.Binomial(at_bats, probs=theta), name="hits")

    return jax.vmap(player)(split(key, len(at_bats)), at_bats)


def baseball_density(v, at_bats):
    phi, kappa, theta = v["phi"], jnp.exp(v["log_kappa"]), v["theta"]
    prior = beta(phi, 2.0, 4.0) + exponential(v["log_kappa"], 1.5)
    return prior + beta(theta, phi * kappa, (1 - phi) * kappa) + binomial(v["hits"], at_bats, theta)


def baseball_data(_):
    hits = [18, 17, 16, 15, 14, 14, 13, 12, 11, 11, 10, 10, 10, 10, 10, 9, 8, 7]
    return (np.full(18, 45),), {"hits": np.array(hits)}


ENTRIES = [
    Entry(
        eight_schools_centered,
        eight_schools_centered_density,
        eight_schools_data,
        {"tau": nonnegative},
    ),
    Entry(
        eight_schools_noncentered,
        eight_schools_noncentered_density,
        eight_schools_data,
        {"tau": nonnegative},
    ),
    Entry(
        radon,
        radon_density,
        radon_data,
        {"scales": nonnegative, "rho": interval(-1, 1), "sigma": nonnegative},
    ),
    Entry(
        growth_of_rats,
        growth_of_rats_density,
        growth_of_rats_data,
        {"size_sd": nonnegative, "slope_sd": nonnegative, "sigma": nonnegative},
    ),
    Entry(
        baseball,
        baseball_density,
        baseball_data,
        {
            "phi": interval(0, 1),
            "log_kappa": nonnegative,
            "theta": interval(0, 1),
            "hits": at_most(45),
        },
    ),
]
