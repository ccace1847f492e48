"""optimize on whole models: modes in closed form, other densities, edges, starts and refusals."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special

import distributions as dist
import ppl
from inference import mcmc, optimize
from inference.optimization import lbfgs, mode_search
from inference.runtime.compiled_program import compile_program

KEY = jax.random.key(0)


def gamma_poisson(key):
    rate = ppl.sample(key, dist.Gamma(3.0, 2.0), name="rate")
    return ppl.sample(key, dist.Poisson(rate), name="y")


def beta_binomial(key):
    p = ppl.sample(key, dist.Beta(2.0, 5.0), name="p")
    return ppl.sample(key, dist.Binomial(10, probs=p), name="y")


def dirichlet_multinomial(key):
    p = ppl.sample(key, dist.Dirichlet(jnp.array([2.0, 3.0, 4.0])), name="p")
    return ppl.sample(key, dist.Multinomial(6, probs=p), name="y")


def normal(key):
    mu = ppl.sample(key, dist.Flat(dist.constraints.real), name="mu")
    scale = ppl.sample(key, dist.Flat(dist.constraints.positive), name="scale")
    return ppl.sample(key, dist.Normal(jnp.full(4, 1.0) * mu, scale), name="y")


Y = np.array([3.0, 5.0, -2.0, 4.0])
COUNTS = jnp.array([3, 2, 1])
LIKELY, UNCONSTRAINED = {"objective": "likelihood"}, {"include_jacobian": True}


@dataclasses.dataclass(frozen=True)
class Mode:
    """A model of data `y`, the settings of `optimize`, and the mode, in closed form."""

    model: Callable[..., Any]
    y: Any
    settings: dict[str, Any]
    values: dict[str, Any]


MODES = {
    "gamma": Mode(model=gamma_poisson, y=4, settings={}, values={"rate": 6 / 3}),
    "gamma, unconstrained": Mode(
        model=gamma_poisson, y=4, settings=UNCONSTRAINED, values={"rate": 7 / 3}
    ),
    "gamma, likelihood": Mode(model=gamma_poisson, y=4, settings=LIKELY, values={"rate": 4.0}),
    "beta": Mode(model=beta_binomial, y=3, settings={}, values={"p": 4 / 15}),
    "beta, unconstrained": Mode(
        model=beta_binomial, y=3, settings=UNCONSTRAINED, values={"p": 5 / 17}
    ),
    "beta, likelihood": Mode(model=beta_binomial, y=3, settings=LIKELY, values={"p": 0.3}),
    "simplex": Mode(
        model=dirichlet_multinomial,
        y=COUNTS,
        settings={},
        values={"p": np.array([4.0, 4.0, 4.0]) / 12},
    ),
    "simplex, likelihood": Mode(
        model=dirichlet_multinomial,
        y=COUNTS,
        settings=LIKELY,
        values={"p": np.array([3, 2, 1]) / 6},
    ),
    "flat priors": Mode(
        model=normal, y=Y, settings={}, values={"mu": np.mean(Y), "scale": np.std(Y)}
    ),
    "likelihood": Mode(
        model=normal, y=Y, settings=LIKELY, values={"mu": np.mean(Y), "scale": np.std(Y)}
    ),
}


def conditioned(model, y):
    is_float = jnp.issubdtype(jnp.result_type(y), jnp.floating)
    return ppl.condition(model, {"y": jnp.asarray(y, float) if is_float else y})


def check_mode(name, dtype, tolerance, num_starts):
    row = MODES[name]
    result = optimize(KEY, conditioned(row.model, row.y), num_starts=num_starts, **row.settings)
    assert result.values.keys() == row.values.keys()
    for site, value in row.values.items():
        assert result.values[site].dtype == dtype
        np.testing.assert_allclose(result.values[site], value, rtol=tolerance)
    assert result.has_converged
    assert result.num_agree == num_starts
    assert result.problems == result.summary().problems == ()


@pytest.mark.quick_rows("likelihood")
@pytest.mark.parametrize("name", MODES)
def test_modes_in_closed_form(x64, name):
    check_mode(name, np.float64, 1e-6, 1)


@pytest.mark.quick_rows("flat priors")
@pytest.mark.parametrize("name", ["flat priors", "simplex"])
def test_modes_in_single_precision(name):
    check_mode(name, np.float32, 2e-3, 4)


DESIGN = np.random.default_rng(0).normal(size=(100, 4)) * np.array([1.0, 10.0, 0.1, 1.0])
LABELS = (np.random.default_rng(1).uniform(size=100) < 1 / (1 + np.exp(-DESIGN.sum(1)))).astype(int)


def logistic(key, design):
    w = ppl.sample(key, dist.Normal(jnp.zeros(4), 3.0), name="w")
    return ppl.sample(key, dist.Bernoulli(logits=design @ w), name="y")


def labeled(y=LABELS):
    return ppl.condition(logistic, {"y": y})


def loss_gradient(w):
    return DESIGN.T @ (scipy.special.expit(DESIGN @ w) - LABELS) + w / 9


@pytest.mark.slow
def test_logistic_regression_has_the_mode_of_scipy(x64):
    result = optimize(KEY, labeled(), jnp.asarray(DESIGN))
    expected = scipy.optimize.root(loss_gradient, np.zeros(4), tol=1e-12)
    np.testing.assert_allclose(result.values["w"], expected.x, atol=1e-6)
    target = ppl.unconstrain(labeled(), jnp.asarray(DESIGN))
    np.testing.assert_allclose(result.log_density, target.log_density(result.values), rtol=1e-12)
    gradient = jax.grad(target.log_density)(result.position)["w"]
    np.testing.assert_allclose(result.gradient_norm, np.linalg.norm(gradient), atol=1e-9)


def test_narrow_valleys_are_followed(x64):
    """Rosenbrock's function, and a quadratic whose axes differ by 1e4."""
    factors = 10.0 ** np.arange(-2, 3)
    cases = {
        "banana": (lambda x: -((1 - x[0]) ** 2) - 100 * (x[1] - x[0] ** 2) ** 2, np.ones(2)),
        "axes": (lambda x: -0.5 * jnp.sum(((x - 3) * factors) ** 2), np.full(5, 3.0)),
    }
    for density, mode in cases.values():
        end = lbfgs.ascend(density, jnp.zeros(len(mode)) - 1.0, jnp.int32(500), 1e-14)
        assert end.has_converged
        np.testing.assert_allclose(end.position, mode, atol=1e-4)
        assert 5 < end.step < 100


