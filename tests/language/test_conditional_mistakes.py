"""conditional: mistakes are errors at the boundary, and what is no mistake."""

import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import ppl


def simple(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.sample(key, dist.Normal(x, 1.0), name="z")
    ppl.sample(key, dist.Normal(x, 1.0), name="y")


@pytest.mark.parametrize(
    ("site", "values", "error", "words"),
    [
        (0, {}, TypeError, ["name of a site", "0"]),
        ("w", {}, ValueError, ["no site 'w'", "'x', 'z'"]),
        ("y", {}, ValueError, ["'y'", "observed"]),
        ("x", {}, ValueError, ["every latent site but 'x'", "missing: 'z'"]),
        ("x", {"z": 0.0, "w": 1.0}, ValueError, ["no site 'w'"]),
        ("x", {"z": np.zeros(2)}, ValueError, ["'z'", "expected float32[]", "got float32[2]"]),
        ("x", [0.0], TypeError, ["dict", "list"]),
    ],
)
def test_mistakes_are_errors_at_the_boundary(site, values, error, words):
    with pytest.raises(error) as caught:
        ppl.conditional(ppl.condition(simple, {"y": 0.5}), site)(values)
    for word in ("conditional", *words):
        assert word in str(caught.value)


def flat(key, slope):
    x = ppl.sample(key, dist.Flat(dist.constraints.real), name="x")
    ppl.sample(key, dist.Normal(slope * x, 1.0), name="y")


def test_an_improper_full_conditional_is_an_error():
    with pytest.raises(ValueError, match=r"conditional: .* 'x' is improper"):
        ppl.conditional(ppl.condition(flat, {"y": 0.5}), "x")({}, jnp.zeros(()))


def test_the_value_of_the_site_itself_is_ignored():
    found = ppl.conditional(ppl.condition(simple, {"y": 0.5}), "x")({"x": 9.0, "z": 1.0})
    np.testing.assert_allclose([found.loc, found.scale], [0.5, 3**-0.5], rtol=1e-6)


IMPROPER = {
    "gamma": (dist.Gamma(0.5, 0.5), lambda x: 2.0 * x),
    "beta": (dist.Beta(0.5, 0.5), lambda x: -3.0 * jnp.log(x)),
    "Dirichlet": (dist.Dirichlet(jnp.ones(3)), lambda x: -2.0 * jnp.log(x[1])),
}


@pytest.mark.parametrize("name", IMPROPER)
def test_a_density_without_an_integral_has_no_family(name):
    prior, log_weight = IMPROPER[name]

    def model(key, sign):
        x = ppl.sample(key, prior, name="x")
        ppl.factor(sign * log_weight(x), name="w")

    assert ppl.conditional(lambda key: model(key, 1.0), "x")({}) is None
    assert ppl.conditional(lambda key: model(key, -1.0), "x")({}) is not None
