"""pathfinder on whole models: normal posteriors, several modes, resampling, failures, refusals."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import distributions as dist
import ppl
from inference import importance, pathfinder
from inference.common.layout import Layout
from inference.drivers import pathfinder as pathfinder_module
from inference.guides import low_rank_normal
from inference.optimization import pathfinder_paths
from inference.results.pathfinder_result import normalize_weights, resample_systematically
from inference.runtime.compiled_program import compile_program
from tests.inference.regression import design, evidence, posterior
from tests.inference.targets import FakeTarget
from tests.inference.test_optimize import far_from_zero, nowhere

KEY = jax.random.key(0)
# Tests compare a few estimates each with their standard errors: failure rate 2e-5 apiece.
Z = 4.3


MEAN, COVARIANCE = np.array([10.0, -3.0]), np.array([[4.0, 1.5], [1.5, 1.0]])


def correlated(key, mean):
    """A normal distribution, whose density integrates to exp(-3)."""
    covariance = jnp.asarray(COVARIANCE, mean.dtype)
    ppl.sample(key, dist.MultivariateNormal(mean, covariance=covariance), name="w")
    ppl.factor(-3.0, name="f")


def found(key=KEY, mean=MEAN, **settings):
    return pathfinder(key, correlated, jnp.asarray(mean, float), **settings)


def is_exact(result):
    """Whether guide and draws are those of the normal distribution, with weights that are flat."""
    covariance = result.guide.covariance(result.parameters)
    draws, sd = np.float64(result.draws["w"][0]), np.sqrt(np.diag(COVARIANCE))
    return (
        np.abs(covariance / np.outer(sd, sd) - COVARIANCE / np.outer(sd, sd)).max() < 0.1
        and np.all(np.abs(draws.mean(0) - MEAN) < Z * sd / np.sqrt(len(draws)))
        and abs(result.elbo + 3) < 0.02
        and result.ess > 0.97 * result.elbos.size * len(draws)
    )


@pytest.mark.quick_rows("float32")
def test_a_normal_posterior_is_found(float_dtype):
    result = found(num_paths=3)
    assert is_exact(result)
    assert result.draws["w"].shape == (1, 1000, 2)
    assert result.draws["w"].dtype == float_dtype
    assert result.log_density.shape == result.log_weights.shape == (1, 1000)
    assert result.summary().problems == ()
    np.testing.assert_allclose(np.sum(result.weights), 1.0)


RIGHT = {"elbo": pathfinder_paths.elbo, "normal": pathfinder_paths.normal_from}
BROKEN = {
    "the lowest ELBO": ("elbo", lambda *args: -RIGHT["elbo"](*args)),
    "no low rank": (
        "normal_from",
        lambda pairs, *args: RIGHT["normal"](
            pairs._replace(steps=0 * pairs.steps, falls=0 * pairs.falls), *args
        ),
    ),
}


@pytest.mark.quick_rows("no low rank")
@pytest.mark.parametrize("name", BROKEN)
def test_broken_variants_are_rejected(monkeypatch, name):
    monkeypatch.setattr(pathfinder_paths, *BROKEN[name])
    monkeypatch.setattr(
        pathfinder_module, "follow_paths", lambda *args: pathfinder_paths.follow_paths(*args)
    )  # traced anew
    assert not is_exact(found(num_paths=1))


def two_modes(key):
    """0.3 Normal(-6, 1) + 0.7 Normal(6, 0.5), beside a coordinate of its own."""
    x = ppl.sample(key, dist.Flat(dist.constraints.real), name="x")
    ppl.sample(key, dist.Normal(2.0, 3.0), name="y")
    left = jnp.log(0.3) - 0.5 * (x + 6) ** 2
    ppl.factor(jnp.logaddexp(left, jnp.log(0.7 / 0.5) - 2 * (x - 6) ** 2), name="f")


def left_share():
    """How far the share of draws left of 0 is from 0.3, in standard errors, with 3 paths there."""
    init = {"x": np.array([-8.0, -5.0, -4.0, 4.0])}
    result = pathfinder(KEY, two_modes, init=init, num_draws=2000)
    assert result.summary().problems == ()
    # Weights are all but flat, and of 8000 draws the number on the left is binomial.
    return (np.mean(result.draws["x"] < 0) - 0.3) / np.sqrt(0.25 / 2000), result


@pytest.mark.slow
def test_modes_have_the_shares_of_their_masses(x64):
    score, result = left_share()
    assert abs(score) < Z
    right = result.draws["x"][result.draws["x"] > 0]
    assert abs(np.mean(right) - 6) < Z * 0.5 / np.sqrt(right.size)
    np.testing.assert_allclose(np.std(right), 0.5, atol=Z * 0.5 / np.sqrt(2 * right.size))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Alone(low_rank_normal.GuideMixture):
    """Each draw has its own path's density alone, as if no other path led to its mode."""

    def log_prob(self, parameters, position):
        return jax.vmap(self.guide.log_prob, (0, None))(parameters.components, position).max()


