"""Guides are calibrated where they can be the posterior, and found too narrow where not."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import ppl
from inference import ELBO, FullRank, MeanField, calibrate, svi

DESIGN = np.random.default_rng(0).normal(size=(12, 2)) @ np.array([[1.0, 0.95], [0.0, 0.3]])
SETTINGS = {
    "objective": ELBO(stick_the_landing=True),
    "optimizer": optax.adam(optax.exponential_decay(0.1, 200, 0.5)),
    "num_steps": 1500,
    "num_draws": 200,
}


def regression(key, design):
    w = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="w")
    return ppl.sample(key, dist.Normal(design @ w, 1.0), name="y")


@pytest.mark.slow
@pytest.mark.parametrize("guide", [FullRank(), MeanField()], ids=["full rank", "mean field"])
def test_a_guide_that_can_be_the_posterior_is_calibrated(guide):
    """A mean field cannot, as the weights are correlated: its draws are too narrow.

    A right guide fails with a chance of 1e-5.
    """
    how = {"observed": ["y"], "fit": svi, "num_simulations": 160, "level": 1e-5, "guide": guide}
    report = calibrate(jax.random.key(0), regression, jnp.asarray(DESIGN, float), **how, **SETTINGS)
    words = [report.describe(name) for name in ("w[0]", "w[1]")]
    if isinstance(guide, FullRank):
        assert report.is_calibrated, str(report)
    else:
        assert words == ["draws too narrow"] * 2
