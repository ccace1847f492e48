"""svi where it cannot go on, cannot be trusted, or is asked for what cannot be."""

import dataclasses
import functools
import re
import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import ppl
from inference import ELBO, FullRank, LowRank, MeanField, Renyi, svi
from inference.runtime import compiled_program
from inference.variational import svi_step
from tests.inference.regression import QUICK, design, fit, fitted, posterior, problem_of
from tests.inference.targets import FakeTarget


def nan_beyond(threshold):
    """A density that has no value where the first coordinate is large, and rises toward there."""
    return lambda x, _: x[0] + jnp.where(x[0] > threshold, jnp.nan, 0.0) - 0.01 * jnp.sum(x**2)


def test_a_step_that_is_not_finite_ends_the_run():
    problem = problem_of(FakeTarget(nan_beyond(3.0), (2,)), optimizer=optax.sgd(0.1))
    with pytest.warns(RuntimeWarning, match="svi stopped at step") as warned:
        result = fit(problem, num_steps=20_000, init={"x": np.zeros(2)})
    step = int(result.state.step)
    assert 5 < step < 20_000
    assert len(result.elbos) == step
    assert np.all(np.isfinite(result.elbos))
    assert f"at step {step}," in result.failure
    assert re.search(r"site 'scope.y' has log probability nan", result.failure)
    assert str(warned[0].message) == result.failure
    # It is the state of a run that was to take no step more.
    whole = fit(problem, num_steps=step, init={"x": np.zeros(2)})
    jax.tree.map(np.testing.assert_array_equal, whole.state, result.state)