@pytest.mark.slow
def test_shares_of_paths_in_place_of_masses_are_rejected(x64, monkeypatch):
    monkeypatch.setattr(pathfinder_module, "GuideMixture", Alone)
    assert left_share()[0] > 3 * Z


@pytest.mark.slow
def test_the_guide_gives_the_evidence_and_more_draws():
    fitted = pathfinder(KEY, posterior(), design(), num_paths=2, num_draws=100)
    result = importance(KEY, posterior(), design(), guide=fitted, num_draws=2000)
    assert abs(result.log_evidence - evidence()) < Z * result.log_evidence_standard_error + 1e-4
    assert result.ess > 1000


@pytest.mark.slow
def test_new_data_compile_nothing_and_legacy_keys_are_the_same():
    settings = {"num_draws": 100, "num_paths": 3}
    found(**settings)
    misses = compile_program.cache_info().misses
    typed = found(jax.random.key(3), MEAN + 1, max_steps=50, **settings)
    assert compile_program.cache_info().misses == misses
    legacy = found(jax.random.PRNGKey(3), MEAN + 1, **settings)
    jax.tree.map(np.testing.assert_array_equal, typed.draws, legacy.draws)
    other = found(jax.random.key(4), MEAN + 1, **settings)
    assert not np.any(np.isin(typed.draws["w"], other.draws["w"]))


@pytest.mark.slow
def test_sites_are_constrained_and_scopes_nested():
    def part(key):
        return ppl.sample(key, dist.LogNormal(0.0, 1.0), name="scale")

    def model(key):
        scale = ppl.nest(part, scope="part")(key)
        keys = jax.random.split(key, 2)
        jax.vmap(lambda k: ppl.sample(k, dist.Normal(jnp.zeros(3), 1.0), name="x"))(keys)
        jax.lax.scan(
            lambda carry, k: (ppl.sample(k, dist.Normal(carry, 1.0), name="walk"), None), 0.0, keys
        )
        ppl.deterministic(2 * scale, name="double")

    result = pathfinder(KEY, model, num_draws=70, num_paths=2)
    shapes = {
        "part": {"scale": (1, 70)},
        "walk": (1, 70, 2),
        "x": (1, 70, 2, 3),
        "double": (1, 70),
    }
    assert jax.tree.map(np.shape, result.draws) == shapes
    np.testing.assert_allclose(result.draws["double"], 2 * result.draws["part"]["scale"])
    assert repr(result).startswith("PathfinderResult(GuideMixture(guide=LowRankNormalGuide(rank=9)")


def funnel(key):
    v = ppl.sample(key, dist.Normal(0.0, 3.0), name="v")
    ppl.sample(key, dist.Normal(jnp.zeros(9), jnp.exp(v / 2)), name="x")


def hill(key):
    """Flat but for a hill at 5: a path from 0 has nowhere to go."""
    x = ppl.sample(key, dist.Flat(dist.constraints.real), name="x")
    ppl.factor(-0.5 * jnp.minimum(jnp.abs(x - 5), 3) ** 2 - 0.01 * jnp.maximum(x - 5, 0), name="f")


def steep(key):
    x = ppl.sample(key, dist.Normal(jnp.zeros(2), 1.0), name="x")
    ppl.factor(-50 * (x[1] - x[0] ** 2) ** 2, name="f")


def ridge(key):
    """The ridge of a roof, which no line search follows."""
    x = ppl.sample(key, dist.Flat(dist.constraints.real, (2,)), name="x")
    ppl.factor(-jnp.abs(x[0]) - 1e3 * jnp.abs(x[1] - x[0]), name="f")


