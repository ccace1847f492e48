"""Sums and integrals that meet in one score: derivatives of two orders in what both depend on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl

pytestmark = pytest.mark.usefixtures("x64")

Y = np.array([0.3, 2.1, -1.4])
INNER = {"gaussian": ppl.Gaussian(), "laplace": ppl.Laplace()}


def by_element(key, centered):
    """Of each element, a class and a normal effect are latent."""
    t = ppl.sample(key, dist.HalfNormal(1.0), name="t")
    m = ppl.sample(key, dist.Normal(0.0, 1.0), name="m")
    e = ppl.sample(key, dist.Normal(m * jnp.ones(3), t if centered else 1.0), name="e")
    z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(3, 0.3)), name="z")
    ppl.sample(key, dist.Normal((e if centered else m + t * (e - m)) + 2.0 * z, 0.7), name="y")


def by_group(key, centered):
    """Two effects, each of which several elements with a class share."""
    t = ppl.sample(key, dist.HalfNormal(1.0), name="t")
    m = ppl.sample(key, dist.Normal(0.0, 1.0), name="m")
    e = ppl.sample(key, dist.Normal(m * jnp.ones(2), t if centered else 1.0), name="e")
    z = ppl.sample(key, dist.Bernoulli(probs=jnp.full(2, 0.3)), name="z")
    effect = e if centered else m + t * (e - m)
    ppl.sample(key, dist.Normal((effect + 2.0 * z)[np.array([0, 1, 0])], 0.7), name="y")


def exact_by_element(t, m):
    spread = jnp.sqrt(0.49 + t**2)
    terms = [jnp.log(p) + dist.Normal(m + 2.0 * z, spread).log_prob(Y) for z, p in CLASSES]
    return jnp.sum(jnp.logaddexp(*terms))


def exact_by_group(t, m):
    pair = dist.MultivariateNormal(
        m * jnp.ones(2), covariance=0.49 * jnp.eye(2) + t**2 * jnp.ones((2, 2))
    )
    of_pair = [jnp.log(p) + pair.log_prob(Y[[0, 2]] - 2.0 * z) for z, p in CLASSES]
    alone = dist.Normal(m, jnp.sqrt(0.49 + t**2))
    of_one = [jnp.log(p) + alone.log_prob(Y[1] - 2.0 * z) for z, p in CLASSES]
    return jnp.logaddexp(*of_pair) + jnp.logaddexp(*of_one)


CLASSES = ((0, 0.7), (1, 0.3))
MODELS = {"element": (by_element, exact_by_element), "group": (by_group, exact_by_group)}


@pytest.mark.quick_rows("element-centered-laplace")
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("form", ["centered", "noncentered"])
@pytest.mark.parametrize("name", MODELS)
def test_derivatives_where_a_sum_and_an_integral_meet(name, form, inner):
    model, exact = MODELS[name]
    posterior = ppl.condition(lambda key: model(key, form == "centered"), {"y": Y})
    summed = ppl.marginalize(posterior, {"z": ppl.Enumerate(), "e": INNER[inner]})

    def density(x):
        return ppl.log_density(summed)({"t": x[0], "m": x[1]})

    def expected(x):
        prior = dist.HalfNormal(1.0).log_prob(x[0]) + dist.Normal(0.0, 1.0).log_prob(x[1])
        return prior + exact(x[0], x[1])

    x = jnp.array([0.8, -0.3])
    value, gradient = jax.value_and_grad(density)(x)
    np.testing.assert_allclose(value, expected(x), rtol=1e-10)
    np.testing.assert_allclose(gradient, jax.grad(expected)(x), rtol=1e-8)
    np.testing.assert_allclose(jax.jit(jax.grad(density))(x), gradient, rtol=1e-10)
    np.testing.assert_allclose(jax.grad(jax.jit(density))(x), gradient, rtol=1e-10)
    hessian = jax.jit(jax.hessian(density))(x)
    np.testing.assert_allclose(hessian, jax.hessian(expected)(x), rtol=1e-7)


def test_what_was_integrated_before_is_not_looked_into():
    def schools(key):
        mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
        theta = ppl.sample(key, dist.Normal(mu * jnp.ones(3), 1.0), name="theta")
        ppl.sample(key, dist.Normal(theta, 1.0), name="y")

    first = ppl.marginalize(ppl.condition(schools, {"y": Y}), {"theta": ppl.Gaussian()})
    words = "'y' is a sum or an integral over 'theta'.* for 'mu'. Take all of them out in one call"
    with pytest.raises(ValueError, match=words):
        ppl.log_density(ppl.marginalize(first, {"mu": ppl.Gaussian()}))({})
