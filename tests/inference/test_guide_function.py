"""Guides that are functions: exact where they can be, as good as others, and refused in words."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import ppl
from distributions import constraints
from inference import ELBO, ForwardKL, ImportanceWeighted, Renyi, importance, mcmc, svi
from inference.runtime.compiled_program import compile_program

RATE = {"optimizer": optax.adam(optax.exponential_decay(0.05, 1000, 0.5)), "num_steps": 6000}
STUCK = {"objective": ELBO(stick_the_landing=True)}
X, NUM_OBSERVED = np.linspace(-1.0, 1.0, 12), 20


def floats(x):
    return jnp.asarray(x, jnp.result_type(float))


def normal(key, scale):
    """Exactly conjugate: mu is normal with precision 1/4 + n / scale**2."""
    mu = ppl.sample(key, dist.Normal(0.0, 2.0), name="mu")
    ppl.sample(key, dist.Normal(mu * jnp.ones(NUM_OBSERVED), scale), name="y")


def normal_guide(key, scale):
    loc = ppl.param(floats(0.0), name="loc")
    sd = ppl.param(floats(1.0), name="sd", support=constraints.positive)
    ppl.sample(key, dist.Normal(loc, sd), name="mu")


def data(seed=0):
    return np.random.default_rng(seed).normal(1.5, 1.0, NUM_OBSERVED)


def fitted(seed=0, y=None, **settings):
    posterior = ppl.condition(normal, {"y": floats(data() if y is None else y)})
    return svi(jax.random.key(seed), posterior, floats(2.0), guide=normal_guide, **settings)


def exact(y):
    precision = 1 / 4 + NUM_OBSERVED / 4
    covariance = 4 * np.eye(NUM_OBSERVED) + 4
    log_det = np.linalg.slogdet(2 * np.pi * covariance)[1]
    return (
        y.sum() / 4 / precision,
        precision**-0.5,
        -0.5 * (y @ np.linalg.solve(covariance, y) + log_det),
    )


@pytest.mark.quick_rows("float32")
def test_a_conjugate_posterior_is_recovered(float_dtype):
    result = fitted(**RATE, **STUCK)
    mean, sd, log_evidence = exact(data())
    found = result.guide_parameters
    assert_same = np.testing.assert_array_equal
    assert_same(found["sd"], constraints.positive.bijector.forward(result.parameters["sd"]))
    by_name = ppl.with_params(normal_guide, found)
    drawn = [
        f(jax.random.key(1), 2.0) for f in map(ppl.simulate, (by_name, result.guide_function()))
    ]
    assert_same(drawn[0]["mu"], drawn[1]["mu"])
    assert found["loc"].dtype == float_dtype
    np.testing.assert_allclose(found["loc"], mean, rtol=1e-3)
    np.testing.assert_allclose(found["sd"], sd, rtol=1e-3)
    np.testing.assert_allclose(result.elbo, log_evidence, atol=1e-3)
    assert result.draws["mu"].shape == (1, 1000)


@pytest.mark.quick_rows("ForwardKL(doubly_reparameterized=True)")
@pytest.mark.parametrize("objective", [ImportanceWeighted(), Renyi(0.5), ForwardKL()], ids=str)
def test_other_objectives_recover_it_as_well(objective):
    """Without noise at the end, as their gradients are doubly reparameterized."""
    result = fitted(**RATE | {"num_steps": 4000}, objective=objective, num_particles=5)
    mean, sd, log_evidence = exact(data())
    found = result.guide_parameters
    np.testing.assert_allclose([found["loc"], found["sd"]], [mean, sd], rtol=1e-3)
    np.testing.assert_allclose(result.elbos[-1], log_evidence, atol=1e-3)


def test_noise_of_a_guide_that_is_the_posterior_is_gone():
    """With the landing stuck to; a gradient of another sign or size would leave some."""
    result = fitted(**RATE, **STUCK)
    assert np.std(result.elbos[-100:]) < 1e-3
    assert np.std(fitted(num_steps=100).elbos) > 0.1


def hierarchy(key, x):
    slope = ppl.nest(line, scope="line")(key)
    scale = ppl.sample(key, dist.Exponential(1.0), name="scale")
    group = ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="group")
    ppl.deterministic(group.sum(), name="total")
    ppl.sample(key, dist.Normal(slope * x + group[jnp.arange(12) % 3], scale), name="y")


def line(key):
    return ppl.sample(key, dist.Normal(0.0, 3.0), name="slope")


def hierarchy_guide(key, x):
    """Constrained, scoped, mapped over, and with parameters in a pytree."""

    def slope_guide(key):
        loc, log_sd = ppl.param((floats(0.0), floats(-2.0)), name="slope")
        ppl.sample(key, dist.Normal(loc, jnp.exp(log_sd)), name="slope")

    def one(key, loc, sd):
        ppl.sample(key, dist.Normal(loc, sd), name="group")

    ppl.nest(slope_guide, scope="line")(key)
    loc = ppl.param(floats(np.zeros(3)), name="loc")
    sd = ppl.param(floats(0.1 * np.ones(3)), name="sd", support=constraints.positive)
    jax.vmap(one)(jax.random.split(key, 3), loc, sd)
    spread = ppl.param(floats(0.1), name="spread", support=constraints.positive)
    ppl.sample(key, dist.LogNormal(ppl.param(floats(0.0), name="level"), spread), name="scale")


@pytest.mark.slow
def test_a_guide_of_several_sites_agrees_with_mcmc():
    y = 1.5 * X + np.tile([0.5, -0.5, 0.0], 4) + np.random.default_rng(0).normal(0.0, 0.3, 12)
    model = ppl.condition(hierarchy, {"y": floats(y)})
    result = svi(jax.random.key(0), model, floats(X), guide=hierarchy_guide, **RATE)
    weighted = importance(jax.random.key(1), model, floats(X), guide=result)
    chains = mcmc(jax.random.key(2), model, floats(X), num_chains=2)
    assert set(result.draws) == {"line", "scale", "group", "total"}
    total = result.draws["group"].sum(-1)
    np.testing.assert_allclose(result.draws["total"], total, rtol=1e-4, atol=1e-5)
    expected, found = chains.summary(), weighted.summary()
    error = np.hypot(expected.mcse_mean, expected.sd / np.sqrt(weighted.ess))
    assert sorted(expected.names) == sorted(found.names)
    mean = np.array([found[name].mean for name in expected.names])
    assert np.all(np.abs(mean - expected.mean) < 5 * error)
    assert weighted.log_evidence > result.elbo


def test_a_guide_within_nest_is_fitted():
    """Its parameters are those of the guide by itself, which is the posterior, in a scope."""
    y = floats(data())
    posterior = ppl.condition(ppl.nest(normal, scope="s"), {"s": {"y": y}})
    guide = ppl.nest(normal_guide, scope="s")
    settings = {**RATE, **STUCK, "num_steps": 1500}
    found = svi(jax.random.key(0), posterior, floats(2.0), guide=guide, **settings).parameters["s"]
    bare = fitted(y=y, **settings).parameters
    assert found.keys() == bare.keys()
    np.testing.assert_allclose(found["loc"], bare["loc"], rtol=1e-2)


def test_new_data_keys_and_steps_compile_nothing():
    fitted(num_steps=200)
    misses = compile_program.cache_info().misses
    fitted(1, y=data(1), num_steps=300)
    assert compile_program.cache_info().misses == misses


def test_no_operation_is_a_program_of_its_own(caplog):
    """JAX compiles each operation that runs outside of a compiled function."""

    def model(key):
        loc = ppl.param(jnp.zeros(7), name="level")
        x = ppl.sample(key, dist.Normal(jnp.cosh(loc), 1.0), name="x")
        ppl.factor(-jnp.sum(jnp.cosh(x)), name="far")

    def guide(key):
        ppl.sample(key, dist.Normal(jnp.sinh(ppl.param(jnp.ones(7), name="loc")), 1.0), name="x")

    with jax.log_compiles():
        svi(jax.random.key(0), model, guide=guide, num_steps=2, num_draws=2)
    compiled = [record.getMessage() for record in caplog.records]
    assert any("advance_svi" in text for text in compiled)
    assert not [text for text in compiled if re.search("(sin|cos)h", text)]


def test_going_on_is_one_long_run():
    whole, first = fitted(num_steps=300), fitted(num_steps=100)
    rest = fitted(num_steps=200, state=first.state)
    jax.tree.map(np.testing.assert_array_equal, rest.parameters, whole.parameters)


@pytest.mark.slow
def test_a_network_turns_data_into_parameters():
    """One fit serves other data: what it says of them is near to their own posterior."""

    def many(key, y):
        def one(key, y):
            z = ppl.sample(key, dist.Normal(0.0, 1.0), name="z")
            ppl.factor(dist.Normal(z, 0.5).log_prob(y), name="y")

        jax.vmap(one)(jax.random.split(key, 12), y)

    def amortised(key, y):
        weight = ppl.param(floats(0.1), name="weight")
        sd = ppl.param(floats(1.0), name="sd", support=constraints.positive)

        def one(key, y):
            ppl.sample(key, dist.Normal(weight * y, sd), name="z")

        jax.vmap(one)(jax.random.split(key, 12), y)

    result = svi(jax.random.key(0), many, floats(X), guide=amortised, **RATE, **STUCK)
    found = result.guide_parameters
    np.testing.assert_allclose([found["weight"], found["sd"]], [0.8, 0.2**0.5], rtol=5e-3)
    other = importance(jax.random.key(0), many, floats(3 * X), guide=result)
    evidence = np.sum(dist.Normal(0.0, 1.25**0.5).log_prob(3 * X))
    np.testing.assert_allclose(other.log_evidence, evidence, atol=0.02)


def draws_nothing(key, scale):
    ppl.param(floats(0.0), name="loc")


def has_no_parameters(key, scale):
    ppl.sample(key, dist.Normal(0.0, 1.0), name="mu")


def draws_more(key, scale):
    normal_guide(key, scale)
    ppl.sample(key, dist.Normal(0.0, 1.0), name="nu")


def draws_another_shape(key, scale):
    ppl.sample(key, dist.Normal(ppl.param(jnp.zeros(2), name="loc"), 1.0), name="mu")


def observes(key, scale):
    normal_guide(key, scale)
    ppl.factor(floats(1.0), name="more")


def draws_by_a_jump(key, scale):
    loc = ppl.param(floats(0.0), name="loc")
    ppl.sample(key, dist.Quantized(dist.Normal(loc, 1.0)), name="mu")


REFUSED = {
    "no draw": (draws_nothing, r"must draw the latent sites of the model, mu \(\), .* draws none"),
    "no parameter": (has_no_parameters, "guide has_no_parameters has no parameters to fit"),
    "one more": (draws_more, r"no others, but draws mu \(\), nu \(\)"),
    "shape": (draws_another_shape, r"mu \(\), and no others, but draws mu \(2,\)"),
    "factor": (observes, "site 'more' of guide observes is factor"),
    "a jump": (draws_by_a_jump, r"mu \(\), and no others, but draws mu \(\) int32"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_a_guide_is_refused(name):
    guide, message = REFUSED[name]
    posterior = ppl.condition(normal, {"y": floats(data())})
    with pytest.raises(ValueError, match=message):
        svi(jax.random.key(0), posterior, floats(2.0), guide=guide, num_steps=10)


def test_only_a_function_is_one():
    posterior = ppl.condition(normal, {"y": floats(data())})
    result = svi(jax.random.key(0), posterior, floats(2.0), num_steps=10)
    with pytest.raises(TypeError, match=r"the guide is no function, but MeanField"):
        result.guide_function()


def test_a_parameter_at_the_edge_of_its_support_is_named():
    def guide(key):
        sd = ppl.param(floats(1e-8), name="sd", support=constraints.positive)
        ppl.sample(key, dist.Normal(ppl.param(floats(30.0), name="loc"), sd), name="t")

    model = lambda key: ppl.sample(key, dist.Normal(30.0, 1e-8), name="t")  # noqa: E731
    problems = svi(jax.random.key(1), model, guide=guide, num_steps=100).summary().problems
    assert any("parameter sd is at the edge of its support (-1" in x for x in problems), problems


def test_draws_outside_of_the_support_name_the_site():
    def model(key):
        ppl.sample(key, dist.Exponential(1.0), name="t")

    def guide(key):
        ppl.sample(key, dist.Normal(ppl.param(floats(0.0), name="loc"), 1.0), name="t")

    with pytest.warns(RuntimeWarning, match=r"site 't' has log probability -inf.* value is -"):
        svi(jax.random.key(1), model, guide=guide)


class Offsets:
    """Numbers that a model and its guide take from outside of their arguments."""

    model = 0.0
    guide = 0.0


def offset_model(key):
    x = ppl.sample(key, dist.Normal(jnp.full(2, Offsets.model).mean(), 1.0), name="x")
    return ppl.sample(key, dist.Normal(x, 1.0), name="y")


def offset_guide(key):
    loc = ppl.param(0.0, name="loc") + Offsets.guide
    return ppl.sample(key, dist.Normal(loc, jnp.sqrt(0.5)), name="x")


@pytest.mark.quick_rows("guide")
@pytest.mark.parametrize("changed", ["model", "guide"])
def test_numbers_from_elsewhere_are_those_of_the_call(changed, monkeypatch):
    """Of the model, and of the guide: neither is remembered from the first fit."""
    posterior = ppl.condition(offset_model, {"y": 0.0})
    fit = lambda: svi(jax.random.key(0), posterior, guide=offset_guide, **RATE)  # noqa: E731
    before = fit()
    monkeypatch.setattr(Offsets, changed, 4.0)
    after = fit()
    mean = 2.0 if changed == "model" else 0.0
    assert abs(np.mean(before.draws["x"])) < 0.2
    assert abs(np.mean(after.draws["x"]) - mean) < 0.2
    if changed == "guide":
        np.testing.assert_allclose(after.parameters["loc"], -4.0, atol=0.2)
