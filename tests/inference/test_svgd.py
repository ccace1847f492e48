"""svgd: the direction against derivatives, a normal posterior, going on, failures and refusals."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import ppl
from inference import svgd
from inference.common.layout import Layout
from inference.drivers import svgd as svgd_module
from inference.runtime.compiled_program import compile_program
from inference.variational import svgd_step
from tests.inference.test_optimize import nowhere

KEY = jax.random.key(0)
MEAN, COVARIANCE = np.array([4.0, -1.0]), np.array([[4.0, 1.0], [1.0, 1.0]])


def correlated(key, mean):
    covariance = jnp.asarray(COVARIANCE, mean.dtype)
    ppl.sample(key, dist.MultivariateNormal(mean, covariance=covariance), name="w")


def moved(key=KEY, mean=MEAN, **settings):
    return svgd(key, correlated, jnp.asarray(mean, float), **settings)


def is_normal(result):
    """Whether particles have the mean, and but for their finite number the covariance.

    Where they rest, their mean with the kernel's sums as weights is exact.
    """
    x = np.float64(result.draws["w"][0])
    squared = np.sum((x[:, None] - x[None]) ** 2, -1)
    h = np.median(squared[np.triu_indices(len(x), 1)]) / np.log(len(x) + 1)
    weights = np.exp(-squared / h).sum(0)
    sd = np.sqrt(np.diag(COVARIANCE))
    off = np.abs(weights @ x / weights.sum() - MEAN) / sd
    covariance = np.cov(x.T) / np.outer(sd, sd)
    return np.all(off < 0.01) and np.abs(covariance - COVARIANCE / np.outer(sd, sd)).max() < 0.15


@pytest.mark.slow
def test_a_normal_posterior_is_found(float_dtype):
    result = moved()
    assert is_normal(result)
    assert result.draws["w"].shape == (1, 100, 2)
    assert result.draws["w"].dtype == result.log_density.dtype == float_dtype
    assert result.log_density.shape == (1, 100)
    assert result.discrepancies.shape == (1000,)
    assert result.discrepancies[-1] < 0.03 * result.discrepancies[0]
    assert result.summary().problems == ()
    assert "100 particles after 1000 steps" in str(result.summary())
    assert repr(result) == "SVGDResult(100 particles: w (2,))"


def without_repulsion(particles, gradients, bandwidth):
    """A direction without the kernel's gradient: particles fall to the mode."""
    zeros = jnp.zeros_like(gradients)
    ascent, discrepancy = RIGHT(particles, gradients, bandwidth)
    return ascent - RIGHT(particles, zeros, bandwidth)[0], discrepancy


RIGHT = svgd_step.stein_direction


@pytest.mark.slow
def test_particles_without_repulsion_are_rejected(monkeypatch):
    monkeypatch.setattr(svgd_step, "stein_direction", without_repulsion)
    compile_program.cache_clear()
    jax.clear_caches()
    result = moved()
    compile_program.cache_clear()
    jax.clear_caches()
    assert not is_normal(result)
    assert np.all(np.std(result.draws["w"], 1) < 0.1)


@pytest.mark.quick_rows("-1.0")
@pytest.mark.parametrize("bandwidth", [0.7, -1.0])
def test_the_direction_is_that_of_the_kernel_s_derivatives(x64, bandwidth):
    rng = np.random.default_rng(0)
    x, g = jnp.asarray(rng.normal(size=(2, 6, 3)))
    squared = np.sum((x[:, None] - x[None]) ** 2, -1)
    h = bandwidth if bandwidth > 0 else np.median(squared[np.triu_indices(6, 1)]) / np.log(7)
    k = lambda a, b: jnp.exp(-jnp.sum((a - b) ** 2) / h)  # noqa: E731
    pairs = lambda f: jax.vmap(lambda a: jax.vmap(lambda b: f(a, b))(x))(x)  # noqa: E731
    kernel, first = pairs(k), pairs(jax.grad(k, 0))
    expected = jnp.einsum("ji,jd->id", kernel, g) / 6 + first.mean(0)
    both = pairs(lambda a, b: jnp.trace(jax.jacfwd(jax.grad(k, 0), 1)(a, b)))
    across = jnp.einsum("jd,ijd->ij", g, first)
    steins = kernel * (g @ g.T) + across + across.T + both
    found, discrepancy = svgd_step.stein_direction(x, g, jnp.asarray(bandwidth))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(discrepancy, np.sqrt(steins.mean()), rtol=1e-10)


@pytest.mark.parametrize("num_alike", [9, 10])
def test_the_bandwidth_is_finite_where_particles_coincide(x64, num_alike):
    x = jnp.where(jnp.arange(10) < num_alike, 0.3, 1.3)[:, None]
    found, discrepancy = svgd_step.stein_direction(x, -x, jnp.asarray(-1.0))
    h = 1 / np.log(11)
    kernel = np.exp(-((x - x.T) ** 2) / h)
    expected = -kernel @ x + np.sum(2 / h * kernel * (x - x.T), 1, keepdims=True)
    np.testing.assert_allclose(found, expected / 10, rtol=1e-10)
    assert np.isfinite(discrepancy)


