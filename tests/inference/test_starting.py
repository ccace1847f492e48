"""Where chains start: finite points, and steps of the right order."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference import NUTS
from inference.adaptation import schedule
from inference.chain import Plan, advance
from inference.flat import Layout
from inference.hamiltonian import energy_change, flat_value_and_grad
from inference.sampling import sample
from inference.starting import MOST_ATTEMPTS, unplaced_chain
from tests.inference.targets import Dynamics, FakeTarget, leapfrog

SETTINGS = {
    "num_warmup": 10,
    "num_draws": 10,
    "num_chains": 3,
    "is_dense": False,
    "target_acceptance_rate": 0.8,
}


def normal(x, scale):
    return -0.5 * jnp.sum((x / scale) ** 2)


def search_of(target, step_size=0.1, tune=True):
    """The search of a chain that makes no transition, from a random point."""
    kernel, layout = NUTS(step_size=step_size), Layout.of(target.initial(jax.random.key(0)))
    chain = unplaced_chain(kernel, layout, False, tune)
    position = layout.ravel(target.initial(jax.random.key(0)))
    chain = chain._replace(trajectory=chain.trajectory._replace(position=position))
    plan = Plan(schedule(0), jnp.float32(0.8), jnp.int32(0))

    @jax.jit
    def run(chain):
        rows, count = jnp.zeros((2, layout.size + 8)), jnp.int32(0)
        return advance(kernel, target, layout, plan, chain, rows, count, count + 1000)[0]

    return run(chain).progress.search


@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
@pytest.mark.parametrize("step_size", [1e-4, 0.1, 100.0])
def test_step_size_is_where_acceptance_crosses(scale, step_size):
    target = FakeTarget(normal, (2,), jnp.float32(scale))
    search = search_of(target, step_size)
    layout = Layout.of({"x": jnp.zeros(2)})
    value_and_grad = flat_value_and_grad(target.log_density, layout)

    def acceptance_rate(step_size):
        end = leapfrog(Dynamics(value_and_grad, jnp.ones(2), step_size), search.start)
        return np.exp(-np.maximum(0.0, energy_change(search.start, end)))

    assert np.isfinite(search.start.log_density)
    assert np.any(search.start.momentum != 0)
    neighbour = search.step_size * (0.5 if search.direction > 0 else 2.0)
    low, high = sorted([acceptance_rate(search.step_size), acceptance_rate(neighbour)])
    assert low <= 0.8 <= high
    np.testing.assert_allclose(np.log2(search.step_size / step_size) % 1 % 0.99999, 0, atol=1e-3)


def test_the_step_size_stays_if_it_is_not_to_be_tuned():
    search = search_of(FakeTarget(normal, (2,), jnp.float32(1.0)), 0.123, tune=False)
    np.testing.assert_allclose(search.step_size, 0.123, rtol=1e-6)
    assert np.isfinite(search.start.log_density)
    assert search.num_tries == 0


def test_a_flat_density_ends_the_search():
    search = search_of(FakeTarget(lambda x, _: 0.0 * jnp.sum(x), (2,)))
    assert search.is_done
    assert np.isfinite(search.step_size)


def starts_of(density):
    """Where chains start: they hardly move from there."""
    settings = SETTINGS | {"num_warmup": 0, "num_draws": 1, "num_chains": 6}
    kernel = NUTS(step_size=1e-6, max_depth=1)
    target = FakeTarget(density, (2,))
    firsts = jax.vmap(target.initial)(jax.random.split(jax.random.key(0), 100))["x"]
    values = jax.vmap(jax.value_and_grad(density))(firsts, jnp.zeros(100))
    assert not all(np.all(np.isfinite(x)) for x in values)
    return sample(jax.random.key(0), target, kernel, **settings).draws["x"][:, 0]


def test_positions_are_drawn_until_one_is_finite():
    def in_a_corner(x, _):
        return jnp.where(jnp.all(x > 1.0), normal(x, 1.0), -jnp.inf)

    starts = starts_of(in_a_corner)
    assert np.all(starts > 0.999)
    assert len(np.unique(starts)) == starts.size


def test_a_gradient_that_is_not_finite_is_no_start():
    def root(x, _):
        return jnp.sum(jnp.sqrt(jnp.maximum(x, 0.0)))  # its gradient at x < 0 is NaN

    assert np.all(starts_of(root) > 0)


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
