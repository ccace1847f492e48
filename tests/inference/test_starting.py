"""Where chains start: finite points, and steps of the right order."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference import NUTS
from inference.flat import Layout
from inference.hamiltonian import (
    Dynamics,
    Point,
    energy_change,
    flat_value_and_grad,
    leapfrog,
)
from inference.sampling import sample
from inference.starting import MOST_ATTEMPTS, find_start
from tests.inference.targets import FakeTarget

SETTINGS = {
    "num_warmup": 10,
    "num_draws": 10,
    "num_chains": 3,
    "is_dense": False,
    "target_acceptance_rate": 0.8,
}


def normal(x, scale):
    return -0.5 * jnp.sum((x / scale) ** 2)


def start(target, step_size=0.1, tune=True, seed=0):
    layout = Layout.of(jax.eval_shape(target.initial, jax.random.key(0)))
    find = jax.jit(lambda key: find_start(key, target, layout, step_size, jnp.ones(2), tune))
    return find(jax.random.key(seed))


@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
@pytest.mark.parametrize("step_size", [1e-4, 0.1, 100.0])
def test_step_size_is_where_acceptance_crosses(scale, step_size):
    target = FakeTarget(normal, (2,), jnp.float32(scale))
    state, search = start(target, step_size)
    layout = Layout.of(state.position)
    value_and_grad = flat_value_and_grad(target.log_density, layout)

    def acceptance_rate(step_size):
        dynamics = Dynamics(value_and_grad, jnp.ones(2), step_size)
        gradient = layout.ravel(state.gradient)
        point = Point(
            search.point.position, search.point.momentum, gradient, state.log_density, gradient
        )
        return np.exp(-np.maximum(0.0, energy_change(point, leapfrog(dynamics, point))))

    assert np.isfinite(state.log_density)
    assert search.num_attempts == 1
    neighbour = search.step_size * (0.5 if search.direction > 0 else 2.0)
    low, high = sorted([acceptance_rate(search.step_size), acceptance_rate(neighbour)])
    assert low <= 0.8 <= high
    np.testing.assert_allclose(np.log2(search.step_size / step_size) % 1 % 0.99999, 0, atol=1e-3)


def test_the_step_size_stays_if_it_is_not_to_be_tuned():
    state, search = start(FakeTarget(normal, (2,), jnp.float32(1.0)), 0.123, tune=False)
    np.testing.assert_allclose(search.step_size, 0.123, rtol=1e-6)
    assert np.isfinite(state.log_density)


def test_a_flat_density_ends_the_search():
    _, search = start(FakeTarget(lambda x, _: 0.0 * jnp.sum(x), (2,)))
    assert search.is_done
    assert np.isfinite(search.step_size)


def test_positions_are_drawn_until_one_is_finite():
    def in_a_corner(x, _):
        return jnp.where(jnp.all(x > 1.0), normal(x, 1.0), -jnp.inf)

    found = [start(FakeTarget(in_a_corner, (2,)), seed=seed) for seed in range(5)]
    assert all(np.all(state.position["x"] > 1.0) for state, _ in found)
    assert max(search.num_attempts for _, search in found) > 1


def test_a_gradient_that_is_not_finite_is_no_start():
    def root(x, _):
        return jnp.sum(jnp.sqrt(jnp.maximum(x, 0.0)))  # its gradient at x < 0 is NaN

    state, search = start(FakeTarget(root, (2,)))
    assert search.is_found
    assert np.all(state.position["x"] > 0)


@pytest.mark.parametrize(
    ("density", "message"),
    [
        (lambda x, _: jnp.sum(x) * jnp.nan, "site 'scope.y' has log probability nan"),
        (lambda x, _: jnp.sum(x) - jnp.inf, "site 'scope.y' has log probability -inf"),
        (
            lambda x, _: jnp.sum(jnp.sqrt(0.0 * x)),
            "the gradient of the log density with respect to 'x' is nan at 2 of 2 elements",
        ),
    ],
)
def test_a_model_that_is_finite_nowhere_is_an_error_that_names_the_site(density, message):
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        sample(jax.random.key(0), FakeTarget(density, (2,)), NUTS(), **SETTINGS)
    assert f"in {MOST_ATTEMPTS} attempts" in str(raised.value)
    assert "'prior'" not in str(raised.value)
