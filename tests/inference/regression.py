"""A regression, with what is known of its normal posterior, and fits of any target."""

import jax
import jax.numpy as jnp
import numpy as np

import distributions as dist
import ppl
from inference import ELBO, MeanField, svi
from inference.drivers import svi_problem
from inference.variational import svi_loop

DESIGN = np.random.default_rng(0).normal(size=(30, 3)) @ np.array(
    [[1.0, 0.9, 0.0], [0.0, 0.4, 0.0], [0.0, 0.0, 5.0]]
)
Y = DESIGN @ np.array([0.5, -1.0, 0.2]) + np.random.default_rng(1).normal(size=30)
QUICK = {"num_steps": 250, "num_draws": 20}


def regression(key, design):
    w = ppl.sample(key, dist.Normal(jnp.zeros(3), 2.0), name="w")
    return ppl.sample(key, dist.Normal(design @ w, 1.0), name="y")


def posterior(y=Y):
    return ppl.condition(regression, {"y": jnp.asarray(y, jnp.result_type(float))})


def design():
    return jnp.asarray(DESIGN, jnp.result_type(float))


def fitted(seed=0, y=Y, **settings):
    return svi(jax.random.key(seed), posterior(y), design(), **settings)


def exact_posterior():
    precision = DESIGN.T @ DESIGN + np.eye(3) / 4
    return np.linalg.solve(precision, DESIGN.T @ Y), precision


def evidence():
    """The log marginal likelihood."""
    covariance = np.eye(30) + 4 * DESIGN @ DESIGN.T
    return -0.5 * (
        Y @ np.linalg.solve(covariance, Y) + np.linalg.slogdet(2 * np.pi * covariance)[1]
    )


def problem_of(target, guide=None, optimizer=None):
    return svi_problem.problem_of(
        jax.random.key(0), target, guide or MeanField(), ELBO(), optimizer, 1
    )


def fit(problem, **settings):
    defaults = {"num_steps": 50, "tolerance": None, "init": "uniform", "state": None}
    defaults["on_progress"] = lambda *_: None
    return svi_loop.fit(jax.random.key(0), problem, **defaults | settings)
