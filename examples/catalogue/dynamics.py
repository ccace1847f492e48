"""Differential equations, solved by a Runge-Kutta method with a fixed step."""

import math

import jax.numpy as jnp
import numpy as np
from jax import lax

import distributions as dist
import ppl
from examples.catalogue.entry import Entry, count, interval, nonnegative
from examples.catalogue.log_probs import beta, exponential, log_normal, normal, poisson


def runge_kutta(field, state, step_size, num_steps):
    """The state after `num_steps` steps of the classical Runge-Kutta method (RK4)."""

    def step(state, _):
        k1 = field(state)
        k2 = field(state + 0.5 * step_size * k1)
        k3 = field(state + 0.5 * step_size * k2)
        k4 = field(state + step_size * k3)
        return state + step_size / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

    return lax.scan(step, state, length=num_steps)[0]


def predator_prey(rates, state):
    prey, predators = state
    growth, predation, death, feeding = rates
    slopes = growth - predation * predators, feeding * prey - death
    return state * jnp.stack(slopes)


LOG_RATES = np.log([0.5, 0.03, 0.8, 0.03])


def lotka_volterra(key, num_years=10):
    """Lotka-Volterra model of hares and lynxes, counted once a year."""
    z = ppl.sample(key, dist.Normal(jnp.zeros(4), 1.0), name="z")
    rates = ppl.deterministic(jnp.exp(LOG_RATES + 0.5 * z), name="rates")
    start = ppl.sample(key, dist.LogNormal(jnp.log(jnp.array([30.0, 5.0])), 0.5), name="start")
    sigma = ppl.sample(key, dist.LogNormal(jnp.array([-1.0, -1.0]), 1.0), name="sigma")

    def year(state, _):
        state = runge_kutta(lambda state: predator_prey(rates, state), state, 0.2, 5)
        return state, state

    states = lax.scan(year, start, length=num_years)[1]
    return ppl.sample(key, dist.LogNormal(jnp.log(states), sigma), name="count")


def lotka_volterra_density(v):
    prior = normal(v["z"], 0.0, 1.0) + log_normal(v["sigma"], -1.0, 1.0)
    prior += log_normal(v["start"], jnp.log(jnp.array([30.0, 5.0])), 0.5)

    rates = jnp.exp(LOG_RATES + 0.5 * v["z"])

    def year(state, _):
        state = runge_kutta(lambda state: predator_prey(rates, state), state, 0.2, 5)
        return state, state

    states = lax.scan(year, v["start"], length=len(v["count"]))[1]
    return prior + log_normal(v["count"], jnp.log(states), v["sigma"])


def lotka_volterra_data(rng):
    return (), {"count": np.exp(np.log([30.0, 10.0]) + 0.5 * rng.normal(size=(10, 2)))}


def epidemic(contact, recovery, state):
    susceptible, infected, _ = state
    infections = contact * susceptible * infected
    return jnp.stack([-infections, infections - recovery * infected, infections])


def sir_epidemic(key, population, num_days=14):
    """SIR model of an epidemic: new cases, some of them from outside, are counted each day."""
    contact = ppl.sample(key, dist.LogNormal(math.log(0.6), 0.3), name="contact")
    recovery = ppl.sample(key, dist.LogNormal(math.log(0.3), 0.3), name="recovery")
    infected = ppl.sample(key, dist.Beta(1.0, 50.0), name="infected")
    outside = ppl.sample(key, dist.Exponential(1.0), name="outside")

    def day(state, _):
        start = state.at[2].set(0.0)
        state = runge_kutta(lambda x: epidemic(contact, recovery, x), start, 0.25, 4)
        return state, state[2]

    start = jnp.stack([1 - infected, infected, jnp.zeros_like(infected)])
    new = lax.scan(day, start, length=num_days)[1]
    return ppl.sample(key, dist.Poisson(population * new + outside), name="cases")


def sir_epidemic_density(v, population):
    contact, recovery, infected = v["contact"], v["recovery"], v["infected"]
    prior = log_normal(contact, math.log(0.6), 0.3) + log_normal(recovery, math.log(0.3), 0.3)
    prior += beta(infected, 1.0, 50.0) + exponential(v["outside"], 1.0)

    def day(state, _):
        start = state.at[2].set(0.0)
        state = runge_kutta(lambda x: epidemic(contact, recovery, x), start, 0.25, 4)
        return state, state[2]

    start = jnp.stack([1 - infected, infected, jnp.zeros_like(infected)])
    new = lax.scan(day, start, length=v["cases"].size)[1]
    return prior + poisson(v["cases"], jnp.log(population * new + v["outside"]))


def sir_epidemic_data(rng):
    return (np.array(1000.0),), {"cases": rng.poisson(5 * np.exp(0.2 * np.arange(14)))}


ENTRIES = [
    Entry(
        lotka_volterra,
        lotka_volterra_density,
        lotka_volterra_data,
        {"start": nonnegative, "sigma": nonnegative, "count": nonnegative},
    ),
    Entry(
        sir_epidemic,
        sir_epidemic_density,
        sir_epidemic_data,
        {
            "contact": nonnegative,
            "recovery": nonnegative,
            "infected": interval(0, 1),
            "outside": nonnegative,
            "cases": count,
        },
    ),
]
