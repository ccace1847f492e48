"""Latent traits: abilities of people, difficulties of items, skills of players, and factors."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.random import split

import distributions as dist
import ppl
from examples.catalogue.entry import Entry, at_most, nonnegative
from examples.catalogue.log_probs import bernoulli, half_normal, log_normal, normal


def item_response_1pl(key, num_people=10, num_items=6):
    """Rasch model: ability against difficulty."""
    spread = ppl.sample(key, dist.HalfNormal(2.0), name="spread")
    ability = ppl.sample(key, dist.Normal(jnp.zeros((num_people, 1)), 1.0), name="ability")
    difficulty = ppl.sample(key, dist.Normal(jnp.zeros(num_items), spread), name="difficulty")
    return ppl.sample(key, dist.Bernoulli(logits=ability - difficulty), name="correct")


def item_response_1pl_density(v):
    prior = half_normal(v["spread"], 2.0) + normal(v["ability"], 0.0, 1.0)
    prior += normal(v["difficulty"], 0.0, v["spread"])
    return prior + bernoulli(v["correct"], v["ability"] - v["difficulty"])


def item_response_1pl_data(rng):
    return (), {"correct": rng.integers(2, size=(10, 6))}


def item_response_2pl(key, num_people=10, num_items=6):
    """Two-parameter logistic model: items have difficulty and discrimination (Birnbaum 1968)."""
    ability = ppl.sample(key, dist.Normal(jnp.zeros(num_people), 1.0), name="ability")

    def item(key):
        difficulty = ppl.sample(key, dist.Normal(0.0, 2.0), name="difficulty")
        discrimination = ppl.sample(key, dist.LogNormal(0.0, 0.5), name="discrimination")
        logits = discrimination * (ability - difficulty)
        return ppl.sample(key, dist.Bernoulli(logits=logits), name="correct")

    return jax.vmap(item)(split(key, num_items))


def item_response_2pl_density(v):
    prior = normal(v["ability"], 0.0, 1.0) + normal(v["difficulty"], 0.0, 2.0)
    prior += log_normal(v["discrimination"], 0.0, 0.5)
    logits = v["discrimination"][:, None] * (v["ability"] - v["difficulty"][:, None])
    return prior + bernoulli(v["correct"], logits)


def item_response_2pl_data(rng):
    return (), {"correct": rng.integers(2, size=(6, 10))}


def bradley_terry(key, first, second, num_players=8):
    """Bradley-Terry model: results of games by skill (Bradley and Terry 1952)."""
    spread = ppl.sample(key, dist.HalfNormal(1.0), name="spread")
    skill = ppl.sample(key, dist.Normal(jnp.zeros(num_players), spread), name="skill")
    logits = skill[first] - skill[second]
    return ppl.sample(key, dist.Bernoulli(logits=logits), name="first_wins")


def bradley_terry_density(v, first, second):
    prior = half_normal(v["spread"], 1.0) + normal(v["skill"], 0.0, v["spread"])
    return prior + bernoulli(v["first_wins"], v["skill"][first] - v["skill"][second])


def bradley_terry_data(rng):
    first, step = rng.integers(8, size=40), rng.integers(1, 8, size=40)
    return (first, (first + step) % 8), {"first_wins": rng.integers(2, size=40)}


def probabilistic_pca(key, num_rows=20, num_columns=4, num_factors=2):
    """Probabilistic PCA: rows are linear in few factors, plus noise (Tipping and Bishop 1999)."""
    loadings = dist.Normal(jnp.zeros((num_columns, num_factors)), 1.0)
    loadings = ppl.sample(key, loadings, name="loadings")
    loc = ppl.sample(key, dist.Normal(jnp.zeros(num_columns), 5.0), name="loc")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")

    def row(key):
        factors = ppl.sample(key, dist.Normal(jnp.zeros(num_factors), 1.0), name="factors")
        return ppl.sample(key, dist.Normal(loc + loadings @ factors, sigma), name="x")

    return jax.vmap(row)(split(key, num_rows))


def probabilistic_pca_density(v):
    prior = normal(v["loadings"], 0.0, 1.0) + normal(v["loc"], 0.0, 5.0)
    prior += half_normal(v["sigma"], 1.0) + normal(v["factors"], 0.0, 1.0)
    return prior + normal(v["x"], v["loc"] + v["factors"] @ v["loadings"].T, v["sigma"])


def probabilistic_pca_data(rng):
    loadings = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [-1.0, 0.5]])
    return (), {"x": rng.normal(size=(20, 2)) @ loadings.T + 0.3 * rng.normal(size=(20, 4))}


ENTRIES = [
    Entry(
        item_response_1pl,
        item_response_1pl_density,
        item_response_1pl_data,
        {"spread": nonnegative, "correct": at_most(1)},
    ),
    Entry(
        item_response_2pl,
        item_response_2pl_density,
        item_response_2pl_data,
        {"discrimination": nonnegative, "correct": at_most(1)},
    ),
    Entry(
        bradley_terry,
        bradley_terry_density,
        bradley_terry_data,
        {"spread": nonnegative, "first_wins": at_most(1)},
    ),
    Entry(
        probabilistic_pca, probabilistic_pca_density, probabilistic_pca_data, {"sigma": nonnegative}
    ),
]
