"""Densities with exact draws, and targets as the drivers take them."""

import dataclasses
import itertools
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


class Enumerated(NamedTuple):
    """Density of which all states are known.

    Attributes:
        log_density: Log density of a vector.
        states: All vectors, ``(state, element)``.
        log_densities: Log density of each, computed by NumPy, up to a constant.
    """

    log_density: Callable[[Any], jax.Array]
    states: np.ndarray
    log_densities: np.ndarray

    @property
    def probs(self):
        weights = np.exp(self.log_densities - self.log_densities.max())
        return weights / weights.sum()

    def draws(self, size):
        return self.states[np.random.default_rng(1).choice(len(self.states), size, p=self.probs)]

    def p_value(self, draws):
        """The least p-value of chi-square tests of log densities and of the first elements."""
        numbers = np.ravel_multi_index(tuple(draws.T), tuple(self.states.max(0) + 1))
        _, levels = np.unique(self.log_densities.round(4), return_inverse=True)
        patterns = np.unique(self.states[:, :4], axis=0, return_inverse=True)[1].ravel()
        return min(chi_square(x[numbers], x, self.probs) for x in (levels, patterns))


def chi_square(found, cells, probs):
    """P-value of cells of draws; cells of few draws are joined."""
    expected = np.bincount(cells, probs) * len(found)
    observed = np.bincount(found, minlength=len(expected))
    if np.any(observed[expected == 0]):
        return 0.0
    observed = observed[expected > 0]
    expected = expected[expected > 0]
    order = np.argsort(expected)
    group = np.empty(len(expected), int)
    group[order] = np.floor(np.cumsum(expected[order]) / 20)
    _, group = np.unique(group, return_inverse=True)
    if group.max() == 0:
        return 1.0
    return st.chisquare(np.bincount(group, observed), np.bincount(group, expected)).pvalue


def grid(rows):
    """Pairs of neighbors on a grid of so many rows and columns."""
    number = np.arange(rows**2, dtype=np.int32).reshape(rows, rows)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()])
    return np.concatenate([across, np.stack([number[:-1].ravel(), number[1:].ravel()])], 1)


def ising():
    """Sixteen spins of 0 and 1 on a grid of 4 x 4, and a field that grows along it."""
    a, b = grid(4)
    field = np.linspace(-0.4, 0.6, 16)

    def log_density(x):
        s = 2 * x - 1
        return 0.35 * jnp.sum(s[a] * s[b]) + jnp.sum(field.astype(np.float32) * s)

    states = np.array(list(itertools.product([0, 1], repeat=16)))
    s = 2 * states - 1
    return Enumerated(log_density, states, 0.35 * np.sum(s[:, a] * s[:, b], 1) + s @ field)


def potts():
    """Nine elements of three values on a grid: equal neighbors and larger values weigh more.

    The cosine of the angle between two values is 1 if they are equal, and -1/2 if they are not.
    """
    a, b = grid(3)

    def log_density(x):
        angle = (2 * np.pi / 3) * (x[a] - x[b])
        return 0.5 * jnp.sum(jnp.cos(angle)) + 0.2 * jnp.sum(x)

    states = np.array(list(itertools.product(range(3), repeat=9)))
    equal = np.sum(states[:, a] == states[:, b], 1)
    return Enumerated(log_density, states, 0.75 * equal + 0.2 * states.sum(1))


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
