"""param: what harvest finds of it, and that a model takes no notice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl
from distributions import constraints

KEY = jax.random.key(0)
VALUE = {"positive": 2.0, "simplex": np.array([0.2, 0.3, 0.5]), "real": -1.5}


@pytest.mark.parametrize("name", VALUE)
def test_a_parameter_begins_with_its_value_and_keeps_its_support(name):
    support = getattr(constraints, name)

    def guide(key):
        return ppl.param(VALUE[name], name="a", support=support)

    start = ppl.reap(guide, tag="param")(KEY)
    np.testing.assert_allclose(guide(KEY), VALUE[name], rtol=1e-6)
    np.testing.assert_allclose(start["a"], support.bijector.inverse(VALUE[name]), rtol=1e-6)
    moved = ppl.plant(guide, tag="param")({"a": start["a"] + 3.0}, KEY)
    np.testing.assert_allclose(moved, support.bijector.forward(start["a"] + 3.0), rtol=1e-6)
    assert np.all(support.check(moved))


def test_scopes_and_maps_are_those_of_sites():
    def one(key, level):
        return ppl.param(level, name="level")

    def guide(key):
        return jax.vmap(ppl.nest(one, scope="inner"))(jax.random.split(key, 3), jnp.arange(3.0))

    reaped = ppl.reap(guide, tag="param")(KEY)
    np.testing.assert_array_equal(reaped["inner"]["level"], [0.0, 1.0, 2.0])


def test_a_density_takes_no_notice():
    def model(key):
        scale = ppl.param(2.0, name="scale", support=constraints.positive)
        return ppl.sample(key, dist.Normal(0.0, scale), name="x")

    expected = dist.Normal(0.0, 2.0).log_prob(0.5)
    np.testing.assert_allclose(ppl.log_density(model)({"x": 0.5}), expected, rtol=1e-6)
    assert list(ppl.simulate(model)(KEY)) == ["x"]
    assert list(ppl.trace(model)(KEY).sites) == ["x"]

    def density(parameters):
        planted = lambda key: ppl.plant(model, tag="param")(parameters, key)  # noqa: E731
        return ppl.log_density(planted)({"x": 0.5})

    slope = jax.grad(density)({"scale": jnp.log(2.0)})["scale"]
    np.testing.assert_allclose(slope, 0.5**2 / 2.0**2 - 1, rtol=1e-5)  # by the log scale


REFUSED = {
    "name": ((1.0, 3, None), TypeError, "name must be a string"),
    "text": (("a", "a", None), TypeError, "param 'a': expected a pytree of arrays"),
    "text in a support": (("a", "a", constraints.positive), TypeError, "expected an array, got"),
    "integer": ((1, "a", None), TypeError, r"expected an array of floats, got int32\[\]"),
    "no support": ((1.0, "a", "positive"), TypeError, "expected a support such as"),
    "distribution": ((1.0, "a", dist.Normal(0.0, 1.0)), TypeError, "a support such as"),
    "outside": ((-1.0, "a", constraints.positive), ValueError, "expected positive .* got -1.0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    (value, site, support), error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        ppl.reap(lambda key: ppl.param(value, name=site, support=support), tag="param")(KEY)


def test_a_model_with_a_parameter_has_no_density_to_explore():
    def part(key):
        return ppl.sample(key, dist.Normal(ppl.param(0.5, name="loc"), 1.0), name="x")

    def model(key):
        return ppl.nest(part, scope="part")(key)

    with pytest.raises(
        ValueError, match=r"'model' has the parameter 'part.loc', made by ppl.param"
    ):
        ppl.unconstrain(model)


def test_one_name_is_one_parameter():
    def guide(key):
        return ppl.param(1.0, name="a") + ppl.param(2.0, name="a")

    with pytest.raises(ValueError, match="a"):
        ppl.reap(guide, tag="param")(KEY)
