"""Posteriors whose curvature varies, or from some of whose starts a chain does not arrive.

The first three are densities with exact moments. The others have data that are drawn here from
their own models, and no exact answer.
"""

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import lax, random

import distributions as dist
import ppl
from benchmarks.comparison.problems import Problem


def banana() -> Problem:
    """Haario's banana: x ~ N(0, 10^2), and y given x ~ N(0.03 (x^2 - 100), 1).

    References:
        Haario, Saksman and Tamminen (1999), Adaptive proposal distribution for random walk
        Metropolis algorithm, section 4.
    """

    def model(key):
        x = ppl.sample(key, dist.Normal(0.0, 10.0), name="x")
        ppl.sample(key, dist.Normal(0.03 * (x**2 - 100.0), 1.0), name="y")

    variance = 1 + 0.03**2 * 2 * 10.0**4
    return Problem(
        model=model,
        args=(),
        data={},
        means={"x": (0.0, 0.0), "y": (0.0, 0.0)},
        sds={"x": 10.0, "y": math.sqrt(variance)},
    )


def rosenbrock() -> Problem:
    """Rosenbrock's function as an energy: x ~ N(1, 10), and y given x ~ N(x^2, 1/10) (variances).

    References:
        Goodman and Weare (2010), Ensemble samplers with affine invariance, section 3.
    """

    def model(key):
        x = ppl.sample(key, dist.Normal(1.0, math.sqrt(10.0)), name="x")
        ppl.sample(key, dist.Normal(x**2, math.sqrt(0.1)), name="y")

    # Of x^2: the mean is 1 + 10, and the variance 2 * 10^2 + 4 * 1^2 * 10.
    return Problem(
        model=model,
        args=(),
        data={},
        means={"x": (1.0, 0.0), "y": (11.0, 0.0)},
        sds={"x": math.sqrt(10.0), "y": math.sqrt(240.1)},
    )


def funnel() -> Problem:
    """Neal's funnel in ten dimensions: v ~ N(0, 3^2), and nine x given v ~ N(0, exp(v)) (variance).

    References:
        Neal (2003), Slice sampling, section 8.
    """

    def model(key):
        v = ppl.sample(key, dist.Normal(0.0, 3.0), name="v")
        ppl.sample(key, dist.Normal(jnp.zeros(9), jnp.exp(v / 2)), name="x")

    return Problem(model=model, args=(), data={}, means={"v": (0.0, 0.0)}, sds={"v": 3.0})


def horseshoe(is_centered: bool = False) -> Problem:
    """A regression of 100 rows on 20 predictors, of which 4 matter, with a horseshoe prior.

    Args:
        is_centered: Whether weights are sites, not products of their scales and standard normals.

    References:
        Carvalho, Polson and Scott (2010), The horseshoe estimator for sparse signals.
    """
    rng = np.random.default_rng(4)
    design = rng.normal(size=(100, 20))
    y = design[:, :4] @ np.array([3.0, -2.0, 1.0, 0.5]) + rng.normal(size=100)

    def model(key, design):
        tau = ppl.sample(key, dist.HalfCauchy(0.0, 1.0), name="tau")
        local = ppl.sample(key, dist.HalfCauchy(0.0, jnp.ones(20)), name="local")
        if is_centered:
            weight = ppl.sample(key, dist.Normal(0.0, tau * local), name="weight")
        else:
            weight = tau * local * ppl.sample(key, dist.Normal(jnp.zeros(20), 1.0), name="z")
        sigma = ppl.sample(key, dist.HalfNormal(2.0), name="sigma")
        ppl.sample(key, dist.Normal(design @ weight, sigma), name="y")

    observed = {"y": jnp.asarray(y, float)}
    return Problem(
        model=ppl.condition(model, observed), args=(jnp.asarray(design, float),), data={}
    )


