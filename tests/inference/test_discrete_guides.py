"""Guides with discrete draws: gradients by enumeration, fits of posteriors that are known."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import ppl
from inference import ELBO, ForwardKL, ScoreFunction, importance, svi
from inference.models.guide_function import guide_function
from inference.models.value_target import ValueTarget
from inference.runtime.compiled_program import compile_program
from inference.variational.score_function import ScoreFunction as Score

Z = 4.5  # failure rate 7e-6 for each comparison
NUM_KEYS = 40_000
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


def floats(x):
    return jnp.asarray(x, jnp.result_type(float))


def switch(key, y):
    """A discrete cause of a continuous one."""
    k = ppl.sample(key, dist.Bernoulli(probs=0.3), name="k")
    x = ppl.sample(key, dist.Normal(2.0 * k, 1.0), name="x")
    ppl.factor(dist.StudentT(3.0, x, 0.5).log_prob(y), name="y")


def parts(at, noise, k, order):
    """The position of a draw and its log probability, by hand."""
    if order == "discrete first":
        x = at["loc"] + at["slope"] * k + jnp.exp(at["spread"]) * noise
        logit = at["logit"]
    else:
        x = at["loc"] + jnp.exp(at["spread"]) * noise
        logit = at["logit"] + at["slope"] * x
    return x, dist.Bernoulli(logits=logit).log_prob(k), -0.5 * noise**2 - at["spread"]


def guide_of(order):
    def guide(key, y):
        at = {name: ppl.param(floats(value), name=name) for name, value in AT.items()}
        sd = jnp.exp(at["spread"])
        if order == "discrete first":
            k = ppl.sample(key, dist.Bernoulli(logits=at["logit"]), name="k")
            ppl.sample(key, dist.Normal(at["loc"] + at["slope"] * k, sd), name="x")
        else:
            x = ppl.sample(key, dist.Normal(at["loc"], sd), name="x")
            ppl.sample(key, dist.Bernoulli(logits=at["logit"] + at["slope"] * x), name="k")

    return guide


AT = {"logit": 0.4, "loc": 0.5, "slope": 0.7, "spread": -0.3}


def exact_gradient(order, y):
    """Of the ELBO: a sum over k of an integral over the noise."""
    density = ppl.log_density(switch)

    def elbo(at):
        def one(noise, k):
            x, log_prob_k, log_prob_x = parts(at, noise, k, order)
            log_prob_x = log_prob_x - 0.5 * jnp.log(2 * jnp.pi)
            gain = density({"k": k, "x": x}, y) - log_prob_k - log_prob_x
            return jnp.exp(log_prob_k) * gain

        sums = sum(jax.vmap(one, (0, None))(jnp.asarray(NODES), k) for k in (0, 1))
        return jnp.asarray(WEIGHTS) @ sums / jnp.sqrt(2 * jnp.pi)

    return jax.grad(elbo)({name: jnp.asarray(x) for name, x in AT.items()})


def estimates(order, y, objective):
    values = ValueTarget.of(switch, (y,), {})
    guide = guide_function(guide_of(order), values)
    density = lambda flat: values.log_density(values.layout.unravel(flat))  # noqa: E731
    at = {name: jnp.asarray(x) for name, x in AT.items()}
    keys = jax.random.split(jax.random.key(3), (NUM_KEYS, 3))
    one = jax.grad(lambda at, keys: objective.mean(density, guide, at, keys))
    return jax.jit(jax.vmap(one, (None, 0)))(at, keys)


class Backwards(Score):
    """Broken: with a score of the other sign."""

    def mean(self, log_density, guide, parameters, keys):
        class Flipped:
            sample, log_prob = guide.sample, guide.log_prob
            log_prob_of_jumps = lambda self, *at: -guide.log_prob_of_jumps(*at)  # noqa: E731

        return super().mean(log_density, Flipped(), parameters, keys)


@pytest.mark.slow
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("order", ["discrete first", "discrete last"])
def test_gradients_are_those_by_enumeration(order):
    y = jnp.asarray(1.5)
    expected = exact_gradient(order, y)

    def deviations(objective):
        found = estimates(order, y, objective)
        return np.array(
            [
                (found[name].mean() - expected[name]) / found[name].std() * NUM_KEYS**0.5
                for name in AT
            ]
        )

    assert np.all(np.abs(deviations(ScoreFunction())) < Z)
    # The path alone, and the score of the wrong sign.
    assert np.any(np.abs(deviations(ELBO())) > 3 * Z)
    assert np.any(np.abs(deviations(Backwards())) > 3 * Z)


def mixture(key, y, weights):
    """Independent rows, each of one of three components, a scan of two more, and a nested one."""

    def one(key, y):
        k = ppl.sample(key, dist.Categorical(probs=weights), name="k")
        ppl.factor(dist.Normal(2.0 * k - 2.0, 1.0).log_prob(y), name="y")

    def step(carry, key):
        ppl.sample(key, dist.Bernoulli(probs=0.8), name="s")
        return carry, None

    jax.vmap(one)(jax.random.split(key, len(y)), y)
    jax.lax.scan(step, 0, jax.random.split(key, 2))
    ppl.nest(lambda key: ppl.sample(key, dist.Poisson(2.0), name="n"), scope="in")(key)


def mixture_guide(key, y, weights):
    def one(key, logits):
        ppl.sample(key, dist.Categorical(logits=logits), name="k")

    def step(carry, xs):
        key, logit = xs
        ppl.sample(key, dist.Bernoulli(logits=logit), name="s")
        return carry, None

    def inside(key):
        ppl.sample(key, dist.Poisson(jnp.exp(ppl.param(floats(0.0), name="log_rate"))), name="n")

    jax.vmap(one)(
        jax.random.split(key, len(y)), ppl.param(jnp.zeros((len(y), 3), float), name="logits")
    )
    logits = ppl.param(jnp.zeros(2, float), name="logit")
    jax.lax.scan(step, 0, (jax.random.split(key, 2), logits))
    ppl.nest(inside, scope="in")(key)


ROWS = np.array([-2.5, -0.7, 0.4, 1.1])
PROBS = np.array([0.5, 0.2, 0.3])


def exact_rows():
    joint = PROBS * np.exp(-0.5 * (ROWS[:, None] - np.array([-2.0, 0.0, 2.0])) ** 2)
    joint /= np.sqrt(2 * np.pi)
    return joint / joint.sum(1, keepdims=True), np.log(joint.sum(1)).sum()


FITS = {
    "score function": (ScoreFunction(), 0.06, 32),
    "forward": (ForwardKL(doubly_reparameterized=False), 0.06, 64),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["score function", pytest.param("forward", marks=pytest.mark.slow)]
)
def test_posteriors_of_discrete_sites_are_found(name, request):
    objective, tolerance, precision = FITS[name]
    request.getfixturevalue("x64") if precision == 64 else None
    result = svi(
        jax.random.key(0),
        mixture,
        floats(ROWS),
        floats(PROBS),
        guide=mixture_guide,
        objective=objective,
        num_particles=20,
        num_steps=3000,
        optimizer=optax.adam(optax.exponential_decay(0.05, 500, 0.5)),
    )
    probs, evidence = exact_rows()
    found = jax.nn.softmax(result.parameters["logits"])
    np.testing.assert_allclose(found, probs, atol=tolerance)
    np.testing.assert_allclose(jax.nn.sigmoid(result.parameters["logit"]), 0.8, atol=tolerance)
    np.testing.assert_allclose(jnp.exp(result.parameters["in"]["log_rate"]), 2.0, atol=0.2)
    assert abs(result.elbo - evidence) < 0.05
    assert result.draws["k"].shape == (1, 1000, 4)
    assert result.draws["s"].shape == (1, 1000, 2)
    assert np.issubdtype(result.draws["in"]["n"].dtype, np.integer)
    assert result.parameters["logit"].dtype == f"float{precision}"
    weighted = importance(
        jax.random.key(1), mixture, floats(ROWS), floats(PROBS), guide=result, num_draws=2000
    )
    assert abs(weighted.log_evidence - evidence) < Z * weighted.log_evidence_standard_error + 1e-3


def quick(seed=0, y=1.5, **settings):
    return svi(
        jax.random.key(seed),
        switch,
        floats(y),
        guide=GUIDE,
        **{"num_steps": 50, "num_draws": 30, "num_particles": 4} | settings,
    )


GUIDE = guide_of("discrete first")


@pytest.mark.slow
def test_new_data_and_keys_compile_nothing():
    quick(objective=ScoreFunction())
    misses = compile_program.cache_info().misses
    quick(1, 2.5, objective=ScoreFunction())
    assert compile_program.cache_info().misses == misses


REFUSED = {
    "paths": ({}, r"site 'k' of guide guide has draws .* objective=ScoreFunction\(\)"),
    "doubly": ({"objective": ForwardKL()}, r"ForwardKL\(.* has no gradient along them"),
    "batch": (
        {"objective": ScoreFunction(), "batch": lambda key, y: y},
        "not with draws of 'k' that are no differentiable function: its gradients would be biased",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_suit_is_refused(name):
    settings, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        quick(**settings)


def test_scaled_discrete_draws_are_seen():
    def guide(key, y):
        ppl.scale(guide_of("discrete first"), 2.0)(key, y)

    made = guide_function(guide, ValueTarget.of(switch, (floats(1.0),), {}))
    assert made.jumps == (("k",),)


def test_nothing_follows_the_path_of_a_draw_that_has_none():
    """Draws by rejection are floats, but tell nothing of how they would move."""
    north = floats([1.0, 0.0, 0.0])

    def model(key, y):
        x = ppl.sample(key, dist.VonMisesFisher(north, 1.0), name="x")
        ppl.sample(key, dist.Normal(x[0], 1.0), name="z")

    def guide(key, y):
        concentration = jnp.exp(ppl.param(floats(0.3), name="x"))
        x = ppl.sample(key, dist.VonMisesFisher(north, concentration), name="x")
        ppl.sample(key, dist.Normal(x[0] + ppl.param(floats(0.1), name="z"), 1.0), name="z")

    made = guide_function(guide, ValueTarget.of(model, (floats(1.0),), {}))
    assert made.jumps == (("x",),)
    at = {"x": floats(0.3), "z": floats(0.1)}
    slopes = jax.jacobian(made.sample)(at, jax.random.key(0))
    np.testing.assert_array_equal(slopes["x"], np.zeros(4))
    np.testing.assert_array_equal(slopes["z"], [0.0, 0.0, 0.0, 1.0])


def test_a_guide_must_draw_the_discrete_sites_of_a_model():
    def guide(key, y):
        ppl.sample(key, dist.Normal(ppl.param(floats(0.0), name="loc"), 1.0), name="x")
        ppl.sample(key, dist.Normal(ppl.param(floats(0.0), name="k"), 1.0), name="k")

    expected = (
        "the latent sites of the model, k () int32, x (), and no others, but draws k (), x ()"
    )
    with pytest.raises(ValueError, match=re.escape(expected)):
        svi(jax.random.key(0), switch, floats(1.0), guide=guide)
