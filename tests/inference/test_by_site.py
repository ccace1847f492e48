"""Guides by site: the parts on their own coordinates, exact posteriors of groups, and refusals."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize as so
import scipy.stats as st
from jax import random

import distributions as dist
import ppl
from inference import (
    ELBO,
    BySite,
    FullRank,
    LowRank,
    MeanField,
    NeuralSpline,
    PointMass,
    Structured,
    importance,
    svi,
)
from inference.common.layout import Layout
from inference.runtime.compiled_program import compile_program

KEY = random.key(0)
POSITION = {"a": jnp.arange(2.0), "part": {"b": jnp.full(3, 5.0), "c": jnp.full((2, 1), 7.0)}}
LAYOUT = Layout.of(POSITION)
FLAT = LAYOUT.ravel(POSITION)
GUIDE = BySite({"part.c": FullRank(), ("part.b", "a"): LowRank(1)})


def bent(parameters):
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda x: x + 0.4 * rng.normal(size=x.shape).astype(x.dtype), parameters)


def test_parts_have_their_own_coordinates():
    parameters = bent(GUIDE.init(FLAT, LAYOUT))
    assert parameters.parts.keys() == {"part.c", "part.b, a"}
    point = FLAT + jnp.arange(7.0) / 7
    a, b, c = point[:2], point[2:5], point[5:]
    parts = parameters.parts["part.b, a"], parameters.parts["part.c"]
    exact = LowRank(1).log_prob(parts[0], jnp.r_[a, b]) + FullRank().log_prob(parts[1], c)
    np.testing.assert_allclose(GUIDE.log_prob(parameters, point), exact, rtol=1e-5)
    entropy = LowRank(1).entropy(parts[0]) + FullRank().entropy(parts[1])
    np.testing.assert_allclose(GUIDE.entropy(parameters), entropy, rtol=1e-6)
    draw = GUIDE.sample(GUIDE.init(FLAT, LAYOUT), KEY)
    np.testing.assert_allclose(draw, FLAT, atol=0.5)
    np.testing.assert_array_equal(GUIDE.sample(parameters, random.PRNGKey(0))[5:].shape, (2,))


def test_a_scope_stands_for_its_sites_and_the_rest_for_others():
    guide = BySite({"part": NeuralSpline(1, (4,))}, rest=PointMass())
    parameters = guide.init(FLAT, LAYOUT)
    assert {name: part.loc.shape for name, part in parameters.parts.items()} == {
        "part": (5,),
        "rest": (2,),
    }
    assert not guide.has_density
    assert guide.entropy(parameters) is None
    np.testing.assert_array_equal(guide.sample(parameters, KEY)[:2], FLAT[:2])
    draw, log_prob = guide.sample_and_log_prob(parameters, KEY)
    np.testing.assert_allclose(guide.log_prob(parameters, draw), log_prob, rtol=1e-5)
    with pytest.raises(TypeError, match="the guide of part, has no covariance"):
        guide.covariance(parameters)


@pytest.mark.slow
def test_parts_draw_independently():
    """As they do not with one seed for all."""
    guide = BySite({"a": MeanField(1.0), "part.c": MeanField(1.0)}, rest=MeanField(1.0))
    parameters = guide.init(0 * FLAT, LAYOUT)
    draws = jax.vmap(guide.sample, (None, 0))(parameters, random.split(KEY, 4000))
    correlations = np.corrcoef(np.asarray(draws).T)[np.triu_indices(7, 1)]
    assert np.max(np.abs(correlations)) < 4.3 / np.sqrt(4000)  # of 21: a failure rate of 4e-4


def test_a_guide_within_a_guide():
    inner = BySite({"part.b": FullRank()}, rest=LowRank(1))
    guide = BySite({"part": inner})
    parameters = bent(guide.init(FLAT, LAYOUT))
    flat = BySite({"part.b": FullRank(), "part.c": LowRank(1)})
    parts = parameters.parts["part"].parts
    same = {"part.b": parts["part.b"], "part.c": parts["rest"], "rest": parameters.parts["rest"]}
    expected = flat.log_prob(flat.init(FLAT, LAYOUT).__class__(same, LAYOUT), FLAT)
    np.testing.assert_allclose(guide.log_prob(parameters, FLAT), expected, rtol=1e-6)


X = np.random.default_rng(0).normal(size=(40, 2)) @ np.array([[1.0, 0.9], [0.0, 0.3]])
Y = X @ np.array([0.5, -1.0])
RATE = {"optimizer": optax.adam(optax.exponential_decay(0.05, 1500, 0.5))}


def two_regressions(key):
    """Two groups of sites, correlated within and independent of each other."""
    w = ppl.sample(key, dist.Normal(jnp.zeros(2), 2.0), name="w")
    ppl.sample(key, dist.Normal(jnp.asarray(X, jnp.float32) @ w, 1.0), name="y")
    other = ppl.sample(key, dist.Normal(1.0, 0.5), name="other")
    ppl.sample(key, dist.Normal(other, 1.0), name="z")


@pytest.mark.slow
def test_groups_that_are_independent_are_recovered():
    data = {"y": jnp.asarray(Y, jnp.float32), "z": 2.0}
    guide = BySite({"w": FullRank()})
    posterior = ppl.condition(two_regressions, data)
    settings = RATE | {"num_steps": 6000, "objective": ELBO(stick_the_landing=True)}
    result = svi(KEY, posterior, guide=guide, **settings)
    exact = np.zeros((3, 3))
    exact[0, 0] = 1 / (4 + 1)
    exact[1:, 1:] = np.linalg.inv(X.T @ X + np.eye(2) / 4)
    found = guide.covariance(result.parameters)
    np.testing.assert_allclose(found, exact, atol=0.01 * exact.max())
    evidence = st.norm.logpdf(2.0, 1.0, np.sqrt(1.25))
    evidence += st.multivariate_normal(np.zeros(40), np.eye(40) + 4 * X @ X.T).logpdf(Y)
    np.testing.assert_allclose(result.elbo, evidence, atol=0.01)
    again = importance(KEY, posterior, guide=result, num_draws=100)
    np.testing.assert_allclose(again.log_evidence, evidence, atol=0.01)
    simple = svi(KEY, posterior, guide=BySite({"w": MeanField()}), **settings)
    assert simple.elbo < evidence - 0.3


EFFECTS = np.array([2.0, -1.5, 0.3, 3.0, -2.5, 1.0], np.float32)


def effects(key):
    tau = ppl.sample(key, dist.HalfNormal(3.0), name="tau")
    theta = ppl.sample(key, dist.Normal(jnp.zeros(6), tau), name="theta")
    ppl.sample(key, dist.Normal(theta, 1.0), name="y")


def test_a_point_among_distributions_is_variational_em():
    """Of log tau: given it the effects are independent normal, so that their integral is exact."""
    guide = BySite({"tau": PointMass()})
    settings = RATE | {"num_steps": 6000, "num_particles": 4}
    result = svi(KEY, ppl.condition(effects, {"y": EFFECTS}), guide=guide, **settings)

    def negative(tau):
        likelihood = st.norm.logpdf(EFFECTS, 0, np.sqrt(1 + tau**2)).sum()
        return -likelihood - st.halfnorm.logpdf(tau, scale=3.0) - np.log(tau)

    exact = so.minimize_scalar(negative, bounds=(0.1, 10.0), method="bounded")
    tau = result.draws["tau"][0]
    assert np.ptp(tau) == 0.0
    np.testing.assert_allclose(tau[0], exact.x, rtol=0.01)
    np.testing.assert_allclose(result.elbo, -exact.fun, atol=0.02)
    spread = result.draws["theta"][0].std(0)
    np.testing.assert_allclose(spread, (1 + 1 / exact.x**2) ** -0.5, rtol=0.12)
    assert np.isnan(result.pareto_k)
    assert any("has points" in problem for problem in result.summary().problems)
    with pytest.raises(ValueError, match="guide must have a density"):
        importance(KEY, ppl.condition(effects, {"y": EFFECTS}), guide=result)


def test_sites_in_scopes_and_loops():
    def part(key):
        return ppl.sample(key, dist.HalfNormal(1.0), name="scale")

    def model(key):
        scale = ppl.nest(part, scope="part")(key)
        keys = random.split(key, 2)
        jax.vmap(lambda k: ppl.sample(k, dist.Normal(jnp.zeros(3), scale), name="x"))(keys)
        jax.lax.scan(
            lambda carry, k: (ppl.sample(k, dist.Normal(carry, 1.0), name="walk"), None), 0.0, keys
        )

    guide = BySite({"part.scale": PointMass(), "x": Structured("x")}, rest=FullRank())
    result = svi(KEY, model, guide=guide, num_steps=20, num_draws=7)
    shapes = {"part": {"scale": (1, 7)}, "walk": (1, 7, 2), "x": (1, 7, 2, 3)}
    assert jax.tree.map(np.shape, result.draws) == shapes


def test_new_numbers_compile_nothing():
    settings = {"num_steps": 20, "num_draws": 10}
    posterior = ppl.condition(effects, {"y": EFFECTS})
    svi(KEY, posterior, guide=BySite({"theta": MeanField()}), **settings)
    sizes = compile_program.cache_info().misses
    result = svi(KEY, posterior, guide=BySite({("theta",): MeanField(0.3)}), **settings)
    svi(KEY, posterior, guide=BySite({"theta": MeanField()}), state=result.state, **settings)
    assert compile_program.cache_info().misses == sizes


@pytest.mark.parametrize(
    ("guide", "error", "message"),
    [
        (lambda: BySite({"mu": FullRank()}), ValueError, "'mu', and the sites are 'tau', 'theta'"),
        (lambda: Structured("mu"), ValueError, "'mu', and the sites are 'tau', 'theta'"),
        (
            lambda: BySite({"tau": FullRank(), ("theta", "tau"): MeanField()}),
            ValueError,
            "BySite names site 'tau' twice",
        ),
        (lambda: Structured(("tau", "tau")), ValueError, "Structured names site 'tau' twice"),
        (lambda: BySite({"tau": MeanField(), ("tau",): MeanField()}), ValueError, "names a site"),
        (lambda: BySite(None), TypeError, "guides of BySite must be a dict of guides by site"),
        (lambda: Structured(3), TypeError, "global_sites of Structured must be a site or a tuple"),
        (lambda: Structured(["tau"]), TypeError, "global_sites of Structured must be a site"),
        (
            lambda: Structured("tau", has_varying_scales=None),
            TypeError,
            "has_varying_scales of Structured must be True or False",
        ),
        (lambda: BySite({3: MeanField()}), TypeError, "by a site or a tuple of sites"),
        (lambda: BySite({"tau": FullRank}), TypeError, "did you mean FullRank()?"),
        (lambda: BySite({}, rest=lambda key: 0), TypeError, "the guide of all the rest in BySite"),
        (lambda: BySite({"tau": MeanField(-1)}), ValueError, "init_scale of MeanField must be"),
        (lambda: NeuralSpline(0), ValueError, "num_layers of NeuralSpline must be an integer"),
        (lambda: NeuralSpline(num_bins=1), ValueError, "num_bins of NeuralSpline must be an"),
        (lambda: NeuralSpline(2, 64), TypeError, "hidden_sizes of NeuralSpline must be a tuple"),
        (lambda: NeuralSpline(2, (0,)), ValueError, "each of hidden_sizes of NeuralSpline must"),
    ],
)
def test_what_cannot_be_is_refused(guide, error, message):
    with pytest.raises(error, match=re.escape(message)):
        svi(KEY, ppl.condition(effects, {"y": EFFECTS}), guide=guide())
