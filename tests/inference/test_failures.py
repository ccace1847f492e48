"""What goes wrong on purpose ends in words, and never in a hang or in NaN."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import distributions as dist
import inference
import ppl
from inference import NUTS, mcmc

SHORT = {"num_warmup": 100, "num_draws": 100}


def run(model, **settings):
    return mcmc(jax.random.key(0), model, **SHORT | settings)


def with_factor(f):
    def model(key):
        x = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")
        ppl.factor(f(x), name="f")

    return model


def flat(key):
    ppl.sample(key, dist.Flat(dist.constraints.real, (2,)), name="x")


def flat_direction(key):
    x = ppl.sample(key, dist.Flat(dist.constraints.real, (2,)), name="x")
    ppl.factor(-0.5 * (x[0] + x[1]) ** 2, name="f")


# Models that sampling cannot do justice to, and what the summary says of the draws.
DOUBTFUL = {
    "NaN in a corner": (
        with_factor(lambda x: jnp.where(jnp.all(x > 0.5), jnp.nan, 0.0)),
        "transitions diverged",
    ),
    "a wall": (
        with_factor(lambda x: jnp.where(x[0] > 0.3, -jnp.inf, 0.0)),
        "transitions diverged",
    ),
    "infinite gradients": (
        with_factor(lambda x: -jnp.sum(jnp.sqrt(jnp.abs(x[0] - 0.2))) * 50),
        "R-hat",
    ),
    "a constant density": (flat, "cut short by max_depth"),
    "a flat direction": (flat_direction, "cut short by max_depth"),
}


@pytest.mark.quick_rows("infinite gradients")
@pytest.mark.parametrize("name", DOUBTFUL)
def test_draws_that_cannot_be_trusted_come_with_a_warning(name):
    model, words = DOUBTFUL[name]
    result = run(model, kernel=NUTS(max_depth=7))
    assert np.all(np.isfinite(result.draws["x"]))
    assert any(words in problem for problem in result.summary().problems), result.summary().problems


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_that_go_on_for_ever_tell_of_an_improper_posterior(dtype, request):
    if dtype == "float64":
        request.getfixturevalue("x64")

    def model(key):
        mu = ppl.sample(key, dist.Flat(dist.constraints.real, ()), name="mu")
        ppl.sample(key, dist.Normal(0.0 * mu, 1.0), name="x")

    problems = mcmc(jax.random.key(0), model).summary().problems
    assert [p for p in problems if "improper" in p and "draws of mu reach" in p], problems
    assert not [p for p in problems if "draws of x reach" in p], problems


@pytest.mark.quick_rows("float32")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_units_are_no_sign_of_an_improper_posterior(dtype, request):
    if dtype == "float64":
        request.getfixturevalue("x64")

    def model(key):
        log_density = ppl.sample(key, dist.Normal(0.0, 0.1), name="log_density")
        ppl.deterministic(1e20 * jnp.exp(log_density), name="density")
        ppl.deterministic(1e20 * log_density, name="change")
        ppl.sample(key, dist.LogNormal(40.0, 3.0), name="number")

    problems = mcmc(jax.random.key(0), model).summary().problems
    assert not [problem for problem in problems if "improper" in problem]


def no_latent(key):
    ppl.sample(key, dist.Normal(0.0, 1.0), name="y")


def discrete(key):
    rate = ppl.sample(key, dist.Gamma(2.0, 1.0), name="rate")
    ppl.sample(key, dist.Poisson(rate), name="count")


def endless(key):
    f = ppl.sample(key, dist.Normal(0.0, 1.0), name="f")
    s = ppl.sample(key, dist.HalfNormal(1.0), name="s")
    ppl.sample(key, dist.Normal((f + 1) ** 4, 1 + s), name="y")
    ppl.factor((f + 1) ** 10, name="up")


# Models that cannot be sampled at all, and the error.
IMPOSSIBLE = {
    "no latent site": (ppl.condition(no_latent, {"y": 1.0}), ValueError, "no latent site|no site"),
    "a discrete latent": (discrete, (TypeError, ValueError), "count"),
    "no mode": (
        ppl.marginalize(ppl.condition(endless, {"y": 0.1}), {"f": ppl.Laplace(max_steps=20)}),
        ValueError,
        "marginalize: no mode of 'f' given the rest was found in 20 steps",
    ),
    "nowhere finite": (with_factor(lambda x: jnp.sum(x) * jnp.nan), ValueError, "'f'"),
}


@pytest.mark.slow_rows("nowhere finite", "no mode")
@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_models_that_cannot_be_sampled_are_errors(name):
    model, error, words = IMPOSSIBLE[name]
    with pytest.raises(error, match=words):
        run(model)


@pytest.mark.quick_rows("settings1-shape1", "settings4-shape4")
@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"num_draws": 1}, (4, 1, 2)),
        ({"num_chains": 1}, (1, 100, 2)),
        ({"num_warmup": 0, "kernel": NUTS(step_size=0.5)}, (4, 100, 2)),
        ({"num_warmup": 1}, (4, 100, 2)),
        ({"num_chains": 1, "num_draws": 1, "num_warmup": 0}, (1, 1, 2)),
    ],
)
def test_the_smallest_runs_have_a_summary(settings, shape):
    result = run(with_factor(lambda x: 0.0), **settings)
    assert result.draws["x"].shape == shape
    assert np.all(np.isfinite(result.draws["x"]))
    summary = result.summary()
    assert "x[0]" in str(summary)
    says_too_few = [p for p in summary.problems if "need 4 draws of each chain" in p]
    assert bool(says_too_few) == (settings.get("num_draws") == 1)


DRIVERS = {
    **{
        name: getattr(inference, name)
        for name in ("importance", "laplace", "mcmc", "optimize", "pathfinder", "svgd")
    },
    "svi": lambda *args: inference.svi(*args, guide=inference.MeanField()),
}
TRACED = {
    "jit of data": lambda run: jax.jit(lambda y: run(jax.random.key(0), y))(0.0),
    "jit of nothing": lambda run: jax.jit(lambda: run(jax.random.key(0), 0.0))(),
    "vmap of keys": lambda run: jax.vmap(lambda k: run(k, 0.0))(
        jax.random.split(jax.random.key(0))
    ),
    "grad": lambda run: jax.grad(lambda y: run(jax.random.key(0), y))(0.0),
}


@pytest.mark.parametrize("traced", TRACED)
@pytest.mark.parametrize("driver", DRIVERS)
def test_inference_is_not_traced(driver, traced):
    def model(key, y):
        ppl.sample(key, dist.Normal(y, 1.0), name="x")

    def run(key, y):
        return jax.tree.leaves(DRIVERS[driver](key, model, y))[0].sum()

    with pytest.raises(TypeError, match="call it outside of jax"):
        TRACED[traced](run)


@pytest.mark.parametrize("driver", DRIVERS)
def test_inference_must_be_compiled(driver):
    words = r"which jax_disable_jit forbids.*within jax.disable_jit\(False\)"
    with jax.disable_jit(), pytest.raises(RuntimeError, match=words):
        DRIVERS[driver](jax.random.key(0), flat)


@pytest.mark.slow
@pytest.mark.parametrize("setting", [jax.debug_nans, jax.debug_infs])
@pytest.mark.parametrize("driver", DRIVERS)
def test_settings_for_debugging_stop_nothing(driver, setting):
    """Nor where starts have no density, which they look after themselves."""

    def model(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ppl.factor(jnp.where(x > 1.5, jnp.nan, 0.0), name="hole")

    with setting(True), warnings.catch_warnings(action="ignore"):
        result = DRIVERS[driver](jax.random.key(0), model)
    found = result.values if driver == "optimize" else result.draws
    assert np.isfinite(found["x"]).all()


def test_keys_have_no_draws():
    def model(key):
        ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ppl.nest(lambda key: ppl.deterministic(key, name="key"), scope="part")(jax.random.key(1))

    with pytest.raises(TypeError, match=r"site 'part.key' has random keys as its values, key<fry>"):
        mcmc(jax.random.key(0), model)
