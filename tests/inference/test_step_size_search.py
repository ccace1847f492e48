"""The first step size: where the acceptance rate of one step crosses its target."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference import NUTS
from inference.chains.chain import ChainPlan, advance_chain
from inference.chains.initial_chain import make_unplaced_chain
from inference.common.layout import Layout
from inference.kernels.hamiltonian.leapfrog import energy_change, flat_value_and_grad
from inference.warmup.adaptation import schedule
from tests.inference.targets import Dynamics, FakeTarget, leapfrog


def normal(x, scale):
    return -0.5 * jnp.sum((x / scale) ** 2)


def search_of(target, step_size=0.1, tune=True):
    """The search of a chain that makes no transition, from a random point."""
    kernel = NUTS(step_size=step_size, inverse_mass_matrix=jnp.ones(2))
    layout = Layout.of(target.initial(jax.random.key(0)))
    chain = make_unplaced_chain(kernel, layout, "diagonal", tune)
    position = layout.ravel(target.initial(jax.random.key(0)))
    chain = chain._replace(trajectory=chain.trajectory._replace(position=position))
    plan = ChainPlan(schedule(0), jnp.float32(0.8), jnp.int32(0))

    @jax.jit
    def run(chain):
        rows, count = jnp.zeros((2, layout.size + 8)), jnp.int32(0)
        return advance_chain(kernel, target, layout, plan, chain, rows, count, count + 1000)[0]

    return run(chain).progress.search


@pytest.mark.slow
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
    neighbor = search.step_size * (0.5 if search.direction > 0 else 2.0)
    low, high = sorted([acceptance_rate(search.step_size), acceptance_rate(neighbor)])
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
