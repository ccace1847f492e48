"""svi on whole models: exact approximations, compilation, going on, failures and refusals."""

import collections
import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import ppl
from inference import ELBO, FullRank, LowRank, MeanField, PointMass, descent, fitting, svi
from inference._svi import _problem
from inference.programs import compiled
from tests.inference.targets import FakeTarget

DESIGN = np.random.default_rng(0).normal(size=(30, 3)) @ np.array(
    [[1.0, 0.9, 0.0], [0.0, 0.4, 0.0], [0.0, 0.0, 5.0]]
)
Y = DESIGN @ np.array([0.5, -1.0, 0.2]) + np.random.default_rng(1).normal(size=30)
RATE = {"optimizer": optax.adam(optax.exponential_decay(0.05, 2000, 0.5))}


def regression(key, design):
    w = ppl.sample(key, dist.Normal(jnp.zeros(3), 2.0), name="w")
    return ppl.sample(key, dist.Normal(design @ w, 1.0), name="y")


def posterior(y=Y):
    return ppl.condition(regression, {"y": jnp.asarray(y, jnp.result_type(float))})


def design():
    return jnp.asarray(DESIGN, jnp.result_type(float))


def fitted(seed=0, y=Y, **settings):
    return svi(jax.random.key(seed), posterior(y), design(), **settings)


def exact_posterior():
    precision = DESIGN.T @ DESIGN + np.eye(3) / 4
    return np.linalg.solve(precision, DESIGN.T @ Y), precision


def evidence():
    """The log marginal likelihood."""
    covariance = np.eye(30) + 4 * DESIGN @ DESIGN.T
    return -0.5 * (
        Y @ np.linalg.solve(covariance, Y) + np.linalg.slogdet(2 * np.pi * covariance)[1]
    )


def correlations(covariance):
    return covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))


@pytest.mark.parametrize(
    ("guide", "stick_the_landing", "tolerance"),
    [(FullRank(), False, 0.03), (FullRank(), True, 0.003), (LowRank(2), True, 0.003)],
    ids=["full rank", "full rank, stuck", "low rank, stuck"],
)
def test_a_normal_posterior_is_recovered(float_dtype, guide, stick_the_landing, tolerance):
    """Its covariance has one large direction, so that rank 2 is enough."""
    result = fitted(
        guide=guide, num_steps=15_000, objective=ELBO(stick_the_landing=stick_the_landing), **RATE
    )
    mean, precision = exact_posterior()
    covariance = np.linalg.inv(precision)
    sd = np.sqrt(np.diag(covariance))
    found = guide.covariance(result.parameters)
    assert result.parameters.loc.dtype == float_dtype
    np.testing.assert_allclose((result.parameters.loc - mean) / sd, 0.0, atol=tolerance)
    np.testing.assert_allclose(np.sqrt(np.diag(found)) / sd, 1.0, atol=tolerance)
    np.testing.assert_allclose(correlations(found), correlations(covariance), atol=tolerance)
    np.testing.assert_allclose(result.elbo, evidence(), atol=0.01)
    assert result.draws["w"].shape == (1, 1000, 3)
    assert result.draws["w"].dtype == float_dtype
    assert result.pareto_k < 0.7
    assert result.summary().problems == ()


def test_mean_field_has_the_variances_of_the_precision():
    result = fitted(num_steps=20_000, **RATE)
    mean, precision = exact_posterior()
    sd = np.diag(precision) ** -0.5
    np.testing.assert_allclose((result.parameters.loc - mean) / sd, 0.0, atol=0.05)
    np.testing.assert_allclose(np.exp(result.parameters.log_scale) / sd, 1.0, atol=0.03)
    # The divergence that is left: half the log of the product of the variances' ratios.
    gap = 0.5 * (np.sum(np.log(np.diag(precision))) - np.linalg.slogdet(precision)[1])
    errors = 4.3 * result.elbo_standard_error + 0.01
    assert abs(result.elbo - (evidence() - gap)) < errors


def test_a_point_mass_climbs_to_the_mode():
    result = fitted(guide=PointMass(), num_steps=3000, **RATE)
    np.testing.assert_allclose(result.parameters.loc, exact_posterior()[0], atol=1e-3)
    assert np.isnan(result.pareto_k)
    assert any("is a point" in problem for problem in result.summary().problems)


def test_more_particles_have_less_noise():
    few, many = (fitted(num_steps=1000, num_particles=n) for n in (1, 16))
    ratio = np.std(few.elbos[-300:]) / np.std(many.elbos[-300:])
    assert 3.0 < ratio < 5.5


def test_sites_are_constrained_and_scopes_nested():
    def part(key):
        return ppl.sample(key, dist.HalfNormal(1.0), name="scale")

    def model(key):
        scale = ppl.nest(part, scope="part")(key)
        keys = jax.random.split(key, 2)
        jax.vmap(lambda k: ppl.sample(k, dist.Normal(jnp.zeros(3), scale), name="x"))(keys)
        jax.lax.scan(
            lambda carry, k: (ppl.sample(k, dist.Normal(carry, 1.0), name="walk"), None), 0.0, keys
        )

    result = svi(jax.random.key(0), model, num_steps=100, num_draws=7, guide=LowRank(2))
    shapes = {"part": {"scale": (1, 7)}, "walk": (1, 7, 2), "x": (1, 7, 2, 3)}
    assert jax.tree.map(np.shape, result.draws) == shapes
    assert np.all(result.draws["part"]["scale"] > 0)
    assert result.log_density.shape == result.log_weights.shape == (1, 7)
    assert "part.scale" in result.summary().names


