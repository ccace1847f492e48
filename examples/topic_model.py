"""Latent Dirichlet allocation, fitted by variational inference: how many topics are there?

The corpus follows Griffiths and Steyvers (2004): a vocabulary of 25 words, drawn as a square of 5
by 5, and ten topics, the rows and columns ("bars") of that square. A document mixes topics, and its
words come from the mixture; the topic of each word is summed out. For each number of topics, a
mean-field guide is fitted from several starts. Its ELBO, a bound on the log evidence, is highest
for ten topics, and the ten topics found are the bars. Draws examples/topic_model.png.

    python examples/topic_model.py

References:
    Griffiths and Steyvers (2004), Finding scientific topics, PNAS 101; Blei, Ng and Jordan (2003),
    Latent Dirichlet allocation, JMLR 3.
"""

import pathlib

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import optax
from scipy.optimize import linear_sum_assignment

import distributions as dist
import inference
import ppl

SIDE, NUM_WORDS = 5, 100  # words on a side of the square; words of a document


def topic_model(key, num_documents, num_topics):
    sparse = dist.Dirichlet(jnp.full((num_topics, SIDE * SIDE), 0.1))
    topics = ppl.sample(key, sparse, name="topics")

    def document(key):
        weights = ppl.sample(key, dist.Dirichlet(jnp.ones(num_topics)), name="weights")
        words = dist.Multinomial(NUM_WORDS, probs=weights @ topics)
        return ppl.sample(key, words, name="words")

    return jax.vmap(document)(jax.random.split(key, num_documents))


def bars() -> jax.Array:
    """The ten topics, each of five words: the rows and columns of the square."""
    rows = jnp.repeat(jnp.eye(SIDE), SIDE, axis=1) / SIDE
    columns = jnp.tile(jnp.eye(SIDE), SIDE) / SIDE
    return jnp.concatenate([rows, columns])


def corpus(key, num_documents):
    """The count of each word in each document, if the topics are the bars."""
    known = ppl.intervene(topic_model, {"topics": bars()})
    return ppl.simulate(known)(key, num_documents, len(bars()))["words"]


def fit(words, num_topics, *, num_starts=3, num_steps=2000):
    """Guides fitted from several starts, the one with the highest ELBO first."""
    posterior = ppl.condition(topic_model, {"words": words})
    rate = optax.exponential_decay(0.05, num_steps // 2, 0.5)
    results = [
        inference.svi(
            jax.random.key(start),
            posterior,
            len(words),
            num_topics,
            optimizer=optax.adam(rate),
            num_steps=num_steps,
            num_draws=200,
        )
        for start in range(num_starts)
    ]
    return sorted(results, key=lambda result: -result.elbo)


def matched(result):
    """The mean topics in the order of the bars, and their total variation distances from them."""
    topics = result.draws["topics"][0].mean(0)
    distances = 0.5 * np.abs(topics[:, None] - np.asarray(bars())).sum(-1)
    order = np.argsort(linear_sum_assignment(distances)[1])
    return topics[order], distances[order, np.arange(len(bars()))]


def picture(words, fits) -> matplotlib.figure.Figure:
    """A picture of documents, true topics, found topics, and the ELBO by number of topics."""
    figure = matplotlib.figure.Figure(figsize=(8, 6), layout="constrained")
    (above,), (below,) = figure.subfigures(2, 1, squeeze=False, height_ratios=[3, 2])
    topics, _ = matched(fits[10][0])
    rows = {"documents": words[:10], "true topics": bars(), "found": topics}
    grid = above.subplots(len(rows), 10)
    for (title, squares), panels in zip(rows.items(), grid, strict=True):
        panels[0].set_title(title, loc="left", fontsize=10)
        for panel, square in zip(panels, squares, strict=True):
            panel.imshow(square.reshape(SIDE, SIDE), cmap="Greys", vmin=0)
            panel.set(xticks=[], yticks=[])
    axes = below.subplots()
    for num_topics, results in fits.items():
        axes.plot([num_topics] * len(results), [r.elbo for r in results], "o", color="#0072b2")
    axes.set(xlabel="number of topics", ylabel="ELBO of each start", xticks=list(fits))
    axes.grid(alpha=0.3)
    return figure


def main() -> None:
    words = corpus(jax.random.key(0), 300)
    fits = {num_topics: fit(words, num_topics) for num_topics in range(9, 12)}
    for num_topics, results in fits.items():
        print(f"{num_topics} topics: ELBO", *(f"{result.elbo:.0f}" for result in results))
    _, distances = matched(fits[10][0])
    print("total variation between the ten topics and the bars:", distances.round(2))
    picture(words, fits).savefig(pathlib.Path(__file__).with_suffix(".png"), dpi=120)
    assert max(fits, key=lambda num_topics: fits[num_topics][0].elbo) == 10
    assert distances.max() < 0.15


if __name__ == "__main__":
    main()