DOUBTFUL = {
    "a funnel": (funnel, {}, "draws only, so that those returned are far from the posterior"),
    "a path that never moves": (
        hill,
        {"init": {"x": np.array([0.0, 6.0])}, "num_paths": 2},
        "1 of 2 paths are left out",
    ),
    "cut short": (
        steep,
        {"max_steps": 2},
        "1 of 1 paths were still climbing when they ended, after 2 steps: the mass may lie further "
        "up. Raise max_steps.",
    ),
    "a halt": (
        ridge,
        {"init": {"x": np.array([3.0, 1.0])}},
        "1 of 1 paths came to a halt short of a mode, where no step gained more than rounding",
    ),
}


@pytest.mark.quick_rows("cut short")
@pytest.mark.optimized
@pytest.mark.parametrize("name", DOUBTFUL)
def test_what_is_doubtful_is_said(name):
    model, settings, words = DOUBTFUL[name]
    settings = {"num_paths": 1} | settings
    problems = pathfinder(KEY, model, **settings).summary().problems
    assert any(words in problem for problem in problems), problems
    assert any("max_steps" in problem for problem in problems) == (name == "cut short")


def lying(x, _):
    """Zero, with a gradient that promises more."""
    return jnp.sum(x) - jax.lax.stop_gradient(jnp.sum(x))


@pytest.mark.quick_rows("0.01-False")
@pytest.mark.parametrize(("tolerance", "has_ended"), [(0.1, True), (0.01, False)])
def test_a_halt_as_close_as_rounding_allows_is_an_end(tolerance, has_ended):
    """The decrement is 10 times the tolerance, or 100 times."""
    position, seed, steps = jnp.zeros((1, 2)), jnp.zeros((1, 2), jnp.uint32), jnp.int32(100)
    rest = (
        Layout.of({"x": position[0]}),
        pathfinder_paths.Effort(5, 5),
        steps,
        jnp.float32(tolerance),
    )
    ascent = pathfinder_paths.follow_paths(position, seed, FakeTarget(lying, (2,)), *rest).ascent
    np.testing.assert_allclose(ascent.decrement, 1.0)
    assert ascent.step < steps
    assert ascent.has_converged == has_ended


REFUSED = {
    "nowhere": (nowhere, {}, ValueError, "no starting point.*site 'f' has"),
    "stuck": (hill, {"init": {"x": 0.0}}, ValueError, "2 path.*the gradient is 0 where they start"),
    "paths": (steep, {"num_paths": 0}, ValueError, "num_paths must be an integer of at least 1"),
    "draws": (steep, {"num_draws": 0}, ValueError, "num_draws must be an integer of at least 1"),
    "history": (steep, {"history": 0}, ValueError, "history must be an integer of at least 1"),
    "init": (steep, {"init": {"z": 1.0}}, ValueError, "init: there is no latent site 'z'"),
}


@pytest.mark.slow_rows("nowhere")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name):
    model, settings, error, message = REFUSED[name]
    settings = {"num_paths": 2} | settings
    with pytest.raises(error, match=message):
        pathfinder(KEY, model, **settings)


def test_a_key_is_asked_for():
    with pytest.raises(TypeError, match=re.escape("key must be one key")):
        pathfinder(0, steep)


def test_resampling_takes_each_as_often_as_it_counts():
    weights = np.array([0.5, 0.0, 0.3, 0.2])
    counts = np.bincount(resample_systematically(KEY, weights, 1000), minlength=4)
    assert np.all(np.abs(counts - 1000 * weights) <= 1)
    assert counts[1] == 0


def test_weights_of_nothing_known_are_alike():
    np.testing.assert_array_equal(normalize_weights(np.full((1, 4), -np.inf)), 0.25)
    log_weights = st.norm(0, 0.1).rvs((1, 100), random_state=0)
    log_weights[0, 3] = np.nan
    assert normalize_weights(log_weights)[0, 3] == 0


def test_an_end_where_a_scale_has_grown_is_no_mode():
    y = (1e4 + 3 * np.random.default_rng(0).normal(size=100)).astype(np.float32)
    result = pathfinder(KEY, ppl.condition(far_from_zero, {"y": y}), num_paths=1)
    assert result.draws["loc"].mean() < 100
    assert any("came to a halt short of a mode" in x for x in result.summary().problems)
