"""marginalize and recover beside other forward algorithms, as of TensorFlow Probability."""

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


MOST_ANIMALS = 20
COUNTS = np.array([[7, 5, 6, 4], [2, 0, 3, 5]])


def animals(key, gain, stays=0.7, seen=0.5):
    """Animals of sites: survivors and recruits of each year, of whom some are seen."""

    def site(key):
        number = dist.Truncated(dist.Poisson(4.0), high=MOST_ANIMALS)
        before = ppl.sample(key, number, name="first")
        ppl.sample(key, dist.Binomial(before, probs=seen), name="seen_first")

        def year(before, key):
            chances = dist.Binomial(before, probs=stays).log_prob(jnp.arange(MOST_ANIMALS + 1.0))
            stay = ppl.sample(key, dist.Categorical(logits=chances), name="stay")
            come = dist.Truncated(dist.Poisson(gain), high=MOST_ANIMALS)
            now = jnp.minimum(stay + ppl.sample(key, come, name="come"), MOST_ANIMALS)
            ppl.sample(key, dist.Binomial(now, probs=seen), name="seen")
            return now, None

        jax.lax.scan(year, before, jax.random.split(key, COUNTS.shape[1] - 1))

    jax.vmap(site)(jax.random.split(key, len(COUNTS)))


def animals_by_hand(gain, stays=0.7, seen=0.5):
    """The forward algorithm for numbers of animals (Dail and Madsen 2011, equation 4)."""
    numbers = np.arange(MOST_ANIMALS + 1)
    first, come = stats.poisson.pmf(numbers, 4.0), stats.poisson.pmf(numbers, gain)
    step = np.zeros((len(numbers), len(numbers)))
    for before in numbers:
        for stay in range(before + 1):
            chance = stats.binom.pmf(stay, before, stays) * come / come.sum()
            np.add.at(step[before], np.minimum(stay + numbers, MOST_ANIMALS), chance)
    total = 0.0
    for row in COUNTS:
        weights = first / first.sum() * stats.binom.pmf(row[0], numbers, seen)
        for count in row[1:]:
            weights = weights @ step * stats.binom.pmf(count, numbers, seen)
        total += np.log(weights.sum())
    return total


@pytest.mark.usefixtures("x64")
def test_an_open_population_is_summed_year_by_year():
    seen = {"seen_first": COUNTS[:, 0], "seen": COUNTS[:, 1:]}
    model = ppl.marginalize(ppl.condition(animals, seen), ["first", "stay", "come"])
    value, slope = jax.jit(jax.value_and_grad(lambda gain: ppl.log_density(model)({}, gain)))(0.8)
    np.testing.assert_allclose(value, animals_by_hand(0.8), rtol=1e-11)
    by_hand = (animals_by_hand(0.8 + 1e-5) - animals_by_hand(0.8 - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, by_hand, rtol=1e-7)
