"""The posteriors of the comparison, each a model with its data.

Six come from posteriordb, with published draws to agree with. They are read from the folder
`$PPL_POSTERIORDB`, by default `../shared/posteriordb` or `shared/posteriordb`, and left out if
there is no such folder.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

import distributions as dist
import ppl
from distributions import constraints
from tests.models.posteriors import POSTERIORS

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = [ROOT / "../shared/posteriordb", ROOT / "shared/posteriordb"]
POSTERIORDB = next(filter(pathlib.Path.is_dir, FOLDERS), FOLDERS[0])
if os.environ.get("PPL_POSTERIORDB"):
    POSTERIORDB = pathlib.Path(os.environ["PPL_POSTERIORDB"])
NUM_REFERENCE_DRAWS = 10_000


@dataclasses.dataclass(frozen=True)
class Problem:
    """A posterior and its known means.

    Attributes:
        model: The model, conditioned on the data.
        args: Arguments of the model.
        data: The data, for tools with a model language of their own.
        means: True mean and its standard error, keyed by parameter, `mu` or `theta[1]`.
        sds: True standard deviation, keyed likewise.
        derived: Function that adds to the draws the quantities in `means` that are no sites.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...]
    data: Mapping[str, Any]
    means: Mapping[str, tuple[float, float]] = dataclasses.field(default_factory=dict)
    sds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    derived: Callable[[dict[str, Any]], dict[str, Any]] = lambda draws: draws


def posteriordb(name: str) -> Problem:
    posterior = next(p for p in POSTERIORS if p.name == name)
    published = json.loads((POSTERIORDB / f"{name}.json").read_text())
    means = {
        parameter: (value["mean"], value["sd"] / NUM_REFERENCE_DRAWS**0.5)
        for parameter, value in published["reference"].items()
    }
    model, args = posterior.condition(published["data"])
    observed = posterior.observed(published["data"])
    data = {"args": list(map(np.asarray, args)), "y": np.asarray(observed["y"])}
    sds = {parameter: value["sd"] for parameter, value in published["reference"].items()}
    return Problem(
        model=model, args=args, data=data, means=means, sds=sds, derived=posterior.derived
    )


