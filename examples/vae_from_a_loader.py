"""A variational autoencoder by the book: networks as parameters, and images from a data loader.

A decoder maps a code of ten numbers to an image of 8 by 8 pixels, each a count of up to 16 dots.
Its weights are parameters of the model: `ppl.module` without a prior. An encoder in the guide maps
an image to the distribution of its code. `inference.svi` fits both to batches that a loader gives,
here a few lines of NumPy; loaders of Grain, PyTorch or tf.data serve as well.

A callback follows the ELBO, and a file keeps the fit. The bound on the log evidence of held-out
images is higher than their log density under probabilistic principal components, the linear model.

    python examples/vae_from_a_loader.py

References:
    Kingma and Welling (2014), Auto-encoding variational Bayes.
"""

import pathlib
import tempfile

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import distributions as dist
import inference
import ppl

NUM_PIXELS, MOST, NUM_CODES, NUM_STEPS = 64, 16, 10, 1500


def network(size_in, size_out, seed):
    return eqx.nn.MLP(size_in, size_out, width_size=128, depth=1, key=jax.random.key(seed))


decoder, encoder = network(NUM_CODES, NUM_PIXELS, 0), network(NUM_PIXELS, 2 * NUM_CODES, 1)


class Loader:
    """Batches of images in a new order in each epoch, without end for svi: it starts again."""

    def __init__(self, images, size):
        self.images, self.size, self.rng = images, size, np.random.default_rng(0)

    def __iter__(self):
        order = self.rng.permutation(len(self.images))
        for start in range(0, len(order) - self.size + 1, self.size):
            yield self.images[order[start : start + self.size]]


def images(key, num_images, num_rows):  # a batch stands for `num_rows` images
    decode = ppl.module(key, decoder, name="decoder")

    def image(key):
        code = ppl.sample(key, dist.Normal(jnp.zeros(NUM_CODES), 1.0), name="code")
        return ppl.sample(key, dist.Binomial(MOST, logits=decode(code)), name="pixels")

    return ppl.scale(jax.vmap(image), num_rows / num_images)(jax.random.split(key, num_images))


def posterior(key, pixels, num_rows):
    return ppl.condition(images, {"pixels": pixels})(key, len(pixels), num_rows)


def guide(key, pixels, num_rows):
    encode = ppl.module(key, encoder, name="encoder")

    def code(key, pixels):
        loc, log_scale = jnp.split(encode(pixels / MOST), 2)
        return ppl.sample(key, dist.Normal(loc, jnp.exp(log_scale)), name="code")

    ppl.scale(jax.vmap(code), num_rows / len(pixels))(jax.random.split(key, len(pixels)), pixels)


def main() -> None:
    seen, held_out = np.split(np.asarray(load_digits(return_X_y=True)[0], np.int32), [1500])

    def tell(step, elbo, state):
        if step % 500 == 0:
            print(f"step {step}: ELBO of an image {elbo / len(seen):.1f}")

    result = inference.svi(
        jax.random.key(0),
        posterior,
        held_out,
        batches=Loader(seen, 100),
        num_rows=len(seen),
        guide=guide,
        optimizer=optax.adam(optax.cosine_decay_schedule(3e-3, NUM_STEPS)),
        num_steps=NUM_STEPS,
        num_draws=1,
        callback=tell,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "vae.npz")
        result.save(path)
        loaded = inference.SVIResult.load(path, guide=guide)  # a file keeps no functions

    # The arguments of svi were the images held out: the result's ELBO is that of these.
    ours, linear = loaded.elbo / len(seen), PCA(NUM_CODES).fit(seen).score(held_out)
    print(f"log evidence of an image: at least {ours:.1f}; by principal components {linear:.1f}")
    new = ppl.with_params(images, loaded.model_parameters)(jax.random.key(2), 5, 5)
    print(f"five new images of shape {new.shape[1:]}, of {new.mean():.1f} dots a pixel")
    assert ours > linear + 20


if __name__ == "__main__":
    main()
