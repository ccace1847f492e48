"""Models with discrete sites that Gibbs sampling moves: fields, clusters, topics, switches.

`Gibbs.auto()` plans each of them: what it can, it draws exactly, and it moves elements that are
coupled to many others one at a time.

    from examples.catalogue import discrete
    posterior = ppl.condition(discrete.change_point, {"disasters": discrete.DISASTERS})
    kernel = inference.Gibbs.auto()
    result = inference.mcmc(jax.random.key(0), posterior, len(discrete.DISASTERS), kernel=kernel)
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.random import split

import distributions as dist
import ppl


def ising(key, coupling, field):
    """Spins on a grid whose neighbors tend to be equal (Ising 1925).

    Log weights have an entry for each pair of neighbors, so that exact sums stay small.
    """
    spin = 2.0 * ppl.sample(key, dist.Bernoulli(logits=2 * field), name="spin") - 1.0
    ppl.factor(coupling * spin[1:] * spin[:-1], name="vertical")
    ppl.factor(coupling * spin[:, 1:] * spin[:, :-1], name="horizontal")


def potts(key, coupling, field):
    """Colors on a grid whose neighbors tend to be equal (Potts 1952).

    The last axis of `field` has a log weight for each color.
    """
    color = ppl.sample(key, dist.Categorical(logits=field), name="color")
    ppl.factor(coupling * (color[1:] == color[:-1]), name="vertical")
    ppl.factor(coupling * (color[:, 1:] == color[:, :-1]), name="horizontal")


def dirichlet_process(key, num_points, concentration=1.0, num_sticks=15):
    """Dirichlet process mixture of normal distributions, by broken sticks (Sethuraman 1994).

    The process is cut off after `num_sticks` clusters.
    """
    ends = dist.Beta(1.0, concentration * jnp.ones(num_sticks - 1))
    stick = ppl.sample(key, ends, name="stick")
    rest = jnp.cumprod(1 - stick)
    weights = jnp.append(stick, 1.0) * jnp.insert(rest, 0, 1.0)
    center = ppl.sample(key, dist.Normal(20.0 * jnp.ones(num_sticks), 10.0), name="center")

    clusters = dist.iid(dist.Categorical(probs=weights), (num_points,))
    cluster = ppl.sample(key, clusters, name="cluster")
    is_used = (cluster[:, None] == jnp.arange(num_sticks)).any(0)
    ppl.deterministic(is_used.sum(), name="num_clusters")
    return ppl.sample(key, dist.Normal(center[cluster], 2.0), name="y")


def topics(key, num_documents, num_words, num_topics, num_terms):
    """Latent Dirichlet allocation with a topic for each word (Blei, Ng and Jordan 2003)."""
    sparse = dist.Dirichlet(jnp.full((num_topics, num_terms), 0.5))
    terms = ppl.sample(key, sparse, name="terms")

    def document(key):
        weights = ppl.sample(key, dist.Dirichlet(jnp.ones(num_topics)), name="weights")
        of_word = dist.iid(dist.Categorical(probs=weights), (num_words,))
        topic = ppl.sample(key, of_word, name="topic")
        return ppl.sample(key, dist.Categorical(probs=terms[topic]), name="word")

    return jax.vmap(document)(split(key, num_documents))


def change_point(key, num_years):
    """Counts whose rate changes after an unknown number of years (Carlin, Gelfand, Smith 1992)."""
    switch = ppl.sample(key, dist.Categorical(logits=jnp.zeros(num_years)), name="switch")
    early = ppl.sample(key, dist.Gamma(2.0, 1.0), name="early")
    late = ppl.sample(key, dist.Gamma(2.0, 1.0), name="late")
    rate = jnp.where(jnp.arange(num_years) < switch, early, late)
    return ppl.sample(key, dist.Poisson(rate), name="disasters")


def block_model(key, num_nodes):
    """Graph of two blocks of nodes, with more edges within than between (Holland et al. 1983)."""
    within = ppl.sample(key, dist.Beta(2.0, 1.0), name="within")
    between = ppl.sample(key, dist.Beta(1.0, 2.0), name="between")
    block = ppl.sample(key, dist.Bernoulli(probs=jnp.full(num_nodes, 0.5)), name="block")
    first, second = np.triu_indices(num_nodes, 1)
    probs = jnp.where(block[first] == block[second], within, between)
    return ppl.sample(key, dist.Bernoulli(probs=probs), name="edge")


# Disasters of British coal mines by year, 1851 to 1961 (Jarrett 1979).
DISASTERS = np.array(
    [
        4, 5, 4, 0, 1, 4, 3, 4, 0, 6, 3, 3, 4, 0, 2, 6, 3, 3, 5, 4, 5, 3, 1, 4, 4, 1, 5, 5, 3, 4,
        2, 5, 2, 2, 3, 4, 2, 1, 3, 2, 2, 1, 1, 1, 1, 3, 0, 0, 1, 0, 1, 1, 0, 0, 3, 1, 0, 3, 2, 2,
        0, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 2, 1, 0, 0, 0, 1, 1, 0, 2, 3, 3, 1, 1, 2, 1, 1, 1, 1, 2,
        4, 2, 0, 0, 1, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1,
    ],
    dtype=int,
)  # fmt: skip
