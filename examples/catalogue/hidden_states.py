"""Discrete states in time, summed over."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import gammaln, logsumexp

import distributions as dist
import ppl
from examples.catalogue.entry import Entry
from examples.catalogue.log_probs import HALF_LOG_TWO_PI, beta, dirichlet, exponential, normal


def changepoint(key, count):
    """Counts whose rate changes once, at a time that is summed over."""
    early = ppl.sample(key, dist.Exponential(0.5), name="early")
    late = ppl.sample(key, dist.Exponential(0.5), name="late")
    until = jnp.cumsum(dist.Poisson(early).log_prob(count))
    since = jnp.cumsum(dist.Poisson(late).log_prob(count)[::-1])[::-1]
    log_probs = until[:-1] + since[1:]
    ppl.factor(jax.nn.logsumexp(log_probs) - jnp.log(log_probs.size), name="count")


def changepoint_density(v, count):
    early, late = v["early"], v["late"]
    size, total = jnp.arange(1, count.size), jnp.cumsum(count)
    until = total[:-1] * jnp.log(early) - size * early
    since = (total[-1] - total[:-1]) * jnp.log(late) - (count.size - size) * late
    constant = gammaln(count + 1.0).sum() + jnp.log(count.size - 1.0)
    prior = exponential(early, 0.5) + exponential(late, 0.5)
    return prior + logsumexp(until + since) - constant


def changepoint_data(rng):
    return (np.concatenate([rng.poisson(3.0, 20), rng.poisson(1.0, 20)]),), {}


def hidden_markov_model(key, y):
    """Three states with known means, by the forward algorithm (Rabiner 1989)."""
    transition = ppl.sample(key, dist.Dirichlet(jnp.ones((3, 3))), name="transition")
    mu = ppl.sample(key, dist.Normal(jnp.array([-2.0, 0.0, 2.0]), 1.0), name="mu")
    log_transition = jnp.log(transition)

    def log_probs(y):
        return dist.Normal(mu, 1.0).log_prob(y)

    def step(log_alpha, y):
        arrived = jax.nn.logsumexp(log_alpha[:, None] + log_transition, axis=0)
        return arrived + log_probs(y), None

    log_alpha, _ = lax.scan(step, log_probs(y[0]) - jnp.log(3.0), y[1:])
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


def capture_recapture(key, captured):
    """Survival of marked animals, seen or not on each occasion (Cormack 1964).

    Whether an animal is alive is summed over; `captured` has a row for each, in which it is seen on
    the first occasion.
    """
    survival = ppl.sample(key, dist.Beta(2.0, 2.0), name="survival")
    capture = ppl.sample(key, dist.Beta(jnp.ones(captured.shape[1] - 1), 1.0), name="capture")

    def occasion(probs, inputs):
        alive, dead = probs
        capture, seen = inputs
        dead = jnp.where(seen, 0.0, dead + (1 - survival) * alive)
        return (survival * alive * jnp.where(seen, capture, 1 - capture), dead), None

    start = jnp.ones(len(captured)), jnp.zeros(len(captured))
    (alive, dead), _ = lax.scan(occasion, start, (capture, captured.T[1:]))
    ppl.factor(jnp.log(alive + dead).sum(), name="captured")


def capture_recapture_density(v, captured):
    survival, capture = v["survival"], v["capture"]
    num_occasions = captured.shape[1]
    last = num_occasions - 1 - jnp.argmax(captured[:, ::-1], axis=1)
    never_again = [jnp.ones(())]  # after the last occasion, the one before it, ...
    for i in reversed(range(num_occasions - 1)):
        seen_later = 1 - (1 - capture[i]) * never_again[-1]
        never_again.append(1 - survival * seen_later)
    log_never_again = jnp.log(jnp.stack(never_again))[num_occasions - 1 - last]
    log_probs = jnp.where(captured[:, 1:], jnp.log(capture), jnp.log1p(-capture))
    while_alive = jnp.arange(1, num_occasions) <= last[:, None]
    known = jnp.sum(jnp.where(while_alive, jnp.log(survival) + log_probs, 0))
    return beta(survival, 2.0, 2.0) + known + log_never_again.sum()


def capture_recapture_data(rng):
    alive = np.cumprod(np.c_[np.ones(30), rng.random((30, 5)) < 0.8], axis=1)
    captured = (alive > 0) & (rng.random((30, 6)) < 0.5)
    captured[:, 0] = True
    return (captured,), {}


ENTRIES = [
    Entry(changepoint, changepoint_density, changepoint_data),
    Entry(hidden_markov_model, hidden_markov_model_density, hidden_markov_model_data),
    Entry(capture_recapture, capture_recapture_density, capture_recapture_data),
]