QUICK = {"num_steps": 250, "num_draws": 20}


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_going_on_is_one_long_run():
    whole = fitted(tolerance=1e-9, **QUICK | {"num_steps": 5000})
    first = fitted(tolerance=1e-9, **QUICK | {"num_steps": 4321})
    assert (first.elbos.shape, int(first.state.step)) == ((4321,), 4321)
    rest = fitted(tolerance=1e-9, state=first.state, **QUICK | {"num_steps": 679})
    assert_same(
        (rest.state, rest.parameters, rest.draws), (whole.state, whole.parameters, whole.draws)
    )
    np.testing.assert_array_equal(np.r_[first.elbos, rest.elbos], whole.elbos)


def test_parameters_are_the_weighted_average_of_the_steps():
    steps, state = [], None
    for _ in range(5):
        result = fitted(state=state, num_steps=1, num_draws=1)
        state = result.state
        steps.append(state.parameters.loc)
    weights = np.ones(1)
    for t in range(2, 6):  # by the recursion
        weights = np.append(weights * (1 - 8 / (t + 7)), 8 / (t + 7))
    np.testing.assert_allclose(result.parameters.loc, weights @ np.array(steps), rtol=1e-5)


def test_legacy_keys_fit_the_same():
    typed = fitted(5, **QUICK)
    legacy = svi(jax.random.PRNGKey(5), posterior(), design(), **QUICK)
    assert_same((typed.draws, typed.state), (legacy.draws, legacy.state))


def test_another_key_is_another_run():
    a, b = fitted(1, **QUICK), fitted(2, **QUICK)
    assert not np.any(a.elbos == b.elbos)
    assert not np.any(a.draws["w"] == b.draws["w"])


def test_new_data_keys_steps_and_optimizers_compile_nothing():
    settings = QUICK | {"guide": FullRank(), "optimizer": optax.adam(0.02), "tolerance": 1e-9}
    fitted(0, **settings)
    sizes = compiled.cache_info().misses
    changes = {"num_steps": 5000, "optimizer": optax.adam(0.02), "guide": FullRank(0.2)}
    result = fitted(1, Y + 1, **settings | changes | {"tolerance": 1e-8})
    fitted(1, Y + 1, state=result.state, **settings)
    assert compiled.cache_info().misses == sizes
    fitted(1, **settings | {"optimizer": optax.adam(0.03)})
    assert compiled.cache_info().misses > sizes


def problem_of(target, guide=None, optimizer=None):
    return _problem(jax.random.key(0), target, guide or MeanField(), ELBO(), optimizer, 1)


def fit(problem, **settings):
    defaults = {"num_steps": 50, "tolerance": None, "init": "uniform", "state": None}
    return fitting.fit(
        jax.random.key(0), problem, on_progress=lambda *_: None, **defaults | settings
    )


def test_a_density_is_traced_once_for_all_steps_and_once_for_draws():
    traces = collections.Counter()

    def density(x, data):
        traces["density"] += 1
        return -0.5 * jnp.sum((x - data) ** 2)

    def run(data, num_steps):
        problem = problem_of(FakeTarget(density, (2,), jnp.float32(data)))
        return fitting.drawn(
            jax.random.key(1), problem, fit(problem, num_steps=num_steps).state.average, 10
        )

    run(0.0, 10)
    assert traces["density"] == 2
    run(1.0, 6000)
    assert traces["density"] == 2


def nan_beyond(threshold):
    """A density that has no value where the first coordinate is large, and rises towards there."""
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
    assert_same(fit(problem, num_steps=step, init={"x": np.zeros(2)}).state, result.state)


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


def test_parameters_of_the_guide_are_named_where_the_sites_are_finite():
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


def test_the_run_stops_when_the_elbo_has_settled():
    result = fitted(num_steps=100_000, tolerance=2e-3)
    num_steps = len(result.elbos)
    assert num_steps % 100 == 0
    assert 1100 <= num_steps < 20_000
    # The rule by its definition, on the trace.
    means = result.elbos.astype(np.float64).reshape(-1, 100).mean(1)
    changes = np.abs(np.diff(means) / means[1:])

    def is_settled(changes):
        return len(changes) >= 10 and (
            np.mean(changes[-10:]) < 2e-3 or np.sum(changes[-10:] < 2e-3) > 5
        )

    assert [is_settled(changes[:i]) for i in range(1, len(changes) + 1)].index(True) == len(
        changes
    ) - 1
    more = fitted(state=result.state, num_steps=100_000, tolerance=2e-3)
    assert len(more.elbos) >= 1000
    assert_same(fitted(num_steps=num_steps).parameters, result.parameters)


