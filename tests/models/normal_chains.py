"""Models in time whose states are integrated out, and the integrals by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jax import lax
from jax.random import split

import distributions as dist
import ppl
from tests.models.marginal_model import Marginal, half_normal, kalman, laplace, log_normal
from tests.models.normal_counts import modes_of
from tests.models.normal_mixed import normal_sites, scales

RNG = np.random.default_rng(3)
Y = np.cumsum(RNG.normal(size=10)) / 2 + RNG.normal(size=10) / 4
X = RNG.normal(size=10)
SEVERAL = np.stack([Y, -0.5 * Y, 0.3 * Y], 1) + RNG.normal(size=(10, 3)) / 2


def local_linear_trend(key):
    """A level and its slope, both of which walk at random."""
    scale = scales(key, 3)

    def step(carry, key):
        level, slope = carry
        level = ppl.sample(key, dist.Normal(level + slope, scale[0]), name="level")
        slope = ppl.sample(key, dist.Normal(slope, scale[1]), name="slope")
        return (level, slope), ppl.sample(key, dist.Normal(level, scale[2]), name="y")

    start = ppl.sample(key, dist.iid(dist.Normal(0.0, 2.0), (2,)), name="start")
    lax.scan(step, (start[0], start[1]), split(key, 10))


def local_linear_trend_density(v):
    level, slope, noise = v["scale"] ** 2
    transition, loading = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    step, noise = np.diag([level, slope]), np.array([[noise]])
    found = kalman(Y[:, None], transition, loading, noise, step, np.zeros(2), 4 * np.eye(2))
    return half_normal(v["scale"]) + found


def dynamic_factor(key):
    """Several series that load on one latent autoregressive factor."""
    memory = ppl.sample(key, dist.Uniform(-1.0, 1.0), name="memory")
    loading = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), (3,)), name="loading")
    noise = scales(key, 3)

    def step(f, key):
        f = ppl.sample(key, dist.Normal(memory * f, 1.0), name="f")
        return f, ppl.sample(key, dist.Normal(loading * f, noise), name="y")

    first = ppl.sample(key, dist.Normal(0.0, 1.0 / jnp.sqrt(1 - memory**2)), name="first")
    lax.scan(step, first, split(key, 10))


def dynamic_factor_density(v):
    one, memory = np.ones((1, 1)), v["memory"]
    prior = np.log(0.5) + scipy.stats.norm.logpdf(v["loading"]).sum() + half_normal(v["scale"])
    noise, start = np.diag(v["scale"] ** 2), one / (1 - memory**2)
    return prior + kalman(
        SEVERAL, memory * one, v["loading"][:, None], noise, one, np.zeros(1), start
    )


def seasonal(key):
    """A level that walks at random, and effects of quarters that add up to about 0."""
    scale = scales(key, 3)

    def step(carry, key):
        level, last = carry
        level = ppl.sample(key, dist.Normal(level, scale[0]), name="level")
        effect = ppl.sample(key, dist.Normal(-jnp.sum(last), scale[1]), name="effect")
        ppl.sample(key, dist.Normal(level + effect, scale[2]), name="y")
        return (level, jnp.concatenate([effect[None], last[:2]])), None

    first = ppl.sample(key, dist.Normal(0.0, 2.0), name="first")
    quarters = ppl.sample(key, dist.iid(dist.Normal(0.0, 1.0), (3,)), name="quarters")
    lax.scan(step, (first, quarters), split(key, 10))


def seasonal_density(v):
    level, effect, noise = v["scale"] ** 2
    transition = np.array([[1, 0, 0, 0], [0, -1, -1, -1], [0, 1, 0, 0], [0, 0, 1, 0]], float)
    loading, step = np.array([[1.0, 1.0, 0.0, 0.0]]), np.diag([level, effect, 0.0, 0.0])
    start = np.diag([4.0, 1.0, 1.0, 1.0])
    found = kalman(
        Y[:, None], transition, loading, noise * np.ones((1, 1)), step, np.zeros(4), start
    )
    return half_normal(v["scale"]) + found


def moving_average(key):
    """ARMA(2, 1) with an error of measurement: a sum of two states of an AR(2)."""
    coefficient = ppl.sample(key, dist.Normal(np.zeros(3), 0.5), name="coefficient")
    scale = scales(key, 2)

    def step(carry, key):
        last, before = carry
        loc = coefficient[0] * last + coefficient[1] * before
        x = ppl.sample(key, dist.Normal(loc, scale[0]), name="x")
        ppl.sample(key, dist.Normal(x + coefficient[2] * last, scale[1]), name="y")
        return (x, last), None

    lax.scan(step, (0.0, 0.0), split(key, 10))


def moving_average_density(v):
    a, b, c = v["coefficient"]
    step, noise = v["scale"] ** 2
    prior = scipy.stats.norm.logpdf(v["coefficient"], 0, 0.5).sum() + half_normal(v["scale"])
    return prior + kalman(
        Y[:, None],
        np.array([[a, b], [1.0, 0.0]]),
        np.array([[1.0, c]]),
        np.array([[noise]]),
        np.diag([step, 0.0]),
        np.zeros(2),
        np.zeros((2, 2)),
    )


def varying_coefficients(key, x):
    """Regression whose coefficients walk at random."""
    scale = scales(key, 3)

    def step(line, inputs):
        key, x = inputs
        line = ppl.sample(key, dist.Normal(line, scale[:2]), name="line")
        return line, ppl.sample(key, dist.Normal(line[0] + line[1] * x, scale[2]), name="y")

    first = ppl.sample(key, dist.Normal(np.zeros(2), 1.0), name="first")
    lax.scan(step, first, (split(key, x.size), x))


def varying_coefficients_density(v):
    loading = np.stack([np.ones(10), X], 1)[:, None]
    step, noise = np.diag(v["scale"][:2] ** 2), v["scale"][2] ** 2 * np.ones((1, 1))
    found = kalman(Y[:, None], np.eye(2), loading, noise, step, np.zeros(2), np.eye(2))
    return half_normal(v["scale"]) + found


IS_MISSING = RNG.uniform(size=(3, 10)) < 0.3


def panel(key):
    """Autoregressive series about a common mean, some of whose values are missing."""
    scale = scales(key, 2)
    memory = ppl.sample(key, dist.Uniform(0.0, 1.0), name="memory")
    mean = ppl.sample(key, dist.Normal(0.0, 1.0), name="mean")

    def series(key):
        def step(x, key):
            x = ppl.sample(key, dist.Normal(memory * x, scale[0]), name="x")
            return x, ppl.sample(key, dist.Normal(mean + x, scale[1]), name="y")

        lax.scan(step, 0.0, split(key, 10))

    jax.vmap(series)(split(key, 3))


def autoregression(memory, num):
    """The covariance of an autoregressive series with unit steps that begins at 0."""
    steps = np.arange(num)
    weights = np.tril(memory ** np.clip(steps[:, None] - steps, 0, None))
    return weights @ weights.T


def panel_density(v):
    step, noise = v["scale"] ** 2
    within = step * autoregression(v["memory"], 10) + noise * np.eye(10)
    covariance = np.kron(np.eye(3), within) + 1.0
    seen = ~IS_MISSING.ravel()
    found = log_normal(SEVERAL.T.ravel()[seen], 0.0, covariance[np.ix_(seen, seen)])
    return half_normal(v["scale"]) + found


TIMES = np.sort(RNG.uniform(0.0, 5.0, 10))


def irregular_times(key, times):
    """Ornstein and Uhlenbeck's process, observed at irregular times."""
    scale = scales(key, 2)
    length = ppl.sample(key, dist.HalfNormal(2.0), name="length")

    def step(x, inputs):
        key, gap = inputs
        decay = jnp.exp(-gap / length)
        d = dist.Normal(decay * x, scale[0] * jnp.sqrt(1 - decay**2))
        x = ppl.sample(key, d, name="x")
        return x, ppl.sample(key, dist.Normal(x, scale[1]), name="y")

    first = ppl.sample(key, dist.Normal(0.0, scale[0]), name="first")
    gaps = jnp.diff(times, prepend=times[:1] - 1.0)
    lax.scan(step, first, (split(key, times.size), gaps))


