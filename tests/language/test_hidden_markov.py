"""marginalize and recover beside TensorFlow Probability's hidden Markov model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scipy import stats
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl

tfd = tfp.distributions
NUM_STEPS, NUM_DRAWS = 40, 5000
START = np.array([0.5, 0.3, 0.2])
STEP = np.array([[0.9, 0.05, 0.05], [0.1, 0.7, 0.2], [0.02, 0.08, 0.9]])
MEANS = np.array([-1.0, 0.5, 1.5])
Y = np.where(np.arange(NUM_STEPS) % 20 < 12, -0.5, 1.0) + np.sin(np.arange(NUM_STEPS) ** 2)


def model(key):
    """The state before the first step is one of its own, 3, from which the others start."""
    table = ppl.sample(key, dist.Dirichlet(np.ones((4, 3))), name="table")
    means = ppl.sample(key, dist.Normal(np.zeros(3), 2.0), name="means")

    def step(z, key):
        z = ppl.sample(key, dist.Categorical(probs=table[z]), name="z")
        return z, ppl.sample(key, dist.Normal(means[z], 1.0), name="y")

    return lax.scan(step, 3, jax.random.split(key, NUM_STEPS))[1]


SUMMED = ppl.marginalize(ppl.condition(model, {"y": Y}), ["z"])
VALUES = {"table": np.concatenate([STEP, START[None]]), "means": MEANS}


def peer(values):
    table, means = values["table"], values["means"]
    return tfd.HiddenMarkovModel(
        tfd.Categorical(probs=table[3]),
        tfd.Categorical(probs=table[:3]),
        tfd.Normal(means, jnp.ones_like(means)),
        NUM_STEPS,
    )


@pytest.mark.usefixtures("x64")
def test_density_and_gradient_are_those_of_the_peer():
    def by_peer(values):
        prior = dist.Dirichlet(np.ones((4, 3))).log_prob(values["table"]).sum()
        prior += dist.Normal(np.zeros(3), 2.0).log_prob(values["means"]).sum()
        return prior + peer(values).log_prob(Y)

    both = jax.jit(lambda v: [jax.value_and_grad(f)(v) for f in (ppl.log_density(SUMMED), by_peer)])
    ours, theirs = both(jax.tree.map(jnp.asarray, VALUES))
    assert_close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)  # noqa: E731
    assert_close(ours[0], theirs[0])
    assert_close(ours[1]["means"], theirs[1]["means"])
    # Along the simplex: the peer normalizes rows, so gradients agree but for a constant.
    centered = [g["table"] - g["table"].mean(-1, keepdims=True) for _, g in (ours, theirs)]
    assert_close(*centered)


def filtered():
    """The probabilities of the states at each step given the data up to it."""
    found, weights = [], START
    for y in Y:
        weights = weights * stats.norm.pdf(y, MEANS)
        found.append(weights / weights.sum())
        weights = found[-1] @ STEP
    return np.stack(found)


def p_value(states, probs):
    """Of the step that fits worst, for all steps together."""
    observed = np.mean(states[..., None] == np.arange(3), 0) * len(states)
    statistic = ((observed - len(states) * probs) ** 2 / (len(states) * probs)).sum(-1)
    return NUM_STEPS * stats.chi2.sf(statistic, 2).min()


@pytest.mark.usefixtures("x64")
def test_recovered_states_follow_the_smoothed_weights():
    smoothed = jax.jit(lambda v: peer(v).posterior_marginals(Y).probs_parameter())(VALUES)
    draws = jax.tree.map(lambda x: np.broadcast_to(x, (NUM_DRAWS, *x.shape)), VALUES)
    states = np.asarray(ppl.recover(SUMMED, draws)(jax.random.key(0))["z"])
    assert p_value(states, np.asarray(smoothed)) > 1e-3
    uniform = np.random.default_rng(0).random((NUM_DRAWS, NUM_STEPS, 1))
    wrong = (uniform > filtered().cumsum(-1)).sum(-1)
    assert p_value(wrong, filtered()) > 1e-3
    assert p_value(wrong, np.asarray(smoothed)) < 1e-9
