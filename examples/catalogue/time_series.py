"""Time series: loops over time by scan."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.random import split

import distributions as dist
import ppl
from examples.catalogue.entry import Entry, interval, nonnegative
from examples.catalogue.log_probs import beta, half_cauchy, half_normal, normal


def before(x, start):
    """`x` shifted by one, with `start` as its first element."""
    return jnp.concatenate([jnp.asarray(start)[None], x[:-1]])


def autoregression(key, start, num_steps=30):
    """AR(2)."""
    alpha = ppl.sample(key, dist.Normal(0.0, 1.0), name="alpha")
    beta = ppl.sample(key, dist.Normal(jnp.zeros(2), 0.5), name="beta")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")

    def step(last, key):
        loc = alpha + beta[0] * last[1] + beta[1] * last[0]
        y = ppl.sample(key, dist.Normal(loc, sigma), name="y")
        return (last[1], y), y

    return lax.scan(step, (start[0], start[1]), split(key, num_steps))[1]


def autoregression_density(v, start):
    prior = normal(v["alpha"], 0.0, 1.0) + normal(v["beta"], 0.0, 0.5)
    y = jnp.concatenate([start, v["y"]])
    loc = v["alpha"] + v["beta"][0] * y[1:-1] + v["beta"][1] * y[:-2]
    return prior + half_normal(v["sigma"], 1.0) + normal(y[2:], loc, v["sigma"])


def autoregression_data(rng):
    return (rng.normal(size=2),), {"y": rng.normal(size=30)}


def threshold_autoregression(key, start, num_steps=30):
    """Threshold AR(1): one coefficient above zero and another below (Tong 1983)."""
    phi = ppl.sample(key, dist.Normal(jnp.zeros(2), 0.5), name="phi")
    sigma = ppl.sample(key, dist.HalfNormal(jnp.ones(2)), name="sigma")

    def low(key, last):
        return ppl.sample(key, dist.Normal(phi[0] * last, sigma[0]), name="y")

    def high(key, last):
        return ppl.sample(key, dist.Normal(phi[1] * last, sigma[1]), name="y")

    def step(last, key):
        y = lax.cond(last > 0, high, low, key, last)
        return y, y

    return lax.scan(step, start, split(key, num_steps))[1]


def threshold_autoregression_density(v, start):
    y, phi, sigma = v["y"], v["phi"], v["sigma"]
    last = before(y, start)
    high = last > 0
    loc = jnp.where(high, phi[1], phi[0]) * last
    steps = normal(y, loc, jnp.where(high, sigma[1], sigma[0]))
    return normal(phi, 0.0, 0.5) + half_normal(sigma, 1.0) + steps


def threshold_autoregression_data(rng):
    return (np.array(0.5),), {"y": rng.normal(size=30)}


def local_level(key, num_steps=30):
    """Local level model: a random walk with noise (Durbin and Koopman 2012, section 2.2)."""
    walk_sd = ppl.sample(key, dist.HalfNormal(1.0), name="walk_sd")
    noise_sd = ppl.sample(key, dist.HalfNormal(1.0), name="noise_sd")

    def step(level, key):
        level = ppl.sample(key, dist.Normal(level, walk_sd), name="level")
        return level, ppl.sample(key, dist.Normal(level, noise_sd), name="y")

    return lax.scan(step, 0.0, split(key, num_steps))[1]


def local_level_density(v):
    prior = half_normal(v["walk_sd"], 1.0) + half_normal(v["noise_sd"], 1.0)
    walk = normal(v["level"], before(v["level"], 0.0), v["walk_sd"])
    return prior + walk + normal(v["y"], v["level"], v["noise_sd"])


def local_level_data(rng):
    return (), {"y": np.cumsum(rng.normal(size=30)) + 0.5 * rng.normal(size=30)}


def stochastic_volatility(key, num_steps=40):
    """Stochastic volatility: the log variance is AR(1) (Kim, Shephard and Chib 1998)."""
    mu = ppl.sample(key, dist.Normal(-1.0, 2.0), name="mu")
    phi = ppl.sample(key, dist.Beta(20.0, 1.5), name="phi")
    sigma = ppl.sample(key, dist.HalfNormal(0.5), name="sigma")

    def step(deviation, key):
        deviation = ppl.sample(key, dist.Normal(phi * deviation, sigma), name="deviation")
        y = ppl.sample(key, dist.Normal(0.0, jnp.exp(0.5 * (mu + deviation))), name="y")
        return deviation, y

    first, *_ = keys = split(key, num_steps + 1)
    start = ppl.sample(first, dist.Normal(0.0, sigma / jnp.sqrt(1 - phi**2)), name="start")
    return lax.scan(step, start, keys[1:])[1]


def stochastic_volatility_density(v):
    phi, sigma, deviation = v["phi"], v["sigma"], v["deviation"]
    prior = normal(v["mu"], -1.0, 2.0) + beta(phi, 20.0, 1.5) + half_normal(sigma, 0.5)
    prior += normal(v["start"], 0.0, sigma / jnp.sqrt(1 - phi**2))
    walk = normal(deviation, phi * before(deviation, v["start"]), sigma)
    return prior + walk + normal(v["y"], 0.0, jnp.exp(0.5 * (v["mu"] + deviation)))


def stochastic_volatility_data(rng):
    return (), {"y": 0.6 * rng.standard_t(5, size=40)}


def garch(key, first_variance, num_steps=40):
    """GARCH(1,1) (Bollerslev 1986)."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    alpha0 = ppl.sample(key, dist.HalfCauchy(0.0, 1.0), name="alpha0")
    alpha1 = ppl.sample(key, dist.Uniform(0.0, 1.0), name="alpha1")
    beta1 = ppl.sample(key, dist.Uniform(0.0, 1.0 - alpha1), name="beta1")

    def step(variance, key):
        y = ppl.sample(key, dist.Normal(mu, jnp.sqrt(variance)), name="y")
        return alpha0 + alpha1 * (y - mu) ** 2 + beta1 * variance, y

    return lax.scan(step, first_variance, split(key, num_steps))[1]


