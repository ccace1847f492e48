"""forward_gradient: loops of unknown length in models that samplers differentiate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random

import distributions as dist
import inference
import ppl


def by_while(rate, start):
    """Steps of Newton's method for z = 1 - exp(-rate * z), until they are small."""

    def step(state):
        z, _, count = state
        return z - (z - 1 + jnp.exp(-rate * z)) / (1 - rate * jnp.exp(-rate * z)), z, count + 1

    def goes_on(state):
        return (jnp.abs(state[0] - state[1]) > 1e-4) & (state[2] < 30)

    return lax.while_loop(goes_on, step, (start, start + 1, 0))[0]


def by_scan(rate, start):
    """The same steps, of which those after the last do nothing."""

    def step(state, _):
        z, old = state
        new = z - (z - 1 + jnp.exp(-rate * z)) / (1 - rate * jnp.exp(-rate * z))
        is_done = jnp.abs(z - old) <= 1e-4
        return (jnp.where(is_done, z, new), jnp.where(is_done, old, z)), None

    return lax.scan(step, (start, start + 1), None, 30)[0][0]


@pytest.mark.parametrize("mapped", [False, True])
def test_values_and_gradients_are_those_of_a_scan(x64, mapped):
    def both(solve):
        def function(rate, start):
            return jnp.sin(solve(rate, start)) * rate

        found = jax.value_and_grad(function, argnums=(0, 1))
        return jax.jit(jax.vmap(found) if mapped else found)

    arguments = (jnp.array([1.5, 2.0, 3.0]), jnp.full(3, 0.9)) if mapped else (1.5, 0.9)
    found = both(ppl.forward_gradient(by_while))(*arguments)
    expected = both(by_scan)(*arguments)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-15), found, expected
    )


def test_pytrees_of_arrays_and_integers_go_through(x64):
    def function(x, power):
        return {"a": x["u"] @ x["v"] ** power, "b": jnp.sum(x["u"]) * x["v"]}

    x = {"u": jnp.arange(6.0).reshape(2, 3), "v": jnp.array([1.0, 2.0, 3.0])}

    def total(function, x):
        found = function(x, 2)
        return jnp.sum(found["a"] ** 2) + jnp.sum(jnp.cos(found["b"]))

    for derivative in (jax.grad, jax.hessian):
        found = derivative(lambda x: total(ppl.forward_gradient(function), x))(x)
        expected = derivative(lambda x: total(function, x))(x)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9), found, expected)


def test_nuts_draws_the_same_as_of_a_scan(x64):
    def posterior(solve):
        def model(key):
            rate = ppl.sample(key, dist.LogNormal(0.7, 0.3), name="rate")
            return ppl.sample(key, dist.Binomial(200, probs=solve(rate, 0.99)), name="cases")

        return ppl.condition(model, {"cases": jnp.array(150)})

    settings = {"kernel": inference.NUTS(step_size=0.3), "num_warmup": 0, "num_draws": 20}
    found, expected = (
        inference.mcmc(random.key(0), posterior(solve), num_chains=2, **settings)
        for solve in (ppl.forward_gradient(by_while), by_scan)
    )
    assert np.ptp(found.draws["rate"]) > 0.1
    np.testing.assert_allclose(found.draws["rate"], expected.draws["rate"], rtol=1e-6)
    with pytest.raises(ValueError, match=r"no gradient by reverse mode.*ppl\.forward_gradient"):
        inference.mcmc(random.key(0), posterior(by_while), num_chains=2, **settings)


def test_what_has_no_gradient_is_refused():
    with pytest.raises(TypeError, match="forward_gradient: expected a function, got 3"):
        ppl.forward_gradient(3)
    with pytest.raises(TypeError, match=r"forward_gradient: round returned .* is not floating"):
        ppl.forward_gradient(round)(2.5)


def test_a_site_that_is_not_an_argument_is_refused():
    def model(key):
        rate = ppl.sample(key, dist.LogNormal(0.7, 0.3), name="rate")
        ppl.factor(ppl.forward_gradient(lambda start: by_while(rate, start))(0.9), name="size")

    with pytest.raises(Exception, match="closed-over value"):
        jax.grad(ppl.log_density(model))({"rate": 1.5})