def test_a_climb_that_is_cut_short_says_so():
    result = optimize(KEY, labeled(), jnp.asarray(DESIGN, jnp.float32), max_steps=3)
    assert not result.has_converged
    assert result.num_steps == 3
    (first, *_) = result.summary().problems
    words = r"not converged: after 3 steps the gradient is still .*along w\[\d\]. Raise max_steps"
    assert re.search(words, first)
    assert repr(result).startswith("OptimizeResult(not converged, log density -")


def test_a_climb_that_comes_to_a_halt_says_so():
    """On the ridge of a roof, which no line search follows."""

    def ridge(key):
        x = ppl.sample(key, dist.Flat(dist.constraints.real, (2,)), name="x")
        ppl.factor(-jnp.abs(x[0]) - 1e3 * jnp.abs(x[1] - x[0]), name="roof")

    result = optimize(KEY, ridge, init={"x": np.array([1.7, 0.3])})
    (first, *_) = result.summary().problems
    assert re.search(r"along x\[\d\], and no step gains more than rounding. Use float64", first)


def schools(key):
    mu = ppl.sample(key, dist.Normal(0.0, 5.0), name="mu")
    tau = ppl.sample(key, dist.HalfNormal(5.0), name="tau")
    theta = ppl.sample(key, dist.Normal(jnp.ones(4) * mu, tau), name="theta")
    return ppl.sample(key, dist.Normal(theta, 10.0), name="y")


