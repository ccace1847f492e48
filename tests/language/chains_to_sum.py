"""Chains of discrete sites in loops, for the tests of marginalize."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.random import split

import distributions as dist
import ppl

W = np.array([0.2, 0.5, 0.3])
P2 = np.array([[0.9, 0.1], [0.3, 0.7]])


def level(key):
    return ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")


def markov(key):
    mu = level(key)

    def step(z, key):
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.array([0.2, 0.6])[z]), name="z").astype(int)
        return z, ppl.sample(key, dist.Normal(mu * z, 1.0), name="y")

    return lax.scan(step, 0, split(key, 5))[1]


def markov_from_site(key):
    mu = level(key)
    start = ppl.sample(key, dist.Categorical(probs=W), name="start")
    ppl.sample(key, dist.Normal(mu * start, 1.0), name="first")

    def step(z, key):
        probs = jax.nn.softmax(mu * jnp.eye(3))[z]
        z = ppl.sample(key, dist.Categorical(probs=probs), name="z")
        return z, ppl.sample(key, dist.Normal(mu * z, 1.0), name="y")

    return lax.scan(step, start, split(key, 5))[1]


def markov_second_order(key):
    mu = level(key)
    table = jnp.array([[0.2, 0.6], [0.5, 0.9]])

    def step(carry, key):
        z = ppl.sample(key, dist.Bernoulli(probs=table[carry]), name="z").astype(int)
        return (carry[1], z), ppl.sample(key, dist.Normal(mu * z, 1.0), name="y")

    return lax.scan(step, (0, 1), split(key, 5))[1]


def markov_pair_in_data(key):
    """The data depend on two states."""
    mu = level(key)

    def step(z, key):
        new = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[z]), name="z")
        return new, ppl.sample(key, dist.Normal(mu * new + 2.0 * z, 1.0), name="y")

    return lax.scan(step, 0, split(key, 5))[1]


def markov_reversed(key):
    mu = level(key)

    def step(z, key):
        new = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[z]), name="z")
        return new, ppl.sample(key, dist.Normal(mu * new + z, 1.0), name="y")

    return lax.scan(step, 1, split(key, 5), reverse=True)[1]


def several_markov(key):
    mu = level(key)

    def chain(key):
        def step(z, key):
            z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[z]), name="z")
            return z, ppl.sample(key, dist.Normal(mu * z, 1.0), name="y")

        return lax.scan(step, 0, split(key, 4))[1]

    return jax.vmap(chain)(split(key, 2))


def markov_of_vectors(key):
    mu = level(key)

    def step(z, key):
        z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[z]), name="z")
        return z, ppl.sample(key, dist.Normal(mu * z, 1.0), name="y")

    return lax.scan(step, jnp.zeros(2, int), split(key, 4))[1]


def factorial(key):
    mu = level(key)

    def step(carry, key):
        a = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[carry[0]]), name="a")
        b = ppl.sample(key, dist.Bernoulli(probs=jnp.array([0.2, 0.6])[carry[1]]), name="b")
        b = b.astype(int)
        return (a, b), ppl.sample(key, dist.Normal(mu * a + b, 1.0), name="y")

    return lax.scan(step, (0, 1), split(key, 5))[1]


def markov_with_mixture(key):
    mu = level(key)

    def step(z, key):
        z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[z]), name="z")
        c = ppl.sample(key, dist.Bernoulli(probs=jnp.array([0.3, 0.8])[z]), name="c")
        return z, ppl.sample(key, dist.Normal(mu * z + 3.0 * c, 1.0), name="y")

    return lax.scan(step, 0, split(key, 5))[1]


def switching_autoregression(key):
    mu = level(key)

    def step(carry, key):
        z, before = carry
        z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[z]), name="z")
        y = ppl.sample(key, dist.Normal(jnp.where(z, mu, 0.5) * before, 1.0), name="y")
        return (z, y), None

    return lax.scan(step, (0, 1.0), split(key, 5))[0]


def last_state(key):
    mu = level(key)

    def step(z, key):
        z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[z]), name="z")
        return z, ppl.sample(key, dist.Normal(mu * z, 1.0), name="y")

    z, _ = lax.scan(step, 0, split(key, 5))
    ppl.sample(key, dist.Normal(3.0 * z, 1.0), name="end")


def nested_loops(key):
    mu = level(key)

    def outer(_, key):
        def step(z, key):
            z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[z]), name="z")
            return z, ppl.sample(key, dist.Normal(mu * z, 1.0), name="y")

        return None, lax.scan(step, 0, split(key, 3))[1]

    return lax.scan(outer, None, split(key, 2))[1]


def start_in_all_steps(key):
    mu = level(key)
    start = ppl.sample(key, dist.Bernoulli(probs=0.3), name="start").astype(int)

    def step(z, key):
        z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[z]), name="z")
        return z, ppl.sample(key, dist.Normal(mu * z + start, 1.0), name="y")

    return lax.scan(step, start, split(key, 5))[1]


def two_starts(key):
    mu = level(key)
    p = ppl.sample(key, dist.Bernoulli(probs=0.3), name="p").astype(int)
    q = ppl.sample(key, dist.Bernoulli(probs=0.2 + 0.5 * p), name="q").astype(int)

    def step(carry, key):
        a = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[carry[0]]), name="a")
        b = ppl.sample(key, dist.Bernoulli(probs=jnp.array([0.2, 0.6])[carry[1]]), name="b")
        b = b.astype(int)
        return (a, b), ppl.sample(key, dist.Normal(mu * a + b, 1.0), name="y")

    return lax.scan(step, (p, q), split(key, 4))[1]


def held_state(key):
    """The carry holds the state for two steps beside it."""
    mu = level(key)

    def step(carry, key):
        older, before = carry
        z = ppl.sample(key, dist.Categorical(probs=jnp.asarray(P2)[before]), name="z")
        y = ppl.sample(key, dist.Normal(mu * z - older, 1.0), name="y")
        return (before, z), y

    return lax.scan(step, (0, 0), split(key, 5))[1]


def open_population(key):
    """Survivors and recruits are one chain, whose start is the first number of animals."""
    mu = level(key)
    first = ppl.sample(key, dist.Categorical(probs=W), name="first")

    def step(before, key):
        chance = jnp.array([[1.0, 0.0, 0.0], [0.4, 0.6, 0.0], [0.2, 0.5, 0.3]])[before]
        stay = ppl.sample(key, dist.Categorical(probs=chance), name="stay")
        come = ppl.sample(key, dist.Bernoulli(probs=0.3), name="come")
        number = jnp.minimum(stay + come, 2)
        return number, ppl.sample(key, dist.Normal(mu * number, 1.0), name="y")

    return lax.scan(step, first, split(key, 3))[1]
