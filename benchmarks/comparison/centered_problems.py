"""Hierarchical models as they are first written: centered, with learned scales.

Data are drawn here, from the models or from fixed effects, with fixed seeds. No answer is known.
"""

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
import numpy as np
from jax import lax, random

import distributions as dist
import ppl
from benchmarks.comparison.hard_problems import horseshoe
from benchmarks.comparison.problems import Problem


def radon() -> Problem:
    """Intercepts and slopes of 85 counties that have from 1 to over 100 of 919 houses.

    References:
        Gelman and Hill (2007), Data Analysis Using Regression and Multilevel Models, chapter 13.
    """
    rng = np.random.default_rng(8)
    shares = rng.lognormal(0.0, 1.2, 85)
    num_houses = 1 + rng.multinomial(919 - 85, shares / shares.sum())
    county = np.repeat(np.arange(85), num_houses)
    floor = rng.uniform(size=919) < 0.2
    intercept = rng.normal(1.5, 0.35, 85)
    slope = rng.normal(-0.7, 0.25, 85)
    y = intercept[county] + slope[county] * floor + rng.normal(0.0, 0.75, 919)

    def model(key, county, floor):
        mean = ppl.sample(key, dist.Normal(jnp.zeros(2), 10.0), name="mean")
        scale = ppl.sample(key, dist.HalfNormal(jnp.ones(2)), name="scale")
        sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
        own = jnp.ones(85)
        intercept = ppl.sample(key, dist.Normal(mean[0], scale[0] * own), name="intercept")
        slope = ppl.sample(key, dist.Normal(mean[1], scale[1] * own), name="slope")
        ppl.sample(key, dist.Normal(intercept[county] + slope[county] * floor, sigma), name="y")

    args = jnp.asarray(county), jnp.asarray(floor, float)
    return Problem(model=ppl.condition(model, {"y": jnp.asarray(y, float)}), args=args, data={})


def large_groups() -> Problem:
    """Means of 20 groups of 100 rows each, about which the data say nearly all."""
    rng = np.random.default_rng(12)
    group = np.repeat(np.arange(20), 100)
    y = rng.normal(2.0, 1.0, 20)[group] + rng.normal(0.0, 1.0, 2000)

    def model(key, group):
        mean = ppl.sample(key, dist.Normal(0.0, 10.0), name="mean")
        scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")
        sigma = ppl.sample(key, dist.HalfNormal(2.0), name="sigma")
        level = ppl.sample(key, dist.Normal(mean, scale * jnp.ones(20)), name="level")
        ppl.sample(key, dist.Normal(level[group], sigma), name="y")

    args = (jnp.asarray(group),)
    return Problem(model=ppl.condition(model, {"y": jnp.asarray(y, float)}), args=args, data={})


def stochastic_volatility() -> Problem:
    """An AR(1) log variance over 200 steps in a scan, each step given the step before."""
    rng = np.random.default_rng(9)
    mu, phi, sigma = -1.0, 0.95, 0.25
    level = rng.normal(mu, sigma / (1 - phi**2) ** 0.5)
    y = np.empty(200)
    for i in range(200):
        y[i] = np.exp(level / 2) * rng.normal()
        level = mu + phi * (level - mu) + sigma * rng.normal()

    def model(key, y):
        mu = ppl.sample(key, dist.Normal(-1.0, 2.0), name="mu")
        phi = ppl.sample(key, dist.Beta(20.0, 1.5), name="phi")
        sigma = ppl.sample(key, dist.HalfNormal(0.5), name="sigma")
        first = dist.Normal(mu, sigma / jnp.sqrt(1 - phi**2))
        start = ppl.sample(key, first, name="start")

        def step(level, key):
            level = ppl.sample(key, dist.Normal(mu + phi * (level - mu), sigma), name="level")
            ppl.sample(key, dist.Normal(0.0, jnp.exp(level / 2)), name="y")
            return level, None

        lax.scan(step, start, random.split(key, len(y)))

    y = jnp.asarray(y, float)
    return Problem(model=ppl.condition(model, {"y": y}), args=(y,), data={})


def item_response() -> Problem:
    """Answers of 60 students to 15 items: a Rasch model with learned scales of both.

    References:
        Rasch (1960), Probabilistic Models for Some Intelligence and Attainment Tests.
    """
    rng = np.random.default_rng(10)
    ability = rng.normal(0.0, 1.2, 60)
    difficulty = rng.normal(-0.5, 0.8, 15)
    y = rng.uniform(size=(60, 15)) < 1 / (1 + np.exp(difficulty - ability[:, None]))

    def model(key):
        scale = ppl.sample(key, dist.HalfNormal(2.0 * jnp.ones(2)), name="scale")
        mean = ppl.sample(key, dist.Normal(0.0, 3.0), name="mean")
        ability = ppl.sample(key, dist.Normal(0.0, scale[0] * jnp.ones(60)), name="ability")
        items = dist.Normal(mean, scale[1] * jnp.ones(15))
        difficulty = ppl.sample(key, items, name="difficulty")
        ppl.sample(key, dist.Bernoulli(logits=ability[:, None] - difficulty), name="y")

    return Problem(model=ppl.condition(model, {"y": jnp.asarray(y, int)}), args=(), data={})


def random_walk() -> Problem:
    """A level that walks over 80 steps in a scan, seen with noise; both scales are learned."""
    rng = np.random.default_rng(11)
    y = np.cumsum(rng.normal(0.0, 0.3, 80)) + rng.normal(0.0, 1.0, 80)

    def model(key, y):
        walk = ppl.sample(key, dist.HalfNormal(1.0), name="walk")
        noise = ppl.sample(key, dist.HalfNormal(2.0), name="noise")

        def step(level, key):
            level = ppl.sample(key, dist.Normal(level, walk), name="level")
            ppl.sample(key, dist.Normal(level, noise), name="y")
            return level, None

        lax.scan(step, jnp.zeros((), y.dtype), random.split(key, len(y)))

    y = jnp.asarray(y, float)
    return Problem(model=ppl.condition(model, {"y": y}), args=(y,), data={})


CENTERED: dict[str, Callable[[], Problem]] = {
    "radon, centered": radon,
    "large groups, centered": large_groups,
    "horseshoe, centered": partial(horseshoe, is_centered=True),
    "stochastic volatility, centered": stochastic_volatility,
    "item response, centered": item_response,
    "random walk, centered": random_walk,
}
