"""The target of the acceptance rate: raised by failures in the last window, and by them alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from inference import mcmc
from inference.warmup.adaptation import adapt, adaptation_init, schedule
from inference.warmup.dual_averaging import dual_averaging_restart, dual_averaging_update
from inference.warmup.target_rate import estimate_gain, is_failure, raise_target

pytestmark = [pytest.mark.promotion(rank="raise", dtype="strict"), pytest.mark.usefixtures("x64")]


def test_the_target_by_hand():
    shares = jnp.array([0.0, 0.0075, 0.015, 0.03, 1.0])
    expected = 1 - 0.2 / np.array([1.0, 1.25, 2.0, 5.0, 5.0])
    np.testing.assert_allclose(raise_target(0.8, shares), expected, rtol=1e-12)
    # One less the rate goes with the square of the step size.
    np.testing.assert_allclose(estimate_gain(shares), np.log((1 - expected) / 0.2) / 2, atol=1e-12)


@pytest.mark.parametrize(("target", "limit"), [(0.6, 0.01), (0.8, 0.1), (0.9, 0.1**0.5)])
def test_a_failure_is_far_below_the_target(target, limit):
    rates = jnp.asarray(limit) * jnp.array([0.0, 0.99, 1.01])
    np.testing.assert_array_equal(is_failure(rates, target), [True, True, False])


@pytest.mark.parametrize("kind", ["diagonal", "dense"])
@pytest.mark.parametrize("place", ["in the last window", "elsewhere"])
def test_failures_of_the_last_window_are_counted(kind, place):
    """Ten failures of the 655 (dense) or 550 (diagonal) transitions before the last phase."""
    plan, num_warmup = schedule(1000), 1000
    first, stop = (245, 900) if kind == "dense" else (300, 850)
    rates = np.full(num_warmup, 0.85)
    failing = np.r_[first, stop - 9 : stop] if place == "in the last window" else np.r_[0:first]
    rates[failing] = 0.05
    metric = jnp.ones(2) if kind == "diagonal" else jnp.eye(2)
    draws = np.random.default_rng(0).normal(size=(2, num_warmup, 2))

    def iterate(state, now):
        iteration, *now = now
        state = adapt(plan, iteration, state, *now, 0.8)
        return state, state

    inputs = jnp.arange(num_warmup, dtype=jnp.int32), *map(jnp.asarray, (*draws, rates))
    states = jax.jit(
        lambda: jax.lax.scan(iterate, adaptation_init(jnp.asarray(0.1), metric), inputs)
    )
    _, states = states()
    count = 10 if place == "in the last window" else 0
    assert float(states.num_failures[-1]) == count
    share = count / (stop - first + 100)
    goal = float(raise_target(0.8, share))
    before = jax.tree.map(lambda x: x[stop - 2], states.dual_averaging)
    expected = dual_averaging_update(before, jnp.asarray(rates[stop - 1]), 0.8)
    gain = float(estimate_gain(share))
    expected = expected._replace(log_average=expected.log_average + gain)
    if kind == "diagonal":
        expected = dual_averaging_restart(expected)
    expected = dual_averaging_update(expected, jnp.asarray(rates[stop]), goal)
    after = jax.tree.map(lambda x: x[stop], states.dual_averaging)
    np.testing.assert_allclose(after.log_step_size, expected.log_step_size, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.promotion(rank="allow", dtype="standard")
def test_a_banana_gets_a_higher_rate_and_a_normal_does_not():
    """Over ten seeds: the banana, whose curvature varies, had 130 divergences of 4000 and 0.73."""

    def banana(key):
        x = ppl.sample(key, dist.Normal(0.0, 10.0), name="x")
        ppl.sample(key, dist.Normal(0.03 * (x**2 - 100.0), 1.0), name="y")

    def normal(key):
        ppl.sample(key, dist.Normal(jnp.zeros(5), 1.0), name="x")

    curved = [mcmc(jax.random.key(seed), banana).stats for seed in range(10)]
    even = [mcmc(jax.random.key(seed), normal).stats for seed in range(3)]
    assert np.median([x["is_divergent"].sum() for x in curved]) < 25
    assert 0.85 < np.median([x["acceptance_rate"].mean(1) for x in curved]) < 0.97
    np.testing.assert_allclose([x["acceptance_rate"].mean() for x in even], 0.81, atol=0.03)
