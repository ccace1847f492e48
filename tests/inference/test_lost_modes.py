"""Drivers on a model whose integrated site has no mode at some values of the others."""

import re

import jax
import numpy as np
import pytest

import distributions as dist
import inference
import ppl

LOST = "no mode of .z. given the rest was found|.z. are improper given the rest"


def model(key):
    """0 is a saddle where the scale is below the square root of 2."""
    scale = ppl.sample(key, dist.HalfNormal(3.0), name="scale")
    z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
    ppl.sample(key, dist.Normal(z**2, scale), name="y")


def never(key):
    scale = ppl.sample(key, dist.HalfNormal(3.0), name="scale")
    z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
    ppl.factor((1 + scale) * z**2, name="up")
    ppl.sample(key, dist.Normal(z, scale + 9), name="y")


def integrated(model, data):
    return ppl.marginalize(ppl.condition(model, data), {"z": ppl.Laplace()})


POSTERIOR = integrated(model, {"y": 1.0})
CHAINS = {"num_draws": 50, "num_warmup": 50, "num_chains": 2, "target_acceptance_rate": 0.6}

RUNS = {
    "mcmc": lambda key: inference.mcmc(key, POSTERIOR, **CHAINS),
    "importance": lambda key: inference.importance(key, POSTERIOR, num_draws=50),
    "smc": lambda key: inference.smc(key, POSTERIOR, num_particles=40, chain_length=4),
}


@pytest.mark.quick_rows("mcmc", "importance")
@pytest.mark.parametrize("name", RUNS)
def test_summaries_name_the_site_without_a_mode(name):
    problems = RUNS[name](jax.random.key(0)).summary().problems
    assert any(re.search(LOST, x) for x in problems)


def nested_laplace(key, _):
    posterior = ppl.condition(never, {"y": 1.0})
    return inference.nested_laplace(key, posterior, sites=["z"])


FAILING = {
    "mcmc": lambda key, lost: inference.mcmc(key, lost, **CHAINS),
    "svi": lambda key, lost: inference.svi(key, lost, num_steps=10),
    "optimize": inference.optimize,
    "pathfinder": inference.pathfinder,
    "smc": lambda key, lost: inference.smc(key, lost, num_particles=40, chain_length=4),
    "nested_laplace": nested_laplace,
}


@pytest.mark.quick_rows("smc", "nested_laplace")
@pytest.mark.parametrize("name", FAILING)
def test_errors_name_the_site_without_a_mode(name):
    with pytest.raises(ValueError, match=LOST):
        FAILING[name](jax.random.key(0), integrated(never, {"y": 1.0}))


def test_recover_says_that_there_may_be_no_mode():
    recover = ppl.recover(POSTERIOR, {"scale": np.array([0.5, 3.0])})
    with pytest.raises(ValueError, match=r"values of 'z' beside them.*ppl.Laplace\(\) finds no"):
        recover(jax.random.key(0))