def test_one_particle_climbs_to_the_mode():
    result = moved(num_particles=1, num_steps=500)
    np.testing.assert_allclose(result.draws["w"][0, 0], MEAN, atol=0.01)


def test_going_on_is_one_long_run_and_new_data_compile_nothing():
    settings = {"num_particles": 10, "bandwidth": 2.0}
    whole = moved(num_steps=150, **settings)
    misses = compile_program.cache_info().misses
    first = moved(num_steps=100, **settings)
    rest = moved(num_steps=50, state=first.state, **settings)
    jax.tree.map(np.testing.assert_array_equal, rest.state, whole.state)
    np.testing.assert_array_equal(
        np.r_[first.discrepancies, rest.discrepancies], whole.discrepancies
    )
    other = moved(jax.random.key(1), MEAN + 1, num_steps=5, **settings | {"bandwidth": None})
    assert compile_program.cache_info().misses == misses
    legacy = moved(jax.random.PRNGKey(1), MEAN + 1, num_steps=5, **settings | {"bandwidth": None})
    jax.tree.map(np.testing.assert_array_equal, other.draws, legacy.draws)


def test_sites_are_constrained_and_scopes_nested():
    def model(key):
        scale = ppl.nest(lambda k: ppl.sample(k, dist.LogNormal(0.0, 1.0), name="s"), scope="a")
        ppl.deterministic(2 * scale(key), name="double")
        keys = jax.random.split(key, 2)
        jax.vmap(lambda k: ppl.sample(k, dist.Normal(jnp.zeros(3), 1.0), name="x"))(keys)

    result = svgd(KEY, model, num_particles=5, num_steps=3)
    shapes = {"a": {"s": (1, 5)}, "double": (1, 5), "x": (1, 5, 2, 3)}
    assert jax.tree.map(np.shape, result.draws) == shapes
    np.testing.assert_allclose(result.draws["double"], 2 * result.draws["a"]["s"])
    problems = " ".join(result.summary().problems)
    assert "3 steps are too few" in problems
    assert "5 particles are few for 7 coordinates" in problems


def cliff(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.factor(jnp.where(x > 2.5, jnp.nan, 8 * x), name="f")


def test_a_step_that_is_not_finite_ends_the_run():
    with pytest.warns(RuntimeWarning, match=r"svgd stopped at step.*site 'f' has log probability"):
        result = svgd(KEY, cliff, num_particles=4)
    assert result.failure in result.summary().problems
    assert 5 < int(result.state.step) == len(result.discrepancies) < 1000


def test_an_interrupt_keeps_the_steps():
    def interrupt(num_done, text):
        if num_done > 50:
            raise KeyboardInterrupt

    begun = moved(num_particles=10, num_steps=1)
    swarm = svgd_module._make_swarm(
        ppl.unconstrain(correlated, jnp.asarray(MEAN, float)),
        None,
        None,
        Layout.of({"w": jnp.zeros(2, float)}),
    )
    with pytest.warns(RuntimeWarning, match=r"interrupted: the result is that of \d+ steps of 900"):
        state, discrepancies, is_finite = svgd_module._run(swarm, begun.state, 900, interrupt)
    assert is_finite
    assert 50 < len(discrepancies) == int(state.step) - 1 < 900


def test_particles_that_still_move_are_said():
    problems = moved(num_steps=100, optimizer=optax.sgd(0.1)).summary().problems
    assert any("the particles still move" in problem for problem in problems)


ONE = {"w": np.zeros(2)}
REFUSED = {
    "nowhere": (lambda: svgd(KEY, nowhere), ValueError, "no starting point.*site 'f' has"),
    "particles": (lambda: moved(num_particles=0), ValueError, "num_particles must be an integer"),
    "steps": (lambda: moved(num_steps=0), ValueError, "num_steps must be an integer of at least 1"),
    "bandwidth": (lambda: moved(bandwidth=0.0), ValueError, "bandwidth must be a positive number"),
    "bandwidth-text": (lambda: moved(bandwidth="1"), TypeError, "bandwidth must be a positive"),
    "bandwidth-flag": (lambda: moved(bandwidth=True), TypeError, "bandwidth must be a positive"),
    "bandwidths": (lambda: moved(bandwidth=np.ones(2)), ValueError, "bandwidth must be a scalar"),
    "optimizer": (lambda: moved(optimizer=0.1), TypeError, "optimizer must be an optax optimizer"),
    "one place": (lambda: moved(init=ONE), ValueError, "init gives all particles the same start"),
    "state": (lambda: moved(state=1), TypeError, "state must be that of a result"),
    "other state": (
        lambda: moved(state=moved(num_particles=3, num_steps=1).state),
        ValueError,
        "as many particles, the same sites",
    ),
}


@pytest.mark.slow_rows("other state")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()


def test_a_key_is_asked_for():
    with pytest.raises(TypeError, match=re.escape("one key, such as jax.random.key(0); got 0")):
        svgd(0, cliff)
