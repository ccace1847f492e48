"""param: what harvest finds of it, and that a model takes no notice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial
from scipy import stats

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


def mixture(key):
    """Two groups with a share and a distance to be fitted; a user's sow of its own."""
    p = ppl.param(0.4, name="p", support=constraints.unit_interval)
    p = ppl.sow(p, tag="own", name="share")
    z = ppl.sample(key, dist.Bernoulli(probs=p), name="z")
    distance = ppl.module(key, {"distance": jnp.array(2.0)}, name="net")["distance"]
    x = ppl.sample(key, dist.Normal(distance * z, 1.0), name="x")
    ppl.sample(key, dist.Normal(x, 1.0), name="y")


def log_density_of_mixture(values, p, distance):
    spread = 1.0 if "x" in values else np.sqrt(2.0)
    x = values.get("x", 0.5)
    found = np.log(
        (1 - p) * stats.norm.pdf(x, 0.0, spread) + p * stats.norm.pdf(x, distance, spread)
    )
    return found + (stats.norm.logpdf(0.5, x) if "x" in values else 0.0)


@pytest.mark.usefixtures("x64")
@pytest.mark.slow_rows("laplace")
@pytest.mark.parametrize(
    "strategy", [None, ppl.Gaussian(), ppl.Laplace()], ids=["whole", "gaussian", "laplace"]
)
def test_parameters_of_a_marginalized_model_are_sown_once(strategy):
    sites = {"z": ppl.Enumerate()} | ({} if strategy is None else {"x": strategy})
    values = {"x": 0.3} if strategy is None else {}
    posterior = ppl.condition(mixture, {"y": 0.5})
    summed = ppl.marginalize(posterior, sites)

    fitted = {"p": 0.7, "net": {"distance": 1.5}}
    expected = log_density_of_mixture(values, 0.7, 1.5)
    of_fit = (
        ppl.with_params(summed, fitted),
        ppl.marginalize(ppl.with_params(posterior, fitted), sites),
    )
    for model in of_fit:
        np.testing.assert_allclose(ppl.log_density(model)(values), expected, rtol=1e-10)

    start = ppl.reap(summed, tag="param")(KEY)
    np.testing.assert_allclose(start["net"]["distance"], 2.0)

    def log_density(params):
        return ppl.log_density(Partial(ppl.plant(summed, tag="param"), params))(values)

    expected = log_density_of_mixture(values, 0.4, 2.0)
    slopes = [
        (log_density_of_mixture(values, *up) - log_density_of_mixture(values, *down)) / 2e-5
        for up, down in (((0.4 + 1e-5, 2.0), (0.4 - 1e-5, 2.0)), ((0.4, 2.00001), (0.4, 1.99999)))
    ]
    found, gradient = jax.value_and_grad(log_density)(start)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_allclose(gradient["p"], slopes[0] * 0.4 * 0.6, rtol=1e-6)
    np.testing.assert_allclose(gradient["net"]["distance"], slopes[1], rtol=1e-6)
    assert ppl.reap(summed, tag="own")(KEY)["share"].shape == ()
