"""Kernels leave exact draws of a skewed and anisotropic density exact; broken ones do not.

After two transitions of 8,000 chains, Rosenblatt uniforms are tested, each for uniformity
(Kolmogorov-Smirnov) and each pair for correlation, at a failure rate of 1e-5 a test: with a
fixed key, a pass is a fact, and the rate says how likely it was to be one for a right kernel.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

from inference import HMC, MALA, NUTS, WALNUTS, Barker
from inference.common.matrices import pull, push
from inference.kernels.hamiltonian import barker as barker_module
from inference.kernels.hamiltonian import hmc as hmc_module
from inference.kernels.hamiltonian import nuts_trajectory as tree_module
from inference.kernels.hamiltonian.leapfrog import Point, energy_change
from tests.inference.targets import SCALE, skewed_draws, skewed_log_density, skewed_uniforms

FAILURE_RATE = 1e-5
NUM_CHAINS, NUM_STEPS = 8_000, 2
DIAGONAL = jnp.array([1.5, 2.0, 0.4 * SCALE**2])
DENSE = jnp.array([[1.5, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 0.4 * SCALE**2]])
KERNELS = {
    "HMC": HMC(skewed_log_density, 0.3, DIAGONAL, num_steps=2, step_size_jitter=0.0),
    "HMC, dense, jittered": HMC(skewed_log_density, 0.5, DENSE, num_steps=4, step_size_jitter=0.5),
    "MALA": MALA(skewed_log_density, 0.6, DENSE),
    "Barker": Barker(skewed_log_density, 0.8, DENSE),
    "NUTS": NUTS(skewed_log_density, 0.6, DIAGONAL),
    "NUTS, dense": NUTS(skewed_log_density, 0.3, DENSE),
    "NUTS, cut short": NUTS(skewed_log_density, 0.5, DIAGONAL, max_depth=2),
    "WALNUTS": WALNUTS(skewed_log_density, 0.6, DIAGONAL, tolerance=0.3),
}


def p_values(kernel):
    """The p-values of draws after a few transitions from exact ones."""

    def chain(key, position):
        keys = jax.random.split(key, NUM_STEPS)
        state, info = jax.lax.scan(lambda s, key: kernel.step(key, s), kernel.init(position), keys)
        return state.position, info.acceptance_rate

    keys = jax.random.split(jax.random.key(0), NUM_CHAINS)
    draws, acceptance_rate = jax.jit(jax.vmap(chain))(keys, skewed_draws(1, NUM_CHAINS))
    uniforms = skewed_uniforms(draws)
    uniformity = [st.kstest(u, "uniform").pvalue for u in uniforms]
    pairs = itertools.combinations(uniforms, 2)
    independence = [st.pearsonr(a, b).pvalue for a, b in pairs]
    return np.mean(acceptance_rate), min(uniformity + independence)


# Each way to step once; all of them in the slow tests.
ROWS = [
    name if name in ("HMC", "NUTS") else pytest.param(name, marks=pytest.mark.slow)
    for name in KERNELS
]


@pytest.mark.quick_rows("HMC")
@pytest.mark.parametrize("name", ROWS)
def test_kernel_leaves_exact_draws_exact(name):
    acceptance_rate, p_value = p_values(KERNELS[name])
    assert 0.5 < acceptance_rate < 0.97  # there is something to get wrong
    assert p_value > FAILURE_RATE


def drift_with_sign(sign):
    def drift(factor, step_size, point):
        momentum = point.momentum + sign * 0.5 * step_size * point.force
        return point.position + step_size * push(factor, momentum)

    return drift


def kick_with_signs(first, second):
    def kick(factor, step_size, point, position, log_density, gradient):
        force = pull(factor, gradient)
        momentum = point.momentum + 0.5 * step_size * (first * point.force + second * force)
        return Point(position, momentum, force, log_density, gradient)

    return kick


# A position that goes against the momentum is missing here because it is no mistake: that map too
# preserves volume and is reversible, so that accepting by the energy corrects for it.
BROKEN = {
    "first kick": {"drift": drift_with_sign(-1), "kick": kick_with_signs(-1, 1)},
    "second kick": {"kick": kick_with_signs(1, -1)},
    "kinetic energy": {
        "energy_change": lambda start, end: energy_change(
            start._replace(momentum=end.momentum), end._replace(momentum=start.momentum)
        ),
    },
}


@pytest.mark.quick_rows("inference.kernels.hamiltonian.hmc-kinetic energy")
@pytest.mark.parametrize("mistake", BROKEN)
@pytest.mark.parametrize("module", [hmc_module, pytest.param(tree_module, marks=pytest.mark.slow)])
def test_one_wrong_sign_is_caught(monkeypatch, module, mistake):
    for name, broken in BROKEN[mistake].items():
        monkeypatch.setattr(module, name, broken)
    assert p_values(KERNELS["HMC" if module is hmc_module else "NUTS"])[1] < FAILURE_RATE


def test_proposals_that_are_taken_for_symmetric_are_caught(monkeypatch):
    monkeypatch.setattr(barker_module, "log_proposal_ratio", lambda *_: 0.0)
    assert p_values(KERNELS["Barker"])[1] < FAILURE_RATE


def test_trees_that_may_turn_inside_are_caught(monkeypatch):
    monkeypatch.setattr(tree_module, "turns_within_by_loop", lambda *_: jnp.zeros((), bool))
    assert p_values(KERNELS["NUTS"])[1] < FAILURE_RATE


def test_doublings_joined_whatever_their_weight_are_caught(monkeypatch):
    def join(old):
        tree = old.subtree._replace(log_weight=jnp.log(2.0) * old.depth)
        return honest(old._replace(subtree=tree, log_weight=jnp.log(2.0) * old.depth))

    honest = tree_module.join_subtree
    monkeypatch.setattr(tree_module, "join_subtree", join)
    assert p_values(KERNELS["NUTS"])[1] < FAILURE_RATE
