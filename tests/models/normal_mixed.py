"""Mixed models and their like, whose effects are integrated out, and the integrals by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.special
import scipy.stats
from jax.random import split

import distributions as dist
import ppl
from tests.models.marginal_model import Marginal, half_normal, log_normal

normal = scipy.stats.norm.logpdf
RNG = np.random.default_rng(2)
GROUP = np.array([0, 2, 1, 1, 0, 3, 3, 2, 0, 1, 3, 2])
ITEM = np.array([0, 1, 2, 0, 1, 2, 0, 1, 2, 1, 2, 0])
X = RNG.normal(size=12)
Y = 1.0 + 0.5 * X + np.array([0.5, -1.0, 0.8, 0.1])[GROUP] + RNG.normal(size=12) / 2
ONES = np.ones((12, 1))
EXACT = ppl.Gaussian()


def dummies(index, num):
    """The design matrix of an index."""
    return (index[:, None] == np.arange(num)).astype(float)


def of_effects(y, parts, noise):
    """The log density of sums of independent effects.

    Args:
        y: The observations.
        parts: A design matrix and a variance, or a covariance, for each kind of effect.
        noise: The standard deviation of the observations.
    """
    covariance = noise**2 * np.eye(len(y))
    for design, variance in parts:
        of = np.eye(design.shape[1]) * variance if np.ndim(variance) == 0 else variance
        covariance = covariance + design @ of @ design.T
    return log_normal(y, 0.0, covariance)


def scales(key, num):
    return ppl.sample(key, dist.HalfNormal(np.ones(num)), name="scale")


def varying_intercepts(key, group, x):
    """A level for each group, about a mean, and a common slope."""
    scale = scales(key, 2)
    mean = ppl.sample(key, dist.Normal(0.0, 5.0), name="mean")
    slope = ppl.sample(key, dist.Normal(0.0, 2.0), name="slope")
    level = ppl.sample(key, dist.iid(dist.Normal(mean, scale[0]), (4,)), name="level")
    ppl.sample(key, dist.Normal(level[group] + slope * x, scale[1]), name="y")


def varying_intercepts_density(v):
    tau, noise = v["scale"]
    parts = [(ONES, 25.0), (X[:, None], 4.0), (dummies(GROUP, 4), tau**2)]
    return half_normal(v["scale"]) + of_effects(Y, parts, noise)


def correlated_slopes(key, group, x):
    """A level and a slope for each group, which are correlated."""
    scale = scales(key, 3)
    rho = ppl.sample(key, dist.Uniform(-1.0, 1.0), name="rho")
    mean = ppl.sample(key, dist.iid(dist.Normal(0.0, 2.0), (2,)), name="mean")
    factor = jnp.array([[1.0, 0.0], [rho, jnp.sqrt(1 - rho**2)]])
    d = dist.MultivariateNormal(mean, scale_tril=scale[:2, None] * factor)
    effect = ppl.sample(key, dist.iid(d, (4,)), name="effect")[group]
    ppl.sample(key, dist.Normal(effect[:, 0] + effect[:, 1] * x, scale[2]), name="y")


def correlated_slopes_density(v):
    *tau, noise = v["scale"]
    within = np.outer(tau, tau) * np.array([[1.0, v["rho"]], [v["rho"], 1.0]])
    both = np.stack([np.ones(12), X], 1)
    each = (dummies(GROUP, 4)[:, :, None] * both[:, None]).reshape(12, 8)
    parts = [(both, 4.0), (each, np.kron(np.eye(4), within))]
    return half_normal(v["scale"]) + np.log(0.5) + of_effects(Y, parts, noise)


OF_ROWS, PAIRED = dummies(np.repeat(np.arange(4), 3), 4), X.reshape(4, 3)


def groups_by_vmap(key, x):
    """A level and a slope for each group, and as many observations in each, by vmap."""
    scale = scales(key, 3)
    mean = ppl.sample(key, dist.Normal(0.0, 2.0), name="mean")

    def group(key, x):
        level = ppl.sample(key, dist.Normal(mean, scale[0]), name="level")
        slope = ppl.sample(key, dist.Normal(0.0, scale[1]), name="slope")
        ppl.sample(key, dist.Normal(level + slope * x, scale[2]), name="y")

    jax.vmap(group)(split(key, len(x)), x)


def groups_by_vmap_density(v):
    tau, slope, noise = v["scale"]
    parts = [(ONES, 4.0), (OF_ROWS, tau**2), (OF_ROWS * X[:, None], slope**2)]
    return half_normal(v["scale"]) + of_effects(Y, parts, noise)


def effects_in_a_scope(key, group, item):
    """Crossed effects of one submodel, not centered, in scopes of their own."""

    def effects(key, num):
        tau = ppl.sample(key, dist.HalfNormal(1.0), name="tau")
        z = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), (num,)), name="z")
        return ppl.deterministic(tau * z, name="effect")

    noise = ppl.sample(key, dist.HalfNormal(1.0), name="noise")
    mean = ppl.sample(key, dist.Normal(0.0, 2.0), name="mean")
    for_groups, for_items = split(key)
    of_group = ppl.nest(effects, scope="groups")(for_groups, 4)
    of_item = ppl.nest(effects, scope="items")(for_items, 3)
    ppl.sample(key, dist.Normal(mean + of_group[group] + of_item[item], noise), name="y")


def effects_in_a_scope_density(v):
    groups, items = v["groups"]["tau"], v["items"]["tau"]
    parts = [(ONES, 4.0), (dummies(GROUP, 4), groups**2), (dummies(ITEM, 3), items**2)]
    prior = half_normal(np.array([groups, items, v["noise"]]))
    return prior + of_effects(Y, parts, v["noise"])


DISTRICT, SCHOOL = np.array([0, 0, 1, 1, 1, 2]), np.repeat(np.arange(6), 2)


def nested(key, district_of_school, school):
    """Pupils in schools in districts, by index."""
    scale = scales(key, 3)
    mean = ppl.sample(key, dist.Normal(0.0, 2.0), name="mean")
    district = ppl.sample(key, dist.iid(dist.Normal(mean, scale[0]), (3,)), name="district")
    level = ppl.sample(key, dist.Normal(district[district_of_school], scale[1]), name="school")
    ppl.sample(key, dist.Normal(level[school], scale[2]), name="y")


def nested_density(v):
    districts, schools, noise = v["scale"]
    of_school = dummies(SCHOOL, 6)
    of_district = of_school @ dummies(DISTRICT, 3)
    parts = [(ONES, 4.0), (of_district, districts**2), (of_school, schools**2)]
    return half_normal(v["scale"]) + of_effects(Y, parts, noise)


def nested_by_vmap(key):
    """Pupils in schools in districts, as many in each, by a vmap in a vmap."""
    scale = scales(key, 3)
    mean = ppl.sample(key, dist.Normal(0.0, 2.0), name="mean")

    def district(key):
        level = ppl.sample(key, dist.Normal(mean, scale[0]), name="district")

        def school(key):
            mine = ppl.sample(key, dist.Normal(level, scale[1]), name="school")
            ppl.sample(key, dist.iid(dist.Normal(mine, scale[2]), (3,)), name="y")

        jax.vmap(school)(split(key, 2))

    jax.vmap(district)(split(key, 2))


def nested_by_vmap_density(v):
    districts, schools, noise = v["scale"]
    of_district = dummies(np.repeat(np.arange(2), 6), 2)
    parts = [(ONES, 4.0), (of_district, districts**2), (OF_ROWS, schools**2)]
    return half_normal(v["scale"]) + of_effects(Y, parts, noise)


def restricted_likelihood(key, group, x):
    """Fixed effects with flat priors, whose integral is the restricted likelihood.

    References:
        Harville (1974), Bayesian inference for variance components.
    """
    scale = scales(key, 2)
    fixed = ppl.sample(key, dist.Flat(dist.constraints.real, (2,)), name="fixed")
    level = ppl.sample(key, dist.iid(dist.Normal(0.0, scale[0]), (4,)), name="level")
    loc = fixed[0] + fixed[1] * x + level[group]
    ppl.sample(key, dist.Normal(loc, scale[1]), name="y")


def restricted_likelihood_density(v):
    tau, noise = v["scale"]
    covariance = noise**2 * np.eye(12) + tau**2 * dummies(GROUP, 4) @ dummies(GROUP, 4).T
    fixed = np.stack([np.ones(12), X], 1)
    contrasts = scipy.linalg.null_space(fixed.T)  # orthonormal, so that the density is of 10
    found = log_normal(contrasts.T @ Y, 0.0, contrasts.T @ covariance @ contrasts)
    volume = np.linalg.slogdet(fixed.T @ fixed)[1]
    return half_normal(v["scale"]) + found - 0.5 * volume


def measurement_error(key):
    """Regression on a covariate that is measured with an error."""
    scale = scales(key, 2)
    line = ppl.sample(key, dist.Normal(np.zeros(2), 1.0), name="line")

    def row(key):
        x = ppl.sample(key, dist.Normal(0.0, scale[0]), name="x")
        ppl.sample(key, dist.Normal(x, 0.3), name="measured")
        ppl.sample(key, dist.Normal(line[0] + line[1] * x, scale[1]), name="y")

    jax.vmap(row)(split(key, 12))


def measurement_error_density(v):
    spread, noise = v["scale"]
    loading = np.array([1.0, v["line"][1]])
    covariance = spread**2 * np.outer(loading, loading) + np.diag([0.09, noise**2])
    both = np.stack([X, Y - v["line"][0]], 1)
    found = sum(log_normal(row, 0.0, covariance) for row in both)
    return half_normal(v["scale"]) + normal(v["line"]).sum() + found


SEVERAL = np.stack([Y, 0.5 * Y + RNG.normal(size=12), RNG.normal(size=12)], 1)


def factor_analysis(key):
    """Scores of two factors for each row of the data, and unknown loadings."""
    loading = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), (3, 2)), name="loading")
    noise = scales(key, 3)
    mean = ppl.sample(key, dist.iid(dist.Normal(0.0, 2.0), (3,)), name="mean")
    score = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), (12, 2)), name="score")
    ppl.sample(key, dist.Normal(mean + score @ loading.T, noise), name="y")


def factor_analysis_density(v):
    within = v["loading"] @ v["loading"].T + np.diag(v["scale"] ** 2)
    covariance = np.kron(np.eye(12), within) + np.kron(np.ones((12, 12)), 4 * np.eye(3))
    prior = normal(v["loading"]).sum() + half_normal(v["scale"])
    return prior + log_normal(SEVERAL.ravel(), 0.0, covariance)


def kernel(x, length):
    return jnp.exp(-0.5 * ((x[:, None] - x) / length) ** 2)


def process_regression(key, x):
    """Gaussian process with a line as its mean, and normal noise."""
    scale = scales(key, 2)
    length = ppl.sample(key, dist.HalfNormal(1.0), name="length")
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
    covariance = scale[0] ** 2 * kernel(x, length) + 1e-4 * np.eye(x.size)
    f = ppl.sample(key, dist.MultivariateNormal(slope * x, covariance=covariance), name="f")
    ppl.sample(key, dist.Normal(f, scale[1]), name="y")


def process_regression_density(v):
    covariance = v["scale"][0] ** 2 * np.asarray(kernel(X, v["length"])) + 1e-4 * np.eye(12)
    parts = [(np.eye(12), covariance), (X[:, None], 1.0)]
    prior = half_normal(v["scale"]) + half_normal(v["length"])
    return prior + of_effects(Y, parts, v["scale"][1])


def outlying_groups(key, group):
    """Mixed model some of whose groups are outliers, with a flag for each."""
    scale = scales(key, 2)
    is_outlier = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.2), (4,)), name="flag")
    spread = jnp.where(is_outlier, 5.0, scale[0])
    level = ppl.sample(key, dist.Normal(0.0, spread), name="level")
    ppl.sample(key, dist.Normal(level[group], scale[1]), name="y")


def outlying_groups_density(v):
    tau, noise = v["scale"]
    total = half_normal(v["scale"])
    for g in range(4):
        y = Y[g == GROUP]
        given = [of_effects(y, [(np.ones((3, 1)), s**2)], noise) for s in (tau, 5.0)]
        total += np.logaddexp(np.log(0.8) + given[0], np.log(0.2) + given[1])
    return total


def outlying_observations(key):
    """Mixed model by vmap, with a flag for each observation that it is an outlier."""
    scale = scales(key, 2)
    share = ppl.sample(key, dist.Uniform(0.0, 1.0), name="share")

    def group(key):
        level = ppl.sample(key, dist.Normal(0.0, scale[0]), name="level")
        is_outlier = ppl.sample(key, dist.iid(dist.Bernoulli(probs=share), (3,)), name="flag")
        ppl.sample(key, dist.Normal(level, jnp.where(is_outlier, 5.0, scale[1])), name="y")

    jax.vmap(group)(split(key, 4))


def outlying_observations_density(v):
    tau, noise = v["scale"]
    total = half_normal(v["scale"])
    for y in Y.reshape(4, 3):
        found = []
        for flags in itertools.product([0, 1], repeat=3):
            share = np.where(flags, v["share"], 1 - v["share"])
            covariance = tau**2 + np.diag(np.where(flags, 5.0, noise) ** 2)
            found.append(np.log(share).sum() + log_normal(y, 0.0, covariance))
        total += scipy.special.logsumexp(found)
    return total


def normal_sites(*names):
    """Sites that are integrated out exactly."""
    return dict.fromkeys(names, EXACT)


Y_OF = {"y": Y}
IN_ROWS = {"y": Y.reshape(4, 3)}
FLAGS = {"flag": ppl.Enumerate(), "level": EXACT}

MODELS = [
    Marginal(
        varying_intercepts,
        varying_intercepts_density,
        normal_sites("mean", "slope", "level"),
        (GROUP, X),
        Y_OF,
    ),
    Marginal(
        correlated_slopes,
        correlated_slopes_density,
        normal_sites("mean", "effect"),
        (GROUP, X),
        Y_OF,
    ),
    Marginal(
        groups_by_vmap,
        groups_by_vmap_density,
        normal_sites("mean", "level", "slope"),
        (PAIRED,),
        IN_ROWS,
    ),
    Marginal(
        effects_in_a_scope,
        effects_in_a_scope_density,
        normal_sites("mean", "groups.z", "items.z"),
        (GROUP, ITEM),
        Y_OF,
    ),
    Marginal(
        nested,
        nested_density,
        normal_sites("mean", "district", "school"),
        (DISTRICT, SCHOOL),
        Y_OF,
    ),
    Marginal(
        nested_by_vmap,
        nested_by_vmap_density,
        normal_sites("mean", "district", "school"),
        data={"y": Y.reshape(2, 2, 3)},
    ),
    Marginal(
        restricted_likelihood,
        restricted_likelihood_density,
        normal_sites("fixed", "level"),
        (GROUP, X),
        Y_OF,
    ),
    Marginal(
        measurement_error,
        measurement_error_density,
        normal_sites("x"),
        data={"measured": X, "y": Y},
    ),
    Marginal(
        factor_analysis, factor_analysis_density, normal_sites("mean", "score"), data={"y": SEVERAL}
    ),
    Marginal(
        process_regression, process_regression_density, normal_sites("slope", "f"), (X,), Y_OF
    ),
    Marginal(outlying_groups, outlying_groups_density, FLAGS, (GROUP,), Y_OF),
    Marginal(outlying_observations, outlying_observations_density, FLAGS, data=IN_ROWS),
]
