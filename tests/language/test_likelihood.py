"""Likelihood and select: log probabilities of observed data, and models that count some of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from ppl.transforms.likelihood import Likelihood, select


def model(key, x):
    """Sites in a scan, under vmap, of vectors, and one that depends on data."""
    a = ppl.sample(key, dist.Normal(0.0, 1.0), name="a")
    ppl.deterministic(2 * a, name="double")

    def step(last, key):
        y = ppl.sample(key, dist.Normal(a * last, 1.0), name="series")
        return y, None

    jax.lax.scan(step, 1.0, jax.random.split(jax.random.fold_in(key, 1), 3))
    mapped = lambda key, x: ppl.sample(key, dist.Normal(a * x, 2.0), name="mapped")  # noqa: E731
    jax.vmap(mapped)(jax.random.split(jax.random.fold_in(key, 2), 3), x)
    covariance = jnp.eye(2)
    ppl.sample(
        key, dist.MultivariateNormal(jnp.zeros((3, 2)), covariance=covariance), name="vector"
    )
    return ppl.sample(key, dist.Normal(a * x, 1.0), name="y")


X = jnp.array([0.5, 1.0, 2.0])
DATA = {
    "series": jnp.array([1.0, 2.0, 0.5]),
    "mapped": jnp.array([0.0, 1.0, 2.0]),
    "vector": jnp.arange(6.0).reshape(3, 2) / 4,
    "y": jnp.array([1.0, -1.0, 3.0]),
}
POSTERIOR = ppl.condition(model, DATA)
COUNTS = {
    "series": np.array([True, False, True]),
    "mapped": np.array([False, True, True]),
    "vector": np.array([True, True, False]),
    "y": np.array([False, False, True]),
}


def test_log_probs_of_observed_sites():
    likelihood = Likelihood.of(POSTERIOR, (X,), {})
    assert dict(likelihood.shapes) == dict.fromkeys(DATA, (3,))
    assert likelihood.latent == ("a",)
    found = jax.jit(lambda x, a: x.log_probs({"a": a}))(likelihood, 0.7)
    expected = ppl.log_probs(POSTERIOR)({"a": 0.7}, X)
    assert found.keys() == expected.keys()
    for name, x in found.items():
        np.testing.assert_allclose(x, expected[name], rtol=1e-6)


def test_select_keeps_the_terms_that_count():
    """Also of an autoregression, whose later terms depend on values that do not count."""
    whole = ppl.log_probs(POSTERIOR)({"a": 0.7}, X)
    run = jax.jit(lambda counts: ppl.log_probs(select(POSTERIOR, counts))({"a": 0.7}, X))
    found = run(COUNTS)
    for name, counts in COUNTS.items():
        np.testing.assert_allclose(found[name], np.where(counts, whole[name], 0), rtol=1e-6)
    assert found["a"] == whole["a"]


def test_gradients_of_a_selection(x64):
    target = ppl.unconstrain(select(POSTERIOR, COUNTS), X)
    density = lambda a: target.log_density({"a": a})  # noqa: E731
    numeric = (density(0.7 + 1e-5) - density(0.7 - 1e-5)) / 2e-5
    np.testing.assert_allclose(jax.grad(density)(0.7), numeric, rtol=1e-7)


def test_ignored_data_are_missing():
    y = jnp.array([1.0, jnp.nan, 3.0])
    vector = jnp.array([[1.0, 2.0], [jnp.nan, jnp.nan], [0.0, 0.0]])
    data = DATA | {"y": ppl.ignore(y), "vector": ppl.ignore(vector)}
    posterior = ppl.condition(model, data)
    likelihood = Likelihood.of(posterior, (X,), {})
    missing, data = likelihood.missing({"a": 0.0}), likelihood.observed({"a": 0.0})
    for name in ("y", "vector"):
        np.testing.assert_array_equal(missing[name], [False, True, False])
    assert not missing["mapped"].any()
    np.testing.assert_array_equal(data["y"], [1.0, 0.0, 3.0])
    np.testing.assert_array_equal(data["vector"], jnp.nan_to_num(vector))
    np.testing.assert_array_equal(data["mapped"], DATA["mapped"])
    counted = ppl.log_probs(select(posterior, COUNTS))({"a": 0.7}, X)["y"]
    assert counted[0] == counted[1] == 0 != counted[2]


@pytest.mark.parametrize("family", [dist.Normal, dist.Cauchy])
def test_ignored_data_in_a_cond_are_missing(family):
    def model(key):
        a = ppl.sample(key, dist.Normal(0.0, 1.0), name="a")

        def low():
            return ppl.sample(key, dist.Normal(a * jnp.ones(3), 1.0), name="y")

        def high():
            return ppl.sample(key, family(a * jnp.ones(3), 2.0), name="y")

        return jax.lax.cond(a > 0, high, low)

    y = ppl.ignore(jnp.array([1.0, jnp.nan, 3.0]))
    likelihood = Likelihood.of(ppl.condition(model, {"y": y}), (), {})
    np.testing.assert_array_equal(likelihood.missing({"a": 0.0})["y"], [False, True, False])
    np.testing.assert_array_equal(likelihood.observed({"a": 0.0})["y"], [1.0, 0.0, 3.0])


def test_nothing_observed():
    with pytest.raises(ValueError, match="no observed site"):
        Likelihood.of(model, (X,), {})
