"""svi by batches: unbiased gradients, the posterior of all data, rows with latent sites."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import ppl
from distributions import constraints
from inference import ELBO, FullRank, MeanField, svi
from inference.drivers.svi_problem import problem_of
from inference.runtime.compiled_program import compile_program

NUM_ROWS, SIZE = 10_000, 100
RNG = np.random.default_rng(0)
X = RNG.normal(size=(NUM_ROWS, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
Y = X @ np.array([0.5, -1.0]) + RNG.normal(size=NUM_ROWS)
Z = 4.5  # failure rate 7e-6 for each comparison


def floats(x):
    return jnp.asarray(x, jnp.result_type(float))


def regression(key, x, scale):
    w = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="w")
    likelihood = lambda key: ppl.sample(key, dist.Normal(x @ w, 1.0), name="y")  # noqa: E731
    ppl.scale(likelihood, scale)(key)


def posterior(key, x, y, num_rows):
    return ppl.condition(regression, {"y": y})(key, x, num_rows / len(x))


def unscaled(key, x, y, num_rows):
    return ppl.condition(regression, {"y": y})(key, x, 1.0)


def batch(key, x, y, num_rows):
    rows = jax.random.randint(key, (SIZE,), 0, num_rows)
    return x[rows], y[rows], num_rows


def data(num_rows=NUM_ROWS, shift=0.0):
    return floats(X[:num_rows]), floats(Y[:num_rows] + shift), num_rows


def exact(num_rows=NUM_ROWS):
    precision = X[:num_rows].T @ X[:num_rows] + np.eye(2) / 4
    return np.linalg.solve(precision, X[:num_rows].T @ Y[:num_rows]), precision


def deviations(model):
    """Of the mean gradient at a point, over 4000 steps, from that of all data; in errors."""
    target = ppl.unconstrain(model, *data())
    problem = problem_of(jax.random.key(0), target, MeanField(), ELBO(), None, 1, batch)
    point = floats([0.3, -0.7])

    def gradient(step):
        now = problem.at(jnp.array([3, 5], jnp.uint32), step)
        return jax.grad(now.log_density)(point)

    found = np.asarray(jax.lax.map(gradient, jnp.arange(4000, dtype=jnp.uint32)), np.float64)
    full = jax.grad(problem_of(*_all(), None, 1).log_density)(point)
    return (found.mean(0) - full) / found.std(0) * 4000**0.5


def _all():
    return jax.random.key(0), ppl.unconstrain(posterior, *data()), MeanField(), ELBO()


@pytest.mark.slow
def test_the_gradient_of_a_batch_is_unbiased():
    assert np.all(np.abs(deviations(posterior)) < Z)
    assert np.all(np.abs(deviations(unscaled)) > Z)


@pytest.mark.slow
def test_batches_lead_to_the_posterior_of_all_rows(float_dtype):
    """The average over steps, with weights like t**7, is worth 15 / 64 of the rows that were seen.

    Its error is to the posterior's spread as the root of all rows to these: 0.17.
    """
    num_steps = 15_000
    result = svi(
        jax.random.key(1),
        posterior,
        *data(),
        batch=batch,
        guide=FullRank(),
        optimizer=optax.adam(optax.exponential_decay(0.02, 2000, 0.5)),
        num_steps=num_steps,
    )
    mean, precision = exact()
    covariance = np.linalg.inv(precision)
    sd = np.sqrt(np.diag(covariance))
    found = result.guide.covariance(result.parameters)
    assert result.parameters.loc.dtype == float_dtype
    error = np.sqrt(NUM_ROWS / (num_steps * SIZE * 15 / 64))
    np.testing.assert_allclose((result.parameters.loc - mean) / sd, 0.0, atol=Z * error)
    np.testing.assert_allclose(found, covariance, atol=0.25 * sd.max() ** 2)
    # The weights are those of all rows.
    target = ppl.unconstrain(posterior, *data())
    log_density = jax.vmap(target.log_density)({"w": result.draws["w"][0]})
    np.testing.assert_allclose(result.log_density[0], log_density, rtol=1e-5)
    assert result.pareto_k < 0.7


def rows_with_sites(key, y, num_rows):
    """Each row has a latent site of its own."""

    def one(key, y):
        z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
        ppl.factor(dist.Normal(z, 0.5).log_prob(y), name="y")

    keys = jax.random.split(key, len(y))
    ppl.scale(jax.vmap(one), num_rows / len(y))(keys, y)


def amortised(key, y, num_rows):
    weight = ppl.param(floats(0.1), name="weight")
    sd = ppl.param(floats(1.0), name="sd", support=constraints.positive)
    one = lambda key, y: ppl.sample(key, dist.Normal(weight * y, sd), name="z")  # noqa: E731
    keys = jax.random.split(key, len(y))
    ppl.scale(jax.vmap(one), num_rows / len(y))(keys, y)


def some_rows(key, y, num_rows):
    return y[jax.random.randint(key, (10,), 0, num_rows)], num_rows


@pytest.mark.slow
def test_a_guide_serves_rows_with_latent_sites_of_their_own(float_dtype):
    y = floats(1.25**0.5 * RNG.normal(size=200))
    result = svi(
        jax.random.key(0),
        rows_with_sites,
        y,
        200,
        guide=amortised,
        batch=some_rows,
        objective=ELBO(stick_the_landing=True),
        optimizer=optax.adam(optax.exponential_decay(0.02, 500, 0.5)),
        num_steps=5000,
        num_draws=40,
    )
    found = result.guide.values(result.parameters)
    np.testing.assert_allclose([found["weight"], found["sd"]], [0.8, 0.2**0.5], rtol=5e-3)
    assert result.draws["z"].shape == (1, 40, 200)
    evidence = np.sum(dist.Normal(0.0, 1.25**0.5).log_prob(y))
    np.testing.assert_allclose(result.elbo, evidence, atol=0.05)
    np.testing.assert_allclose(np.mean(result.elbos[-1000:]), evidence, rtol=0.1)


QUICK = {"num_steps": 200, "num_draws": 10, "batch": batch}


@pytest.mark.slow
def test_new_data_keys_and_steps_compile_nothing():
    svi(jax.random.key(0), posterior, *data(500), **QUICK)
    misses = compile_program.cache_info().misses
    again = lambda key, x, y, num_rows: batch(key, x, y, num_rows)  # noqa: E731
    svi(jax.random.key(1), posterior, *data(500, 1.0), **QUICK | {"num_steps": 300})
    assert compile_program.cache_info().misses == misses
    svi(jax.random.key(1), posterior, *data(500, 1.0), **QUICK | {"batch": again})
    assert compile_program.cache_info().misses > misses


def test_going_on_is_one_long_run_and_keys_of_all_kinds_do():
    whole = svi(jax.random.key(0), posterior, *data(500), **QUICK)
    first = svi(jax.random.PRNGKey(0), posterior, *data(500), **QUICK | {"num_steps": 70})
    rest = svi(
        jax.random.key(0),
        posterior,
        *data(500),
        state=first.state,
        **QUICK | {"num_steps": 130},
    )
    jax.tree.map(np.testing.assert_array_equal, rest.parameters, whole.parameters)
    np.testing.assert_array_equal(np.r_[first.elbos, rest.elbos], whole.elbos)


def test_every_step_has_a_batch_of_its_own():
    target = ppl.unconstrain(posterior, *data())
    problem = problem_of(jax.random.key(0), target, MeanField(), ELBO(), None, 1, batch)
    seed = jnp.array([3, 5], jnp.uint32)
    first, second, other = (
        problem.at(x, jnp.uint32(step)).target.data[0]
        for x, step in ((seed, 0), (seed, 1), (seed + 1, 0))
    )
    assert first.shape == (SIZE, 2)
    assert not np.any(np.all(first == second, 1))
    assert not np.any(np.all(first == other, 1))


REFUSED = {
    "no function": (
        {"batch": 100},
        TypeError,
        "batch must be a function of a key and of the arguments",
    ),
    "nothing": ({"batch": lambda key, *args: None}, TypeError, "a tuple of the arguments"),
    "list": ({"batch": lambda key, *args: list(args)}, TypeError, "a tuple of the arguments"),
    "rows with sites": (
        {"batch": some_rows},
        ValueError,
        "latent sites of a batch, z (10,), are not those of all data, z (50,)",
    ),
}


def test_errors_of_the_model_tell_that_a_batch_led_to_them():
    short = lambda key, *args: args[:2]  # noqa: E731
    with pytest.raises(TypeError, match="cannot be called") as caught:
        svi(jax.random.key(0), posterior, *data(50), batch=short)
    assert any("that batch has returned" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    settings, error, message = REFUSED[name]
    with pytest.raises(error, match=re.escape(message)):
        svi(jax.random.key(0), rows_with_sites, floats(Y[:50]), 50, **settings)


def test_a_batch_that_is_not_finite_is_named():
    def broken(key, x, y, num_rows):
        return x[:SIZE] + jnp.nan, y[:SIZE], num_rows

    with pytest.raises(ValueError, match=r"no starting point.*site 'y' has log probability nan"):
        svi(jax.random.key(0), posterior, *data(500), batch=broken)