def exponential(key):
    ppl.sample(key, dist.Exponential(1.0), name="x")


def separable(key):
    w = ppl.sample(key, dist.Flat(dist.constraints.real), name="w")
    return ppl.sample(key, dist.Bernoulli(logits=w * jnp.array([-1.0, 1.0])), name="y")


def wall(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.factor(jnp.where(x > 4, jnp.nan, 8 * x), name="f")


def walls(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.factor(-50 * jnp.log(jnp.cosh(x**2 - 16)) + x, name="f")


DOUBTFUL = {
    "unbounded": (
        lambda: conditioned(schools, Y),
        "no mode: tau .*edge.*(goes to 0|rises)",
    ),
    "at the edge": (lambda: exponential, "no mode: x goes to the edge of its support .*stays as"),
    "separable": (lambda: conditioned(separable, jnp.array([0, 1])), "no mode: w .*to infinity"),
    "not finite beyond": (lambda: wall, "has not converged: .*steepest along x"),
}


@pytest.mark.quick_rows("separable")
@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_is_no_mode_is_said(name):
    model, words = DOUBTFUL[name]
    problems = optimize(KEY, model()).summary().problems
    assert any(re.search(words, problem) for problem in problems), problems


@pytest.mark.slow
def test_the_highest_of_several_modes_wins():
    result = optimize(KEY, walls, init={"x": np.array([-4.0, -4.0, 4.0])}, num_starts=3)
    assert abs(result.values["x"] - 4) < 0.1
    assert result.num_agree == 1
    assert "only 1 of 3 starts" in result.problems[0]
    alone = optimize(KEY, walls, init={"x": -4.0}, num_starts=1)
    assert abs(alone.values["x"] + 4) < 0.1
    np.testing.assert_allclose(alone.log_density, result.log_densities[0], rtol=1e-4)


def beyond_one(key):
    x = ppl.sample(key, dist.Normal(3.0, 1.0), name="x")
    ppl.factor(jnp.where(x > 1.0, 0.0, -jnp.inf), name="f")


def test_starts_that_are_not_finite_are_drawn_anew():
    result = optimize(KEY, beyond_one, num_starts=6)
    np.testing.assert_allclose(result.values["x"], 3.0, atol=1e-3)
    assert result.num_agree == 6


def test_new_data_and_keys_compile_nothing():
    optimize(KEY, labeled(), jnp.asarray(DESIGN, jnp.float32))
    misses = compile_program.cache_info().misses
    new = labeled(1 - LABELS), jnp.asarray(DESIGN + 1, jnp.float32)
    a = optimize(jax.random.key(1), *new, max_steps=100, tolerance=1e-4)
    b = optimize(jax.random.PRNGKey(1), *new, max_steps=100, tolerance=1e-4)
    assert compile_program.cache_info().misses == misses
    np.testing.assert_array_equal(a.values["w"], b.values["w"])


@pytest.mark.slow
def test_a_mode_is_where_chains_may_start():
    def model(key):
        scale = ppl.sample(key, dist.Gamma(2.0, 1.0), name="scale")
        ppl.deterministic(2 * scale, name="twice")

    result = optimize(KEY, model)
    np.testing.assert_allclose(result.values["twice"], 2 * result.values["scale"])
    assert mcmc(KEY, model, init=result.values, num_warmup=10, num_draws=2, num_chains=1)
    doubled = jax.tree.map(lambda x: 2 * x, result)
    np.testing.assert_array_equal(doubled.values["twice"], 2 * result.values["twice"])
    text = str(result.summary())
    assert "4 of 4 starts led here" in text
    assert "No problem found." in text
    with pytest.raises(KeyError, match="no scalar is named 'x'; there are scale, twice"):
        result.summary()["x"]


def far_from_zero(key):
    loc = ppl.sample(key, dist.Flat(dist.constraints.real), name="loc")
    scale = ppl.sample(key, dist.Flat(dist.constraints.positive), name="scale")
    ppl.sample(key, dist.Normal(jnp.full(100, loc), scale), name="y")


@pytest.mark.slow_rows("1000.0")
@pytest.mark.parametrize("mean", [1e3, -1e4, 1e5])
def test_a_scale_that_has_grown_in_place_of_the_mean_is_no_mode(mean):
    y = (mean + 3 * np.random.default_rng(0).normal(size=100)).astype(np.float32)
    result = optimize(jax.random.key(0), ppl.condition(far_from_zero, {"y": y}))
    np.testing.assert_allclose(result.values["loc"], np.mean(y, dtype=float), rtol=1e-4)
    np.testing.assert_allclose(result.values["scale"], np.std(y, dtype=float), rtol=0.02)


def test_a_climb_that_is_ended_short_of_the_mode_is_told(monkeypatch):
    monkeypatch.setattr(mode_search, "_MAX_CLIMBS", 1)
    y = (1e4 + 3 * np.random.default_rng(0).normal(size=100)).astype(np.float32)
    result = optimize(jax.random.key(0), ppl.condition(far_from_zero, {"y": y}))
    assert any("no mode: a stride along loc" in problem for problem in result.problems)


def nowhere(key):
    x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
    ppl.factor(jnp.log(-jnp.exp(x)), name="f")


def partly(key):
    return ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="y")


MISSING = ppl.condition(partly, {"y": ppl.impute(np.array([1.0, np.nan]))})
REFUSED = {
    "key": (lambda: optimize(0, exponential), TypeError, "key must be one key"),
    "objective": ({"objective": "prior"}, ValueError, "'posterior' or 'likelihood', got 'prior'"),
    "jacobian": ({"include_jacobian": 1}, TypeError, "include_jacobian must be True or False"),
    "both": (LIKELY | UNCONSTRAINED, ValueError, "include_jacobian needs objective='posterior'"),
    "starts": ({"num_starts": 0}, ValueError, "num_starts must be an integer of at least 1"),
    "steps": ({"max_steps": 1.5}, TypeError, "max_steps must be an integer, got 1.5"),
    "tolerance": ({"tolerance": 2}, ValueError, "tolerance must lie between 0 and 1, or be None"),
    "init": ({"init": {"z": 1.0}}, ValueError, "init: there is no latent site 'z'"),
    "shape": ({"init": {"x": np.zeros(9)}}, ValueError, "with a value for each start, got (9,)"),
    "nowhere": (lambda: optimize(KEY, nowhere), ValueError, "no starting point.*site 'f' has"),
    "partly": (lambda: optimize(KEY, MISSING, **LIKELY), NotImplementedError, "in part ('y')"),
}


@pytest.mark.slow_rows("nowhere")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    settings, error, message = REFUSED[name]
    call = settings if callable(settings) else lambda: optimize(KEY, exponential, **settings)
    with pytest.raises(error, match=re.escape(message).replace(r"\.\*", ".*")):
        call()


def test_a_mode_that_rounding_hides_is_doubted():
    def far(key):
        ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")
        ppl.factor(jnp.float32(-1e8), name="constant")

    start = {"x": jnp.array([1.0, 1.5])}
    found = optimize(jax.random.key(0), far, init=start, num_starts=1)
    assert np.abs(found.values["x"]).max() > 0.1  # or nothing is hidden
    (doubt,) = found.problems
    assert "which rounding hides" in doubt
    assert "float32 tells steps of 8 apart" in doubt
    with jax.enable_x64(True):
        found = optimize(jax.random.key(0), far, init=start, num_starts=1)
        assert not found.problems
