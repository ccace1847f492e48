"""The structured guide: exact for hierarchical posteriors in its family, and of linear cost."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import random

import distributions as dist
import ppl
from inference import ELBO, FullRank, MeanField, Structured, svi
from inference.common.layout import Layout
from inference.guides import structured

KEY, Z = random.key(0), 4.3
POSITION = {"a": jnp.zeros(2), "g": jnp.zeros(2), "z": jnp.zeros(1)}  # global ones in the middle
GUIDE = Structured("g")
RATE = {"optimizer": optax.adam(optax.exponential_decay(0.05, 1500, 0.5))}


def bent(dtype):
    layout = Layout.of(jax.tree.map(lambda x: x.astype(dtype), POSITION))
    parameters = GUIDE.init(jnp.zeros(5, dtype), layout)
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda x: x + jnp.asarray(0.4 * rng.normal(size=x.shape), dtype), parameters
    )


@pytest.mark.quick_rows("float32")
def test_density_entropy_and_covariance_are_those_of_the_draws(float_dtype):
    """Of 31 means: a failure rate of 6e-4. Without the 2 in the exponent of the scales it fails."""
    parameters, num_draws = bent(float_dtype), 40_000
    draws = jax.jit(jax.vmap(GUIDE.sample, (None, 0)))(parameters, random.split(KEY, num_draws))
    assert draws.dtype == float_dtype
    centered = np.float64(draws) - np.float64(parameters.loc)
    products = centered[:, :, None] * centered[:, None]
    errors = products.std(0) / np.sqrt(num_draws)
    assert np.all(np.abs(products.mean(0) - GUIDE.covariance(parameters)) < Z * errors)
    assert np.all(np.abs(centered.mean(0)) < Z * centered.std(0) / np.sqrt(num_draws))
    log_probs = np.float64(jax.jit(jax.vmap(GUIDE.log_prob, (None, 0)))(parameters, draws))
    error = log_probs.std() / np.sqrt(num_draws)
    assert abs(log_probs.mean() + GUIDE.entropy(parameters)) < Z * error


def test_the_density_is_that_of_the_map_from_noise(x64, monkeypatch):
    parameters, size = bent(float), 5

    def position(noise):
        monkeypatch.setattr(structured, "noise_of", lambda *_: noise)
        return GUIDE.sample(parameters, KEY)

    for seed in range(3):
        noise = random.normal(random.key(seed), (size,))
        log_det = jnp.linalg.slogdet(jax.jacfwd(position)(noise))[1]
        exact = -0.5 * jnp.sum(noise**2) - 0.5 * size * jnp.log(2 * jnp.pi) - log_det
        np.testing.assert_allclose(GUIDE.log_prob(parameters, position(noise)), exact, atol=1e-10)


SCALES = np.array([0.5, 1.0, 2.0, 0.3], np.float32)
Y = np.array([1.0, 3.0, -2.0, 2.0], np.float32)


def schools(key):
    mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
    theta = ppl.sample(key, dist.Normal(mu * jnp.ones(4), 0.7), name="a_theta")
    ppl.sample(key, dist.Normal(theta, SCALES), name="y")


def exact_posterior():
    """Mean and covariance of (a_theta, mu)."""
    precision = np.zeros((5, 5))
    precision[:4, :4] = np.diag(1 / SCALES**2 + 1 / 0.49)
    precision[:4, 4] = precision[4, :4] = -1 / 0.49
    precision[4, 4] = 1 / 4 + 4 / 0.49
    covariance = np.linalg.inv(precision)
    return covariance @ np.r_[Y / SCALES**2, 0.0], covariance


def errors(guide):
    """Of mean and covariance, in standard deviations."""
    settings = RATE | {"num_steps": 8000, "objective": ELBO(stick_the_landing=True)}
    result = svi(KEY, ppl.condition(schools, {"y": Y}), guide=guide, **settings)
    mean, covariance = exact_posterior()
    sd = np.sqrt(np.diag(covariance))
    off = guide.covariance(result.parameters) - covariance
    return np.abs((result.parameters.loc - mean) / sd).max(), np.abs(off / np.outer(sd, sd)).max()


@pytest.mark.quick_rows("True")
@pytest.mark.parametrize("has_varying_scales", [False, True])
def test_a_hierarchical_normal_posterior_is_recovered(has_varying_scales):
    guide = Structured("mu", has_varying_scales=has_varying_scales)
    assert max(errors(guide)) < 0.01


def test_a_mean_field_leaves_the_dependence_out():
    location, spread = errors(MeanField())
    assert location < 0.05
    assert spread > 0.2


def funnel(key):
    v = ppl.sample(key, dist.Normal(0.0, 2.0), name="v")
    ppl.sample(key, dist.Normal(jnp.zeros(9), jnp.exp(v / 2)), name="x")


@pytest.mark.slow
def test_a_funnel_is_in_the_family():
    """Its evidence is 1, and no other normal distribution comes near it."""
    settings = RATE | {"num_steps": 6000, "num_particles": 4}
    stuck = ELBO(stick_the_landing=True)
    result = svi(KEY, funnel, guide=Structured("v"), objective=stuck, **settings)
    assert abs(result.elbo) < 0.01
    assert result.pareto_k < 0.5
    np.testing.assert_allclose(result.parameters.log_scale_slopes, 1.0, atol=0.05)
    np.testing.assert_allclose(result.draws["v"].std(), 2.0, rtol=0.1)  # of 1000 draws
    for guide in (FullRank(), Structured("v", has_varying_scales=False)):
        simple = svi(KEY, funnel, guide=guide, num_draws=100_000, **settings)
        assert simple.elbo < -1.0
        assert simple.pareto_k > 0.7


def test_the_cost_is_linear_in_local_coordinates():
    """Memory of a draw, its density and their gradient, beside the parameters."""

    def num_bytes(num_local):
        layout = Layout.of({"mu": jnp.zeros(2), "theta": jnp.zeros(num_local)})
        guide, position = Structured("mu"), jnp.zeros(num_local + 2)
        parameters = jax.eval_shape(lambda x: guide.init(x, layout), position)

        def loss(parameters, key):
            draw = guide.sample(parameters, key)
            return guide.log_prob(parameters, draw) + 0.5 * jnp.sum(draw**2)

        program = jax.jit(jax.grad(loss)).lower(parameters, KEY).compile()
        return program.memory_analysis().temp_size_in_bytes

    assert num_bytes(40_000) < 1.2 * 10 * num_bytes(4000)
