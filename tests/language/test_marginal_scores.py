"""marginalize: what it takes, and scores of sites that depend on what is taken out by others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.random import split

import distributions as dist
import ppl

pytestmark = pytest.mark.usefixtures("x64")


def behind(key):
    """All of `y`, `series`, `rows` and the factor depend on `x` by `w` alone."""
    x = ppl.sample(key, dist.Normal(jnp.zeros(3), 2.0), name="x")
    w = ppl.sample(key, dist.Normal(x, 1.0), name="w")
    ppl.sample(key, dist.Poisson(jnp.exp(w)), name="y")

    def step(last, key):
        value = ppl.sample(key, dist.Normal(0.5 * last + w[0], 1.0), name="series")
        return value, value

    lax.scan(step, 0.0, split(key, 4))
    row = lambda key, w: ppl.sample(key, dist.Normal(w, 0.5), name="rows")  # noqa: E731
    jax.vmap(row)(split(key, 3), w)
    ppl.factor(jnp.sin(w), name="weight")


DATA = {"y": np.array([0, 2, 1]), "series": np.arange(4.0), "rows": np.array([0.1, 0.4, -0.2])}


def test_sites_that_depend_by_others_alone_keep_their_own_terms():
    posterior = ppl.condition(behind, DATA)
    integrated = ppl.marginalize(posterior, {"x": ppl.Gaussian()})
    w = jnp.array([0.3, -0.2, 0.9])

    @jax.jit
    def all_of(w):
        ours, theirs = ppl.log_probs(integrated), ppl.log_probs(posterior)
        total = ppl.log_density(integrated)({"w": w})
        return ours({"w": w}), theirs({"w": w, "x": jnp.zeros(3)}), total

    found, expected, total = all_of(w)
    for name in ("y", "series", "rows", "weight"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)
    prior = dist.Normal(0.0, np.sqrt(5.0)).log_prob(w)
    np.testing.assert_allclose(found["w"], prior, rtol=1e-12)
    np.testing.assert_allclose(total, sum(map(jnp.sum, found.values())), rtol=1e-12)


def test_with_no_latent_site_left_one_draw_is_recovered():
    def model(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")
        ppl.sample(key, dist.Normal(x, 1e-6), name="y")

    summed = ppl.marginalize(ppl.condition(model, {"y": np.ones(2)}), {"x": ppl.Gaussian()})
    found = ppl.recover(summed, {})(jax.random.key(0))
    np.testing.assert_allclose(found["x"], 1.0, atol=1e-4)
    with pytest.raises(ValueError, match="every latent site; missing: 'y'"):
        ppl.recover(ppl.marginalize(model, {"x": ppl.Gaussian()}), {})(jax.random.key(0))


@pytest.mark.parametrize(
    ("sites", "match"),
    [
        ("z", r"expected a list of names of sites, .* got 'z'; write \['z'\]"),
        (ppl.Enumerate(), r"or the rule ppl.auto_marginal, got Enumerate\(most=65536\)"),
        (ppl.Gaussian, "a dict from names to"),
        ([("a", "z")], r"got the name \('a', 'z'\)"),
        ({"z": "sum"}, "got 'z': 'sum'"),
        ({"z": ppl.Enumerate}, r"write ppl.Enumerate\(\)"),
    ],
)
def test_what_to_take_out_is_explained(sites, match):
    with pytest.raises(TypeError, match=match):
        ppl.marginalize(behind, sites)


@pytest.mark.parametrize("strategy", [ppl.Enumerate, ppl.Gaussian])
@pytest.mark.parametrize("most", [0, "a", True, 1e5])
def test_limits_are_counts(strategy, most):
    with pytest.raises(ValueError, match="most must be an integer of at least 1, got "):
        strategy(most)


@pytest.mark.parametrize("shape", [(5, 1), (1, 3)])
def test_an_axis_of_size_one_is_shared_by_all_that_repeat_it(shape):
    """JAX multiplies such arrays without a broadcast."""
    y = np.random.default_rng(0).normal(size=(5, 3))

    def model(key):
        z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(shape, 0.3)), name="z")
        ppl.sample(key, dist.Normal(2.0 * z * jnp.ones((5, 3)), 1.0), name="y")

    density = lambda z: np.exp(-0.5 * (y - 2.0 * z) ** 2) / np.sqrt(2 * np.pi)  # noqa: E731
    axis = shape.index(1)
    exact = np.log(0.7 * density(0).prod(axis) + 0.3 * density(1).prod(axis)).sum()
    summed = ppl.marginalize(ppl.condition(model, {"y": y}), ["z"])
    np.testing.assert_allclose(ppl.log_density(summed)({}), exact, rtol=1e-12)