def test_an_interrupt_keeps_the_steps(monkeypatch):
    def interrupt(num_done, _):
        if num_done > descent.NUM_ROWS:
            raise KeyboardInterrupt

    problem = problem_of(FakeTarget(lambda x, _: -jnp.sum(x**2), (2,)))
    with pytest.warns(
        RuntimeWarning, match=r"interrupted: the result is that of \d+ steps of 1000000"
    ):
        result = fitting.fit(
            jax.random.key(0),
            problem,
            num_steps=10**6,
            tolerance=None,
            init="uniform",
            state=None,
            on_progress=interrupt,
        )
    num_steps = len(result.elbos)
    assert int(result.state.step) == num_steps
    assert descent.NUM_ROWS < num_steps < 10**6
    assert_same(fit(problem, num_steps=num_steps), result)


def test_progress_bar(capsys):
    fitted(progress_bar=True, **QUICK)
    assert "250/250" in capsys.readouterr().err


def test_the_trace_averages_blocks_of_steps():
    first = fitted(**QUICK)
    result = fitted(state=first.state, **QUICK)
    trace = result.trace()
    np.testing.assert_array_equal(trace.step, [350, 450])
    np.testing.assert_allclose(trace.elbo[1], np.mean(result.elbos[100:200]), rtol=1e-5)
    error = np.std(result.elbos[100:200], ddof=1) / 10
    np.testing.assert_allclose(trace.standard_error[1], error, rtol=1e-4)


def test_the_elbo_and_weights_are_those_of_the_draws():
    result = fitted(**QUICK)
    target = ppl.unconstrain(posterior(), design())
    expected = jax.vmap(target.log_density)({"w": result.draws["w"][0]})
    np.testing.assert_allclose(result.log_density[0], expected, rtol=1e-5)
    log_prob = jax.vmap(result.guide.log_prob, (None, 0))(result.parameters, result.draws["w"][0])
    np.testing.assert_allclose(result.log_weights[0], expected - log_prob, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(result.elbo, np.mean(result.log_weights), rtol=1e-6)
    error = np.std(result.log_weights, ddof=1) / np.sqrt(20)
    np.testing.assert_allclose(result.elbo_standard_error, error, rtol=1e-5)


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


@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_cannot_be_trusted_is_said(name):
    model, settings, words = DOUBTFUL[name]
    problems = svi(jax.random.key(0), model, **settings).summary().problems
    assert any(re.search(words, problem) for problem in problems), problems


def test_a_result_is_a_pytree_and_prints():
    result = fitted(**QUICK)
    doubled = jax.tree.map(lambda x: 2 * x, result)
    np.testing.assert_array_equal(doubled.draws["w"], 2 * result.draws["w"])
    assert repr(result) == "SVIResult(MeanField(init_scale=0.1), 20 draws: w (3,))"
    text = str(result.summary())
    assert "20 draws of MeanField(init_scale=0.1) after 250 steps; ELBO -" in text
    assert "R-hat" not in text


def test_a_run_goes_on_from_prior_draws_and_values():
    for init in ("prior", "optimum", {"w": np.full(3, 7.0)}):
        result = fitted(init=init, optimizer=optax.sgd(0.0), num_steps=1, num_draws=1)
        assert np.all(np.isfinite(result.parameters.loc))
    np.testing.assert_array_equal(result.parameters.loc, 7.0)


STATE = descent.SVIState(*[np.zeros(2)] * 6)


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
        ({"guide": FullRank(jnp.ones(3))}, ValueError, "init_scale of FullRank must be positive"),
        ({"guide": LowRank(0)}, ValueError, "rank of LowRank must be an integer of at least 1"),
        ({"optimizer": 0.01}, TypeError, "optimizer must be an optax optimiser such as"),
        ({"objective": "elbo"}, TypeError, "objective must be an objective such as ELBO()"),
        ({"tolerance": 2}, ValueError, "tolerance must lie between 0 and 1, or be None, got 2"),
        ({"init": "here"}, ValueError, "init must be one of 'uniform', 'prior', 'optimum'"),
        ({"init": {"w": np.zeros(2)}}, ValueError, "has the shape (3,), got (2,)"),
        ({"cache_dir": 3}, TypeError, "cache_dir must be the path of a directory, got 3"),
        ({"state": 3}, TypeError, "state must be that of a result, result.state, got 3"),
        ({"state": STATE}, ValueError, "got one whose step has float64[2], where int32[]"),
    ],
)
def test_what_cannot_be_is_refused(settings, error, message):
    with pytest.raises(error, match=re.escape(message)):
        fitted(**settings)


def test_a_state_of_another_guide_is_refused():
    state = fitted(**QUICK).state
    with pytest.raises(ValueError, match=r"one whose parameters has LocScale.*LocFactor"):
        fitted(guide=FullRank(), state=state, **QUICK)


@pytest.mark.parametrize("key", [0, np.zeros(3), jax.random.split(jax.random.key(0))])
def test_a_key_is_asked_for(key):
    with pytest.raises(TypeError, match="key must be one key"):
        svi(key, posterior(), design())
