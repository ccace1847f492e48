"""auto_marginal: what it takes out, why it leaves the rest, and the density that is left."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl

pytestmark = pytest.mark.usefixtures("x64")


def many(key):
    scale = ppl.sample(key, dist.HalfNormal(1.0), name="scale")
    mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
    z = ppl.sample(key, dist.Bernoulli(probs=0.3), name="z")
    x = ppl.sample(key, dist.Normal(mu + z * jnp.ones(3), scale), name="x")
    v = ppl.sample(key, dist.Normal(0.0, 1.0), name="v")
    u = ppl.sample(key, dist.StudentT(4.0, 0.0, 1.0), name="u")
    ppl.sample(key, dist.Poisson(jnp.exp(v)), name="counts")
    ppl.sample(key, dist.Normal(x + u, 0.5), name="y")


DATA = {"counts": 2, "y": np.array([0.3, 1.0, -0.2])}


def test_the_plan_says_what_is_taken_out_and_why_the_rest_is_not():
    plan = ppl.auto_marginal(ppl.condition(many, DATA))()
    assert {name: type(how).__name__ for name, how in plan.items()} == {
        "mu": "Gaussian",
        "z": "Enumerate",
        "x": "Gaussian",
    }
    assert plan.reasons == {
        "scale": "it is not normal given the rest",
        "v": "it is not normal given the rest",
        "u": "it is not normal given the rest",
    }
    assert str(plan).splitlines()[1].split(maxsplit=2) == [
        "scale",
        "sampled",
        "it is not normal given the rest",
    ]


def test_the_rule_gives_the_density_of_its_plan():
    posterior = ppl.condition(many, DATA)
    values = {"scale": 0.7, "v": 0.2, "u": -0.3}
    found = jax.jit(ppl.log_density(ppl.marginalize(posterior, ppl.auto_marginal)))(values)
    behind = ppl.condition(ppl.marginalize(many, ppl.auto_marginal), DATA)
    assert ppl.graph(behind)() == ppl.graph(ppl.marginalize(posterior, ppl.auto_marginal))()
    np.testing.assert_allclose(jax.jit(ppl.log_density(behind))(values), found, rtol=1e-12)

    def given(z):
        loc, covariance = z - 0.3, 4.0 + (0.7**2 + 0.5**2) * np.eye(3)
        error = DATA["y"] - loc
        square = error @ np.linalg.solve(covariance, error) + np.linalg.slogdet(covariance)[1]
        return np.exp(-0.5 * square - 1.5 * np.log(2 * np.pi))

    rest = dist.HalfNormal(1.0).log_prob(0.7) + dist.Normal(0.0, 1.0).log_prob(0.2)
    rest += dist.StudentT(4.0, 0.0, 1.0).log_prob(-0.3) + dist.Poisson(np.exp(0.2)).log_prob(2)
    np.testing.assert_allclose(found, np.log(0.7 * given(0) + 0.3 * given(1)) + rest, rtol=1e-12)


def test_of_two_factors_of_a_product_one_is_taken_out():
    def model(key):
        a = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="a")
        b = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="b")
        ppl.sample(key, dist.Normal(jnp.sum(a) * b, 1.0), name="y")

    plan = ppl.auto_marginal(ppl.condition(model, {"y": np.ones(3)}))()
    assert list(plan) == ["b"]
    assert plan.reasons == {"a": "it is not normal together with others"}


def test_what_is_too_large_is_left():
    def model(key, num):
        x = ppl.sample(key, dist.Normal(jnp.zeros(num), 1.0), name="x")
        z = ppl.sample(key, dist.Bernoulli(probs=0.5 * jnp.ones(20)), name="z")
        ppl.sample(key, dist.Normal(jnp.sum(x) + jnp.sum(z), 1.0), name="y")

    plan = ppl.auto_marginal(ppl.condition(model, {"y": 0.5}))(600)
    assert dict(plan) == {}
    assert plan.reasons == {
        "x": "more than 512 elements are coupled",
        "z": "more than 4096 states are coupled",
    }
    assert list(ppl.auto_marginal(ppl.condition(model, {"y": 0.5}))(10)) == ["x"]


def test_a_site_that_is_too_large_leaves_the_others():
    """Sites that can be taken out are, and each of the others has a reason of its own."""

    def model(key):
        w = ppl.sample(key, dist.Normal(0.0, 1.0), name="w")
        v = ppl.sample(key, dist.Normal(0.0, 1.0), name="v")
        z = ppl.sample(key, dist.Bernoulli(probs=0.5 * jnp.ones(20)), name="z")
        u = ppl.sample(key, dist.Bernoulli(probs=0.5 * jnp.ones(20)), name="u")
        n = ppl.sample(key, dist.Poisson(2.0), name="n")
        ppl.sample(key, dist.Normal(v + n + jnp.sum(z), 1.0), name="x")
        ppl.sample(key, dist.Normal(w + u, 1.0), name="y")

    plan = ppl.auto_marginal(ppl.condition(model, {"x": 0.5, "y": np.zeros(20)}))()
    assert set(plan) == {"u", "v"}
    assert plan.reasons == {
        "w": "together with others, more than 4096 states are coupled",
        "z": "more than 4096 states are coupled",
        "n": "its states are not finitely many",
    }
