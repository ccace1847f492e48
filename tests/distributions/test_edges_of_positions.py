"""Densities of unconstrained positions keep the mass that float32 rounds to an end of a support."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import distributions as dist
import ppl

_PROBS = jnp.array([0.5, 0.5])
# Distributions of numbers with mass that values of float32 do not tell from an end.
_NUMBERS = {
    "Beta(0.1, 0.1)": lambda: dist.Beta(0.1, 0.1),
    "Beta(0.2, 0.1)": lambda: dist.Beta(0.2, 0.1),
    "Beta(0.02, 0.01)": lambda: dist.Beta(0.02, 0.01),
    "BetaProportion": lambda: dist.BetaProportion(0.6, 0.2),
    "Kumaraswamy(1, 0.1)": lambda: dist.Kumaraswamy(1.0, 0.1),
    "Kumaraswamy(0.02, 0.05)": lambda: dist.Kumaraswamy(0.02, 0.05),
    "LogitNormal": lambda: dist.LogitNormal(10.0, 12.0),
    "RelaxedBernoulli": lambda: dist.RelaxedBernoulli(0.1, probs=0.7),
    "ContinuousBernoulli": lambda: dist.ContinuousBernoulli(logits=1e8),
    "Uniform": lambda: dist.Uniform(2.0, 3.0),
    "Gamma": lambda: dist.Gamma(0.02, 1.0),
    "Chi2": lambda: dist.Chi2(0.04),
    "Chi": lambda: dist.Chi(0.04),
    "Weibull": lambda: dist.Weibull(concentration=0.05, scale=1e-10),
    "LogNormal": lambda: dist.LogNormal(-60.0, 20.0),
    "LogLogistic": lambda: dist.LogLogistic(loc=-60.0, scale=10.0),
    "Dagum": lambda: dist.Dagum(0.02, 2.0, 1.0),
    "Truncated": lambda: dist.Truncated(dist.Beta(0.5, 0.05), 0.25, 1.0),
    "scaled": lambda: dist.TransformedDistribution(
        dist.Beta(0.1, 0.1), dist.bijectors.Affine(2.0, 3.0)
    ),
    "turned": lambda: dist.TransformedDistribution(
        dist.Beta(0.1, 0.1), dist.bijectors.Affine(1.0, -1.0)
    ),
    "Mixture": lambda: dist.Mixture(
        dist.Categorical(probs=_PROBS), [dist.Beta(0.1, 0.1), dist.Kumaraswamy(1.0, 0.1)]
    ),
    "MixtureSameFamily": lambda: dist.MixtureSameFamily(
        dist.Categorical(probs=_PROBS), dist.Beta(jnp.array([0.1, 0.2]), 0.1)
    ),
    "Masked": lambda: dist.Masked(dist.Beta(0.1, 0.1), True),
}


# Distributions of several numbers, each with one position: a function of it makes the others.
_VECTORS = {
    "Dirichlet": lambda: dist.Dirichlet(jnp.array([0.02, 0.01])),
    "RelaxedOneHotCategorical": lambda: dist.RelaxedOneHotCategorical(0.02, probs=_PROBS),
    "iid": lambda: dist.iid(dist.Beta(0.1, 0.1), 1),
    "Independent": lambda: dist.Independent(dist.Beta(jnp.array([0.1]), 0.1), 1),
    "Joint": lambda: dist.Joint([dist.Beta(jnp.array([0.1]), 0.1)]),
}


def total_mass(d):
    """The integral of the density of positions in float32, summed in double precision."""

    def model(key):
        ppl.sample(key, d, name="x")

    target = ppl.unconstrain(model)
    tree = jax.tree.structure(target.position_shapes)
    shape = jax.tree.leaves(target.position_shapes)[0].shape

    def log_density(u):
        return target.log_density(jax.tree.unflatten(tree, [jnp.broadcast_to(u, shape)]))

    grid = jnp.linspace(-3000.0, 3000.0, 150_001, dtype=jnp.float32)
    values, slopes = jax.vmap(jax.value_and_grad(log_density))(grid)
    assert np.isfinite(slopes[np.isfinite(values)]).all()
    return np.sum(np.exp(np.asarray(values, np.float64))) * 0.04


@pytest.mark.quick_rows("Beta(0.1, 0.1)", "Gamma", "scaled", "Mixture", "Dirichlet", "Joint")
@pytest.mark.parametrize("name", [*_NUMBERS, *_VECTORS])
def test_density_of_positions_has_mass_one(name):
    with jax.enable_x64(False):
        assert total_mass((_NUMBERS | _VECTORS)[name]()) == pytest.approx(1.0, rel=2e-4)


def test_posterior_mean_next_to_one():
    """Three successes of three, with half of the posterior mass above 1 - 1e-7."""

    def model(key):
        x = ppl.sample(key, dist.Beta(0.1, 0.1), name="x")
        ppl.sample(key, dist.Binomial(3, probs=x), name="y")

    with jax.enable_x64(False):
        target = ppl.unconstrain(ppl.condition(model, {"y": 3}))
        grid = jnp.linspace(-300.0, 300.0, 300_001, dtype=jnp.float32)
        x, log_density = jax.vmap(
            lambda u: (target.constrain({"x": u})["x"], target.log_density({"x": u}))
        )(grid)
    weight = np.exp(np.asarray(log_density, np.float64))
    assert np.average(x, weights=weight) == pytest.approx(3.1 / 3.2, abs=2e-5)


@pytest.mark.parametrize("factors", [(0.5,), (0.25, 2.0)])
def test_a_scaled_density_of_positions_keeps_its_mass(factors):
    """The square root of the density of Beta(0.2, 0.2) is one of Beta(0.6, 0.6), unnormalized."""

    def model(key):
        ppl.sample(key, dist.Beta(0.2, 0.2), name="x")

    scaled = functools.reduce(ppl.scale, factors, model)
    with jax.enable_x64(False):
        at = jnp.array([-30.0, -1.0, 0.0, 17.0, 40.0], jnp.float32)
        found = jax.vmap(lambda u: ppl.unconstrain(scaled).log_density({"x": u}))(at)
    log_beta = scipy.special.betaln(0.2, 0.2)
    exact = 0.6 * np.sum(scipy.special.log_expit(np.array([at, -at])), 0) - 0.5 * log_beta
    np.testing.assert_allclose(found, exact, rtol=1e-5)


@pytest.mark.quick_rows("Beta(0.1, 0.1)", "Kumaraswamy(0.02, 0.05)", "Weibull", "scaled")
@pytest.mark.parametrize("name", [x for x in _NUMBERS if x != "ContinuousBernoulli"])
def test_density_of_positions_is_that_of_values_elsewhere(name):
    with jax.enable_x64(True):
        d = _NUMBERS[name]()
        value, log_prob = d.at_position(jnp.array([-6.0, -0.7, 0.0, 5.0]))
        np.testing.assert_allclose(log_prob, d.log_prob(value), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("factors", [(), (1.0,)])
def test_a_missing_value_has_its_mass_and_mean(factors):
    """A Beta(0.2, 0.1) beside one that is known; a third of its mass is above 1 - 1e-7."""

    def model(key):
        ppl.sample(key, dist.Beta(0.2, jnp.full(2, 0.1)), name="x")

    with jax.enable_x64(False):
        data = {"x": ppl.impute(np.array([0.25, np.nan], np.float32))}
        target = ppl.unconstrain(functools.reduce(ppl.scale, factors, ppl.condition(model, data)))
        grid = jnp.linspace(-300.0, 300.0, 60_001, dtype=jnp.float32)[:, None]
        x, log_density = jax.vmap(
            lambda u: (target.constrain({"x": u})["x"][1], target.log_density({"x": u}))
        )(grid)
    density = np.exp(np.asarray(log_density, np.float64)) / scipy.stats.beta(0.2, 0.1).pdf(0.25)
    assert density.sum() * 0.01 == pytest.approx(1.0, rel=2e-4)
    assert np.average(x, weights=density) == pytest.approx(2 / 3, abs=1e-4)