def counts_of_a_process() -> Problem:
    """Counts with a Gaussian process as their log rate, non-centered, at 30 places."""
    rng = np.random.default_rng(5)
    places = np.linspace(0.0, 10.0, 30)
    y = rng.poisson(np.exp(1.0 + np.sin(places)))

    def model(key, places):
        scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
        length = ppl.sample(key, dist.InverseGamma(3.0, 3.0), name="length")
        level = ppl.sample(key, dist.Normal(0.0, 2.0), name="level")
        z = ppl.sample(key, dist.Normal(jnp.zeros(30), 1.0), name="z")
        distance = (places[:, None] - places) / length
        covariance = scale**2 * jnp.exp(-0.5 * distance**2) + 1e-5 * jnp.eye(30)
        ppl.sample(
            key, dist.Poisson(jnp.exp(level + jnp.linalg.cholesky(covariance) @ z)), name="y"
        )

    model = ppl.condition(model, {"y": jnp.asarray(y)})
    return Problem(model=model, args=(jnp.asarray(places, float),), data={})


def epidemic() -> Problem:
    """Daily cases of an SIR epidemic, by a reproduction number with a hard wall at 1."""
    rng = np.random.default_rng(6)
    num_days, population = 40, 1000.0

    def cases(number, recovery, start, xp, scan):
        def step(state, _):
            susceptible, infected = state
            new = susceptible * (1 - xp.exp(-number * recovery * infected / population))
            recovered = (1 - xp.exp(-recovery)) * infected
            return (susceptible - new, infected + new - recovered), new

        return scan(step, (population - start, start))

    def loop(step, state):
        out = []
        for _ in range(num_days):
            state, new = step(state, None)
            out.append(new)
        return np.array(out)

    y = rng.poisson(cases(2.5, 0.25, 3.0, np, loop))

    def model(key):
        contact = ppl.sample(key, dist.LogNormal(-0.5, 1.0), name="contact")
        recovery = ppl.sample(key, dist.LogNormal(-1.4, 0.5), name="recovery")
        number = contact / recovery
        ppl.factor(jnp.where(number > 1.0, 0.0, -jnp.inf), name="wall")
        start = ppl.sample(key, dist.LogNormal(1.0, 1.0), name="start")
        scan = lambda step, state: lax.scan(step, state, length=num_days)[1]  # noqa: E731
        ppl.sample(key, dist.Poisson(cases(number, recovery, start, jnp, scan)), name="y")

    return Problem(model=ppl.condition(model, {"y": jnp.asarray(y)}), args=(), data={})


def moving_average() -> Problem:
    """An ARMA(1, 1) of 200 values, with wide priors that allow parts which are not invertible."""
    rng = np.random.default_rng(7)
    phi, theta, sigma = 0.7, 0.4, 1.0
    y, error = np.zeros(200), 0.0
    for i in range(200):
        fresh = sigma * rng.normal()
        y[i] = phi * (y[i - 1] if i else 0.0) + fresh + theta * error
        error = fresh

    def model(key, y):
        mu = ppl.sample(key, dist.Normal(0.0, 10.0), name="mu")
        phi = ppl.sample(key, dist.Normal(0.0, 2.0), name="phi")
        theta = ppl.sample(key, dist.Normal(0.0, 2.0), name="theta")
        sigma = ppl.sample(key, dist.HalfCauchy(0.0, 2.5), name="sigma")

        def step(state, inputs):
            before, error = state
            key, y = inputs
            mean = mu + phi * before + theta * error
            ppl.sample(key, dist.Normal(mean, sigma), name="y")
            return (y, y - mean), None

        start = jnp.zeros((), y.dtype)
        lax.scan(step, (start, start), (random.split(key, len(y)), y))

    y = jnp.asarray(y, float)
    return Problem(model=ppl.condition(model, {"y": y}), args=(y,), data={})


HARD: dict[str, Callable[[], Problem]] = {
    "banana": banana,
    "Rosenbrock": rosenbrock,
    "funnel": funnel,
    "horseshoe": horseshoe,
    "Gaussian process, counts": counts_of_a_process,
    "epidemic": epidemic,
    "ARMA": moving_average,
}
