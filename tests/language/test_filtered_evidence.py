"""log_probs of chains of normal states: one number a step, of its data given all before."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import split

import distributions as dist
import ppl

pytestmark = pytest.mark.usefixtures("x64")

Y = np.array([0.3, -1.0, 2.0, 1.2, 0.4, -0.7])
TRANSITION = np.array([[0.9, 0.3], [-0.4, 0.8]])


def level(key, num_steps, reverse=False):
    """A local level whose start, and mean of the data, are shared by all steps."""
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")

    def step(level, key):
        level = ppl.sample(key, dist.Normal(0.9 * level, scale), name="x")
        return level, ppl.sample(key, dist.Normal(level + mean, 0.5), name="y")

    start = ppl.sample(key, dist.Normal(0.0, 2.0), name="start")
    mean = ppl.sample(key, dist.Normal(1.0, 2.0), name="mean")
    return lax.scan(step, start, split(key, num_steps), reverse=reverse)[1]


def backward(key, num_steps):
    """A local level whose last step comes first."""
    return level(key, num_steps, reverse=True)


def states(key, num_steps):
    """Two states, whose data depend on those before as well."""
    scale = ppl.sample(key, dist.HalfNormal(2.0), name="scale")

    def step(x, key):
        noise = scale * jnp.array([[0.5, 0.2], [0.2, 0.3]])
        new = ppl.sample(key, dist.MultivariateNormal(TRANSITION @ x, covariance=noise), name="x")
        loc = new[0] - 0.5 * x[1]
        return new, ppl.sample(key, dist.Normal(loc, 1.0), name="y")

    return lax.scan(step, jnp.array([1.0, -1.0]), split(key, num_steps))[1]


SITES = {level: ("x", "start", "mean"), backward: ("x", "start", "mean"), states: ("x",)}


def integrated(model, y):
    gaussian = dict.fromkeys(SITES[model], ppl.Gaussian())
    return ppl.marginalize(ppl.condition(model, {"y": y}), gaussian)


@pytest.mark.quick_rows("backward")
@pytest.mark.parametrize("model", SITES, ids=lambda model: model.__name__)
def test_steps_are_differences_of_evidence_without_later_data(model):
    num = len(Y)
    later = np.arange(num) > np.arange(num)[:, None]
    later = later[:, ::-1] if model is backward else later

    def evidence(scale, missing):
        summed = integrated(model, ppl.ignore(Y, missing))
        prior = dist.HalfNormal(2.0).log_prob(scale)
        return ppl.log_density(summed)({"scale": scale}, num) - prior

    @jax.jit
    def run(scale):
        steps = lambda scale: ppl.log_probs(integrated(model, Y))({"scale": scale}, num)["y"]  # noqa: E731
        exact = jax.vmap(jax.value_and_grad(evidence), (None, 0))(scale, later)
        return exact, jax.jvp(steps, (scale,), (1.0,))

    exact, found = run(0.7)
    for x, y in zip(exact, found, strict=True):
        order = y[::-1] if model is backward else y
        np.testing.assert_allclose(np.cumsum(order), x, rtol=1e-11)


def test_chains_of_a_loop_are_told_apart():
    """Their axis is behind that of time, as in the site."""

    def model(key):
        def step(x, key):
            x = ppl.sample(key, dist.Normal(0.9 * x, 0.7), name="x")
            return x, ppl.sample(key, dist.Normal(x, 0.5), name="y")

        return lax.scan(
            lambda x, key: jax.vmap(step)(x, split(key, 2)), jnp.zeros(2), split(key, 3)
        )

    y = Y.reshape(3, 2)
    summed = ppl.marginalize(ppl.condition(model, {"y": y}), {"x": ppl.Gaussian()})
    found = jax.jit(ppl.log_probs(summed))({})["y"]
    mean, variance = np.zeros(2), 0.0  # The filter of Kalman.
    for row, each in zip(y, found, strict=True):
        mean, variance = 0.9 * mean, 0.81 * variance + 0.49
        spread = variance + 0.25
        exact = -0.5 * ((row - mean) ** 2 / spread + np.log(2 * np.pi * spread))
        np.testing.assert_allclose(each, exact, rtol=1e-12)
        mean = mean + variance / spread * (row - mean)
        variance = 0.25 * variance / spread


def test_steps_before_an_integral_exists_count_nothing():
    """Two levels without priors, which take two data to tell apart."""

    def model(key):
        start = ppl.sample(key, dist.Flat(dist.constraints.real), name="start")
        mean = ppl.sample(key, dist.Flat(dist.constraints.real), name="mean")

        def step(x, key):
            x = ppl.sample(key, dist.Normal(0.9 * x, 0.7), name="x")
            return x, ppl.sample(key, dist.Normal(x + mean, 0.5), name="y")

        return lax.scan(step, start, split(key, len(Y)))[1]

    gaussian = dict.fromkeys(["x", "start", "mean"], ppl.Gaussian())
    summed = ppl.marginalize(ppl.condition(model, {"y": Y}), gaussian)
    found, total = jax.jit(lambda: (ppl.log_probs(summed)({})["y"], ppl.log_density(summed)({})))()
    assert found[0] == 0
    np.testing.assert_allclose(found.sum(), total, rtol=1e-12)
