"""Fits that start at other results: with their means, scales and correlations."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import ppl
from inference import (
    BySite,
    FullRank,
    InverseAutoregressive,
    LowRank,
    MeanField,
    NeuralSpline,
    PointMass,
    Structured,
    importance,
    laplace,
    mcmc,
    optimize,
    pathfinder,
    svgd,
    svi,
)
from inference.common.layout import Layout
from inference.drivers.init_from_result import normal_start
from inference.guides.guide import init_of_guide
from inference.runtime.compiled_program import compile_program

KEY = jax.random.key(0)
LAYOUT = Layout.of({"a": jnp.zeros(2), "b": jnp.zeros(1), "c": jnp.zeros(2)})

SCALES = np.array([0.01, 1.0, 100.0])
MEAN = np.array([5.0, -40.0, 3000.0])
CORRELATION = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, -0.3], [0.0, -0.3, 1.0]])
COVARIANCE = np.outer(SCALES, SCALES) * CORRELATION


def badly_scaled(key, scale_tril):
    ppl.sample(key, dist.MultivariateNormal(jnp.asarray(MEAN), scale_tril=scale_tril), name="x")


def fitted(init, guide, num_steps=100):
    factor = jnp.asarray(np.linalg.cholesky(COVARIANCE))
    return svi(KEY, badly_scaled, factor, guide=guide, init=init, num_steps=num_steps)


@functools.cache
def laplace_of_badly_scaled():
    return laplace(KEY, badly_scaled, jnp.asarray(np.linalg.cholesky(COVARIANCE)))


@pytest.mark.slow
def test_a_fit_that_starts_at_laplace_is_exact_at_once():
    """From the end of a climb it is far off, as steps of an optimizer suit one scale."""
    guides = {FullRank(): COVARIANCE, MeanField(): np.diag(1 / np.diag(np.linalg.inv(COVARIANCE)))}
    start = laplace_of_badly_scaled()
    for guide, covariance in guides.items():
        result, far = fitted(start, guide), fitted("optimum", guide)
        sd = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose((result.parameters.loc - MEAN) / SCALES, 0.0, atol=0.2)
        found = np.sqrt(np.diag(guide.covariance(result.parameters)))
        np.testing.assert_allclose(found / sd, 1.0, atol=0.2)
        assert np.all(np.abs(far.parameters.loc - MEAN) > 10 * SCALES)


def some_scale(size=5):
    return np.tril(np.random.default_rng(1).normal(size=(size, size)), -1) + np.diag(
        np.arange(1.0, size + 1)
    )


def started(guide, scale, dtype=float):
    position = jnp.arange(5, dtype=dtype)
    return init_of_guide(guide, position, LAYOUT, jnp.asarray(scale, dtype))


@pytest.mark.slow_rows(
    "float32-LowRank(rank=5, init_scale=0.1)",
    "float64-LowRank(rank=5, init_scale=0.1)",
    "float64-Structured(global_sites=('a', 'b', 'c'), init_scale=0.1, has_varying_scales=True)",
)
@pytest.mark.parametrize(
    "guide",
    [FullRank(), LowRank(5), Structured(("a", "b", "c")), BySite({}, rest=FullRank())],
    ids=repr,
)
def test_guides_of_any_covariance_start_at_the_one_that_is_known(guide, float_dtype):
    scale = some_scale()
    parameters = started(guide, scale, float_dtype)
    covariance = guide.covariance(parameters)
    assert covariance.dtype == float_dtype
    tolerance = 0.02 if isinstance(guide, LowRank) else 1e-5  # its columns may not be 0
    np.testing.assert_allclose(covariance, scale @ scale.T, rtol=tolerance, atol=3 * tolerance)


def divergence(guide, parameters, scale):
    """The negative ELBO of a guide that is normal, but for a constant."""
    covariance = np.asarray(guide.covariance(parameters))
    precision = np.linalg.inv(scale @ scale.T)
    return 0.5 * np.trace(precision @ covariance) - float(guide.entropy(parameters))


@pytest.mark.slow_rows(
    "float64-Structured(global_sites='c', init_scale=0.1, has_varying_scales=False)"
)
@pytest.mark.parametrize(
    "guide",
    [MeanField(), Structured("c", has_varying_scales=False)],
    ids=repr,
)
def test_guides_of_less_start_where_the_elbo_is_highest(float_dtype, guide):
    scale = some_scale()
    parameters = started(guide, scale)
    best = divergence(guide, parameters, scale)
    rng = np.random.default_rng(2)
    lower = [
        divergence(
            guide, jax.tree.map(lambda x: x + 0.05 * rng.normal(size=x.shape), parameters), scale
        )
        for _ in range(50)
    ]
    assert min(lower) > best


@pytest.mark.parametrize(
    "guide", [MeanField(), FullRank(), LowRank(2), Structured("b"), NeuralSpline(2, (4,))], ids=repr
)
def test_scales_without_correlations_are_taken_as_they_are(guide):
    parameters = started(guide, np.arange(1.0, 6.0))
    np.testing.assert_allclose(np.exp(parameters.log_scale), np.arange(1.0, 6.0), rtol=1e-6)
    np.testing.assert_array_equal(parameters.loc, np.arange(5.0))


def test_parts_start_by_their_own_coordinates():
    scale = some_scale()
    covariance = scale @ scale.T
    guide = BySite({"a": PointMass(), ("c", "b"): FullRank()})
    parts = started(guide, scale).parts
    index = [2, 3, 4]
    found = FullRank().covariance(parts["c, b"])
    np.testing.assert_allclose(found, covariance[np.ix_(index, index)], rtol=1e-5)
    np.testing.assert_array_equal(parts["a"].loc, [0.0, 1.0])
    flow = started(InverseAutoregressive(1, (4,)), scale)
    np.testing.assert_allclose(flow.log_scale, started(MeanField(), scale).log_scale, rtol=1e-6)


def part(key):
    return ppl.sample(key, dist.LogNormal(jnp.zeros(2), 0.5), name="scale")


def model(key):
    mu = ppl.sample(key, dist.Normal(3.0, 0.1), name="mu")
    ppl.deterministic(mu + ppl.nest(part, scope="part")(key), name="both")


RESULTS = {
    "laplace": lambda: laplace(KEY, model, num_draws=50),
    "svi": lambda: svi(KEY, model, num_steps=2000, guide=FullRank()),
    "a flow": lambda: svi(KEY, model, num_steps=1000, guide=NeuralSpline(2, (4,))),
    "pathfinder": lambda: pathfinder(KEY, model, num_draws=50, num_paths=2),
    "svgd": lambda: svgd(KEY, model, num_particles=50, num_steps=1000),
    "importance": lambda: importance(KEY, model, num_draws=4000),
    "mcmc": lambda: mcmc(KEY, model, num_warmup=300, num_draws=300, num_chains=2),
    "optimize": lambda: optimize(KEY, model),
    "a point": lambda: svi(KEY, model, num_steps=3000, guide=PointMass()),
    "points": lambda: svi(
        KEY, model, num_steps=3000, guide=BySite({"mu": PointMass()}, rest=FullRank())
    ),
}
RESULTS = {name: functools.cache(make) for name, make in RESULTS.items()}


def start_of(result, posterior=model):
    target = ppl.unconstrain(posterior)
    return normal_start(result, target, Layout.of(jax.eval_shape(target.initial, KEY)))


@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
def test_results_tell_their_normal_distribution(name):
    """Exactly (3, 0, 0) and scales (0.1, 0.5, 0.5); errors of draws are below 20 % by far."""
    init, scale = start_of(RESULTS[name]())
    exact = np.array([0.1, 0.5, 0.5])
    assert init.strategy == "flat"
    mode = np.array([3.0, 0.0, 0.0]) - (name == "optimize") * np.array([0.0, 0.25, 0.25])
    np.testing.assert_allclose((init.values[0] - mode) / exact, 0.0, atol=0.3)
    if name in ("optimize", "a point", "points"):
        assert scale is None
        return
    assert scale.shape == (3, 3)
    np.testing.assert_allclose(np.linalg.norm(scale, axis=1) / exact, 1.0, rtol=0.25)
    result = fit_there(RESULTS[name]())
    np.testing.assert_allclose(result.parameters.loc, init.values[0], rtol=1e-5)
    np.testing.assert_allclose(FullRank().scale_tril(result.parameters), scale, rtol=1e-4)


def fit_there(result, posterior=model, **settings):
    """A fit that does not move."""
    still = {"guide": FullRank(), "optimizer": optax.sgd(0.0), "num_steps": 1, "num_draws": 10}
    return svi(KEY, posterior, init=result, **(still | settings))


def test_weighted_draws_have_the_moments_of_their_weights():
    result = RESULTS["importance"]()
    init, scale = start_of(result)
    rows = np.c_[result.draws["mu"][0], np.log(result.draws["part"]["scale"][0])]
    weights = result.weights[0]
    np.testing.assert_allclose(init.values[0], weights @ rows, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(scale @ scale.T, np.cov(rows.T, aweights=weights), atol=1e-5)


def test_of_few_draws_the_scales_are_known_alone():
    result = RESULTS["mcmc"]()
    few = jax.tree.map(lambda x: x[:, :5], result.draws)
    scale = start_of(dataclasses.replace(result, draws=few)).scale
    rows = np.c_[few["mu"].reshape(-1), np.log(few["part"]["scale"].reshape(-1, 2))]
    np.testing.assert_allclose(scale, rows.std(0, ddof=1), rtol=1e-5)


@pytest.mark.slow
def test_a_known_start_compiles_no_new_steps():
    result = RESULTS["laplace"]()
    settings = {"num_steps": 3, "num_draws": 10, "guide": FullRank()}
    svi(KEY, model, init=result, **settings | {"guide": MeanField()})  # the starting points
    svi(KEY, model, **settings)
    before = compile_program.cache_info().misses
    svi(KEY, model, init=result, **settings)
    svi(jax.random.key(1), model, init=result, **settings)
    assert compile_program.cache_info().misses == before + 1  # the state before the first step


def other(key):
    ppl.sample(key, dist.Normal(jnp.zeros(3), 1.0), name="mu")


def guide_function(key):
    ppl.sample(key, dist.Normal(ppl.param(0.0, name="loc"), 1.0), name="mu")


def test_what_makes_no_sense_is_refused():
    result = RESULTS["laplace"]()
    with pytest.raises(ValueError, match=re.escape("init is a LaplaceResult of another model")):
        fit_there(result, other)
    with pytest.raises(ValueError, match="a guide that is a function begins with its own numbers"):
        fit_there(result, guide=guide_function)


def with_nothing(key):
    ppl.sample(key, dist.Normal(jnp.zeros((0,)), 1.0), name="nothing")
    ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")


@pytest.mark.quick_rows("importance")
@pytest.mark.parametrize("start", [svi, laplace, pathfinder, importance, svgd])
def test_a_site_may_have_no_element(start):
    count = "num_particles" if start is svgd else "num_draws"
    result = start(KEY, with_nothing, **{count: 20})
    assert result.draws["nothing"].shape == (1, 20, 0)
    again = svi(KEY, with_nothing, init=result, num_steps=10, num_draws=5)
    assert again.draws["nothing"].shape == (1, 5, 0)
