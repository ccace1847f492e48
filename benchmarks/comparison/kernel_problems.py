"""Five posteriors of different kinds, on which all kernels are compared.

| posterior         | is                                                                        |
|-------------------|---------------------------------------------------------------------------|
| eight schools     | non-centered: ten coordinates, one of them a scale                        |
| correlated normal | 50 coordinates, correlation 0.9 between neighbors: condition number 340   |
| logistic          | a regression of 1000 rows on 25 predictors                                |
| Gaussian process  | 40 values of a smooth log rate, with a count at each                      |
| two modes         | two normal densities in the plane, 14 standard deviations apart, 0.3, 0.7 |
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import distributions as dist
import inference
import ppl
from benchmarks.comparison.problems import Problem, logistic, schools


@dataclasses.dataclass(frozen=True)
class NormalPrior:
    """A normal prior, for tools that cannot read it off a model.

    Attributes:
        mean: Mean of the flat position, ``(size,)``.
        covariance: Its covariance, ``(size, size)``.
        log_likelihood: Function of a position.
    """

    mean: Any
    covariance: Any
    log_likelihood: Callable[[Any], jax.Array]


@dataclasses.dataclass(frozen=True)
class KernelProblem:
    """A posterior, its true moments, and its prior if that is normal.

    Attributes:
        problem: The model and its arguments.
        moments: True mean and standard deviation of each site, both of the site's shape.
        prior: The normal prior, or `None`.
    """

    problem: Problem
    moments: Mapping[str, tuple[Any, Any]]
    prior: NormalPrior | None = None


def long_run(problem: Problem) -> dict[str, tuple[Any, Any]]:
    """Moments by a long run of NUTS: means to about 0.01 standard deviations."""
    result = inference.mcmc(
        jax.random.key(2026),
        problem.model,
        *problem.args,
        num_chains=8,
        num_draws=2500,
        learn_centering=False,
        progress=False,
    )
    draws = {name: np.asarray(x, float) for name, x in result.draws.items()}
    return {name: (x.mean((0, 1)), x.std((0, 1))) for name, x in draws.items()}


def eight_schools() -> KernelProblem:
    problem = schools()
    return KernelProblem(problem, long_run(problem))


def correlated_normal(size: int = 50, correlation: float = 0.9) -> KernelProblem:
    """A normal prior, and one normal observation whose errors are correlated."""
    covariance = correlation ** np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    precision = np.linalg.inv(covariance)

    def model(key, precision):
        x = ppl.sample(key, dist.Normal(jnp.zeros(size), 10.0), name="x")
        ppl.sample(key, dist.MultivariateNormal(x, precision=precision), name="y")

    y = np.linspace(-1.0, 1.0, size)
    posterior = np.linalg.inv(precision + np.eye(size) / 100)
    moments = {"x": (posterior @ precision @ y, np.sqrt(np.diagonal(posterior)))}
    args = (jnp.asarray(precision, float),)

    def log_likelihood(position):
        residual = position["x"] - y
        return -0.5 * residual @ args[0] @ residual

    problem = Problem(ppl.condition(model, {"y": jnp.asarray(y, float)}), args, {})
    prior = NormalPrior(np.zeros(size), 100 * np.eye(size), log_likelihood)
    return KernelProblem(problem, moments, prior)


def logistic_regression() -> KernelProblem:
    problem = logistic(1000)
    x = problem.args[0]
    sign = jnp.where(jnp.asarray(problem.data["y"]), 1.0, -1.0)

    def log_likelihood(position):
        logits = position["intercept"] + x @ position["weight"]
        return jnp.sum(jax.nn.log_sigmoid(sign * logits))

    prior = NormalPrior(np.zeros(26), np.eye(26), log_likelihood)
    return KernelProblem(problem, long_run(problem), prior)


def gaussian_process(size: int = 40) -> KernelProblem:
    """A log rate with a squared exponential kernel, as it reads, and Poisson counts."""
    time = np.linspace(0.0, 1.0, size)
    squares = np.subtract.outer(time, time) ** 2
    covariance = np.exp(-0.5 * squares / 0.15**2) + 1e-3 * np.eye(size)
    rng = np.random.default_rng(4)
    counts = jnp.asarray(rng.poisson(np.exp(1.0 + np.sin(6 * time))))

    def model(key, covariance):
        curve = dist.MultivariateNormal(jnp.ones(size), covariance=covariance)
        f = ppl.sample(key, curve, name="f")
        ppl.sample(key, dist.Poisson(log_rate=f), name="count")

    def log_likelihood(position):
        return jnp.sum(counts * position["f"] - jnp.exp(position["f"]))

    args = (jnp.asarray(covariance, float),)
    problem = Problem(ppl.condition(model, {"count": counts}), args, {})
    prior = NormalPrior(np.ones(size), covariance, log_likelihood)
    return KernelProblem(problem, long_run(problem), prior)


def two_modes() -> KernelProblem:
    """A mixture of two normal densities with means of 5 and -5 in both coordinates."""
    weights = jnp.log(jnp.array([0.3, 0.7]))
    means = jnp.array([-5.0, 5.0])

    def log_likelihood(position):
        squares = jnp.sum((position["x"] - means[:, None]) ** 2, 1)
        return jax.nn.logsumexp(weights - 0.5 * squares)

    def model(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(2), 10.0), name="x")
        ppl.factor(log_likelihood({"x": x}), name="modes")

    center = 5.0 / 1.01
    sd = np.sqrt(1 / 1.01 + center**2 * (1 - 0.4**2))
    moments = {"x": (np.full(2, 0.4 * center), np.full(2, sd))}
    prior = NormalPrior(np.zeros(2), 100 * np.eye(2), log_likelihood)
    return KernelProblem(Problem(model, (), {}), moments, prior)


KERNEL_PROBLEMS: dict[str, Callable[[], KernelProblem]] = {
    "eight schools": eight_schools,
    "correlated normal": correlated_normal,
    "logistic": logistic_regression,
    "Gaussian process": gaussian_process,
    "two modes": two_modes,
}


@functools.cache
def kernel_problem(name: str) -> KernelProblem:
    """The posterior of a name, made once."""
    return KERNEL_PROBLEMS[name]()
