"""svi on whole models: exact approximations, compilation, going on, what they return."""

import collections
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import distributions as dist
import ppl
from inference import ELBO, FullRank, LowRank, PointMass, svi
from inference.runtime.compiled_program import compile_program
from inference.variational import svi_loop, svi_step
from tests.inference.regression import (
    QUICK,
    Y,
    design,
    evidence,
    exact_posterior,
    fit,
    fitted,
    posterior,
    problem_of,
)
from tests.inference.targets import FakeTarget

RATE = {"optimizer": optax.adam(optax.exponential_decay(0.05, 2000, 0.5))}


def correlations(covariance):
    return covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))


@pytest.mark.quick_rows("float32-full rank, stuck")
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
    sizes = compile_program.cache_info().misses
    changes = {"num_steps": 5000, "optimizer": optax.adam(0.02), "guide": FullRank(0.2)}
    result = fitted(1, Y + 1, **settings | changes | {"tolerance": 1e-8})
    fitted(1, Y + 1, state=result.state, **settings)
    assert compile_program.cache_info().misses == sizes
    fitted(1, **settings | {"optimizer": optax.adam(0.03)})
    assert compile_program.cache_info().misses > sizes


def test_steps_do_not_choose_between_parameters():
    """The state before a failure is that of another call, so that all other steps are cheap."""

    def density(x, _):
        return -0.5 * jnp.sum(x**2)

    problem = problem_of(FakeTarget(density, (7,)))
    state = fit(problem, num_steps=3).state
    program = jax.make_jaxpr(svi_step.advance_svi)(problem, state, np.int32(9), np.float32(-1.0))
    chosen = re.findall(r"f32\[(\d+)\] = select_n", str(program))
    assert set(chosen) <= {"10"}  # the changes of the ELBO, once in a hundred steps


def test_a_density_is_traced_once_for_steps_and_once_for_draws():
    traces = collections.Counter()

    def density(x, data):
        traces["density"] += 1
        return -0.5 * jnp.sum((x - data) ** 2)

    def run(data, num_steps):
        problem = problem_of(FakeTarget(density, (2,), jnp.float32(data)))
        return svi_loop.draw_from_guide(
            jax.random.key(1), problem, fit(problem, num_steps=num_steps).state.average, 10
        )

    run(0.0, 10)
    assert traces["density"] == 2
    run(1.0, 6000)
    assert traces["density"] == 2


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


def test_progress_bar(capsys):
    fitted(progress=True, **QUICK)
    assert re.fullmatch(r"250 of 250 steps after \d+ s, ELBO -?[\d.]+\n", capsys.readouterr().err)


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
