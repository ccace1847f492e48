"""Mixtures, with the component of each datum summed out."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.random import split
from jax.scipy.special import gammaln, logsumexp

import distributions as dist
import ppl
from examples.catalogue.entry import Entry, at_most, count, interval, nonnegative, simplex
from examples.catalogue.log_probs import HALF_LOG_TWO_PI, beta, dirichlet, half_normal, normal


def normal_mixture(key, num_observations=30):
    mu = ppl.sample(key, dist.Normal(jnp.zeros(3), 5.0), name="mu")
    sigma = ppl.sample(key, dist.HalfNormal(2.0 * jnp.ones(3)), name="sigma")
    weights = ppl.sample(key, dist.Dirichlet(2.0 * jnp.ones(3)), name="weights")
    mixture = dist.MixtureSameFamily(dist.Categorical(probs=weights), dist.Normal(mu, sigma))
    return jax.vmap(lambda key: ppl.sample(key, mixture, name="y"))(split(key, num_observations))


def normal_mixture_density(v):
    prior = normal(v["mu"], 0.0, 5.0) + half_normal(v["sigma"], 2.0) + dirichlet(v["weights"], 2.0)
    z = (v["y"][:, None] - v["mu"]) / v["sigma"]
    log_weights = jnp.log(v["weights"]) - jnp.log(v["sigma"]) - HALF_LOG_TWO_PI
    return prior + jnp.sum(logsumexp(log_weights - 0.5 * z * z, axis=1))


def normal_mixture_data(rng):
    return (), {"y": rng.normal([-3.0, 0.0, 4.0], [1.0, 0.5, 1.0], (10, 3)).ravel()}


def mixture_of_regressions(key, x, y):
    """Mixture of two regression lines; the line of each point is summed out."""
    weight = ppl.sample(key, dist.Beta(2.0, 2.0), name="weight")
    alpha = ppl.sample(key, dist.Normal(jnp.zeros(2), 5.0), name="alpha")
    beta = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="beta")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
    lines = dist.Normal(alpha + beta * x[:, None], sigma)
    log_weights = jnp.log(jnp.stack([weight, 1 - weight]))
    log_probs = logsumexp(log_weights + lines.log_prob(y[:, None]), axis=1)
    ppl.factor(log_probs, name="y")


def mixture_of_regressions_density(v, x, y):
    weight, sigma = v["weight"], v["sigma"]
    prior = beta(weight, 2.0, 2.0) + normal(v["alpha"], 0.0, 5.0) + normal(v["beta"], 0.0, 2.0)
    z = (y[:, None] - v["alpha"] - v["beta"] * x[:, None]) / sigma
    log_weights = jnp.stack([jnp.log(weight), jnp.log1p(-weight)])
    constant = y.size * (jnp.log(sigma) + HALF_LOG_TWO_PI)
    return (
        prior + half_normal(sigma, 1.0) + logsumexp(log_weights - 0.5 * z * z, 1).sum() - constant
    )


def mixture_of_regressions_data(rng):
    x = rng.normal(size=30)
    return (x, np.where(rng.random(30) < 0.4, 2 + x, -1 - x) + 0.3 * rng.normal(size=30)), {}


def zero_inflated_poisson(key, x):
    """Zero-inflated Poisson: counts are 0 by nature or by chance (Lambert 1992)."""
    psi = ppl.sample(key, dist.Beta(2.0, 2.0), name="psi")
    beta = ppl.sample(key, dist.Normal(jnp.zeros(x.shape[1]), 1.0), name="beta")
    counts = dist.ZeroInflated(dist.Poisson(log_rate=x @ beta), probs=psi)
    return ppl.sample(key, counts, name="y")


def zero_inflated_poisson_density(v, x):
    y = v["y"]
    prior = beta(v["psi"], 2.0, 2.0) + normal(v["beta"], 0.0, 1.0)
    log_rate = x @ v["beta"]
    counts = jnp.log1p(-v["psi"]) + y * log_rate - jnp.exp(log_rate) - gammaln(y + 1.0)
    zeros = jnp.logaddexp(jnp.log(v["psi"]), jnp.log1p(-v["psi"]) - jnp.exp(log_rate))
    return prior + jnp.sum(jnp.where(y == 0, zeros, counts))


def zero_inflated_poisson_data(rng):
    x = np.stack([np.ones(40), rng.normal(size=40)], axis=1)
    return (x,), {"y": rng.poisson(np.exp(x @ [1.0, 0.5])) * rng.binomial(1, 0.7, 40)}


def topic_model(key, num_documents=5, num_words=12, num_topics=2, vocabulary=8):
    """Latent Dirichlet allocation (Blei et al. 2003), with the topic of each word summed out."""
    concentration = 0.5 * jnp.ones((num_topics, vocabulary))
    topics = ppl.sample(key, dist.Dirichlet(concentration), name="topics")

    def document(key):
        weights = ppl.sample(key, dist.Dirichlet(jnp.ones(num_topics)), name="weights")
        word = dist.Categorical(probs=weights @ topics)
        return jax.vmap(lambda key: ppl.sample(key, word, name="word"))(split(key, num_words))

    return jax.vmap(document)(split(key, num_documents))


def topic_model_density(v):
    prior = dirichlet(v["topics"], 0.5) + dirichlet(v["weights"], 1.0)
    log_probs = jnp.log(v["weights"] @ v["topics"])
    return prior + jnp.take_along_axis(log_probs, v["word"], axis=1).sum()


def topic_model_data(rng):
    return (), {"word": rng.integers(8, size=(5, 12))}


ENTRIES = [
    Entry(
        normal_mixture,
        normal_mixture_density,
        normal_mixture_data,
        {"sigma": nonnegative, "weights": simplex},
    ),
    Entry(
        mixture_of_regressions,
        mixture_of_regressions_density,
        mixture_of_regressions_data,
        {"weight": interval(0, 1), "sigma": nonnegative},
    ),
    Entry(
        zero_inflated_poisson,
        zero_inflated_poisson_density,
        zero_inflated_poisson_data,
        {"psi": interval(0, 1), "y": count},
    ),
    Entry(
        topic_model,
        topic_model_density,
        topic_model_data,
        {"topics": simplex, "weights": simplex, "word": at_most(7)},
    ),
]