def logistic(num_rows: int) -> Problem:
    """A logistic regression on 25 standard normal predictors."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(num_rows, 25))
    y = rng.uniform(size=num_rows) < 1 / (1 + np.exp(-x @ rng.normal(size=25) / 5))

    def model(key, x):
        intercept = ppl.sample(key, dist.Normal(0.0, 1.0), name="intercept")
        weight = ppl.sample(key, dist.Normal(jnp.zeros(25), 1.0), name="weight")
        ppl.sample(key, dist.Bernoulli(logits=intercept + x @ weight), name="y")

    observed = {"y": jnp.asarray(y, int)}
    return Problem(
        model=ppl.condition(model, observed), args=(jnp.asarray(x, float),), data={"x": x, "y": y}
    )


def radon() -> Problem:
    """A hierarchical regression of 919 houses in 85 counties: 89 parameters, non-centered."""
    rng = np.random.default_rng(1)
    county, floor = rng.integers(0, 85, 919), rng.uniform(size=919) < 0.2
    level = rng.normal(1.5, 0.35, 85)
    y = level[county] - 0.7 * floor + rng.normal(0, 0.75, 919)

    def model(key, county, floor):
        mu = ppl.sample(key, dist.Normal(0.0, 10.0), name="mu")
        tau = ppl.sample(key, dist.HalfNormal(1.0), name="tau")
        slope = ppl.sample(key, dist.Normal(0.0, 10.0), name="slope")
        sigma = ppl.sample(key, dist.HalfNormal(1.0), name="sigma")
        z = ppl.sample(key, dist.Normal(jnp.zeros(85), 1.0), name="z")
        ppl.sample(key, dist.Normal((mu + tau * z)[county] + slope * floor, sigma), name="y")

    args = jnp.asarray(county), jnp.asarray(floor, float)
    data = {"county": county, "floor": floor.astype(float), "y": y}
    return Problem(model=ppl.condition(model, {"y": jnp.asarray(y, float)}), args=args, data=data)


def schools() -> Problem:
    """Eight schools, non-centered, with the data in the code: it needs no published draws."""
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])

    def model(key, sigma):
        mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
        tau = ppl.sample(key, dist.HalfCauchy(0.0, 5.0), name="tau")
        z = ppl.sample(key, dist.Normal(jnp.zeros(8), 1.0), name="z")
        ppl.sample(key, dist.Normal(mu + tau * z, sigma), name="y")

    observed = {"y": jnp.asarray(y, float)}
    args = (jnp.asarray(sigma, float),)
    return Problem(model=ppl.condition(model, observed), args=args, data={"y": y, "sigma": sigma})


def gaussian(is_rotated: bool) -> Problem:
    """A normal density in 100 dimensions, with standard deviations from 0.1 to 10."""
    rng = np.random.default_rng(2)
    scale = np.logspace(-1, 1, 100)
    axes = np.linalg.qr(rng.normal(size=(100, 100)))[0] if is_rotated else np.eye(100)
    precision = axes / scale**2 @ axes.T
    names = [f"x[{i + 1}]" for i in range(100)]
    means, variances = dict.fromkeys(names, (0.0, 0.0)), axes**2 @ scale**2
    sds = dict(zip(names, np.sqrt(variances).tolist(), strict=True))

    def rotated(key, precision):
        x = ppl.sample(key, dist.Flat(constraints.real, (100,)), name="x")
        ppl.factor(-0.5 * x @ precision @ x, name="density")

    def aligned(key, scale):
        ppl.sample(key, dist.Normal(jnp.zeros(100), scale), name="x")

    model, argument = (rotated, precision) if is_rotated else (aligned, scale)
    data = {"precision": precision}
    args = (jnp.asarray(argument, float),)
    return Problem(model=model, args=args, data=data, means=means, sds=sds)


def stochastic_volatility(num_steps: int) -> Problem:
    """Stochastic volatility, an AR(1) log variance, non-centered, with data of the model."""
    rng = np.random.default_rng(3)
    mu, phi, sigma = -1.0, 0.95, 0.25
    y, deviation = np.empty(num_steps), rng.normal(0.0, sigma / (1 - phi**2) ** 0.5)
    for i in range(num_steps):
        y[i] = np.exp((mu + deviation) / 2) * rng.normal()
        deviation = phi * deviation + sigma * rng.normal()

    def model(key):
        mu = ppl.sample(key, dist.Normal(-1.0, 2.0), name="mu")
        phi = ppl.sample(key, dist.Beta(20.0, 1.5), name="phi")
        sigma = ppl.sample(key, dist.HalfNormal(0.5), name="sigma")
        z = ppl.sample(key, dist.Normal(jnp.zeros(num_steps), 1.0), name="z")

        def step(deviation, z):
            deviation = phi * deviation + z
            return deviation, deviation

        start = z[0] / jnp.sqrt(1 - phi**2)
        _, later = lax.scan(step, start, z[1:])
        deviation = sigma * jnp.concatenate([start[None], later])
        ppl.sample(key, dist.Normal(0.0, jnp.exp(0.5 * (mu + deviation))), name="y")

    return Problem(model=ppl.condition(model, {"y": jnp.asarray(y, float)}), args=(), data={"y": y})


PUBLISHED: dict[str, Callable[[], Problem]] = {
    "eight schools": partial(posteriordb, "eight_schools-eight_schools_noncentered"),
    "autoregression": partial(posteriordb, "arK-arK"),
    "garch": partial(posteriordb, "garch-garch11"),
    "nes": partial(posteriordb, "nes1980-nes"),
    "normal mixture": partial(posteriordb, "low_dim_gauss_mix-low_dim_gauss_mix"),
    "Gaussian process": partial(posteriordb, "gp_pois_regr-gp_regr"),
}
MADE: dict[str, Callable[[], Problem]] = {
    "logistic": partial(logistic, 10_000),
    "radon": radon,
    "Gaussian": partial(gaussian, True),
    "stochastic volatility": partial(stochastic_volatility, 500),
}
# Only run if named.
MORE: dict[str, Callable[[], Problem]] = {
    "schools": schools,
    "logistic, 1,000 rows": partial(logistic, 1_000),
    "Gaussian along the axes": partial(gaussian, False),
}
PROBLEMS = PUBLISHED | MADE | MORE


def default_names() -> list[str]:
    """The ten default problems; without posteriordb, the four that need no published data."""
    return [*(PUBLISHED if POSTERIORDB.is_dir() else ()), *MADE]