@pytest.mark.parametrize(("threshold", "num_steps"), [(6.0, 20_000), (np.inf, 130)])
def test_steps_in_turns_are_those_one_by_one(monkeypatch, threshold, num_steps):
    """An accelerator takes them in turns; a run ends within one, by a failure or by its length."""
    problem = problem_of(FakeTarget(nan_beyond(threshold), (2,)), optimizer=optax.sgd(0.1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        expected = fit(problem, num_steps=num_steps, init={"x": np.zeros(2)})
        monkeypatch.setattr(svi_step, "default_device", lambda: SimpleNamespace(platform="gpu"))
        compiled_program.compile_program.cache_clear()
        found = fit(problem, num_steps=num_steps, init={"x": np.zeros(2)})
    compiled_program.compile_program.cache_clear()
    assert found.failure == expected.failure
    assert bool(found.failure) == np.isfinite(threshold)
    assert len(found.elbos) == len(expected.elbos) > 25
    np.testing.assert_allclose(found.elbos, expected.elbos, rtol=1e-5, atol=1e-3)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-3)
    jax.tree.map(close, found.state, expected.state)


def test_a_failure_is_in_the_summary():
    def model(key):
        x = ppl.sample(key, dist.Normal(0.0, 1.0), name="x")
        ppl.factor(jnp.where(x > 4, jnp.nan, 3 * x), name="f")

    with pytest.warns(RuntimeWarning, match="site 'f' has log probability nan"):
        result = svi(jax.random.key(0), model, num_steps=5000, init={"x": 0.0})
    assert result.failure in result.summary().problems
    assert np.all(np.isfinite(result.draws["x"]))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class WithoutGradient(MeanField):
    """A guide whose entropy has no derivative once a coordinate spreads further than 0.2."""

    def entropy(self, parameters):
        log_scale = parameters.log_scale
        return jnp.sum(jnp.where(log_scale > np.log(0.2), jnp.nan, 1.0) * log_scale)


def test_guide_parameters_are_named_where_sites_are_finite():
    problem = problem_of(FakeTarget(lambda x, _: -jnp.sum(x**2), (2,)), WithoutGradient())
    with pytest.warns(RuntimeWarning, match="svi stopped at step"):
        result = fit(problem, num_steps=1000)
    assert "gradient of the ELBO with respect to 'log_scale' is nan at 1 of 2" in result.failure


@pytest.mark.parametrize("init", ["uniform", {"x": np.zeros(2)}])
def test_nowhere_to_start_names_the_sites(init):
    problem = problem_of(FakeTarget(lambda x, _: jnp.nan * jnp.sum(x), (2,)))
    number = "100 attempts" if init == "uniform" else "2 attempts|one attempt"
    with pytest.raises(ValueError, match=f"no starting point.*({number}).*site 'scope.y'"):
        fit(problem, init=init)


def test_a_start_that_is_not_finite_is_tried_again():
    density = lambda x, _: jnp.where(x[0] > 1.0, -0.5 * jnp.sum((x - 9) ** 2), -jnp.inf)  # noqa: E731
    problem = problem_of(FakeTarget(density, (2,)), MeanField(1e-6), optimizer=optax.sgd(1e-3))
    result = fit(problem, num_steps=100)
    assert np.all(np.isfinite(result.elbos))


def test_an_interrupt_keeps_the_steps():
    def interrupt(num_done, _):
        if num_done > svi_step.NUM_ROWS:
            raise KeyboardInterrupt

    problem = problem_of(FakeTarget(lambda x, _: -jnp.sum(x**2), (2,)))
    with pytest.warns(
        RuntimeWarning, match=r"interrupted: the result is that of \d+ steps of 1000000"
    ):
        result = fit(problem, num_steps=10**6, on_progress=interrupt)
    num_steps = len(result.elbos)
    assert int(result.state.step) == num_steps
    assert svi_step.NUM_ROWS < num_steps < 10**6
    jax.tree.map(np.testing.assert_array_equal, fit(problem, num_steps=num_steps), result)


# What the summary says of runs that cannot be trusted.
def narrow(key):
    x = ppl.sample(key, dist.Normal(jnp.zeros(10), 1.0), name="x")
    ppl.factor(-50 * jnp.sum((x[1:] - x[:-1]) ** 2), name="f")


def far(key):
    ppl.sample(key, dist.Normal(jnp.full(10, 1000.0), 1.0), name="x")


def jumping(key):
    """Where the scale of the guide is 1, the second factor's is that of a log-normal variable."""
    x = ppl.sample(key, dist.Normal(0.0, 3.0), name="x")
    ppl.factor(-1e-3 * jnp.exp(3 * x), name="f")


def to_the_edge(key):
    """A site without bounds is as far out, and no worse for it."""
    ppl.sample(key, dist.LogNormal(-18.0, 1.0), name="scale")
    ppl.sample(key, dist.Normal(-20.0, 1.0), name="free")


EDGE = {"init": {"scale": np.exp(-18.0), "free": -20.0}, "num_steps": 200}


DOUBTFUL = {
    "a guide that is too simple": (narrow, {"num_steps": 5000}, "Pareto k is .*above 0.67"),
    "too few steps": (narrow, {"num_steps": 50}, "50 steps are too few"),
    "still rising": (far, {"num_steps": 200}, "the ELBO still moves: .* higher than"),
    "jumps": (jumping, {"num_steps": 4000}, "the ELBO jumps: at .* of the last 2000 steps"),
    "an edge": (to_the_edge, EDGE, r"site scale is at the edge of its support \(-1[78]"),
    "too few draws": (narrow, {"num_steps": 200, "num_draws": 20}, "20 draws are too few"),
}


@pytest.mark.quick_rows("too few steps", "too few draws", "jumps")
@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_cannot_be_trusted_is_said(name):
    model, settings, words = DOUBTFUL[name]
    problems = svi(jax.random.key(0), model, **settings).summary().problems
    assert any(re.search(words, problem) for problem in problems), problems


STATE = svi_step.SVIState(*[np.zeros(2)] * 6)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"num_steps": 0}, ValueError, "num_steps must be an integer of at least 1, got 0"),
        ({"num_steps": 1e4}, TypeError, "num_steps must be an integer, got 10000.0"),
        ({"num_particles": 0}, ValueError, "num_particles must be an integer of at least 1"),
        ({"num_draws": 0}, ValueError, "num_draws must be an integer of at least 1, got 0"),
        ({"guide": MeanField}, TypeError, "did you mean MeanField()?"),
        ({"guide": "full"}, TypeError, "or a function of a key, got 'full'"),
        ({"guide": MeanField(0.0)}, ValueError, "init_scale of MeanField must be positive"),
        ({"guide": FullRank(jnp.ones(3))}, ValueError, "init_scale of FullRank must be a scalar"),
        ({"guide": LowRank(2, "a")}, TypeError, "init_scale of LowRank must be positive, got 'a'"),
        ({"guide": MeanField(True)}, TypeError, "init_scale of MeanField must be positive"),
        ({"guide": MeanField(np.nan)}, ValueError, "init_scale of MeanField must be positive"),
        ({"objective": ELBO("no")}, TypeError, "stick_the_landing of ELBO must be True or False"),
        ({"objective": Renyi(0.5, None)}, TypeError, "doubly_reparameterized of Renyi must be"),
        ({"guide": LowRank(0)}, ValueError, "rank of LowRank must be an integer of at least 1"),
        ({"optimizer": 0.01}, TypeError, "optimizer must be an optax optimizer such as"),
        ({"optimizer": optax.lbfgs()}, TypeError, "optimizer calls the loss again along a line"),
        (
            {"optimizer": optax.lookahead(optax.adam(0.1), 5, 0.5)},
            TypeError,
            "optimizer has fast and slow parameters, as optax.lookahead",
        ),
        ({"objective": "elbo"}, TypeError, "objective must be an objective such as ELBO()"),
        ({"tolerance": 2}, ValueError, "tolerance must lie between 0 and 1, or be None, got 2"),
        ({"init": "here"}, ValueError, "init must be one of 'uniform', 'prior', 'optimum'"),
        ({"init": {"w": np.zeros(2)}}, ValueError, "has the shape (3,), got (2,)"),
        ({"cache_dir": 3}, TypeError, "cache_dir must be the path of a directory, got 3"),
        ({"state": 3}, TypeError, "state must be that of a result, result.state, got int"),
        ({"state": STATE}, ValueError, "got one whose step has float64[2], where int32[]"),
    ],
)
def test_what_cannot_be_is_refused(settings, error, message):
    with pytest.raises(error, match=re.escape(message)):
        fitted(**settings)


