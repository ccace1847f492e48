"""Ten latent Gaussian models with their data: four classics of BUGS, the others simulated.

The models are written as a user writes them, effects centered at their means.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import distributions as dist
import ppl
from benchmarks.comparison.gibbs_problems import classic
from benchmarks.comparison.problems import Problem

SIDE = 8  # of the lattice
NUM_RETURNS = 150
NUM_TRIALS = 8


def lattice(key, structure, expected):
    """Cases by site of a lattice, with a proper conditional autoregression (Besag 1974)."""
    level = ppl.sample(key, dist.Normal(0.0, 1.0), name="level")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
    size = len(expected)
    prior = dist.MultivariateNormal(jnp.zeros(size), precision=structure / sigma**2)
    field = ppl.sample(key, prior, name="field")
    ppl.sample(key, dist.Poisson(log_rate=jnp.log(expected) + level + field), name="cases")


def volatility(key, num_returns):
    """Returns whose log variance is an autoregression (Kim, Shephard and Chib 1998)."""
    level = ppl.sample(key, dist.Normal(0.0, 2.0), name="level")
    persistence = ppl.sample(key, dist.Beta(20.0, 1.5), name="persistence")
    sigma = ppl.sample(key, dist.HalfNormal(0.5), name="sigma")

    def step(before, key):
        h = ppl.sample(key, dist.Normal(persistence * before, sigma), name="h")
        ppl.sample(key, dist.Normal(0.0, jnp.exp((h + level) / 2)), name="returns")
        return h, None

    first = ppl.sample(key, dist.Normal(0.0, sigma / jnp.sqrt(1 - persistence**2)), name="first")
    jax.lax.scan(step, first, jax.random.split(key, num_returns))


def gaussian_process(key, x):
    """Counts along a line, with a smooth log rate (Rasmussen and Williams 2006)."""
    level = ppl.sample(key, dist.Normal(1.0, 1.0), name="level")
    amplitude = ppl.sample(key, dist.HalfNormal(1.0), name="amplitude")
    length = ppl.sample(key, dist.InverseGamma(5.0, 1.0), name="length")
    distance = (x[:, None] - x) / length
    covariance = amplitude**2 * jnp.exp(-0.5 * distance**2) + 1e-4 * jnp.eye(len(x))
    prior = dist.MultivariateNormal(jnp.zeros(len(x)), covariance=covariance)
    curve = ppl.sample(key, prior, name="curve")
    ppl.sample(key, dist.Poisson(log_rate=level + curve), name="counts")


def crossed(key, student, item):
    """Answers of students to items, each with an effect."""
    level = ppl.sample(key, dist.Normal(0.0, 2.0), name="level")
    sigma_student = ppl.sample(key, dist.HalfNormal(1.0), name="sigma_student")
    sigma_item = ppl.sample(key, dist.HalfNormal(1.0), name="sigma_item")
    ability = ppl.sample(key, dist.Normal(jnp.zeros(40), sigma_student), name="ability")
    ease = ppl.sample(key, dist.Normal(jnp.zeros(15), sigma_item), name="ease")
    logits = level + ability[student] + ease[item]
    ppl.sample(key, dist.Bernoulli(logits=logits), name="correct")


def counts_by_group(key, group, x):
    """Counts in groups, with an effect of each and a slope of all."""
    level = ppl.sample(key, dist.Normal(0.0, 2.0), name="level")
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
    effect = ppl.sample(key, dist.Normal(jnp.zeros(100), sigma), name="effect")
    ppl.sample(key, dist.Poisson(log_rate=level + slope * x + effect[group]), name="count")


def trials_by_group(key, x):
    """Successes of eight trials in groups, with an effect of each and a slope of all."""
    level = ppl.sample(key, dist.Normal(0.0, 2.0), name="level")
    slope = ppl.sample(key, dist.Normal(0.0, 1.0), name="slope")
    sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
    effect = ppl.sample(key, dist.Normal(jnp.zeros(len(x)), sigma), name="effect")
    logits = level + slope * x + effect
    ppl.sample(key, dist.Binomial(NUM_TRIALS, logits=logits), name="successes")


def _structure() -> np.ndarray:
    """The precision of the field of the lattice, for a scale of 1."""
    line = np.eye(SIDE, k=1) + np.eye(SIDE, k=-1)
    neighbors = np.kron(line, np.eye(SIDE)) + np.kron(np.eye(SIDE), line)
    return np.diag(neighbors.sum(0)) - 0.95 * neighbors


def _lattice() -> Problem:
    rng = np.random.default_rng(0)
    structure = _structure()
    field = np.linalg.solve(np.linalg.cholesky(structure).T, rng.normal(size=SIDE**2))
    expected = rng.gamma(2.0, 3.0, SIDE**2)
    cases = rng.poisson(expected * np.exp(0.7 * field))
    return _problem(lattice, (jnp.asarray(structure, float), expected), {"cases": cases})


def _volatility() -> Problem:
    rng = np.random.default_rng(1)
    h = 0.0
    returns = []
    for _ in range(NUM_RETURNS):
        h = 0.95 * h + 0.25 * rng.normal()
        returns.append(0.6 * np.exp(h / 2) * rng.normal())
    model = partial(volatility, num_returns=NUM_RETURNS)
    return _problem(model, (), {"returns": np.asarray(returns)})


def _gaussian_process() -> Problem:
    rng = np.random.default_rng(2)
    x = np.linspace(0.0, 1.0, 40)
    rate = np.exp(1.0 + np.sin(7 * x))
    return _problem(gaussian_process, (x,), {"counts": rng.poisson(rate)})


def _crossed() -> Problem:
    rng = np.random.default_rng(3)
    student, item = (np.ravel(x) for x in np.indices((40, 15)))
    logits = 0.3 + rng.normal(0, 0.7, 40)[student] + rng.normal(0, 1.0, 15)[item]
    correct = (rng.random(600) < 1 / (1 + np.exp(-logits))).astype(int)
    return _problem(crossed, (student, item), {"correct": correct})


def _counts_by_group() -> Problem:
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(100), 4)
    x = rng.normal(size=400)
    count = rng.poisson(np.exp(0.5 + 0.3 * x + rng.normal(0, 0.6, 100)[group]))
    return _problem(counts_by_group, (group, x), {"count": count})


def trials(num_groups: int) -> Problem:
    """The binomial mixed model of so many groups."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=num_groups)
    logits = -0.5 + 0.4 * x + rng.normal(0, 0.8, num_groups)
    successes = rng.binomial(NUM_TRIALS, 1 / (1 + np.exp(-logits)))
    return _problem(trials_by_group, (x,), {"successes": successes})


def _problem(model, args, data) -> Problem:
    as_array = lambda x: jnp.asarray(x, int if x.dtype.kind == "i" else float)  # noqa: E731
    args = tuple(map(as_array, args))
    data = {name: as_array(x) for name, x in data.items()}
    return Problem(ppl.condition(model, data), args, data)


LATENT_MODELS: dict[str, Callable[[], Problem]] = {
    **{name: partial(classic, name) for name in ("seeds", "surgical", "salm", "epil")},
    "lattice": _lattice,
    "volatility": _volatility,
    "Gaussian process": _gaussian_process,
    "crossed effects": _crossed,
    "counts by group": _counts_by_group,
    "trials by group": partial(trials, 500),
}
