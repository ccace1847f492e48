"""Counts and outcomes with normal effects, and Laplace's approximations of them by hand."""

import jax.numpy as jnp
import numpy as np
import scipy.special
import scipy.stats

import distributions as dist
import ppl
from tests.models.marginal_model import Marginal, half_normal, laplace
from tests.models.normal_mixed import GROUP, ITEM, ONES, X, dummies, kernel

EVENTS = np.array([0, 1, 3, 2, 0, 0, 5, 1, 0, 2, 4, 1])


def process_of_counts(key, x):
    """Counts whose log rate is a Gaussian process about a mean."""
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    length = ppl.sample(key, dist.HalfNormal(1.0), name="length")
    mean = ppl.sample(key, dist.Normal(0.0, 2.0), name="mean")
    covariance = scale**2 * kernel(x, length) + 1e-4 * np.eye(x.size)
    f = ppl.sample(key, dist.MultivariateNormal(mean, covariance=covariance), name="f")
    ppl.sample(key, dist.Poisson(jnp.exp(f)), name="y")


def poisson(eta, y=EVENTS):
    rate = np.exp(eta)
    return scipy.stats.poisson.logpmf(y, rate), y - rate, -rate


def process_of_counts_density(v):
    covariance = v["scale"] ** 2 * np.asarray(kernel(X, v["length"])) + 1e-4 * np.eye(12) + 4.0
    prior = half_normal(np.array([v["scale"], v["length"]]))
    return prior + laplace(poisson, np.eye(12), np.zeros(12), covariance)


def crossed_counts(key, group, item, x):
    """Counts with crossed effects of groups and items."""
    tau = ppl.sample(key, dist.HalfNormal(np.ones(2)), name="tau")
    fixed = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), (2,)), name="fixed")
    a = ppl.sample(key, dist.iid(dist.Normal(0.0, tau[0]), (4,)), name="a")
    b = ppl.sample(key, dist.iid(dist.Normal(0.0, tau[1]), (3,)), name="b")
    loc = fixed[0] + fixed[1] * x + a[group] + b[item]
    ppl.sample(key, dist.Poisson(jnp.exp(loc)), name="y")


def crossed_counts_density(v):
    design = np.concatenate([ONES, X[:, None], dummies(GROUP, 4), dummies(ITEM, 3)], 1)
    variances = np.repeat([1.0, *v["tau"] ** 2], [2, 4, 3])
    return half_normal(v["tau"]) + laplace(poisson, design, np.zeros(9), np.diag(variances))


def varying_logits(key, group, x):
    """Binary data, with a level and a slope for each group that are not centered."""
    tau = ppl.sample(key, dist.HalfNormal(np.ones(2)), name="tau")
    mean = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), (2,)), name="mean")
    z = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), (4, 2)), name="z")
    effect = ppl.deterministic(mean + tau * z, name="effect")[group]
    ppl.sample(key, dist.Bernoulli(logits=effect[:, 0] + effect[:, 1] * x), name="y")


def logistic(eta, y=EVENTS > 1):
    chance = 1 / (1 + np.exp(-eta))
    return np.log(np.where(y, chance, 1 - chance)), y - chance, -chance * (1 - chance)


def varying_logits_density(v):
    both = np.stack([np.ones(12), X], 1)
    each = (dummies(GROUP, 4)[:, :, None] * both[:, None]).reshape(12, 8)
    design = np.concatenate([both, each * np.tile(v["tau"], 4)], 1)
    return half_normal(v["tau"]) + laplace(logistic, design, np.zeros(10), np.eye(10))


def modes_of(*names):
    """Sites that are integrated out by Laplace's approximation."""
    return dict.fromkeys(names, ppl.Laplace())


COUNTED = {"y": EVENTS}

MODELS = [
    Marginal(process_of_counts, process_of_counts_density, modes_of("mean", "f"), (X,), COUNTED),
    Marginal(
        crossed_counts,
        crossed_counts_density,
        modes_of("fixed", "a", "b"),
        (GROUP, ITEM, X),
        COUNTED,
    ),
    Marginal(
        varying_logits, varying_logits_density, modes_of("mean", "z"), (GROUP, X), {"y": EVENTS > 1}
    ),
]