def irregular_times_density(v):
    spread, noise = v["scale"] ** 2
    near = np.exp(-np.abs(TIMES[:, None] - TIMES) / v["length"])
    found = log_normal(Y, 0.0, spread * near + noise * np.eye(10))
    return half_normal(v["scale"]) + half_normal(v["length"], 2.0) + found


RETURNS = RNG.normal(size=10) * np.exp(Y / 2)


def stochastic_volatility(key):
    """Returns whose log variance is autoregressive about a mean."""
    memory = ppl.sample(key, dist.Uniform(0.0, 1.0), name="memory")
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    mean = ppl.sample(key, dist.Normal(0.0, 1.0), name="mean")

    def step(h, key):
        h = ppl.sample(key, dist.Normal(mean + memory * (h - mean), scale), name="h")
        return h, ppl.sample(key, dist.Normal(0.0, jnp.exp(h / 2)), name="y")

    first = ppl.sample(key, dist.Normal(mean, scale / jnp.sqrt(1 - memory**2)), name="first")
    lax.scan(step, first, split(key, 10))


def volatility(h):
    square = 0.5 * RETURNS**2 * np.exp(-h)
    return -0.5 * (h + np.log(2 * np.pi)) - square, square - 0.5, -square


def stochastic_volatility_density(v):
    memory, steps = v["memory"], np.arange(10)
    near = memory ** np.abs(steps[:, None] - steps) / (1 - memory**2)
    covariance = v["scale"] ** 2 * near + 1.0
    found = laplace(volatility, np.eye(10), np.zeros(10), covariance)
    return half_normal(v["scale"]) + found


Y_OF = {"y": Y}
MODELS = [
    Marginal(
        local_linear_trend,
        local_linear_trend_density,
        normal_sites("level", "slope", "start"),
        data=Y_OF,
    ),
    Marginal(
        dynamic_factor, dynamic_factor_density, normal_sites("f", "first"), data={"y": SEVERAL}
    ),
    Marginal(
        seasonal,
        seasonal_density,
        normal_sites("level", "effect", "first", "quarters"),
        data=Y_OF,
    ),
    Marginal(moving_average, moving_average_density, normal_sites("x"), data=Y_OF),
    Marginal(
        varying_coefficients,
        varying_coefficients_density,
        normal_sites("line", "first"),
        (X,),
        Y_OF,
    ),
    Marginal(
        panel,
        panel_density,
        normal_sites("mean", "x"),
        data={"y": SEVERAL.T},
        missing={"y": IS_MISSING},
    ),
    Marginal(
        irregular_times,
        irregular_times_density,
        normal_sites("x", "first"),
        (TIMES,),
        Y_OF,
    ),
    Marginal(
        stochastic_volatility,
        stochastic_volatility_density,
        modes_of("mean", "h", "first"),
        data={"y": RETURNS},
    ),
]
