"""Densities with exact draws, and targets as the drivers take them."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax import random

import distributions as dist
import ppl
from inference.kernels.hamiltonian.leapfrog import drift, kick
from inference.runtime.xla import tricks_are_on

needs_tricks = pytest.mark.skipif(
    not tricks_are_on(), reason="looks for XLA's tricks in a compiled program; they are off"
)


class Dynamics(NamedTuple):
    """What a trajectory follows: the density, the mass matrix by its factor, and the step size."""

    value_and_grad: Callable[..., Any]
    factor: jax.Array
    step_size: jax.Array


def leapfrog(dynamics, point):
    """One leapfrog step, put together from its two halves."""
    value_and_grad, factor, step_size = dynamics
    position = drift(factor, step_size, point)
    return kick(factor, step_size, point, position, *value_and_grad(position))


SCALE = 0.05  # of the smallest of the skewed target's coordinates


def skewed_log_density(x):
    """A left-skewed coordinate, one whose mean and scale depend on it, and a narrow skewed one.

    x0 = log Gamma(0.8), x1 | x0 ~ Normal(x0, exp(x0 / 4)), x2 = 0.05 * log Gamma(3).
    """
    x0, x1, x2 = x["x0"], x["x1"], x["x2"] / SCALE
    z = (x1 - x0) * jnp.exp(-x0 / 4)
    return 0.8 * x0 - jnp.exp(x0) - 0.5 * z**2 - x0 / 4 + 3 * x2 - jnp.exp(x2)


def skewed_draws(seed, size):
    """Exact draws of the skewed target."""
    rng = np.random.default_rng(seed)
    x0 = np.log(rng.gamma(0.8, size=size))
    x1 = x0 + np.exp(x0 / 4) * rng.normal(size=size)
    x2 = SCALE * np.log(rng.gamma(3.0, size=size))
    return {name: jnp.asarray(x) for name, x in {"x0": x0, "x1": x1, "x2": x2}.items()}


def skewed_uniforms(x):
    """The Rosenblatt transform: independent uniforms if, and only if, draws are exact."""
    x0, x1, x2 = (np.asarray(x[name], np.float64) for name in ("x0", "x1", "x2"))
    return [
        st.gamma.cdf(np.exp(x0), 0.8),
        st.norm.cdf((x1 - x0) * np.exp(-x0 / 4)),
        st.gamma.cdf(np.exp(x2 / SCALE), 3.0),
    ]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FakeTarget:
    """A target without a model: a log density of a position, and data."""

    density: Callable[..., jax.Array] = dataclasses.field(metadata={"static": True})
    shape: tuple[int, ...] = dataclasses.field(metadata={"static": True})
    data: Any = 0.0

    mesh = None  # not a field

    @property
    def position_shapes(self):
        return {"x": jax.ShapeDtypeStruct(self.shape, jnp.zeros(()).dtype)}

    def log_density(self, position):
        return self.density(position["x"], self.data)

    def initial(self, key, values=None):
        return {"x": random.uniform(key, self.shape, minval=-2.0, maxval=2.0)} | (values or {})

    def prior(self, key):
        return {"x": random.normal(key, self.shape)}

    def constrain(self, position):
        return {"x": position["x"], "scope": {"doubled": 2 * position["x"]}}

    def sites(self, position):
        x = position["x"]
        prior = ppl.SiteTrace(x, dist.Normal(0.0, 1.0), -(x**2), "latent")
        y = ppl.SiteTrace(self.data, None, self.density(x, self.data), "observed")
        return {"x": prior, "scope": {"y": y}}
