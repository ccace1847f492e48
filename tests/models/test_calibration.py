"""Simulation-based calibration of the kernels, and of the sampler, on whole models (Talts 2018).

If parameters are drawn from the prior and data from the model, the rank of each parameter among
draws from the posterior of these data is uniform. Ranks of 400 replications go into 10 bins; a
chi-square test for each of the 4 parameters and 2 kernels fails for a correct sampler with a
chance of 1e-5 each; the sampler's with one chain, and with so many that they learn one mass matrix.
A model that is conditioned with another likelihood than the one simulated must be rejected, as must
a sampler whose momenta are too large.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.tree_util import Partial
from scipy import stats

import distributions as dist
import inference
import ppl
from inference.chains import chain
from inference.runtime import compiled_program

REPLICATIONS, RANKS, THIN, BURN_IN, BINS = 400, 99, 8, 100, 10
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


def ranks(model, kernel, scale, key):
    """The rank of each true scalar among the draws of its posterior, for one replication."""
    simulation_key, start_key, chain_key = jax.random.split(key, 3)
    truth = ppl.simulate(model)(simulation_key)
    target = ppl.unconstrain(ppl.condition(model, {"y": truth.pop("y")}), scale=scale)
    kernel = dataclasses.replace(kernel, log_density=Partial(type(target).log_density, target))
    start = ppl.simulate(model)(start_key)
    del start["y"]

    def step(state, key):
        state, _ = kernel.step(key, state)
        return state, target.constrain(state.position)

    keys = jax.random.split(chain_key, BURN_IN + THIN * RANKS)
    _, draws = lax.scan(step, kernel.init(target.unconstrain(start)), keys)
    return jax.tree.map(lambda x, t: (x[BURN_IN::THIN] < t).sum(0), draws, truth)


def p_values(model, kernel, scale=1.0):
    """The chi-square test of uniform ranks, by scalar parameter."""
    keys = jax.random.split(jax.random.key(7), REPLICATIONS)
    by_site = jax.jit(jax.vmap(lambda key: ranks(model, kernel, scale, key)))(keys)
    out = {}
    for site, values in by_site.items():
        first = np.asarray(values).reshape(REPLICATIONS, -1)[:, 0]  # the others are exchangeable
        counts = np.histogram(first, BINS, (-0.5, RANKS + 0.5))[0]
        out[site] = stats.chisquare(counts).pvalue
    return out


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@each_model
def test_ranks_are_uniform(model, kernel):
    for site, p in p_values(MODELS[model], KERNELS[kernel]).items():
        assert p > FAILURE_RATE, (site, p)


@pytest.mark.slow
@each_model
def test_another_likelihood_is_rejected(model):
    wrong = p_values(MODELS[model], KERNELS["NUTS"], scale=0.3)
    assert min(wrong.values()) < FAILURE_RATE, wrong


def shares(key):
    """A parameter between bounds, near to one of them."""
    share = ppl.sample(key, dist.Beta(0.8, 3.0), name="share")
    return ppl.sample(key, dist.Binomial(jnp.full(3, 5), probs=share), name="y")


SAMPLED = {"waiting times": waiting_times, "shares": shares, "groups": groups}


def sampled_p_values(model, num_chains=1, num_warmup=200):
    """As :func:`p_values`, of `mcmc` with its starts and its warm-up.

    Many chains learn one mass matrix together.
    """
    counts = {}
    for i in range(REPLICATIONS):
        simulation_key, key = jax.random.split(jax.random.fold_in(jax.random.key(8), i))
        truth = ppl.simulate(model)(simulation_key)
        posterior = ppl.condition(model, {"y": truth.pop("y")})
        settings = {"num_draws": THIN * RANKS // num_chains, "num_chains": num_chains}
        draws = inference.mcmc(key, posterior, num_warmup=num_warmup, **settings).draws
        for site, true in truth.items():
            rank = np.sum(draws[site][:, ::THIN] < true, (0, 1)).ravel()[0]
            counts.setdefault(site, np.zeros(BINS))[rank * BINS // (RANKS + 1)] += 1
    return {site: stats.chisquare(count).pvalue for site, count in counts.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "settings"),
    [
        *((model, {}) for model in SAMPLED),
        pytest.param("groups", {"num_chains": 33, "num_warmup": 100}, id="groups, together"),
    ],
)
def test_ranks_of_the_sampler_are_uniform(model, settings):
    for site, p in sampled_p_values(SAMPLED[model], **settings).items():
        assert p > FAILURE_RATE, (site, p)


@pytest.mark.slow
def test_a_sampler_with_momenta_that_are_too_large_is_rejected(monkeypatch):
    def with_momentum(factor, seed, *state):
        point = original(factor, seed, *state)
        return point._replace(momentum=1.5 * point.momentum)

    original = chain.with_momentum
    monkeypatch.setattr(chain, "with_momentum", with_momentum)
    forget_programs()
    try:
        assert min(sampled_p_values(waiting_times).values()) < FAILURE_RATE
    finally:
        forget_programs()


def forget_programs():
    compiled_program.compile_program.cache_clear()
    jax.clear_caches()  # which hold what was traced