def test_a_state_of_another_guide_is_refused():
    state = fitted(**QUICK).state
    with pytest.raises(ValueError, match=r"one whose parameters has loc .*, where loc .*factor"):
        fitted(guide=FullRank(), state=state, **QUICK)


@pytest.mark.parametrize("key", [0, np.zeros(3), jax.random.split(jax.random.key(0))])
def test_a_key_is_asked_for(key):
    with pytest.raises(TypeError, match="key must be one key"):
        svi(key, posterior(), design())


@pytest.mark.parametrize(("num_steps", "is_wide"), [(200, True), (5000, False)])
def test_a_guide_that_is_far_too_wide_is_told(num_steps, is_wide):
    """Pareto k is low there, and the rise of the ELBO is within its noise."""

    def model(key, x):
        w = ppl.sample(key, dist.Normal(0.0, 3.0), name="w")
        ppl.sample(key, dist.Normal(w * x, 1.0), name="y")

    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    posterior = ppl.condition(model, {"y": 2 * x})
    guide = MeanField(init_scale=1.0)
    result = svi(jax.random.key(0), posterior, x, guide=guide, num_steps=num_steps)
    wide = [text for text in result.summary().problems if "far wider than the posterior" in text]
    assert bool(wide) == is_wide
    assert (np.std(result.draws["w"]) > 2 / np.sqrt(1000)) == is_wide
