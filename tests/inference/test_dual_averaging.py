"""Dual averaging and Welford's recurrence, each against its definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from inference.warmup.dual_averaging import (
    dual_averaging_init,
    dual_averaging_restart,
    dual_averaging_update,
)
from inference.warmup.welford import welford_init, welford_update

pytestmark = [pytest.mark.promotion(rank="raise", dtype="strict"), pytest.mark.usefixtures("x64")]


def test_dual_averaging_by_hand():
    state = dual_averaging_init(jnp.asarray(0.5))
    # Hoffman and Gelman (2014), algorithm 5, with t0 = 10, gamma = 0.05, kappa = 0.75.
    error, log_average, center = 0.0, np.log(0.5), np.log(10 * 0.5)
    for t, acceptance_rate in enumerate([1.0, 0.0, 0.93, 0.6], start=1):
        state = dual_averaging_update(state, jnp.asarray(acceptance_rate), 0.8)
        error = (1 - 1 / (t + 10)) * error + (0.8 - acceptance_rate) / (t + 10)
        log_step_size = center - np.sqrt(t) / 0.05 * error
        log_average = t**-0.75 * log_step_size + (1 - t**-0.75) * log_average
        np.testing.assert_allclose(state.log_step_size, log_step_size, rtol=1e-12)
        np.testing.assert_allclose(state.log_average, log_average, rtol=1e-12)


def test_dual_averaging_finds_the_step_size_of_the_target():
    def update(state, _):
        acceptance_rate = jnp.exp(-jnp.exp(state.log_step_size))  # 0.8 at log(1 / 0.8)
        return dual_averaging_update(state, acceptance_rate, 0.8), None

    # The mean acceptance rate is off by (center - log_step_size) * gamma / sqrt(t), so by 0.006.
    state, _ = jax.lax.scan(update, dual_averaging_init(jnp.asarray(1.0)), length=1000)
    np.testing.assert_allclose(jnp.exp(-jnp.exp(state.log_average)), 0.8, rtol=0, atol=0.006)


def test_dual_averaging_restarts_from_its_average():
    state = dual_averaging_init(jnp.asarray(0.5))
    for acceptance_rate in [1.0, 0.0, 0.93, 0.6]:
        state = dual_averaging_update(state, jnp.asarray(acceptance_rate), 0.8)
    anew = dual_averaging_restart(state)
    state, average = dual_averaging_update(anew, jnp.asarray(0.6), 0.8), state.log_average
    # t = 1: the error is (0.8 - 0.6) / 11, and the shrinkage 0.15.
    np.testing.assert_allclose(state.log_step_size, average - 0.2 / 11 / 0.15, rtol=1e-12)
    np.testing.assert_allclose(state.log_average, state.log_step_size, rtol=1e-12)


def test_after_a_hundred_updates_steps_move_less():
    state = dual_averaging_init(jnp.asarray(0.5))._replace(count=jnp.asarray(100.0))
    assert dual_averaging_restart(state).shrinkage == 0.5
    earlier = dual_averaging_restart(state._replace(count=jnp.asarray(99.0)))
    np.testing.assert_allclose(earlier.shrinkage, 0.15)


def test_welford_is_the_sample_variance():
    rng = np.random.default_rng(0)
    draws = 1e3 + rng.normal(size=(50, 3)) @ rng.normal(size=(3, 3))
    expected = np.var(draws, axis=0, ddof=1)
    state = welford_init(jnp.zeros(3))
    for draw in draws:
        state = welford_update(state, jnp.asarray(draw))
    np.testing.assert_allclose(state.mean, draws.mean(0), rtol=1e-12)
    np.testing.assert_allclose(state.deviations / 49, expected, rtol=1e-10)
    assert state.count == 50
