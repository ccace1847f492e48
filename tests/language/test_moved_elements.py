"""Independent summed elements that a model moves before others depend on them."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.random import split
from scipy import special, stats

import distributions as dist
import ppl

pytestmark = pytest.mark.usefixtures("x64")

NUM = 24  # so that no sum over all of them together is possible
PROBS = np.linspace(0.2, 0.7, NUM)
ORDER = np.random.default_rng(0).permutation(NUM)

ONTO = {  # Each element is read at most once.
    "flip of rows": lambda x: jnp.flip(x.reshape(4, 6), 1).T,
    "roll": lambda x: jnp.roll(x, 5),
    "roll of every other": lambda x: jnp.roll(x[1::2], (2, 1)),
    "roll of two axes": lambda x: jnp.roll(x.reshape(4, 6), (1, 2), (0, 1)),
    "every other, backward": lambda x: x[::-2],
    "flip twice": lambda x: jnp.flip(x)[::-1],
    "a slice that starts too late": lambda x: lax.dynamic_slice(x, (jnp.asarray(22),), (20,)),
    "halves exchanged": lambda x: jnp.concatenate(jnp.split(x, 2)[::-1]),
    "one deleted": lambda x: jnp.delete(x, 3),
    "rows flipped by vmap": lambda x: jax.vmap(jnp.flip)(x.reshape(4, 6)),
    "flip at an index": lambda x: jnp.flip(x)[ORDER],
    "flip in a scan": lambda x: lax.scan(lambda c, row: (c, row * 1), 0, jnp.flip(x))[1],
    "base 2": lambda x: jnp.round(jnp.log2(jnp.exp2(1.0 * x))).astype(x.dtype),
    "complex": lambda x: jnp.conj(lax.complex(1.0 * x, 0.0 * x)).real.astype(x.dtype),
    "named for a checkpoint": lambda x: checkpoint_name(x, "x"),
    "written at an index": lambda x: jnp.zeros(NUM, x.dtype).at[ORDER].set(jnp.flip(x)),
    "added to zeros": lambda x: jnp.zeros(NUM, x.dtype).at[ORDER].add(x, unique_indices=True),
    "written as a slice": lambda x: lax.dynamic_update_slice(
        jnp.zeros(NUM, x.dtype), x[::-1], (0,)
    ),
}
SEVERAL = {  # Some elements are read several times, and some entries of the result read none.
    "repeat and tile": lambda x: jnp.tile(jnp.repeat(x, 2), (2, 1)),
    "both ways": lambda x: jnp.stack([x, jnp.flip(x)]),
    "with others": lambda x: jnp.concatenate([jnp.zeros(2, x.dtype), x[2:], x[:1]]),
    "two indices": lambda x: jnp.concatenate([x[ORDER // 2], x[::-1]]),
    "padded": lambda x: jnp.pad(x.reshape(4, 6), ((1, 0), (0, 2))),
    "spread": lambda x: lax.pad(x, jnp.zeros((), x.dtype), [(-1, 2, 1)]),
    "added at known places": lambda x: jnp.zeros(30, x.dtype).at[jnp.arange(NUM) + 3].add(x),
    "multiplied": lambda x: jnp.ones(NUM, x.dtype).at[ORDER].multiply(x),
    "some written over": lambda x: x.at[2:7].set(0),
}


def make_model(move, probs):
    def model(key):
        keys = split(key)
        z = ppl.sample(keys[0], dist.Bernoulli(probs=probs), name="z")
        ppl.sample(keys[1], dist.Normal(2.0 * move(z), 1.5), name="y")

    return model


def log_prob_by_element(move, y):
    """The log probabilities of what reads each element, then of all that reads none."""
    reads = np.asarray(move(jnp.arange(NUM) + 1))
    score = lambda z: stats.norm.logpdf(y, 2.0 * z, 1.5)  # noqa: E731
    total = lambda z: np.bincount(reads.ravel(), score(z).ravel(), NUM + 1)  # noqa: E731
    found = np.logaddexp(np.log1p(-PROBS) + total(0)[1:], np.log(PROBS) + total(1)[1:])
    return reads, np.append(total(0)[0], found)


@pytest.mark.parametrize("name", [*ONTO, *SEVERAL])
def test_elements_come_apart_wherever_they_are_moved(name):
    move = (ONTO | SEVERAL)[name]
    y = np.random.default_rng(1).normal(1.0, 2.0, move(jnp.zeros(NUM, int)).shape)
    reads, expected = log_prob_by_element(move, y)
    summed = ppl.marginalize(make_model(move, PROBS), ["z"])
    found = jax.jit(ppl.log_probs(summed))({"y": y})
    total = sum(map(jnp.sum, found.values()))
    np.testing.assert_allclose(total, expected.sum(), rtol=1e-12)
    if name in ONTO:
        np.testing.assert_allclose(found["y"], expected[reads], rtol=1e-12)


def test_elements_that_meet_in_one_place_are_summed_together():
    places = np.array([0, 1, 0])
    probs = PROBS[:3]
    y = np.array([1.5, -0.3])
    terms = []
    for z in map(np.array, itertools.product((0, 1), repeat=3)):
        loc = 2.0 * np.bincount(places, z)
        prior = np.log(np.where(z, probs, 1 - probs))
        terms.append(prior.sum() + stats.norm.logpdf(y, loc, 1.5).sum())
    model = make_model(lambda z: jnp.zeros(2, z.dtype).at[places].add(z), probs)
    found = jax.jit(ppl.log_density(ppl.marginalize(model, ["z"])))({"y": y})
    np.testing.assert_allclose(found, np.logaddexp.reduce(terms), rtol=1e-12)


def test_moved_elements_are_recovered_in_their_places():
    move = ONTO["flip of rows"]
    z = (np.arange(NUM) * 7 % 5 < 2).astype(int)
    model = ppl.condition(make_model(move, PROBS), {"y": np.where(move(z), 40.0, -40.0)})
    drawn = ppl.recover(ppl.marginalize(model, ["z"]), {})(jax.random.key(0))
    np.testing.assert_array_equal(drawn["z"], z)


def test_vmap_over_data_and_gradient_of_moved_elements():
    move = ONTO["roll of two axes"]
    y = np.random.default_rng(2).normal(1.0, 2.0, (3, 4, 6))
    score = ppl.log_density(ppl.marginalize(make_model(move, PROBS), ["z"]))
    found, slope = jax.vmap(jax.value_and_grad(lambda y: score({"y": y})))(y)
    for i in range(3):
        np.testing.assert_allclose(found[i], log_prob_by_element(move, y[i])[1].sum(), rtol=1e-12)
    reads = np.asarray(move(np.arange(NUM)))
    odds = (
        special.logit(PROBS)[reads] + stats.norm.logpdf(y, 2.0, 1.5) - stats.norm.logpdf(y, 0, 1.5)
    )
    np.testing.assert_allclose(slope, (2.0 * special.expit(odds) - y) / 1.5**2, rtol=1e-9)


@pytest.mark.parametrize("index", [np.array([1, 0, 2]), np.array([2, 2, 0])])
def test_two_sites_read_alike_are_summed_as_pairs(index):
    def model(key):
        keys = split(key, 3)
        z = ppl.sample(keys[0], dist.Bernoulli(probs=jnp.array([0.2, 0.5, 0.6])), name="z")
        w = ppl.sample(keys[1], dist.Bernoulli(probs=jnp.array([0.7, 0.1, 0.4])), name="w")
        ppl.sample(keys[2], dist.Normal(2.0 * z[index] + w[index] * z[index], 1.0), name="y")

    y, terms = np.array([0.3, 1.9, -1.2]), []
    for states in itertools.product([0, 1], repeat=6):
        z, w = np.array(states[:3]), np.array(states[3:])
        prior = stats.bernoulli.logpmf(z, [0.2, 0.5, 0.6]) + stats.bernoulli.logpmf(
            w, [0.7, 0.1, 0.4]
        )
        terms.append((prior + stats.norm.logpdf(y, (2.0 * z + w * z)[index])).sum())
    found = ppl.log_density(ppl.marginalize(model, ["z", "w"]))({"y": y})
    np.testing.assert_allclose(found, special.logsumexp(terms), rtol=1e-12)


def test_normal_elements_that_are_moved_are_integrated_apart():
    def model(key):
        keys = split(key)
        x = ppl.sample(keys[0], dist.Normal(jnp.arange(300.0), 2.0), name="x")
        ppl.sample(keys[1], dist.Normal(jnp.roll(x.reshape(20, 15), 1, 1), 1.0), name="y")

    y = np.random.default_rng(3).normal(150.0, 90.0, (20, 15))
    summed = ppl.marginalize(model, {"x": ppl.Gaussian(max_block=10)})
    expected = stats.norm.logpdf(y, np.roll(np.arange(300.0).reshape(20, 15), 1, 1), np.sqrt(5.0))
    np.testing.assert_allclose(ppl.log_probs(summed)({"y": y})["y"], expected, rtol=1e-9)
