"""Simulation-based calibration of the kernels, and of the sampler, on whole models.

Each report is on 250 or 400 simulations, and fails for a right sampler with a chance of 1e-5: of
kernels with a given step size; of `mcmc` with one chain, and with so many that they learn one mass
matrix; and of the chains of a pool, as under `mcmc_each`. A model that is conditioned with another
likelihood than the one simulated must be rejected, as must a sampler whose momenta are too large.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.tree_util import Partial

import distributions as dist
import inference
import ppl
from inference.chains import chain
from inference.runtime import compiled_program

SIMULATIONS, NUM_DRAWS, THIN, BURN_IN = 400, 99, 8, 100
FAILURE_RATE = 1e-5


def waiting_times(key, scale=1.0):
    """A skewed posterior on the half line."""
    rate = ppl.sample(key, dist.Gamma(2.0, 1.0), name="rate")
    return ppl.sample(key, dist.Exponential(rate * scale * jnp.ones(3)), name="y")


def groups(key, scale=1.0):
    """A hierarchy with one group in each element of a vmap."""
    mu = ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")
    tau = ppl.sample(key, dist.HalfNormal(1.0), name="tau")

    def group(key):
        z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
        return ppl.sample(key, dist.Normal(mu + tau * z, scale * 0.5 * jnp.ones(2)), name="y")

    return jax.vmap(group)(jax.random.split(key, 3))


KERNELS = {
    "NUTS": inference.NUTS(step_size=0.2),
    "HMC": inference.HMC(step_size=0.15, num_steps=10),
}
MODELS = {"waiting times": waiting_times, "groups": groups}
each_model = pytest.mark.parametrize(
    "model", ["waiting times", pytest.param("groups", marks=pytest.mark.slow)]
)


def scan(key, posterior, data, model, kernel, scale=1.0):
    """Draws of the kernel alone, from a start of the prior, of a model with `scale`."""
    start_key, chain_key = jax.random.split(key)
    target = ppl.unconstrain(ppl.condition(model, data), scale=scale)
    kernel = dataclasses.replace(kernel, log_density=Partial(type(target).log_density, target))
    start = ppl.simulate(model)(start_key)
    del start["y"]

    def step(state, key):
        state, _ = kernel.step(key, state)
        return state, target.constrain(state.position)

    keys = jax.random.split(chain_key, BURN_IN + THIN * NUM_DRAWS)
    _, draws = lax.scan(step, kernel.init(target.unconstrain(start)), keys)
    return jax.tree.map(lambda x: x[BURN_IN::THIN], draws)


def report(model, fit=inference.mcmc, number=7, **settings):
    settings = {"num_simulations": SIMULATIONS, "level": FAILURE_RATE, "progress": False} | settings
    return inference.calibrate(jax.random.key(number), model, observed=["y"], fit=fit, **settings)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@each_model
def test_kernels_are_calibrated(model, kernel):
    settings = {"model": MODELS[model], "kernel": KERNELS[kernel]}
    fit = functools.partial(scan, **settings)
    found = report(MODELS[model], fit, vectorized=True)
    assert found.is_calibrated, str(found)


@pytest.mark.slow
@each_model
def test_another_likelihood_is_rejected(model):
    fit = functools.partial(scan, model=MODELS[model], kernel=KERNELS["NUTS"], scale=0.3)
    assert not report(MODELS[model], fit, vectorized=True).is_calibrated


def shares(key):
    """A parameter between bounds, near to one of them."""
    share = ppl.sample(key, dist.Beta(0.8, 3.0), name="share")
    return ppl.sample(key, dist.Binomial(jnp.full(3, 5), probs=share), name="y")


SAMPLED = {"waiting times": waiting_times, "shares": shares, "groups": groups}


# A setting that `mcmc_each` does not take makes `calibrate` call `mcmc` for each simulation.
ALONE = {"init": "uniform", "num_chains": 1, "num_warmup": 200, "num_draws": THIN * NUM_DRAWS}
TOGETHER = {"num_chains": 33, "num_warmup": 100, "num_draws": THIN * NUM_DRAWS // 33}
TOGETHER |= {"num_simulations": 250}  # as each takes a second


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("shares", {}),
        ("groups", {}),
        pytest.param("groups", TOGETHER, id="groups, together"),
    ],
)
def test_mcmc_is_calibrated(model, settings):
    found = report(SAMPLED[model], number=8, **ALONE | settings)
    assert found.is_calibrated, str(found)


POOLED = {"num_chains": 2, "num_warmup": 200, "num_draws": 400}


@pytest.mark.slow
@pytest.mark.parametrize("model", SAMPLED)
def test_chains_of_a_pool_are_calibrated(model):
    found = report(SAMPLED[model], number=9, **POOLED)
    assert found.is_calibrated, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [ALONE, POOLED], ids=["alone", "pooled"])
def test_momenta_that_are_too_large_are_rejected(monkeypatch, settings):
    def with_momentum(factor, seed, *state):
        point = original(factor, seed, *state)
        return point._replace(momentum=1.5 * point.momentum)

    original = chain.with_momentum
    monkeypatch.setattr(chain, "with_momentum", with_momentum)
    forget_programs()
    try:
        assert not report(waiting_times, number=8, **settings).is_calibrated
    finally:
        forget_programs()


def forget_programs():
    compiled_program.compile_program.cache_clear()
    jax.clear_caches()  # which hold what was traced
