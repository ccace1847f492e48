"""Kernels of counts: laws by their probabilities, broken ones, what warm-up learns, bad input."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import lax, random
from jax.scipy.special import gammaln

import distributions as dist
import ppl
from inference import CountMetropolis, CountSlice, Gibbs, Slice, mcmc, mcse_mean
from tests.inference.targets import chi_square

FAILURE_RATE = 1e-5  # of one test, by chance

KERNELS = {"CountMetropolis": CountMetropolis(step_size=2.0), "CountSlice": CountSlice()}


def final(kernel, num_steps, starts):
    """Positions after some transitions."""
    keys = random.split(random.key(0), len(starts))

    def chain(key, position):
        keys = random.split(key, num_steps)
        return lax.scan(lambda s, k: kernel.step(k, s), kernel.init(position), keys)[0].position

    return np.asarray(jax.jit(jax.vmap(chain))(keys, starts))


MEANS = np.array([0.3, 25.0, 4000.0])


def negative_binomial(x):
    """Negative binomial counts of concentration 3, of several sizes."""
    x = x["n"]
    log_odds = np.log(MEANS / (MEANS + 3.0)).astype(np.float32)
    return jnp.sum(gammaln(x + 3.0) - gammaln(x + 1.0) + x * log_odds)


@pytest.mark.quick_rows("float32-CountSlice", "float64-CountMetropolis")
@pytest.mark.parametrize("kernel", [CountMetropolis(), CountSlice()], ids=list(KERNELS))
def test_chains_learn_the_size_of_their_moves(kernel, float_dtype):
    kernel = dataclasses.replace(kernel, log_density=negative_binomial)

    @jax.jit
    def chain(key):
        def warm(state, i):
            state, info = kernel.step(random.fold_in(key, i), state)
            return kernel.adapt(state, info, i, jnp.int32(500)), None

        def draw(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position["n"], info)

        state, _ = lax.scan(warm, kernel.init({"n": jnp.zeros(3, jnp.int32)}), jnp.arange(500))
        return lax.scan(draw, state, random.split(random.fold_in(key, 500), 3000))

    state, (draws, _) = chain(random.key(0))
    assert draws.dtype == jnp.int32
    assert state.log_density.dtype == float_dtype
    for i, mean in enumerate(MEANS):
        x = np.asarray(draws[None, :, i], float)
        sd = np.sqrt(mean + mean**2 / 3)
        assert abs(x.mean() - mean) < 4.3 * mcse_mean(x) < 0.5 * sd
        is_low = (x <= st.nbinom(3, 3 / (3 + mean)).median()).astype(float)
        expected = st.nbinom(3, 3 / (3 + mean)).cdf(st.nbinom(3, 3 / (3 + mean)).median())
        assert abs(is_low.mean() - expected) < 4.3 * mcse_mean(is_low)


def total(x):
    return -1.0 * jnp.sum(x)


@pytest.mark.parametrize("name", KERNELS)
def test_bad_input_is_refused_in_words(name):
    kernel = dataclasses.replace(KERNELS[name], log_density=total)
    with pytest.raises(TypeError, match=f"position has dtype float32; {name} moves integers"):
        kernel.init(jnp.zeros(2))
    with pytest.raises(ValueError, match="an element -1, outside of its bounds 0 to 1073741824"):
        kernel.init(jnp.array([0, -1]))
    with pytest.raises(ValueError, match="an element 6, outside of its bounds 0 to 5"):
        dataclasses.replace(kernel, upper=5).init(jnp.array([6]))
    with pytest.raises(ValueError, match=r"2\*\*30 at most, got -2147483648"):
        dataclasses.replace(kernel, lower=-(2**31)).init(jnp.array([6]))
    with pytest.raises(ValueError, match="has no log_density; give it one"):
        dataclasses.replace(kernel, log_density=None).init(jnp.array([6]))
    with pytest.raises(ValueError, match=re.escape("returned an array of shape (1,)")):
        dataclasses.replace(kernel, log_density=lambda x: 1.0 * x).init(jnp.array([6]))


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (CountMetropolis(total, step_size=-1.0), "step_size must be a positive, finite number"),
        (CountMetropolis(total, target_acceptance_rate=2.0), "a number between 0 and 1, got 2.0"),
        (CountSlice(total, width=0.0), "width must be a positive, finite number, got 0.0"),
    ],
)
def test_bad_settings_are_named(kernel, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        kernel.init(jnp.array([1]))


@pytest.mark.quick_rows("CountMetropolis")
@pytest.mark.parametrize("name", KERNELS)
def test_bounds_gaps_and_dtypes_are_kept(name):
    """Counts of 2 to 6 without a density at 4, in eight bits."""

    def gap(x):
        return jnp.where(x[0] == 4, jnp.nan, 0.3 * x[0].astype(float))

    kernel = dataclasses.replace(KERNELS[name], log_density=gap, lower=2, upper=6)
    draws = final(kernel, 30, np.full((2000, 1), 3, np.int8))
    assert draws.dtype == np.int8
    probs = np.exp(0.3 * np.arange(7)) * [0, 0, 1, 1, 0, 1, 1]
    assert chi_square(draws[:, 0].astype(int), np.arange(7), probs / probs.sum()) > FAILURE_RATE
    state = kernel.init(jnp.array([3]))
    other = dataclasses.replace(kernel, log_density=total)
    assert other.refresh(state).log_density == -3.0


def large(key):
    n = ppl.sample(key, dist.DiscreteUniform(2**24, 2**24 + 2), name="n")
    ppl.sample(key, dist.Normal(0.0 * n, 1.0), name="x")


def test_counts_beyond_the_integers_of_floats_are_not_rounded():
    kernel = Gibbs({"n": CountSlice()}, rest=Slice())
    settings = {"kernel": kernel, "num_warmup": 2, "num_draws": 100, "num_chains": 1}
    result = mcmc(random.key(0), large, init={"n": 2**24}, **settings)
    np.testing.assert_array_equal(np.unique(result.draws["n"]) - 2**24, [0, 1, 2])
    with pytest.raises(ValueError, match=r"'n' is given 16777217; .* exact up to 2\*\*24"):
        mcmc(random.key(0), large, init={"n": 2**24 + 1}, **settings)
    with pytest.raises(ValueError, match=r"'n' expects integers, got 2.5"):
        mcmc(random.key(0), large, init={"n": 2.5}, **settings)
