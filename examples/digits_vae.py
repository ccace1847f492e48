"""A variational autoencoder of handwritten digits: svi by batches, with a network in the guide.

A decoder network maps a code of ten numbers to an image of 8 by 8 pixels, each a count of up to 16
dots. The decoder's weights are a random variable; the guide has a point mass for them. An encoder
network maps an image to the guide's distribution of its code.

The bound on the log evidence of held-out images is higher than their log density under
probabilistic principal components, the linear model. (Counts are one apart, so a density and a
probability compare.) Draws examples/digits_vae.png.

    python examples/digits_vae.py

References:
    Kingma and Welling (2014), Auto-encoding variational Bayes; Tipping and Bishop (1999),
    Probabilistic principal component analysis, JRSS B 61.
"""

import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import distributions as dist
import inference
import ppl

NUM_PIXELS, MOST, NUM_CODES = 64, 16, 10


def network(size_in, size_out):
    """A network: its weights as a vector, and a function of weights and input."""
    mlp = eqx.nn.MLP(size_in, size_out, width_size=128, depth=1, key=jax.random.key(0))
    weights, unravel = ravel_pytree(eqx.filter(mlp, eqx.is_array))
    return weights, lambda weights, x: eqx.combine(unravel(weights), mlp)(x)


encoder, encode = network(NUM_PIXELS, 2 * NUM_CODES)
decoder, decode = network(NUM_CODES, NUM_PIXELS)


def images(key, num_images, num_rows):  # a batch stands for `num_rows` images
    weights = ppl.sample(key, dist.Normal(jnp.zeros(decoder.shape), 1.0), name="decoder")

    def image(key):
        code = ppl.sample(key, dist.Normal(jnp.zeros(NUM_CODES), 1.0), name="code")
        dots = dist.Binomial(MOST, logits=decode(weights, code))
        ppl.sample(key, dots, name="pixels")
        ppl.deterministic(dots.mean(), name="expected")

    ppl.scale(jax.vmap(image), num_rows / num_images)(jax.random.split(key, num_images))


def posterior(key, pixels, num_rows):
    return ppl.condition(images, {"pixels": pixels})(key, len(pixels), num_rows)


def guide(key, pixels, num_rows):
    ppl.sample(key, dist.Delta(ppl.param(decoder, name="decoder")), name="decoder")
    weights = ppl.param(encoder, name="encoder")

    def code(key, pixels):
        loc, log_scale = jnp.split(encode(weights, pixels / MOST), 2)
        return ppl.sample(key, dist.Normal(loc, jnp.exp(log_scale)), name="code")

    ppl.scale(jax.vmap(code), num_rows / len(pixels))(jax.random.split(key, len(pixels)), pixels)


def batch(key, pixels, num_rows):
    return pixels[jax.random.randint(key, (100,), 0, num_rows)], num_rows


def fit(pixels, num_steps):
    """The guide with fitted parameters, again a function of a key."""
    optimizer = optax.adam(optax.cosine_decay_schedule(2e-3, num_steps))
    of_all = jax.random.key(0), posterior, pixels, len(pixels)
    result = inference.svi(
        *of_all, guide=guide, batch=batch, optimizer=optimizer, num_steps=num_steps, num_draws=1
    )
    return result.guide_function()


def bound(fitted, pixels):
    """Estimates of the ELBO of each image, given the decoder, from one draw of its code."""
    data = pixels, len(pixels)
    values = ppl.simulate(fitted)(jax.random.key(1), *data)
    log_joint, log_guide = (ppl.log_probs(f)(values, *data) for f in (posterior, fitted))
    return log_joint["pixels"].sum(-1) + (log_joint["code"] - log_guide["code"]).sum(-1)


def picture(fitted, pixels) -> matplotlib.figure.Figure:
    """A picture of held-out images, their reconstructions from a code, and new images."""
    keys, num = jax.random.split(jax.random.key(2), 3), len(pixels)
    draw = jax.tree.map(lambda x: x[None], ppl.simulate(fitted)(keys[0], pixels, num))
    of_codes = ppl.predict(images, draw)(keys[1], num, num)["expected"][0]
    new = ppl.predict(images, {"decoder": draw["decoder"]})(keys[2], num, num)["expected"][0]
    rows = {"held out": pixels, "expected from a code": of_codes, "new": new}
    figure = matplotlib.figure.Figure(figsize=(9, 3.2), layout="constrained")
    for (title, row), panel in zip(rows.items(), figure.subplots(3), strict=True):
        squares = np.pad(row.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
        panel.imshow(np.hstack(list(squares)), cmap="Greys", vmin=0, vmax=MOST)
        panel.set(xticks=[], yticks=[], title=title)
    return figure


def main() -> None:
    seen, held_out = np.split(np.asarray(load_digits(return_X_y=True)[0], np.int32), [1500])
    fitted = fit(seen, num_steps=6000)
    ours, linear = bound(fitted, held_out).mean(), PCA(NUM_CODES).fit(seen).score(held_out)
    print(f"log evidence of an image: at least {ours:.1f}; by principal components {linear:.1f}")
    picture(fitted, held_out[:14]).savefig(pathlib.Path(__file__).with_suffix(".png"), dpi=120)
    assert ours > linear + 30


if __name__ == "__main__":
    main()
