"""Models with discrete sites that are independent given the rest, and their sums by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.nn import log_sigmoid
from jax.random import split
from jax.scipy import stats
from jax.scipy.special import logsumexp

import distributions as dist
import ppl
from tests.models.marginal_model import Marginal, beta

normal, poisson = stats.norm.logpdf, stats.poisson.logpmf
RNG = np.random.default_rng(0)
X = RNG.normal(size=12)
Y = np.where(np.arange(12) % 3 == 0, 2.0 + X, -1.0) + RNG.normal(size=12) / 2


def bernoulli(x, logit):
    return jnp.where(np.equal(x, 1), log_sigmoid(logit), log_sigmoid(-logit))


def normal_mixture(key):
    """Three components of a normal mixture, with unknown weights."""
    weights = ppl.sample(key, dist.Dirichlet(np.full(3, 2.0)), name="weights")
    mean = ppl.sample(key, dist.iid(dist.Normal(0.0, 3.0), (3,)), name="mean")
    z = ppl.sample(key, dist.iid(dist.Categorical(probs=weights), (12,)), name="z")
    ppl.sample(key, dist.Normal(mean[z], 0.5), name="y")


def normal_mixture_density(v):
    prior = stats.dirichlet.logpdf(v["weights"], np.full(3, 2.0)) + normal(v["mean"], 0, 3).sum()
    each = jnp.log(v["weights"]) + normal(Y[:, None], v["mean"], 0.5)
    return prior + logsumexp(each, -1).sum()


def mixture_of_regressions(key, x):
    """Two lines, and a class for each observation whose probability depends on x."""
    gate = ppl.sample(key, dist.Normal(0.0, 1.0), name="gate")
    slope = ppl.sample(key, dist.Normal(np.zeros(2), 1.0), name="slope")

    def row(key, x):
        z = ppl.sample(key, dist.Bernoulli(logits=gate * x), name="z")
        ppl.sample(key, dist.Normal(slope[z] * x, 0.5 + z), name="y")

    jax.vmap(row)(split(key, x.size), x)


def mixture_of_regressions_density(v):
    scores = [bernoulli(k, v["gate"] * X) + normal(Y, v["slope"][k] * X, 0.5 + k) for k in (0, 1)]
    prior = normal(v["gate"]) + normal(v["slope"]).sum()
    return prior + jnp.logaddexp(*scores).sum()


COUNTS = np.array([0, 0, 3, 1, 0, 5, 0, 2, 0, 0, 4, 1])


def zero_inflation(key, x):
    """Counts that are zero for one of two reasons."""
    rate = ppl.sample(key, dist.Normal(0.0, 1.0), name="rate")
    empty = ppl.sample(key, dist.Normal(0.0, 1.0), name="empty")
    is_empty = ppl.sample(key, dist.Bernoulli(logits=empty + x), name="is_empty")
    ppl.sample(key, dist.Poisson(jnp.where(is_empty, 0.0, jnp.exp(rate))), name="y")


def zero_inflation_density(v):
    inflated = log_sigmoid(v["empty"] + X) + jnp.where(COUNTS == 0, 0.0, -jnp.inf)
    others = log_sigmoid(-v["empty"] - X) + poisson(COUNTS, jnp.exp(v["rate"]))
    return normal(v["rate"]) + normal(v["empty"]) + jnp.logaddexp(inflated, others).sum()


LABELS = RNG.integers(0, 3, (10, 4))


def dawid_skene(key):
    """Items with a true class each, and raters with a table of confusions each.

    References:
        Dawid and Skene (1979), Maximum likelihood estimation of observer error-rates.
    """
    prevalence = ppl.sample(key, dist.Dirichlet(np.ones(3)), name="prevalence")
    concentration = 1.0 + 3.0 * np.eye(3)
    d = dist.iid(dist.Dirichlet(concentration), (4,))
    confusion = ppl.sample(key, d, name="confusion")

    def item(key):
        z = ppl.sample(key, dist.Categorical(probs=prevalence), name="z")
        ppl.sample(key, dist.Categorical(probs=confusion[z]), name="y")

    jax.vmap(item)(split(key, 10))


def dawid_skene_density(v):
    concentration = 1.0 + 3.0 * np.eye(3)
    prior = stats.dirichlet.logpdf(v["prevalence"], np.ones(3))
    for k in range(3):
        for rater in range(4):
            prior += stats.dirichlet.logpdf(v["confusion"][k, rater], concentration[k])
    log = jnp.log(v["confusion"])
    each = sum(log[:, rater][:, LABELS[:, rater]].T for rater in range(4))
    return prior + logsumexp(jnp.log(v["prevalence"]) + each, -1).sum()


ANSWERS = RNG.integers(0, 2, (8, 4))
NEEDS = np.array([[1, 0], [0, 1], [1, 1], [1, 0]])


def items_with_slips(key):
    """DINA: an answer is right if all skills are there, but for slips and guesses.

    References:
        Junker and Sijtsma (2001), Cognitive assessment models with few assumptions.
    """
    share = ppl.sample(key, dist.Beta(np.ones(2), 1.0), name="share")
    slip = ppl.sample(key, dist.Beta(np.ones(4), 4.0), name="slip")
    guess = ppl.sample(key, dist.Beta(np.ones(4), 4.0), name="guess")

    def person(key):
        skills = ppl.sample(key, dist.Bernoulli(probs=share), name="skills")
        is_able = jnp.all(skills >= NEEDS, -1)
        ppl.sample(key, dist.Bernoulli(probs=jnp.where(is_able, 1 - slip, guess)), name="y")

    jax.vmap(person)(split(key, 8))


def items_with_slips_density(v):
    prior = beta(v["slip"], 1.0, 4.0) + beta(v["guess"], 1.0, 4.0)
    found = []
    for skills in itertools.product((0, 1), repeat=2):
        probs = jnp.where((skills >= NEEDS).all(-1), 1 - v["slip"], v["guess"])
        weight = sum(
            jnp.log(v["share"][i] if s else 1 - v["share"][i]) for i, s in enumerate(skills)
        )
        each = jnp.where(ANSWERS, jnp.log(probs), jnp.log1p(-probs)).sum(-1)
        found.append(weight + each)
    return prior + logsumexp(jnp.stack(found), 0).sum()


VISITS = np.array([[0, 0, 0], [1, 0, 1], [0, 1, 0], [0, 0, 0], [1, 1, 1]])


def occupancy(key):
    """Sites that a species lives at or not, visited three times each.

    References:
        MacKenzie et al. (2002), Estimating site occupancy rates.
    """
    occupied = ppl.sample(key, dist.Normal(0.0, 1.0), name="occupied")
    detected = ppl.sample(key, dist.Normal(0.0, 1.0), name="detected")

    def place(key):
        z = ppl.sample(key, dist.Bernoulli(logits=occupied), name="z")
        d = dist.Bernoulli(probs=z * jax.nn.sigmoid(detected))
        ppl.sample(key, dist.iid(d, (3,)), name="y")

    jax.vmap(place)(split(key, 5))


def occupancy_density(v):
    there = log_sigmoid(v["occupied"]) + bernoulli(VISITS, v["detected"]).sum(-1)
    never = jnp.where(VISITS.sum(-1) == 0, log_sigmoid(-v["occupied"]), -jnp.inf)
    prior = normal(v["occupied"]) + normal(v["detected"])
    return prior + jnp.logaddexp(there, never).sum()


IS_MISSING = np.arange(12) % 4 == 0
EXPOSED = (X > 0) & ~IS_MISSING


def missing_covariate(key, x, exposed, is_missing):
    """Regression on a binary covariate that is missing for some."""
    level = ppl.sample(key, dist.Normal(0.0, 1.0), name="level")
    effect = ppl.sample(key, dist.Normal(np.zeros(2), 1.0), name="effect")
    z = ppl.sample(key, dist.Bernoulli(logits=level + x), name="z")
    ppl.factor(jnp.where(is_missing | (z == exposed), 0.0, -jnp.inf), name="known")
    ppl.sample(key, dist.Normal(effect[0] * x + effect[1] * z, 1.0), name="y")


def missing_covariate_density(v):
    scores = [
        bernoulli(k, v["level"] + X) + normal(Y, v["effect"][0] * X + v["effect"][1] * k)
        for k in (0, 1)
    ]
    known = jnp.where(EXPOSED, scores[1], scores[0])
    prior = normal(v["level"]) + normal(v["effect"]).sum()
    return prior + jnp.where(IS_MISSING, jnp.logaddexp(*scores), known).sum()


def outliers(key, x):
    """Regression with a flag for each observation that it is an outlier."""
    line = ppl.sample(key, dist.Normal(np.zeros(2), 2.0), name="line")
    share = ppl.sample(key, dist.Beta(1.0, 9.0), name="share")
    is_outlier = ppl.sample(key, dist.iid(dist.Bernoulli(probs=share), (x.size,)), name="flag")
    scale = jnp.where(is_outlier, 5.0, 0.5)
    ppl.sample(key, dist.Normal(line[0] + line[1] * x, scale), name="y")


def outliers_density(v):
    mean = v["line"][0] + v["line"][1] * X
    inside = jnp.log1p(-v["share"]) + normal(Y, mean, 0.5)
    each = jnp.logaddexp(inside, jnp.log(v["share"]) + normal(Y, mean, 5.0))
    return normal(v["line"], 0, 2).sum() + beta(v["share"], 1.0, 9.0) + each.sum()


BINARY = RNG.integers(0, 2, (9, 5))


def latent_classes(key):
    """Latent class analysis: binary items, independent given the class of a person."""
    share = ppl.sample(key, dist.Dirichlet(np.ones(3)), name="share")
    logits = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.5), (3, 5)), name="logits")
    z = ppl.sample(key, dist.iid(dist.Categorical(probs=share), (9,)), name="z")
    ppl.sample(key, dist.Bernoulli(logits=logits[z]), name="y")


def latent_classes_density(v):
    each = bernoulli(BINARY[:, None], v["logits"]).sum(-1) + jnp.log(v["share"])
    prior = stats.dirichlet.logpdf(v["share"], np.ones(3)) + normal(v["logits"], 0, 1.5).sum()
    return prior + logsumexp(each, -1).sum()


TESTS = np.array([[1, 1], [0, 1], [0, 0], [1, 0], [1, 1], [0, 0]])


def two_tests(key):
    """Two tests of a disease without a gold standard, in two populations."""
    population = np.array([0, 0, 0, 1, 1, 1])
    prevalence = ppl.sample(key, dist.Beta(np.ones(2), 2.0), name="prevalence")
    sensitivity = ppl.sample(key, dist.Beta(np.full(2, 8.0), 2.0), name="sensitivity")
    specificity = ppl.sample(key, dist.Beta(np.full(2, 8.0), 2.0), name="specificity")
    ill = ppl.sample(key, dist.Bernoulli(probs=prevalence[population]), name="ill")
    probs = jnp.where(ill[:, None], sensitivity, 1 - specificity)
    ppl.sample(key, dist.Bernoulli(probs=probs), name="y")


def two_tests_density(v):
    share = v["prevalence"][np.array([0, 0, 0, 1, 1, 1])]
    log = lambda p: jnp.where(TESTS, jnp.log(p), jnp.log1p(-p)).sum(-1)  # noqa: E731
    ill = jnp.log(share) + log(v["sensitivity"])
    prior = beta(v["prevalence"], 1.0, 2.0)
    prior += beta(v["sensitivity"], 8.0, 2.0)
    prior += beta(v["specificity"], 8.0, 2.0)
    return prior + jnp.logaddexp(ill, jnp.log1p(-share) + log(1 - v["specificity"])).sum()


GROUPS = np.repeat(np.arange(3), 4)


def groups_of_classes(key, x):
    """Groups of two kinds, and observations of two classes whose weights the kind decides."""
    mean = ppl.sample(key, dist.Normal(0.0, 2.0), name="mean")
    kind = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (3,)), name="kind")

    def row(key, x, of):
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.where(of, 0.9, 0.2)), name="z")
        ppl.sample(key, dist.Normal(mean * z + of * x, 1.0), name="y")

    jax.vmap(row)(split(key, x.size), x, kind[GROUPS])


def groups_of_classes_density(v):
    found = []
    for kind, prior in ((0, 0.7), (1, 0.3)):
        p = (0.2, 0.9)[kind]
        low, high = (normal(Y, v["mean"] * z + kind * X) for z in (0, 1))
        rows = jnp.logaddexp(low + np.log(1 - p), high + np.log(p))
        found.append(np.log(prior) + rows.reshape(3, 4).sum(-1))
    return normal(v["mean"], 0, 2) + jnp.logaddexp(*found).sum()


EDGES = np.triu(RNG.integers(0, 2, (5, 5)), 1)


def stochastic_block_model(key):
    """Nodes of two blocks; all of them are coupled, so that few nodes can be summed out."""
    within = ppl.sample(key, dist.Normal(0.0, 1.0), name="within")
    block = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.4), (5,)), name="block")
    logits = jnp.where(block[:, None] == block[None, :], within, -within)
    scores = dist.Bernoulli(logits=logits).log_prob(EDGES)
    ppl.factor(jnp.sum(jnp.triu(scores, 1)), name="edges")


def stochastic_block_model_density(v):
    found = []
    for block in itertools.product((0, 1), repeat=5):
        of = np.array(block)
        sign = np.where(of[:, None] == of[None, :], 1, -1)
        scores = jnp.triu(bernoulli(EDGES, sign * v["within"]), 1).sum()
        found.append(scores + np.log(np.where(of, 0.4, 0.6)).sum())
    return normal(v["within"]) + logsumexp(jnp.stack(found))


MODELS = [
    Marginal(normal_mixture, normal_mixture_density, ("z",), data={"y": Y}),
    Marginal(mixture_of_regressions, mixture_of_regressions_density, ("z",), (X,), {"y": Y}),
    Marginal(zero_inflation, zero_inflation_density, ("is_empty",), (X,), {"y": COUNTS}),
    Marginal(dawid_skene, dawid_skene_density, ("z",), data={"y": LABELS}),
    Marginal(items_with_slips, items_with_slips_density, ("skills",), data={"y": ANSWERS}),
    Marginal(occupancy, occupancy_density, ("z",), data={"y": VISITS}),
    Marginal(
        missing_covariate,
        missing_covariate_density,
        ("z",),
        (X, EXPOSED, IS_MISSING),
        {"y": Y},
    ),
    Marginal(outliers, outliers_density, ("flag",), (X,), {"y": Y}),
    Marginal(latent_classes, latent_classes_density, ("z",), data={"y": BINARY}),
    Marginal(two_tests, two_tests_density, ("ill",), data={"y": TESTS}),
    Marginal(groups_of_classes, groups_of_classes_density, ("kind", "z"), (X,), {"y": Y}),
    Marginal(stochastic_block_model, stochastic_block_model_density, ("block",)),
]
