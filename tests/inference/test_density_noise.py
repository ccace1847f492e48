"""Log densities that jump between points close to each other are found, smooth ones are not."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from inference import NUTS, ChEES, mcmc
from inference.initialization.density_noise import find_noise

X = np.random.default_rng(0).normal(size=(2000, 5)).astype(np.float32)
Y = (300.0 + X @ np.arange(5.0)).astype(np.float32)
POINTS = np.random.default_rng(1).uniform(-2, 2, (8, 5)).astype(np.float32)
SMOOTH = {
    "normal": lambda x: -0.5 * np.sum(x**2, 1),
    "narrow and skew": lambda x: np.sum(20 * x - np.exp(20 * x), 1),
    "heavy tails": lambda x: -np.sum(np.log1p((1e3 * x) ** 2), 1),
    "far away": lambda x: -0.5e4 * np.sum((x - 100) ** 2, 1),
    "constant": lambda x: np.zeros(len(x)),
    "nowhere finite": lambda x: np.full(len(x), -np.inf),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_densities_have_no_noise(name):
    log_density = lambda x: SMOOTH[name](x.astype(np.float64)).astype(np.float32)  # noqa: E731
    assert find_noise(log_density, POINTS) == 0.0


@pytest.mark.parametrize("noise", [1.0, 10.0])
def test_the_standard_deviation_of_noise_is_found(noise):
    rng, points = np.random.default_rng(2), np.tile(POINTS, (50, 1))
    rough = lambda x: -0.5 * np.sum(x**2, 1) + noise * rng.normal(size=len(x))  # noqa: E731
    np.testing.assert_allclose(find_noise(rough, points), noise, rtol=0.25)
    slight = lambda x: -0.5 * np.sum(x**2, 1) + 0.05 * rng.normal(size=len(x))  # noqa: E731
    assert find_noise(slight, points) == 0.0


def line(key, x, y):
    slopes = ppl.sample(key, dist.Normal(jnp.zeros(5), 5.0), name="slopes")
    mean = 300 + x @ slopes
    # Large numbers that cancel, beside the sum of squares as it should be computed.
    square = y @ y - 2 * y @ mean + mean @ mean
    if len(y) < len(Y):
        square = jnp.sum((y - mean) ** 2)
    ppl.factor(-0.5 * square, name="y")


@pytest.mark.parametrize("kernel", [NUTS(), ChEES()], ids=["NUTS", "ChEES"])
def test_a_sum_of_squares_by_cancellation_is_warned_of(kernel):
    settings = {"kernel": kernel, "num_warmup": 5, "num_draws": 5, "num_chains": 8}
    arguments = [jnp.asarray(a, jnp.float32) for a in (X, Y)]
    with pytest.warns(RuntimeWarning, match=r"jumps by about .* nats .* float32 .* precision"):
        mcmc(jax.random.key(0), line, *arguments, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mcmc(jax.random.key(0), line, *[a[:1999] for a in arguments], **settings)
