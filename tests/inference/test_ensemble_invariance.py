"""Ensemble kernels leave exact draws exact, and broken ones do not; see `test_invariance`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

from inference import MEADS, AdjustedMCLMC, ChEES
from inference.kernels.ensemble import adjusted_mclmc, chees, meads
from tests.inference.targets import SCALE, skewed_draws, skewed_log_density, skewed_uniforms

FAILURE_RATE = 1e-5  # of one test, by chance
NUM_CHAINS, NUM_STEPS = 8_000, 3
VARIANCES = jnp.array([1.5, 2.0, 0.4 * SCALE**2])
# Each with the number of chains of an ensemble; there are many ensembles if it is small.
KERNELS = {
    "ChEES": (ChEES(skewed_log_density, 0.5, 2.0, VARIANCES), NUM_CHAINS),
    "AdjustedMCLMC": (AdjustedMCLMC(skewed_log_density, 1.0, 3.0, VARIANCES), NUM_CHAINS),
    # With steps so long that a part of them is rejected.
    "MEADS": (MEADS(skewed_log_density, step_size_factor=1.7), NUM_CHAINS),
    # In small folds, parameters vary much with the chains that they come from.
    "MEADS, small folds": (MEADS(skewed_log_density), 16),
}


def p_values(name):
    """Acceptance rate, and the least p-value of draws after a few transitions from exact ones."""
    kernel, size = KERNELS[name]

    def run(key, positions):
        keys = jax.random.split(key, NUM_STEPS)
        step = lambda state, key: kernel.step(key, state)  # noqa: E731
        state, info = jax.lax.scan(step, kernel.init(positions), keys)
        return state.position, jnp.mean(info.acceptance_rate)

    number = NUM_CHAINS // size
    split = lambda x: x.reshape(number, size)  # noqa: E731
    starts = jax.tree.map(split, skewed_draws(1, NUM_CHAINS))
    draws, rate = jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), number), starts)
    uniforms = skewed_uniforms(jax.tree.map(np.ravel, draws))
    uniformity = [st.kstest(u, "uniform").pvalue for u in uniforms]
    independence = [st.pearsonr(*pair).pvalue for pair in itertools.combinations(uniforms, 2)]
    return float(np.mean(rate)), min(uniformity + independence)


@pytest.mark.quick_rows("ChEES", "AdjustedMCLMC", "MEADS, small folds")
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_leaves_exact_draws_exact(name):
    rate, p_value = p_values(name)
    assert 0.5 < rate < 0.97  # there is something to get wrong
    assert p_value > FAILURE_RATE


def lower_kinetic_energy(start, end):
    return -honest_change(start, end)


def turn_in_more_dimensions(velocity, impulse):
    turned, gain = honest_turn(velocity, impulse)
    return turned, 1.5 * gain


def parameters_of_own_fold(kernel, folds, count):
    return honest_parameters(kernel, jax.tree.map(lambda x: jnp.roll(x, -1, 0), folds), count)


honest_change, honest_turn = chees.kinetic_change, adjusted_mclmc.turn
honest_parameters = MEADS._parameters
BROKEN = {
    "ChEES": (chees, "kinetic_change", lower_kinetic_energy),
    "AdjustedMCLMC": (adjusted_mclmc, "turn", turn_in_more_dimensions),
    "MEADS": (meads, "wrap", lambda level: 0 * level),
    "MEADS, small folds": (MEADS, "_parameters", parameters_of_own_fold),
}


@pytest.mark.quick_rows("AdjustedMCLMC")
@pytest.mark.parametrize("name", KERNELS)
def test_one_mistake_is_caught(monkeypatch, name):
    monkeypatch.setattr(*BROKEN[name])
    assert p_values(name)[1] < FAILURE_RATE
