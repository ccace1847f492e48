"""Simulation-based calibration: true values have uniform ranks among draws of the posterior."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats as st

import distributions as dist
import ppl
from inference import ELBO, FullRank, MeanField, svi

NUM_DATA, NUM_DRAWS, NUM_BINS = 160, 99, 10
LEVEL = 1e-5  # how often a chi-square test fails by chance
DESIGN = np.random.default_rng(0).normal(size=(12, 2)) @ np.array([[1.0, 0.95], [0.0, 0.3]])
SETTINGS = {
    "objective": ELBO(stick_the_landing=True),
    "optimizer": optax.adam(optax.exponential_decay(0.1, 200, 0.5)),
    "num_steps": 1500,
    "num_draws": NUM_DRAWS,
}


def regression(key, design):
    w = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="w")
    return ppl.sample(key, dist.Normal(design @ w, 1.0), name="y")


def ranks(guide):
    """Of the true weights among draws, ``(data, weight)``, for data from the prior."""
    design, found = jnp.asarray(DESIGN, float), []
    for number in range(NUM_DATA):
        truth = ppl.simulate(regression)(jax.random.key(number), design)
        posterior = ppl.condition(regression, {"y": truth["y"]})
        result = svi(jax.random.key(1000 + number), posterior, design, guide=guide, **SETTINGS)
        found.append(np.sum(result.draws["w"][0] < np.asarray(truth["w"]), axis=0))
    return np.array(found)


def p_values(ranks):
    """That the ranks of each weight are uniform, by chi-square tests of counts in bins."""
    width = (NUM_DRAWS + 1) // NUM_BINS
    return [st.chisquare(np.bincount(r // width, minlength=NUM_BINS)).pvalue for r in ranks.T]


@pytest.mark.slow
@pytest.mark.parametrize("guide", [FullRank(), MeanField()], ids=["full rank", "mean field"])
def test_ranks_are_uniform_where_the_guide_can_be_the_posterior(guide):
    """A mean field cannot, as the weights are correlated: its draws are too narrow."""
    uniform = [p > LEVEL for p in p_values(ranks(guide))]
    assert uniform == [isinstance(guide, FullRank)] * 2