def garch_density(v, first_variance):
    prior = normal(v["mu"], 0.0, 1.0) + half_cauchy(v["alpha0"], 1.0) - jnp.log1p(-v["alpha1"])
    inputs = v["alpha0"] + v["alpha1"] * (v["y"] - v["mu"]) ** 2

    def step(variance, x):
        return x + v["beta1"] * variance, variance

    variances = lax.scan(step, first_variance, inputs)[1]
    total = prior + normal(v["y"], v["mu"], jnp.sqrt(variances))
    return jnp.where(v["beta1"] < 1 - v["alpha1"], total, -jnp.inf)


def garch_data(rng):
    return (np.array(1.0),), {"y": rng.standard_t(5, size=40)}


def moving_average(key, num_steps=30):
    """MA(1)."""
    mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
    theta = ppl.sample(key, dist.Uniform(-1.0, 1.0), name="theta")
    sigma = ppl.sample(key, dist.HalfCauchy(0.0, 1.0), name="sigma")

    def step(error, key):
        loc = mu + theta * error
        y = ppl.sample(key, dist.Normal(loc, sigma), name="y")
        return y - loc, y

    return lax.scan(step, 0.0, split(key, num_steps))[1]


def moving_average_density(v):
    prior = normal(v["mu"], 0.0, 2.0) + half_cauchy(v["sigma"], 1.0) - jnp.log(2.0)

    def step(error, y):
        error = y - (v["mu"] + v["theta"] * error)
        return error, error

    errors = lax.scan(step, jnp.zeros_like(v["y"][0]), v["y"])[1]
    return prior + normal(errors, 0.0, v["sigma"])


def moving_average_data(rng):
    noise = rng.normal(size=31)
    return (), {"y": 1 + noise[1:] + 0.5 * noise[:-1]}


def seasonal(key, num_years=6):
    """Seasonal model: a level that walks by quarter, and a season that changes by year."""
    level_sd = ppl.sample(key, dist.HalfNormal(1.0), name="level_sd")
    season_sd = ppl.sample(key, dist.HalfNormal(0.5), name="season_sd")
    noise_sd = ppl.sample(key, dist.HalfNormal(1.0), name="noise_sd")

    def quarter(level, keyed):
        key, effect = keyed
        level = ppl.sample(key, dist.Normal(level, level_sd), name="level")
        return level, ppl.sample(key, dist.Normal(level + effect, noise_sd), name="y")

    def year(state, key):
        level, season = state
        season = ppl.sample(key, dist.Normal(season, season_sd), name="season")
        level, y = lax.scan(quarter, level, (split(key, 4), season))
        return (level, season), y

    return lax.scan(year, (0.0, jnp.zeros(4)), split(key, num_years))[1]


def seasonal_density(v):
    prior = half_normal(v["level_sd"], 1.0) + half_normal(v["season_sd"], 0.5)
    prior += half_normal(v["noise_sd"], 1.0)
    level, season = v["level"].ravel(), v["season"]
    walk = normal(level, before(level, 0.0), v["level_sd"])
    change = normal(season, before(season, jnp.zeros(4)), v["season_sd"])
    return prior + walk + change + normal(v["y"], v["level"] + season, v["noise_sd"])


def seasonal_data(rng):
    return (), {"y": np.array([1.0, 0.0, -1.0, 0.5]) + rng.normal(size=(6, 4))}


ENTRIES = [
    Entry(autoregression, autoregression_density, autoregression_data, {"sigma": nonnegative}),
    Entry(
        threshold_autoregression,
        threshold_autoregression_density,
        threshold_autoregression_data,
        {"sigma": nonnegative},
    ),
    Entry(
        local_level,
        local_level_density,
        local_level_data,
        {"walk_sd": nonnegative, "noise_sd": nonnegative},
    ),
    Entry(
        stochastic_volatility,
        stochastic_volatility_density,
        stochastic_volatility_data,
        {"phi": interval(0, 1), "sigma": nonnegative},
    ),
    Entry(
        garch,
        garch_density,
        garch_data,
        {"alpha0": nonnegative, "alpha1": interval(0, 1), "beta1": interval(0, 1)},
    ),
    Entry(
        moving_average,
        moving_average_density,
        moving_average_data,
        {"theta": interval(-1, 1), "sigma": nonnegative},
    ),
    Entry(
        seasonal,
        seasonal_density,
        seasonal_data,
        {"level_sd": nonnegative, "season_sd": nonnegative, "noise_sd": nonnegative},
    ),
]
