"""Examples of variational inference, shortened: what they find is still there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import ppl
from examples import digits_vae, neural_network, topic_model
from inference import MeanField


def distance(words):
    """The total variation between a topic and its bar, the median of ten."""
    best, *_ = topic_model.fit(words, 10, num_starts=1, num_steps=1000)
    return np.median(topic_model.matched(best)[1])


@pytest.mark.slow
def test_topics_are_the_bars():
    """And are not, where all documents are about the same."""
    words = topic_model.corpus(jax.random.key(0), 150)
    assert distance(words) < 0.15
    share = np.mean(words, axis=0) / topic_model.NUM_WORDS
    alike = np.random.default_rng(0).multinomial(topic_model.NUM_WORDS, share, size=150)
    assert distance(alike) > 0.5


@pytest.fixture(scope="module")
def digits():
    return np.split(np.asarray(load_digits(return_X_y=True)[0], np.int32), [1500])


@pytest.fixture(scope="module")
def fitted(digits):
    return digits_vae.fit(digits[0], num_steps=600)


@pytest.mark.slow
def test_an_autoencoder_beats_principal_components(digits, fitted):
    """Not so with a guide whose codes do not depend on the image (tried by hand)."""
    seen, held_out = digits
    linear = PCA(digits_vae.NUM_CODES).fit(seen).score(held_out)
    assert digits_vae.bound(fitted, held_out).mean() > linear + 20


@pytest.mark.slow
def test_the_bound_of_an_image_by_hand(digits, fitted):
    pixels = digits[1][:20]
    key, decode = jax.random.key(1), jax.vmap(digits_vae.decode, (None, 0))
    encode = jax.vmap(digits_vae.encode, (None, 0))
    values = ppl.simulate(fitted)(key, pixels, len(pixels))
    encoder = ppl.reap(fitted, tag="param_value")(key, pixels, len(pixels))["encoder"]
    loc, log_scale = np.split(np.asarray(encode(encoder, pixels / 16)), 2, axis=1)
    code, shares = values["code"], jax.nn.sigmoid(decode(values["decoder"], values["code"]))
    expected = st.binom.logpmf(pixels, 16, shares).sum(1)
    expected += (st.norm.logpdf(code) - st.norm.logpdf(code, loc, np.exp(log_scale))).sum(1)
    np.testing.assert_allclose(digits_vae.bound(fitted, pixels), expected, rtol=1e-4)


@pytest.mark.slow
def test_a_network_fits_its_data_from_a_narrow_start():
    """A guide that starts wide, MeanField(1.0), ends by ignoring them: its mean is nearly flat."""
    x, y = neural_network.data()
    at = jnp.array([-1.4, -1.0, -0.7, 0.7, 1.0, 1.4])

    def error(init_scale):
        result = neural_network.fit(x, y, MeanField(init_scale=init_scale), num_steps=3000)
        mean, _ = neural_network.band(result, at)
        return np.abs(np.asarray(mean) - np.sin(3 * at)).max()

    assert error(0.02) < 0.1 < 0.2 < error(1.0)
