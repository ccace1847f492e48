"""Coordinates of marginalized models: reparameterized before and after, densities are the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import distributions as dist
import ppl

pytestmark = pytest.mark.usefixtures("x64")

Y = 0.5
MU, X, H = 0.4, -0.3, 0.9


def model(key):
    """Location and scale of `x` depend on a class."""
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
    x = ppl.sample(key, dist.Normal(mu + z, 0.7 + z), name="x")
    h = ppl.sample(key, dist.Normal(mu, 0.5), name="h")
    ppl.sample(key, dist.Normal(x + h, 1.0), name="y")


def log_density():
    """The log density at MU, X and H, by SciPy."""
    of_x = 0.7 * stats.norm.pdf(X, MU, 0.7) + 0.3 * stats.norm.pdf(X, MU + 1, 1.7)
    return (
        stats.norm.logpdf(MU, 0.0, 2.0)
        + np.log(of_x)
        + stats.norm.logpdf(H, MU, 0.5)
        + stats.norm.logpdf(Y, X + H)
    )


STRATEGIES = {
    "rule": ppl.auto_reparam,
    "of a class": {"x": ppl.NonCentered()},
    "partial": {"x": ppl.PartiallyCentered(0.3), "h": ppl.NonCentered()},
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_coordinates_before_and_after_a_sum_keep_the_density(name):
    posterior, strategies = ppl.condition(model, {"y": Y}), STRATEGIES[name]
    before = ppl.marginalize(ppl.reparam(posterior, strategies), ["z"])
    after = ppl.reparam(ppl.marginalize(posterior, ["z"]), strategies)
    values = {"mu": MU, "x": X, "h": H}
    for reparameterized in (before, after):
        target = ppl.unconstrain(reparameterized)
        position = target.unconstrain(values)
        assert abs(position["x"] - X) > 0.1
        slopes = jax.jacfwd(target.constrain)(position)
        matrix = jnp.array([[slopes[i][j] for j in values] for i in values])
        expected = log_density() + jnp.linalg.slogdet(matrix)[1]
        np.testing.assert_allclose(target.log_density(position), expected, rtol=1e-10)
        np.testing.assert_allclose(
            ppl.log_density(reparameterized)(values), log_density(), rtol=1e-10
        )
        assert ppl.coordinates(reparameterized)().sites["x"].strategy is not None


def in_branches(key):
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    wide = lambda: ppl.sample(key, dist.Normal(1.0 * z, 2.0), name="x")  # noqa: E731
    jax.lax.cond(z > 0, wide, lambda: ppl.sample(key, dist.Normal(0.0, 1.0), name="x"))


def test_a_site_in_branches_is_reparameterized_before_a_sum():
    summed = ppl.reparam(ppl.marginalize(in_branches, ["z"]), {"x": ppl.NonCentered()})
    with pytest.raises(ValueError, match="each branch of a cond"):
        ppl.unconstrain(summed)
