"""The generator, against JAX's own; its numbers, against their distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

from inference.common.threefry import (
    neighbors,
    noise_of,
    normal,
    random_words,
    seed_of,
    threefry,
    uniform,
    unit_of,
)
from tests.inference.targets import needs_tricks

pytestmark = pytest.mark.promotion(rank="raise", dtype="strict")


def test_threefry_is_that_of_jax():
    key = jax.random.key(7)
    counters = [0, 1, 77, 2**31, 2**32 - 1]
    ours = np.stack(threefry(seed_of(key), jnp.array(counters, jnp.uint32)), -1)
    expected = [jax.random.key_data(jax.random.fold_in(key, np.uint32(c))) for c in counters]
    np.testing.assert_array_equal(ours, expected)


def test_seed_is_of_the_words_of_typed_and_legacy_keys():
    typed, legacy = jax.random.key(3), jax.random.PRNGKey(3)
    np.testing.assert_array_equal(seed_of(typed), legacy)
    np.testing.assert_array_equal(seed_of(legacy), legacy)


def test_numbered_keys_give_independent_draws():
    """Normal, and neither next ones nor squares correlate, within 4.5 standard errors of 2^18."""
    key, num = jax.random.key(3), 1 << 18
    x = np.asarray(jax.vmap(jax.random.normal)(neighbors(key, num)))
    assert st.kstest(x, "norm").pvalue > 1e-4
    for lag in (1, 2, 7, 1024):
        for y in (x, (x**2 - 1) / 2**0.5):
            assert abs(np.mean(y[lag:] * y[:-lag])) < 4.5 / num**0.5
    legacy = neighbors(jax.random.PRNGKey(3), 5)
    np.testing.assert_array_equal(legacy, jax.random.key_data(neighbors(key, 5)))
    other = jax.random.key(3, impl="rbg")
    assert (neighbors(other, 5) == jax.random.split(other, 5)).all()


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_seeds_of_other_keys_are_others(impl):
    keys = [jax.random.key(i, impl=impl) for i in range(4)]
    keys += [key for parent in keys for key in jax.random.split(parent, 4)]
    seeds = {tuple(np.asarray(seed_of(key)).tolist()) for key in keys}
    legacy = {tuple(np.asarray(seed_of(jax.random.key_data(key))).tolist()) for key in keys}
    assert len(seeds) == len(keys)
    assert seeds == legacy


def test_uniform_is_uniform_in_the_open_interval():
    u = uniform(seed_of(jax.random.key(0)), jnp.arange(1 << 18), jnp.float32)
    assert u.dtype == jnp.float32
    assert 0 < u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1
    assert st.kstest(u, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("size", [1, 8, 10, 16, 17, 40])
def test_words_are_both_of_each_counter(size):
    """All of them differ, however many they are; beyond the first few, they are of no others."""
    seed = seed_of(jax.random.key(5))
    words = np.asarray(random_words(seed, 3, size))
    assert words.shape == (size,)
    assert words.dtype == np.uint32
    pairs = np.stack(threefry(seed, 3 + jnp.arange(24, dtype=jnp.uint32)))
    assert len(set(words.tolist()) & set(pairs.ravel().tolist())) == size


def test_bits_of_words_that_are_used_apart_are_independent():
    """The lowest bit, and the uniform number that the highest ones make."""
    words = random_words(seed_of(jax.random.key(2)), 0, 1 << 18)
    bit, unit = np.asarray(words & 1), np.asarray(unit_of(words))
    assert st.binomtest(int(bit.sum()), bit.size).pvalue > 1e-4
    assert st.kstest(unit, "uniform").pvalue > 1e-4
    assert st.ks_2samp(unit[bit == 0], unit[bit == 1]).pvalue > 1e-4
    np.testing.assert_array_equal(unit_of(words ^ 1), unit)


@pytest.mark.quick_rows("float32")
def test_normal_is_normal(float_dtype):
    z = normal(seed_of(jax.random.key(0)), 1 << 18, float_dtype)
    assert z.dtype == float_dtype
    assert st.kstest(z, "norm").pvalue > 1e-4
    assert st.pearsonr(z[1:], z[:-1]).pvalue > 1e-4
    half = z.size // 2  # in single precision, the two words of one counter lie so far apart
    assert st.pearsonr(z[half:], z[:half]).pvalue > 1e-4
    others = normal(seed_of(jax.random.key(1)), 1 << 18, float_dtype)
    assert st.pearsonr(z, others).pvalue > 1e-4


def test_normal_uses_the_whole_mantissa(x64):
    z = np.asarray(normal(seed_of(jax.random.key(0)), 1000, jnp.float64))
    assert np.mean(z == z.astype(np.float32)) < 0.01


@needs_tricks
def test_noise_is_computed_once():
    def used(seed, x):
        noise = noise_of(seed, 2, np.float32)
        return jnp.log(jnp.stack([x, noise[0] + noise[1] * x])), jnp.exp(noise), noise + 1

    def num_rounds(f):
        shapes = jax.ShapeDtypeStruct((2,), np.uint32), jax.ShapeDtypeStruct((20,), np.float32)
        return jax.jit(f).lower(*shapes).compile().as_text().count(" xor(")

    assert num_rounds(used) <= num_rounds(lambda seed, x: normal(seed, 2, np.float32))
