"""Models with discrete sites in time, and their sums by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.nn import log_sigmoid
from jax.random import split
from jax.scipy import stats
from jax.scipy.special import logsumexp

import distributions as dist
import ppl
from tests.models.marginal_model import Marginal, beta

normal, poisson = stats.norm.logpdf, stats.poisson.logpmf
RNG = np.random.default_rng(1)
Y = np.where(np.arange(10) < 6, -1.0, 2.0) + RNG.normal(size=10) / 2
X = RNG.normal(size=10)
NEVER = -1e6  # a log probability of 0 with gradients


def sum_of_paths(score, num_states, num_steps):
    """The log of the sum of `exp(score(path))` over all paths."""
    paths = jnp.array(list(itertools.product(range(num_states), repeat=num_steps)))
    return logsumexp(jax.vmap(score)(paths))


def forward(start, step, data):
    """The log of the sum over paths by the forward algorithm, from log probabilities.

    Args:
        start: Of the first states.
        step: Of transitions, or an array of one table for each step.
        data: Of the observations, a row for each step.
    """
    alpha = start + data[0]
    steps = jnp.broadcast_to(step, (len(data), *step.shape[-2:]))
    for t in range(1, len(data)):
        alpha = logsumexp(alpha[:, None] + steps[t], 0) + data[t]
    return logsumexp(alpha)


def hidden_markov(key):
    """Hidden Markov model with unknown transitions and means."""
    table = ppl.sample(key, dist.Dirichlet(np.ones((3, 3))), name="table")
    mean = ppl.sample(key, dist.Normal(np.array([-2.0, 0.0, 2.0]), 1.0), name="mean")

    def step(z, key):
        z = ppl.sample(key, dist.Categorical(probs=table[z]), name="z")
        return z, ppl.sample(key, dist.Normal(mean[z], 1.0), name="y")

    lax.scan(step, 0, split(key, 10))


def hidden_markov_density(v):
    log = jnp.log(v["table"])
    prior = 3 * np.log(2.0) + normal(v["mean"], np.array([-2.0, 0.0, 2.0])).sum()
    return prior + forward(log[0], log, normal(Y[:, None], v["mean"]))


def second_order(key):
    """Hidden Markov model whose state depends on two before it."""
    logits = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), (2, 2)), name="logits")
    gap = ppl.sample(key, dist.Normal(0.0, 3.0), name="gap")

    def step(carry, key):
        z = ppl.sample(key, dist.Bernoulli(logits=logits[carry]), name="z").astype(int)
        return (carry[1], z), ppl.sample(key, dist.Normal(gap * z, 1.0), name="y")

    lax.scan(step, (0, 1), split(key, 10))


def second_order_density(v):
    def score(path):
        before = jnp.concatenate([jnp.array([0, 1]), path])
        logits = v["logits"][before[:-2], before[1:-1]]
        return (
            jnp.where(path, log_sigmoid(logits), log_sigmoid(-logits)).sum()
            + normal(Y, v["gap"] * path).sum()
        )

    prior = normal(v["logits"]).sum() + normal(v["gap"], 0, 3)
    return prior + sum_of_paths(score, 2, 10)


def factorial(key):
    """Two chains of states, whose effects add up."""
    stay = ppl.sample(key, dist.Beta(np.full(2, 4.0), 2.0), name="stay")
    effect = ppl.sample(key, dist.Normal(np.zeros(2), 2.0), name="effect")

    def step(carry, key):
        new = [
            ppl.sample(key, dist.Bernoulli(probs=jnp.where(z, p, 1 - p)), name=name)
            for name, z, p in zip("ab", carry, stay, strict=True)
        ]
        ppl.sample(key, dist.Normal(effect @ jnp.stack(new), 1.0), name="y")
        return tuple(new), None

    lax.scan(step, (0, 0), split(key, 10))


def factorial_density(v):
    tables = [jnp.log(jnp.array([[p, 1 - p], [1 - p, p]])) for p in v["stay"]]
    joint = (tables[0][:, None, :, None] + tables[1][None, :, None, :]).reshape(4, 4)
    mean = (v["effect"][0] * np.arange(2)[:, None] + v["effect"][1] * np.arange(2)).ravel()
    prior = beta(v["stay"], 4.0, 2.0) + normal(v["effect"], 0, 2).sum()
    return prior + forward(joint[0], joint, normal(Y[:, None], mean))


def transitions_with_covariates(key, x):
    """Hidden Markov model whose transitions depend on covariates."""
    slope = ppl.sample(key, dist.Normal(np.zeros(2), 1.0), name="slope")
    gap = ppl.sample(key, dist.HalfNormal(3.0), name="gap")

    def step(z, inputs):
        key, x = inputs
        logits = slope[0] * x + slope[1] * (2 * z - 1)
        z = ppl.sample(key, dist.Bernoulli(logits=logits), name="z")
        return z, ppl.sample(key, dist.Normal(gap * z, 1.0), name="y")

    lax.scan(step, 0, (split(key, x.size), x))


def transitions_with_covariates_density(v):
    logits = v["slope"][0] * X[:, None] + v["slope"][1] * np.array([-1, 1])
    steps = jnp.stack([log_sigmoid(-logits), log_sigmoid(logits)], -1)
    prior = normal(v["slope"]).sum() + np.log(2) + normal(v["gap"], 0, 3)
    data = normal(Y[:, None], v["gap"] * np.arange(2))
    return prior + forward(steps[0][0], steps, data)


LENGTHS = np.array([10, 4, 7])
MANY = RNG.normal(size=(3, 10)) + 1.0
IS_OVER = np.arange(10) >= LENGTHS[:, None]


def unequal_lengths(key):
    """Several sequences of unequal length; what is behind the end of one is ignored."""
    stay = ppl.sample(key, dist.Beta(4.0, 2.0), name="stay")
    gap = ppl.sample(key, dist.Normal(0.0, 2.0), name="gap")

    def sequence(key):
        def step(z, key):
            z = ppl.sample(key, dist.Bernoulli(probs=jnp.where(z, stay, 1 - stay)), name="z")
            return z, ppl.sample(key, dist.Normal(gap * z, 1.0), name="y")

        lax.scan(step, 0, split(key, 10))

    jax.vmap(sequence)(split(key, 3))


def unequal_lengths_density(v):
    p = v["stay"]
    table = jnp.log(jnp.array([[p, 1 - p], [1 - p, p]]))
    data = normal(MANY[..., None], v["gap"] * np.arange(2))
    prior = beta(p, 4.0, 2.0) + normal(v["gap"], 0, 2)
    each = [forward(table[0], table, rows[:n]) for rows, n in zip(data, LENGTHS, strict=True)]
    return prior + sum(each)


COUNTS = np.array([3, 4, 2, 5, 3, 0, 1, 0, 2, 0])


def changepoint(key, time):
    """Counts whose rate changes once, at an unknown time."""
    rate = ppl.sample(key, dist.Exponential(np.full(2, 0.5)), name="rate")
    change = ppl.sample(key, dist.DiscreteUniform(1, 9), name="change")
    ppl.sample(key, dist.Poisson(jnp.where(time < change, rate[0], rate[1])), name="y")


def changepoint_density(v):
    early, late = (poisson(COUNTS, r) for r in v["rate"])
    each = [early[:n].sum() + late[n:].sum() for n in range(1, 10)]
    prior = 2 * np.log(0.5) - 0.5 * v["rate"].sum()
    return prior + logsumexp(jnp.stack(each)) - np.log(9)


SEEN = np.array([[1, 0, 1, 0, 0], [1, 1, 0, 0, 0], [1, 0, 0, 0, 1], [1, 0, 0, 0, 0]])


def capture_recapture(key):
    """Cormack-Jolly-Seber model of each animal: alive or not, and seen only if alive."""
    survival = ppl.sample(key, dist.Beta(2.0, 2.0), name="survival")
    detection = ppl.sample(key, dist.Beta(2.0, 2.0), name="detection")

    def animal(key):
        def step(alive, key):
            alive = ppl.sample(key, dist.Bernoulli(probs=alive * survival), name="alive")
            ppl.sample(key, dist.Bernoulli(probs=alive * detection), name="seen")
            return alive, None

        lax.scan(step, 1, split(key, 4))

    jax.vmap(animal)(split(key, 4))


def capture_recapture_density(v):
    phi, p = v["survival"], v["detection"]
    found = beta(phi, 2.0, 2.0) + beta(p, 2.0, 2.0)
    for history in SEEN:
        last = int(np.flatnonzero(history)[-1])
        for t in range(1, last + 1):
            found += jnp.log(phi) + jnp.log(p if history[t] else 1 - p)
        never = 1.0
        for _ in range(4 - last):
            never = 1 - phi + phi * (1 - p) * never
        found += jnp.log(never)
    return found


def switching_regression(key, x):
    """Regression whose coefficients switch between two regimes in time."""
    slope = ppl.sample(key, dist.Normal(np.zeros(2), 1.0), name="slope")
    stay = ppl.sample(key, dist.Beta(np.full(2, 8.0), 2.0), name="stay")

    def step(z, inputs):
        key, x = inputs
        probs = jnp.where(z, stay[1], 1 - stay[0])
        z = ppl.sample(key, dist.Bernoulli(probs=probs), name="z")
        return z, ppl.sample(key, dist.Normal(slope[z] * x, 0.5 + z), name="y")

    start = ppl.sample(key, dist.Bernoulli(probs=0.5), name="start")
    lax.scan(step, start, (split(key, x.size), x))


def switching_regression_density(v):
    p, q = v["stay"]
    table = jnp.log(jnp.array([[p, 1 - p], [1 - q, q]]))
    prior = normal(v["slope"]).sum() + beta(v["stay"], 8.0, 2.0)
    data = normal(Y[:, None], v["slope"] * X[:, None], 0.5 + np.arange(2))
    return prior + forward(logsumexp(table - np.log(2), 0), table, data)


def semi_markov(key):
    """State with a duration of 1 to 3 steps: both are one augmented state."""
    weights = ppl.sample(key, dist.Dirichlet(np.ones(3)), name="weights")
    gap = ppl.sample(key, dist.Normal(0.0, 3.0), name="gap")

    def step(carry, key):
        state, left = carry
        is_over = left == 0
        probs = jnp.where(is_over, weights, jax.nn.one_hot(left - 1, 3))
        left = ppl.sample(key, dist.Categorical(probs=probs), name="left")
        state = ppl.sample(
            key, dist.Bernoulli(probs=jnp.where(is_over, 1 - state, state)), name="state"
        )
        ppl.sample(key, dist.Normal(gap * state, 1.0), name="y")
        return (state, left), None

    lax.scan(step, (0, 0), split(key, 10))


def semi_markov_density(v):
    ends = jnp.concatenate([jnp.log(v["weights"])[None], jnp.full((2, 3), NEVER)])
    ends = ends.at[1, 0].set(0.0).at[2, 1].set(0.0)
    table = jnp.full((2, 3, 2, 3), NEVER)
    for state, left in itertools.product(range(2), range(3)):
        new = 1 - state if left == 0 else state
        table = table.at[state, left, new].set(ends[left])
    table = table.reshape(6, 6)
    prior = np.log(2) + normal(v["gap"], 0, 3)
    return prior + forward(table[0], table, normal(Y[:, None], v["gap"] * np.repeat([0, 1], 3)))


MODELS = [
    Marginal(hidden_markov, hidden_markov_density, ("z",), data={"y": Y}),
    Marginal(second_order, second_order_density, ("z",), data={"y": Y}),
    Marginal(factorial, factorial_density, ("a", "b"), data={"y": Y}),
    Marginal(
        transitions_with_covariates, transitions_with_covariates_density, ("z",), (X,), {"y": Y}
    ),
    Marginal(
        unequal_lengths,
        unequal_lengths_density,
        ("z",),
        data={"y": MANY},
        missing={"y": IS_OVER},
    ),
    Marginal(changepoint, changepoint_density, ("change",), (np.arange(10),), {"y": COUNTS}),
    Marginal(capture_recapture, capture_recapture_density, ("alive",), data={"seen": SEEN[:, 1:]}),
    Marginal(switching_regression, switching_regression_density, ("start", "z"), (X,), {"y": Y}),
    Marginal(semi_markov, semi_markov_density, ("left", "state"), data={"y": Y}),
]
