"""Equality of the programs that distributions hold: by all of their constants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl

pytestmark = pytest.mark.promotion(rank="raise")

X = np.array([[0.3, -1.0], [2.0, 1.2]])


def pair_with(names, axis):
    """Coupled states, whose data read two other sites and entries along an axis."""

    def model(key):
        loc, log_scale = (ppl.sample(key, dist.Normal(0.0, 1.0), name=name) for name in names)
        z = ppl.sample(key, dist.iid(dist.Bernoulli(probs=0.3), (2,)), name="z")
        entries = jnp.take_along_axis(X, np.eye(2, dtype=int), axis, mode="clip")
        ppl.sample(key, dist.Normal(z.sum() * loc * entries, jnp.exp(log_scale)), name="y")

    return ppl.condition(model, {"y": X})


@pytest.mark.parametrize("other", [("uv", 1), ("vu", 0)], ids=["other_axis", "peer_names"])
def test_programs_that_differ_in_constants_are_not_confused(other, x64):
    """Conditionals are arguments of one compiled function, which their structures tell apart."""
    log_prob = jax.jit(lambda d: d.log_prob(np.array([1, 0])))
    for names, axis in (("uv", 0), other):
        d = ppl.conditional(pair_with(names, axis), "z")({"u": 0.5, "v": 0.2})
        np.testing.assert_allclose(log_prob(d), d.log_prob(np.array([1, 0])), rtol=1e-10)
