"""marginalize and recover beside TensorFlow Probability's linear Gaussian state-space model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tensorflow_probability.substrates import jax as tfp

import distributions as dist
import ppl

tfd = tfp.distributions
NUM_STEPS, NUM_DRAWS = 12, 4000
LOADING = np.array([[1.0, 0.0], [0.5, -1.0], [0.2, 0.3]])
STEP = np.array([[0.4, 0.1], [0.1, 0.3]])
START, SPREAD = np.array([0.5, -1.0]), np.array([[1.0, 0.3], [0.3, 0.8]])
Y = np.cos(np.arange(3.0 * NUM_STEPS) ** 2).reshape(NUM_STEPS, 3)
VALUES = {"angle": 0.4, "noise": np.array([0.7, 0.4, 1.1])}


def transition(angle):
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return 0.9 * jnp.stack([jnp.stack([cos, sin]), jnp.stack([-sin, cos])])


def model(key):
    angle = ppl.sample(key, dist.Normal(0.0, 1.0), name="angle")
    noise = ppl.sample(key, dist.HalfNormal(np.ones(3)), name="noise")

    def step(x, key):
        d = dist.MultivariateNormal(transition(angle) @ x, covariance=jnp.asarray(STEP))
        x = ppl.sample(key, d, name="x")
        return x, ppl.sample(key, dist.Normal(LOADING @ x, noise), name="y")

    d = dist.MultivariateNormal(jnp.asarray(START), covariance=jnp.asarray(SPREAD))
    start = ppl.sample(key, d, name="start")
    return lax.scan(step, start, jax.random.split(key, NUM_STEPS))[1]


POSTERIOR = ppl.condition(model, {"y": Y})
INTEGRATED = ppl.marginalize(POSTERIOR, dict.fromkeys(["x", "start"], ppl.Gaussian()))


def peer(values):
    """The model from the first step on: its prior is that of the state after the start."""
    matrix = transition(values["angle"])
    spread = matrix @ SPREAD @ matrix.T + STEP
    normal = lambda loc, root: tfd.MultivariateNormalTriL(loc, root)  # noqa: E731
    return tfd.LinearGaussianStateSpaceModel(
        NUM_STEPS,
        transition_matrix=matrix,
        transition_noise=normal(jnp.zeros(2), jnp.linalg.cholesky(jnp.asarray(STEP))),
        observation_matrix=jnp.asarray(LOADING),
        observation_noise=tfd.MultivariateNormalDiag(scale_diag=values["noise"]),
        initial_state_prior=normal(matrix @ START, jnp.linalg.cholesky(spread)),
    )


@pytest.mark.usefixtures("x64")
def test_density_and_gradient_are_those_of_the_peer():
    def by_peer(values):
        prior = dist.Normal(0.0, 1.0).log_prob(values["angle"])
        prior += dist.HalfNormal(np.ones(3)).log_prob(values["noise"]).sum()
        return prior + peer(values).log_prob(Y)

    fs = ppl.log_density(INTEGRATED), by_peer
    both = jax.jit(lambda v: [jax.value_and_grad(f)(v) for f in fs])
    ours, theirs = both(jax.tree.map(jnp.asarray, VALUES))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10), ours, theirs)


def largest_z(states, means, covariances):
    """The largest error of means and of second moments, in standard errors."""
    at = states - means
    squares = at[..., :, None] * at[..., None, :] - covariances
    error = lambda x: np.abs(x.mean(0)) / (x.std(0) / len(x) ** 0.5)  # noqa: E731
    return max(error(at).max(), error(squares).max())


@pytest.mark.usefixtures("x64")
def test_recovered_states_follow_the_smoothed_moments():
    """Of 72 moments none is off by 5 errors; those given the past alone are."""

    @jax.jit
    def moments(values):
        return peer(values).posterior_marginals(Y), peer(values).forward_filter(Y)

    smoothed, filtered = moments(jax.tree.map(jnp.asarray, VALUES))
    draws = jax.tree.map(lambda x: np.broadcast_to(x, (NUM_DRAWS, *np.shape(x))), VALUES)
    states = np.asarray(ppl.recover(INTEGRATED, draws)(jax.random.key(0))["x"])
    assert largest_z(states, *map(np.asarray, smoothed)) < 5
    assert largest_z(states, *map(np.asarray, filtered[1:3])) > 20
