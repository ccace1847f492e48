"""Discrete states in time, summed out."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp

import distributions as dist
import ppl
from examples.catalogue.entry import Entry, interval, nonnegative, simplex
from examples.catalogue.log_probs import (
    HALF_LOG_TWO_PI,
    beta,
    dirichlet,
    exponential,
    normal,
    poisson,
)


def changepoint(key, count):
    """Changepoint model: counts whose rate changes once, at a time that is summed out."""
    early = ppl.sample(key, dist.Exponential(0.5), name="early")
    late = ppl.sample(key, dist.Exponential(0.5), name="late")
    size, total = jnp.arange(1, count.size), jnp.cumsum(count)[:-1]
    log_ratios = total * jnp.log(early / late) - size * (early - late)
    ppl.factor(dist.Poisson(late).log_prob(count), name="late_counts")
    ppl.factor(jax.nn.logsumexp(log_ratios - jnp.log(size.size)), name="early_counts")


def changepoint_density(v, count):
    early, late = v["early"], v["late"]
    log_early, log_late = jnp.log(early), jnp.log(late)
    size, total = jnp.arange(1, count.size), jnp.cumsum(count)[:-1]
    until = total * log_early - size * early - (total * log_late - size * late)
    prior = exponential(early, 0.5) + exponential(late, 0.5)
    return prior + poisson(count, log_late) + logsumexp(until) - jnp.log(size.size)


def changepoint_data(rng):
    return (np.concatenate([rng.poisson(3.0, 20), rng.poisson(1.0, 20)]),), {}


def hidden_markov_model(key, y):
    """Hidden Markov model with three known means, by the forward algorithm (Rabiner 1989)."""
    transition = ppl.sample(key, dist.Dirichlet(jnp.ones((3, 3))), name="transition")
    mu = ppl.sample(key, dist.Normal(jnp.array([-2.0, 0.0, 2.0]), 1.0), name="mu")
    log_transition = jnp.log(transition)
    log_probs = dist.Normal(mu, 1.0).log_prob(y[:, None])

    def step(log_alpha, log_prob):
        arrived = jax.nn.logsumexp(log_alpha[:, None] + log_transition, axis=0)
        return arrived + log_prob, None

    log_alpha, _ = lax.scan(step, log_probs[0] - jnp.log(3.0), log_probs[1:])
    ppl.factor(jax.nn.logsumexp(log_alpha), name="y")


def hidden_markov_model_density(v, y):
    prior = dirichlet(v["transition"], 1.0) + normal(v["mu"], jnp.array([-2.0, 0.0, 2.0]), 1.0)
    log_transition = jnp.log(v["transition"])
    log_probs = -0.5 * (y[:, None] - v["mu"]) ** 2

    def step(log_alpha, log_prob):
        return logsumexp(log_alpha[:, None] + log_transition, axis=0) + log_prob, None

    log_alpha, _ = lax.scan(step, log_probs[0], log_probs[1:])
    return prior + logsumexp(log_alpha) - jnp.log(3.0) - y.size * HALF_LOG_TWO_PI


def hidden_markov_model_data(rng):
    states = np.repeat(rng.integers(3, size=10), 4)
    return (2.0 * states - 2 + rng.normal(size=40),), {}


def capture_recapture(key, at_risk, seen, last_seen):
    """Cormack-Jolly-Seber model: survival of marked animals, seen or not on each occasion.

    Times of death are summed out.

    Args:
        key: A random key.
        at_risk: By occasion, the number of animals known to have been alive.
        seen: By occasion, the number of these that were seen.
        last_seen: By occasion, the number of animals seen for the last time.

    References:
        Cormack (1964), Estimates of survival from the sighting of marked animals.
    """
    survival = ppl.sample(key, dist.Beta(2.0, 2.0), name="survival")
    capture = ppl.sample(key, dist.Uniform(jnp.zeros(seen.size), 1.0), name="capture")
    never_again = [jnp.ones_like(survival)]
    for missed in reversed(1 - capture):
        never_again.insert(0, 1 - survival * (1 - missed * never_again[0]))
    log_probs = seen * jnp.log(capture) + (at_risk - seen) * jnp.log1p(-capture)
    ppl.factor(at_risk * jnp.log(survival) + log_probs, name="seen")
    ppl.factor(last_seen * jnp.log(jnp.stack(never_again)), name="last_seen")


def capture_recapture_density(v, at_risk, seen, last_seen):
    survival, capture = v["survival"], v["capture"]
    total = jnp.sum(at_risk) * jnp.log(survival) + jnp.sum(seen * jnp.log(capture))
    total += jnp.sum((at_risk - seen) * jnp.log1p(-capture))
    never_again = 1.0
    for i in reversed(range(seen.size)):
        never_again = 1 - survival * (1 - (1 - capture[i]) * never_again)
        total += last_seen[i] * jnp.log(never_again)
    return beta(survival, 2.0, 2.0) + total


def capture_recapture_data(rng):
    alive = np.cumprod(np.c_[np.ones(30), rng.random((30, 5)) < 0.8], axis=1)
    captured = (alive > 0) & (rng.random((30, 6)) < 0.5)
    last = np.max(np.arange(6) * captured, axis=1)
    at_risk = (last[:, None] >= np.arange(1, 6)).sum(axis=0)
    return (at_risk, captured[:, 1:].sum(axis=0), np.bincount(last, minlength=6)), {}


ENTRIES = [
    Entry(
        changepoint,
        changepoint_density,
        changepoint_data,
        {"early": nonnegative, "late": nonnegative},
    ),
    Entry(
        hidden_markov_model,
        hidden_markov_model_density,
        hidden_markov_model_data,
        {"transition": simplex},
    ),
    Entry(
        capture_recapture,
        capture_recapture_density,
        capture_recapture_data,
        {"survival": interval(0, 1), "capture": interval(0, 1)},
    ),
]
