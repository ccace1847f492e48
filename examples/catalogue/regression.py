"""Generalized linear models."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

import distributions as dist
import ppl
from examples.catalogue.entry import Entry, at_most, count, nonnegative
from examples.catalogue.log_probs import (
    bernoulli,
    categorical,
    exponential,
    gamma,
    half_cauchy,
    half_normal,
    normal,
    poisson,
    student_t,
)


def coefficients(key, size):
    alpha = ppl.sample(key, dist.Normal(0.0, 2.5), name="alpha")
    return alpha, ppl.sample(key, dist.Normal(jnp.zeros(size), 1.0), name="beta")


def coefficients_density(v):
    return normal(v["alpha"], 0.0, 2.5) + normal(v["beta"], 0.0, 1.0)


def linear_regression(key, x):
    alpha, beta = coefficients(key, x.shape[1])
    sigma = ppl.sample(key, dist.Exponential(0.5), name="sigma")
    return ppl.sample(key, dist.Normal(alpha + x @ beta, sigma), name="y")


def linear_regression_density(v, x):
    prior = coefficients_density(v) + exponential(v["sigma"], 0.5)
    return prior + normal(v["y"], v["alpha"] + x @ v["beta"], v["sigma"])


def linear_regression_data(rng):
    x = rng.normal(size=(30, 3))
    return (x,), {"y": 1 + x @ [1.0, -0.5, 0.0] + rng.normal(size=30)}


def logistic_regression(key, x):
    alpha, beta = coefficients(key, x.shape[1])
    return ppl.sample(key, dist.Bernoulli(logits=alpha + x @ beta), name="y")


def logistic_regression_density(v, x):
    return coefficients_density(v) + bernoulli(v["y"], v["alpha"] + x @ v["beta"])


def logistic_regression_data(rng):
    x = rng.normal(size=(40, 3))
    return (x,), {"y": rng.binomial(1, 1 / (1 + np.exp(-x[:, 0])))}


def poisson_regression(key, x, exposure):
    alpha, beta = coefficients(key, x.shape[1])
    log_rate = jnp.log(exposure) + alpha + x @ beta
    return ppl.sample(key, dist.Poisson(log_rate=log_rate), name="y")


def poisson_regression_density(v, x, exposure):
    log_rate = jnp.log(exposure) + v["alpha"] + x @ v["beta"]
    return coefficients_density(v) + poisson(v["y"], log_rate)


def poisson_regression_data(rng):
    x, exposure = rng.normal(size=(30, 2)), rng.uniform(1.0, 5.0, 30)
    return (x, exposure), {"y": rng.poisson(exposure)}


def robust_regression(key, x):
    alpha, beta = coefficients(key, x.shape[1])
    sigma = ppl.sample(key, dist.HalfNormal(2.0), name="sigma")
    df = ppl.sample(key, dist.Gamma(2.0, 0.1), name="df")
    return ppl.sample(key, dist.StudentT(df, alpha + x @ beta, sigma), name="y")


def robust_regression_density(v, x):
    prior = coefficients_density(v) + half_normal(v["sigma"], 2.0) + gamma(v["df"], 2.0, 0.1)
    return prior + student_t(v["y"], v["df"], v["alpha"] + x @ v["beta"], v["sigma"])


def robust_regression_data(rng):
    x = rng.normal(size=(30, 2))
    return (x,), {"y": x[:, 0] + 0.5 * rng.standard_t(3, size=30)}


def negative_binomial_regression(key, x):
    """Negative binomial: mean `mu = exp(alpha + x beta)`, variance `mu + mu^2 / size`."""
    alpha, beta = coefficients(key, x.shape[1])
    size = ppl.sample(key, dist.Gamma(2.0, 0.5), name="size")
    logits = alpha + x @ beta - jnp.log(size)
    return ppl.sample(key, dist.NegativeBinomial(total_count=size, logits=logits), name="y")


def negative_binomial_regression_density(v, x):
    y, size, log_mean = v["y"], v["size"], v["alpha"] + x @ v["beta"]
    prior = coefficients_density(v) + gamma(size, 2.0, 0.5)
    log_total = jnp.logaddexp(jnp.log(size), log_mean)
    kernel = gammaln(y + size) - gammaln(y + 1.0) + y * log_mean - (y + size) * log_total
    return prior + jnp.sum(kernel) + y.size * (size * jnp.log(size) - gammaln(size))


def negative_binomial_regression_data(rng):
    x = rng.normal(size=(30, 2))
    return (x,), {"y": rng.negative_binomial(3, 0.5, 30)}


def gamma_regression(key, x):
    alpha, beta = coefficients(key, x.shape[1])
    shape = ppl.sample(key, dist.Exponential(0.2), name="shape")
    rate = shape * jnp.exp(-alpha - x @ beta)
    return ppl.sample(key, dist.Gamma(shape, rate), name="y")


def gamma_regression_density(v, x):
    prior = coefficients_density(v) + exponential(v["shape"], 0.2)
    return prior + gamma(v["y"], v["shape"], v["shape"] * jnp.exp(-v["alpha"] - x @ v["beta"]))


def gamma_regression_data(rng):
    x = rng.normal(size=(30, 2))
    return (x,), {"y": rng.gamma(3.0, np.exp(0.5 * x[:, 0]) / 3)}


def horseshoe_regression(key, x):
    """Logistic regression with a horseshoe prior: few large coefficients (Carvalho et al. 2010)."""
    tau = ppl.sample(key, dist.HalfCauchy(0.0, 1.0), name="tau")
    local = ppl.sample(key, dist.HalfCauchy(jnp.zeros(x.shape[1]), 1.0), name="local")
    z = ppl.sample(key, dist.Normal(jnp.zeros(x.shape[1]), 1.0), name="z")
    beta = ppl.deterministic(tau * local * z, name="beta")
    return ppl.sample(key, dist.Bernoulli(logits=x @ beta), name="y")


def horseshoe_regression_density(v, x):
    prior = half_cauchy(v["tau"], 1.0) + half_cauchy(v["local"], 1.0) + normal(v["z"], 0.0, 1.0)
    return prior + bernoulli(v["y"], x @ (v["tau"] * v["local"] * v["z"]))


def horseshoe_regression_data(rng):
    x = rng.normal(size=(40, 10))
    return (x,), {"y": rng.binomial(1, 1 / (1 + np.exp(-2 * x[:, 0])))}


def ordered_logistic_regression(key, x):
    """Ordered logistic regression: four grades, with cutpoints that ascend by positive gaps."""
    beta = ppl.sample(key, dist.Normal(jnp.zeros(x.shape[1]), 1.0), name="beta")
    first = ppl.sample(key, dist.Normal(-1.0, 2.0), name="first")
    gaps = ppl.sample(key, dist.Exponential(jnp.ones(2)), name="gaps")
    cutpoints = first + jnp.concatenate([jnp.zeros(1), jnp.cumsum(gaps)])
    return ppl.sample(key, dist.OrderedLogistic(cutpoints=cutpoints, loc=x @ beta), name="y")


def ordered_logistic_regression_density(v, x):
    prior = normal(v["beta"], 0.0, 1.0) + normal(v["first"], -1.0, 2.0)
    prior += exponential(v["gaps"], 1.0)
    inner = v["first"] + jnp.concatenate([jnp.zeros(1), jnp.cumsum(v["gaps"])])
    ends = jnp.concatenate([jnp.array([-jnp.inf]), inner, jnp.array([jnp.inf])])
    level = x @ v["beta"]
    low, high = ends[v["y"]] - level, ends[v["y"] + 1] - level
    widths = jnp.log(-jnp.expm1(low - high))
    return prior + jnp.sum(jax.nn.log_sigmoid(high) + jax.nn.log_sigmoid(-low) + widths)


def ordered_logistic_regression_data(rng):
    x = rng.normal(size=(40, 2))
    return (x,), {"y": np.digitize(x[:, 0] + rng.logistic(size=40), [-1.0, 0.0, 1.5])}


def softmax_regression(key, x):
    """Softmax regression with three categories, the last with coefficients 0."""
    alpha = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.5), name="alpha")
    beta = ppl.sample(key, dist.Normal(jnp.zeros((x.shape[1], 2)), 1.0), name="beta")
    logits = jnp.pad(alpha + x @ beta, ((0, 0), (0, 1)))
    return ppl.sample(key, dist.Categorical(logits=logits), name="y")


def softmax_regression_density(v, x):
    prior = normal(v["alpha"], 0.0, 2.5) + normal(v["beta"], 0.0, 1.0)
    logits = jnp.pad(v["alpha"] + x @ v["beta"], ((0, 0), (0, 1)))
    return prior + categorical(v["y"], jax.nn.log_softmax(logits))


def softmax_regression_data(rng):
    return (rng.normal(size=(40, 2)),), {"y": rng.integers(3, size=40)}


ENTRIES = [
    Entry(
        linear_regression, linear_regression_density, linear_regression_data, {"sigma": nonnegative}
    ),
    Entry(
        logistic_regression,
        logistic_regression_density,
        logistic_regression_data,
        {"y": at_most(1)},
    ),
    Entry(poisson_regression, poisson_regression_density, poisson_regression_data, {"y": count}),
    Entry(
        robust_regression,
        robust_regression_density,
        robust_regression_data,
        {"sigma": nonnegative, "df": nonnegative},
    ),
    Entry(
        negative_binomial_regression,
        negative_binomial_regression_density,
        negative_binomial_regression_data,
        {"size": nonnegative, "y": count},
    ),
    Entry(
        gamma_regression,
        gamma_regression_density,
        gamma_regression_data,
        {"shape": nonnegative, "y": nonnegative},
    ),
    Entry(
        horseshoe_regression,
        horseshoe_regression_density,
        horseshoe_regression_data,
        {"tau": nonnegative, "local": nonnegative, "y": at_most(1)},
    ),
    Entry(
        ordered_logistic_regression,
        ordered_logistic_regression_density,
        ordered_logistic_regression_data,
        {"gaps": nonnegative, "y": at_most(3)},
    ),
    Entry(
        softmax_regression, softmax_regression_density, softmax_regression_data, {"y": at_most(2)}
    ),
]
